//! What a request is called: as its client says, or else by a name of ours.
//!
//! The name is in the reply and in the log. One that the client chose is in
//! the audit as well, so that it finds there what it did.

use std::sync::Arc;

use http::{Extensions, HeaderMap, HeaderName, HeaderValue};
use portcullis_gate::Caller;
use portcullis_proto::{Failure, Reason, Trace};

/// Where a client names its request, and is told the name.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Where a client gives its call a name, to ask for the same one again.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The longest name of a call.
const MAX_CALL_NAME: usize = 128;

/// The longest name that is taken. A secret of ours has 43 characters or more,
/// so that none fits whole, and a name can stand in logs.
pub(crate) const MAX_NAME: usize = 40;

/// The name a client chose: 1 to [`MAX_NAME`] of letters, digits, `-`, `_`,
/// `.` and `:`. Proves nothing else; two requests may share one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chosen(Arc<str>);

/// What an attempt of a request is to be found by: the name its client chose,
/// and its place in a trace. Goes along in the request's extensions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    chosen: Option<Chosen>,
    trace: Option<Trace>,
    call: Option<Arc<str>>,
}

/// The name a head gives its call; an error where it is none, since who is
/// mistaken in it would ask twice for what is done twice.
pub(super) fn call_name(headers: &HeaderMap) -> Result<Option<Arc<str>>, NoCallName> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let text = value.to_str().map_err(|_| NoCallName)?;
    let fits = (1..=MAX_CALL_NAME).contains(&text.len())
        && text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if fits && values.next().is_none() {
        Ok(Some(text.into()))
    } else {
        Err(NoCallName)
    }
}

/// A head names its call, and not by a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoCallName;

impl From<NoCallName> for Failure {
    fn from(_: NoCallName) -> Self {
        Self::new(
            Reason::BadArguments,
            format!(
                "Idempotency-Key is one, of 1 to {MAX_CALL_NAME} printable ASCII characters. Nothing was done."
            ),
        )
    }
}

impl Names {
    /// Those that came with a request.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// With the name a message gave its call, where it did: before its head's.
    pub(crate) fn calling(self, name: Option<Arc<str>>) -> Self {
        Self {
            call: name.or(self.call),
            ..self
        }
    }

    /// The caller, under these names.
    pub(crate) fn onto(&self, caller: Caller) -> Caller {
        let caller = match &self.chosen {
            Some(Chosen(name)) => caller.called(Arc::clone(name)),
            None => caller,
        };
        let caller = match &self.call {
            Some(name) => caller.naming(Arc::clone(name)),
            None => caller,
        };
        match self.trace {
            Some(trace) => caller.traced(trace),
            None => caller,
        }
    }
}

impl Chosen {
    fn in_head(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(X_REQUEST_ID).iter();
        let text = values.next()?.to_str().ok()?;
        let is_one = values.next().is_none();
        let fits = (1..=MAX_NAME).contains(&text.len())
            && text.bytes().all(|byte| {
                byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':')
            });
        (is_one && fits).then(|| Self(text.into()))
    }
}

/// What one request is called.
#[derive(Debug)]
pub(crate) struct Called {
    chosen: Option<Chosen>,
    name: Arc<str>,
    /// What the call it makes is called.
    call: Option<Arc<str>>,
}

impl Called {
    /// As `headers` say; where they say nothing that can be taken, the
    /// `number`th of the process `tag` names.
    pub(crate) fn of(headers: &HeaderMap, tag: &str, number: u64) -> Self {
        let chosen = Chosen::in_head(headers);
        let name = match &chosen {
            Some(Chosen(name)) => Arc::clone(name),
            None => format!("h_{tag}_{number}").into(),
        };
        // One that is none is refused when the request is let in.
        let call = call_name(headers).unwrap_or_default();
        Self { chosen, name, call }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Sends the names along with a request that is part of `trace`, if there
    /// are any.
    pub(crate) fn go_along(&self, trace: Option<Trace>, extensions: &mut Extensions) {
        if self.chosen.is_some() || self.call.is_some() || trace.is_some() {
            extensions.insert(Names {
                chosen: self.chosen.clone(),
                trace,
                call: self.call.clone(),
            });
        }
    }

    /// Says the name in a reply's head.
    pub(crate) fn mark(&self, headers: &mut HeaderMap) {
        if let Ok(value) = HeaderValue::from_str(&self.name) {
            headers.insert(X_REQUEST_ID, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(values: &[&[u8]], want: Option<&str>) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(X_REQUEST_ID, HeaderValue::from_bytes(value).unwrap());
        }
        let called = Called::of(&headers, "ab12", 7);
        assert_eq!(called.name(), want.unwrap_or("h_ab12_7"));
        let mut extensions = Extensions::new();
        called.go_along(None, &mut extensions);
        let chosen = Names::of(&extensions).chosen;
        assert_eq!(chosen, want.map(|name| Chosen(name.into())));
        let mut reply = HeaderMap::new();
        called.mark(&mut reply);
        assert_eq!(reply.get(X_REQUEST_ID).unwrap(), called.name());
    }

    #[test]
    fn a_call_has_one_name_that_can_be_read_or_none() {
        let of = |values: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(value).unwrap());
            }
            call_name(&headers).map(|name| name.map(|name| name.as_ref().to_owned()))
        };
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[b"\"a b\""]), Ok(Some("\"a b\"".to_owned())));
        assert_eq!(of(&[&[b'a'; 128]]), Ok(Some("a".repeat(128))));
        for bad in [
            &[&b""[..]][..],
            &[&[b'a'; 129]],
            &[b"a", b"a"],
            &[b"a\tb"],
            &["é".as_bytes()],
        ] {
            assert_eq!(of(bad), Err(NoCallName), "{bad:?}");
        }
    }

    #[test]
    fn a_name_is_taken_when_it_is_short_plain_and_the_only_one() {
        let uuid = "1c3a6b0e-7f1d-4c53-9c8e-2f6f6f1f9a77";
        check(&[uuid.as_bytes()], Some(uuid));
        check(&[b"a:b_c.D-9"], Some("a:b_c.D-9"));
        check(&[], None);
        check(&[b""], None);
        check(&[&[b'a'; MAX_NAME + 1]], None);
        check(&[b"a", b"b"], None);
        for odd in [
            "a b", "a\"b", "a/b", "a\\b", "a;b", "{a}", "é", "a\tb", "a%0ab",
        ] {
            check(&[odd.as_bytes()], None);
        }
    }
}
