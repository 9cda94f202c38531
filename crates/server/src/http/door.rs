//! The door: a credential is presented, or nothing more is said.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;
use http::header::{AUTHORIZATION, COOKIE};
use portcullis_proto::Scope;
use portcullis_store::{StoreError, Switch};

use super::identity::{Identity, Via};
use super::limits::{FAILED_WINDOW, MAX_FAILED, MAX_FAILING};

/// The cookie of a sign-in.
pub(crate) const COOKIE_NAME: &str = "portcullis_signin";
/// The same under TLS, where browsers keep such a name to one host and its root.
pub(crate) const TLS_COOKIE_NAME: &str = "__Host-portcullis_signin";

/// Knows who a credential stands for. Called for every request, so it waits
/// for nothing.
pub trait Doorman: Send + Sync {
    /// Whose `presented` is, if anybody's, now.
    fn known(&self, via: Via, presented: &str) -> Option<Identity>;

    /// The same for somebody who has to wait, by what costs next to nothing: who
    /// comes with something new is not looked at.
    fn recalled(&self, via: Via, presented: &str) -> Option<Identity> {
        self.known(via, presented)
    }

    /// Differs from the last one whenever what was unknown could have become known.
    fn edition(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Whether the files of `user` are switched on.
    fn files(&self, _user: &str) -> Switch {
        Switch::On
    }

    /// Hears of credentials made or revoked since: called every 50 ms, and
    /// after a sign-in.
    fn refresh(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// The credential a stream was opened with, looked at again while it runs: what
/// is revoked is told nothing more.
pub(crate) struct Standing {
    doorman: Arc<dyn Doorman>,
    presented: Option<(Via, String)>,
    scope: Option<Scope>,
}

impl Standing {
    /// What was `presented`, for a route that needs `scope`.
    pub(crate) fn of(
        doorman: &Arc<dyn Doorman>,
        presented: Option<(Via, &str)>,
        scope: Option<Scope>,
    ) -> Self {
        Self {
            doorman: Arc::clone(doorman),
            presented: presented.map(|(via, text)| (via, text.to_owned())),
            scope,
        }
    }

    /// Whether it would still be let in.
    pub(crate) fn holds(&self) -> bool {
        let known = self
            .presented
            .as_ref()
            .and_then(|(via, text)| self.doorman.known(*via, text));
        known.is_some_and(|identity| self.scope.is_none_or(|scope| identity.may(scope)))
    }
}

/// What came of presenting a credential.
pub(super) enum Met {
    /// This is who it is.
    Known(Identity),
    /// It stands for nobody, or there is none.
    Unknown,
    /// Too many that stood for nobody came from there.
    TooMany,
}

/// Asks the doorman, and counts who guesses.
pub(super) struct Door {
    failing: Mutex<HashMap<IpAddr, Failing>>,
}

struct Failing {
    since_us: u64,
    count: u32,
}

impl Door {
    pub(super) fn new() -> Self {
        Self {
            failing: Mutex::default(),
        }
    }

    pub(super) fn meet(
        &self,
        doorman: &dyn Doorman,
        presented: Option<(Via, &str)>,
        from: IpAddr,
        now_us: u64,
    ) -> Met {
        let Some((via, presented)) = presented else {
            return Met::Unknown;
        };
        let before = doorman.edition();
        // Looked up even for somebody who has to wait: a guesser behind the
        // same address must not lock out who holds a good credential.
        let known = if self.has_to_wait(from, now_us) {
            doorman.recalled(via, presented)
        } else {
            doorman.known(via, presented)
        };
        if let Some(identity) = known {
            return Met::Known(identity);
        }
        if self.is_too_many(from, now_us) {
            return Met::TooMany;
        }
        // It may have been made a moment ago; who guesses is not looked up for,
        // and what stays the same is not looked at twice.
        let made = doorman.refresh().is_ok() && doorman.edition() != before;
        match made.then(|| doorman.known(via, presented)).flatten() {
            Some(identity) => Met::Known(identity),
            None => Met::Unknown,
        }
    }

    /// Whether one more that stands for nobody would be too many.
    fn has_to_wait(&self, from: IpAddr, now_us: u64) -> bool {
        let failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = |one: &Failing| now_us.saturating_sub(one.since_us) < window_us();
        failing
            .get(&from)
            .is_some_and(|one| counts(one) && one.count >= MAX_FAILED)
    }

    /// Counts one more that stands for nobody, and says whether that is too many.
    pub(super) fn is_too_many(&self, from: IpAddr, now_us: u64) -> bool {
        let window_us = window_us();
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        if failing.len() >= MAX_FAILING && !failing.contains_key(&from) {
            failing.retain(|_, one| now_us.saturating_sub(one.since_us) < window_us);
            if failing.len() >= MAX_FAILING {
                let oldest = failing
                    .iter()
                    .min_by_key(|(_, one)| one.since_us)
                    .map(|(address, _)| *address);
                if let Some(oldest) = oldest {
                    failing.remove(&oldest);
                }
            }
        }
        let one = failing.entry(from).or_insert(Failing {
            since_us: now_us,
            count: 0,
        });
        if now_us.saturating_sub(one.since_us) >= window_us {
            *one = Failing {
                since_us: now_us,
                count: 0,
            };
        }
        one.count = one.count.saturating_add(1);
        one.count > MAX_FAILED
    }
}

fn window_us() -> u64 {
    u64::try_from(FAILED_WINDOW.as_micros()).unwrap_or(u64::MAX)
}

/// The credential in a head: a bearer token, or the cookie of that name. The
/// token is looked at first: a program that brings one means it, whatever
/// cookies its library keeps.
pub(crate) fn presented<'a>(headers: &'a HeaderMap, cookie: &str) -> Option<(Via, &'a str)> {
    let mut authorizations = headers.get_all(AUTHORIZATION).iter();
    if let Some(value) = authorizations.next() {
        // Two would let a proxy and us mean different ones.
        if authorizations.next().is_some() {
            return None;
        }
        let (scheme, rest) = value.to_str().ok()?.split_once(' ')?;
        let token = rest.trim();
        return (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
            .then_some((Via::Bearer, token));
    }
    if !is_own_page(headers) {
        return None;
    }
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == cookie)
        .map(|(_, value)| (Via::Cookie, value))
}

/// Whether a browser says that a page of ours asks, or the person itself. Cookies
/// know no ports: whatever else is served on this host is the same site to them.
fn is_own_page(headers: &HeaderMap) -> bool {
    headers
        .get("sec-fetch-site")
        .is_none_or(|site| ["same-origin", "none"].iter().any(|own| site == own))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use http::HeaderValue;
    use portcullis_proto::{Principal, ScopeSet};

    use super::*;

    struct One;

    impl Doorman for One {
        fn known(&self, via: Via, presented: &str) -> Option<Identity> {
            (presented == "right").then(|| Identity {
                principal: Principal::User { id: "ada".into() },
                user: Arc::from("ada"),
                scopes: ScopeSet::ALL,
                via,
            })
        }
    }

    fn headers(pairs: &[(http::HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    #[track_caller]
    fn check(pairs: &[(http::HeaderName, &'static str)], want: Option<Via>) {
        check_named(COOKIE_NAME, pairs, want);
    }

    #[track_caller]
    fn check_named(cookie: &str, pairs: &[(http::HeaderName, &'static str)], want: Option<Via>) {
        let door = Door::new();
        let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let headers = headers(pairs);
        let met = match door.meet(&One, presented(&headers, cookie), from, 0) {
            Met::Known(identity) => Some(identity.via),
            Met::Unknown | Met::TooMany => None,
        };
        assert_eq!(met, want, "{pairs:?}");
    }

    #[test]
    fn a_credential_is_a_bearer_token_or_a_cookie_and_nothing_else() {
        check(&[(AUTHORIZATION, "Bearer right")], Some(Via::Bearer));
        check(&[(AUTHORIZATION, "bEARER   right ")], Some(Via::Bearer));
        check(&[(AUTHORIZATION, "Bearer wrong")], None);
        check(&[(AUTHORIZATION, "Basic right")], None);
        check(&[(AUTHORIZATION, "Bearer ")], None);
        check(&[(AUTHORIZATION, "right")], None);
        check(&[], None);
        let twice = [
            (AUTHORIZATION, "Bearer right"),
            (AUTHORIZATION, "Bearer right"),
        ];
        check(&twice, None);
        check(
            &[(COOKIE, "a=b; portcullis_signin=right")],
            Some(Via::Cookie),
        );
        check(&[(COOKIE, "xportcullis_signin=right")], None);
        // Of the two names one counts: any page of the host can set the other.
        let (plain, tls) = (
            [(COOKIE, "portcullis_signin=right")],
            [(COOKIE, "__Host-portcullis_signin=right")],
        );
        check(&tls, None);
        check_named(TLS_COOKIE_NAME, &tls, Some(Via::Cookie));
        check_named(TLS_COOKIE_NAME, &plain, None);
        for (site, want) in [
            ("same-origin", Some(Via::Cookie)),
            ("none", Some(Via::Cookie)),
            ("same-site", None),
            ("cross-site", None),
        ] {
            let site = (http::HeaderName::from_static("sec-fetch-site"), site);
            check(&[(COOKIE, "portcullis_signin=right"), site], want);
        }
        // A bearer that stands for nobody is not rescued by a cookie.
        let both = [
            (AUTHORIZATION, "Bearer wrong"),
            (COOKIE, "portcullis_signin=right"),
        ];
        check(&both, None);
    }

    #[test]
    fn who_guesses_has_to_wait_and_who_knows_does_not() {
        let door = Door::new();
        let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let wrong = headers(&[(AUTHORIZATION, "Bearer wrong")]);
        let right = headers(&[(AUTHORIZATION, "Bearer right")]);
        for _ in 0..MAX_FAILED {
            assert!(matches!(
                door.meet(&One, presented(&wrong, COOKIE_NAME), from, 0),
                Met::Unknown
            ));
        }
        assert!(matches!(
            door.meet(&One, presented(&wrong, COOKIE_NAME), from, 0),
            Met::TooMany
        ));
        assert!(matches!(
            door.meet(&One, presented(&right, COOKIE_NAME), from, 0),
            Met::Known(_)
        ));
        let later = u64::try_from(FAILED_WINDOW.as_micros()).unwrap();
        assert!(matches!(
            door.meet(&One, presented(&wrong, COOKIE_NAME), from, later),
            Met::Unknown
        ));
    }

    #[test]
    fn counting_guessers_takes_bounded_room() {
        let door = Door::new();
        let wrong = headers(&[(AUTHORIZATION, "Bearer wrong")]);
        for n in 0..10_000_u32 {
            let from = IpAddr::V4(Ipv4Addr::from(n));
            assert!(matches!(
                door.meet(&One, presented(&wrong, COOKIE_NAME), from, u64::from(n)),
                Met::Unknown
            ));
        }
        assert!(door.failing.lock().unwrap().len() <= MAX_FAILING);
    }
}
