//! One span, as it waits and as OTLP writes it.

use portcullis_proto::{Outcome, Reason, Trace, Verb};
use serde::ser::{Serialize, Serializer};

use super::json::{Attribute, Hex, Nanos, Status, Text};

/// Kinds of spans, by the numbers OTLP has for them.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
/// The number of a status that says that something went wrong.
const ERROR: u8 = 2;
/// Flags of a span: recorded; whether its parent is elsewhere is known; it is.
const SAMPLED: u32 = 0x001;
const KNOWS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// Something that took its time, and is over.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) trace: Trace,
    pub(super) parent: Option<[u8; 8]>,
    /// Microseconds since 1970.
    pub(super) start_us: u64,
    pub(super) end_us: u64,
    pub(super) what: What,
}

/// What it was. Names of ours and numbers, but for the name a client chose for
/// its request.
#[derive(Debug)]
pub(super) enum What {
    /// A request, until its reply began.
    Request {
        method: &'static str,
        route: Option<&'static str>,
        scheme: &'static str,
        status: u16,
        request_id: Box<str>,
        attempt: Option<Box<str>>,
        principal: Option<&'static str>,
    },
    /// Something the gate judged.
    Attempt {
        verb: Verb,
        outcome: Outcome,
        reason: Option<Reason>,
        policy: Box<str>,
        attempt: Box<str>,
        principal: &'static str,
    },
}

/// What decided, without what a person wrote: of a rule only that it was one,
/// since its name may hold a place, a question or more.
pub(super) fn policy(source: &str) -> &str {
    let kind = source.split(':').next().unwrap_or_default();
    match kind {
        "class" | "default" | "desk" | "grant" | "lexical" | "loss-guard" | "mode"
        | "own-state" | "protected-below" | "recovery" | "root" | "trust" | "undo-full" => source,
        "answer" | "hook" => kind,
        _ => "rule",
    }
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    trace_id: Hex<'a>,
    span_id: Hex<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<Hex<'a>>,
    flags: u32,
    name: &'a str,
    kind: u8,
    start_time_unix_nano: Nanos,
    end_time_unix_nano: Nanos,
    attributes: Vec<Attribute<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut flags = SAMPLED | KNOWS_REMOTE;
        let is_request = matches!(self.what, What::Request { .. });
        if is_request && self.parent.is_some() {
            flags |= IS_REMOTE;
        }
        Written {
            trace_id: Hex(&self.trace.id),
            span_id: Hex(&self.trace.span),
            parent_span_id: self.parent.as_ref().map(|parent| Hex(parent)),
            flags,
            name: self.what.name(),
            kind: if is_request { SERVER } else { INTERNAL },
            start_time_unix_nano: Nanos(self.start_us),
            end_time_unix_nano: Nanos(self.end_us),
            attributes: self.what.attributes(),
            status: self.what.went_wrong().then_some(Status { code: ERROR }),
        }
        .serialize(serializer)
    }
}

impl What {
    fn name(&self) -> &str {
        match self {
            Self::Request {
                route: Some(route), ..
            } => route,
            Self::Request {
                method,
                route: None,
                ..
            } => match *method {
                "_OTHER" => "HTTP",
                method => method,
            },
            Self::Attempt { verb, .. } => verb.as_str(),
        }
    }

    /// A refusal is the gate at work: only what could not be done went wrong.
    fn went_wrong(&self) -> bool {
        match self {
            Self::Request { status, .. } => *status >= 500,
            Self::Attempt { outcome, .. } => match outcome {
                Outcome::Failed | Outcome::Abandoned => true,
                Outcome::Begun | Outcome::Success | Outcome::Denied | Outcome::Parked => false,
            },
        }
    }

    fn attributes(&self) -> Vec<Attribute<'_>> {
        match self {
            Self::Request {
                method,
                route,
                scheme,
                status,
                request_id,
                attempt,
                principal,
            } => {
                let mut all = vec![
                    Attribute::text("http.request.method", method),
                    Attribute::int("http.response.status_code", i64::from(*status)),
                    Attribute::text("url.scheme", scheme),
                    Attribute::text("portcullis.request_id", request_id),
                ];
                // A route is called by its method and its path.
                let path = route.and_then(|route| route.split_once(' '));
                if let Some((_, path)) = path {
                    all.push(Attribute::text("http.route", path));
                }
                if let Some(attempt) = attempt {
                    all.push(Attribute::text("portcullis.attempt", attempt));
                }
                if let Some(principal) = principal {
                    all.push(Attribute::text("portcullis.principal.kind", principal));
                }
                if self.went_wrong() {
                    all.push(Attribute {
                        key: "error.type",
                        value: Text::Number(*status).into(),
                    });
                }
                all
            }
            Self::Attempt {
                verb,
                outcome,
                reason,
                policy,
                attempt,
                principal,
            } => {
                let mut all = vec![
                    Attribute::text("portcullis.verb", verb.as_str()),
                    Attribute::text("portcullis.outcome", outcome.as_str()),
                    Attribute::text("portcullis.policy", policy),
                    Attribute::text("portcullis.attempt", attempt),
                    Attribute::text("portcullis.principal.kind", principal),
                ];
                if let Some(reason) = reason {
                    all.push(Attribute::text("portcullis.reason", reason.as_str()));
                    if self.went_wrong() {
                        all.push(Attribute::text("error.type", reason.as_str()));
                    }
                }
                all
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decided_is_told_without_what_a_person_wrote() {
        for (source, want) in [
            ("mode:filesystemRead=allow", "mode:filesystemRead=allow"),
            ("class:secret", "class:secret"),
            ("trust", "trust"),
            ("hook:scan-for-acme", "hook"),
            ("answer:q_1234_1", "answer"),
            ("/home/ada/.portcullis/settings.json:3:5", "rule"),
            ("settings:rules", "rule"),
            ("", "rule"),
        ] {
            assert_eq!(policy(source), want, "{source}");
        }
    }
}
