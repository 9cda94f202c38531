//! Tokens of an OAuth issuer elsewhere, which stand for users of ours.
//!
//! No request is made to the issuer: its keys come from a file that somebody
//! refreshes. A token counts by what is signed in it, for a user there is, and
//! for no more than that user has now.

mod json;
mod keys;
mod token;
mod verified;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portcullis_proto::{Principal, ScopeSet};
use portcullis_store::CredentialBook;

pub use keys::{BadKeys, IssuerKeys};
pub use token::{Alleged, IssuerTerms, Refused};

use self::token::MAX_TOKEN;
use self::verified::{Entry, ID_PREFIX, Print, Verified};

/// Told why a token was refused: the operator has to know, who brought it must not.
pub type TellRefused = Box<dyn Fn(Telling<'_>) + Send + Sync>;

/// What is told of refusals.
#[derive(Clone, Copy, Debug)]
pub enum Telling<'a> {
    /// One token was refused.
    One(Refused, &'a Alleged),
    /// So many more were, for that reason, in the minute that is over.
    More(Refused, u64),
}

/// Refusals told in a minute, of each reason: strangers must not fill the log, nor
/// keep it from telling what is wrong with somebody else's token.
const MAX_TOLD: u32 = 5;
/// The minute they are counted in.
const TOLD_WINDOW_MS: u64 = 60_000;

/// Knows the tokens of one issuer.
pub struct Issuer {
    terms: IssuerTerms,
    tell: TellRefused,
    state: Mutex<State>,
}

struct State {
    keys: Arc<IssuerKeys>,
    /// How often they were replaced.
    edition: u64,
    verified: Verified,
    told: Told,
}

/// Who an issuer's token stands for.
pub(crate) struct Known {
    pub(crate) principal: Principal,
    pub(crate) user: Arc<str>,
    pub(crate) scopes: ScopeSet,
}

impl std::fmt::Debug for Issuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuer")
            .field("terms", &self.terms)
            .finish_non_exhaustive()
    }
}

impl Issuer {
    /// Knows tokens that keep to `terms` and are signed by `keys`.
    pub fn new(terms: IssuerTerms, keys: IssuerKeys, tell: TellRefused) -> Self {
        Self {
            terms,
            tell,
            state: Mutex::new(State {
                keys: Arc::new(keys),
                edition: 0,
                verified: Verified::default(),
                told: Told::default(),
            }),
        }
    }

    /// From now on `keys` count and no others, for tokens that were known too.
    pub fn replace_keys(&self, keys: IssuerKeys) {
        let mut state = self.state();
        state.verified.forget_unsigned(&keys);
        state.keys = Arc::new(keys);
        state.edition += 1;
    }

    /// Differs from the last one whenever the keys do.
    pub(crate) fn edition(&self) -> u64 {
        self.state().edition
    }

    /// Who `presented` stands for, if anybody, now. It has the scopes it was
    /// issued for, as far as its user has them.
    pub(crate) fn known(
        &self,
        presented: &str,
        book: &CredentialBook,
        now_ms: u64,
    ) -> Option<Known> {
        let parts = token::parts(presented)?;
        let mut alleged = Alleged::default();
        let why = if presented.len() > MAX_TOKEN {
            Refused::TooLong
        } else {
            let print = Print::of(presented, &parts);
            let entry = self.entry(&print, &parts, (book, now_ms), &mut alleged);
            match entry.and_then(|entry| known(print.id, &entry, book)) {
                Ok(known) => return Some(known),
                Err(why) => why,
            }
        };
        self.tell_untold(now_ms);
        if self.state().told.is_to_be_told(why, &alleged, now_ms) {
            (self.tell)(Telling::One(why, &alleged));
        }
        None
    }

    /// The same by what was checked before, and nothing else.
    pub(crate) fn recalled(
        &self,
        presented: &str,
        book: &CredentialBook,
        now_ms: u64,
    ) -> Option<Known> {
        if presented.len() > MAX_TOKEN {
            return None;
        }
        let print = Print::of(presented, &token::parts(presented)?);
        let entry = self.state().verified.presented(&print, now_ms).cloned()?;
        known(print.id, &entry, book).ok()
    }

    /// What `principal` may still ask for, if it is a token of this issuer that
    /// is known and has not ended.
    pub(crate) fn scopes_of(
        &self,
        principal: &Principal,
        book: &CredentialBook,
        now_ms: u64,
    ) -> Option<ScopeSet> {
        let Principal::Token { user, id } = principal else {
            return None;
        };
        let state = self.state();
        let entry = state.verified.named(id, now_ms)?;
        if entry.user != *user {
            return None;
        }
        let (_, has) = book.user(user)?;
        Some(entry.scopes.and(has))
    }

    /// Forgets what has ended, and tells what a minute that is over left untold.
    pub(crate) fn forget_ended(&self, now_ms: u64) {
        self.state().verified.forget_ended(now_ms);
        self.tell_untold(now_ms);
    }

    fn tell_untold(&self, now_ms: u64) {
        let untold = self.state().told.untold(now_ms);
        for (why, count) in untold {
            (self.tell)(Telling::More(why, count));
        }
    }

    /// What was checked of that token: before, or now.
    fn entry(
        &self,
        print: &Print,
        parts: &token::Parts<'_>,
        (book, now_ms): (&CredentialBook, u64),
        alleged: &mut Alleged,
    ) -> Result<Entry, Refused> {
        let keys = {
            let state = self.state();
            if let Some(entry) = state.verified.presented(print, now_ms) {
                return Ok(entry.clone());
            }
            Arc::clone(&state.keys)
        };
        // Checked without the lock: it takes as long as all the rest.
        let (key, claims) = parts.check(&keys, &self.terms, now_ms, alleged)?;
        // Not kept: whoever the issuer knows besides would take the room of those we know.
        if book.user(&claims.user).is_none() {
            return Err(Refused::UnknownUser);
        }
        let mut state = self.state();
        // The key may have gone meanwhile, and all it signed with it.
        if !state.keys.hold(key) {
            return Err(Refused::UnknownKey);
        }
        state.verified.keep(print, key, claims, now_ms)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who it stands for in the book of users as it is now.
fn known(id: Arc<str>, entry: &Entry, book: &CredentialBook) -> Result<Known, Refused> {
    let (user, has) = book.user(&entry.user).ok_or(Refused::UnknownUser)?;
    Ok(Known {
        principal: Principal::Token {
            user: Arc::clone(user),
            id,
        },
        user: Arc::clone(user),
        scopes: entry.scopes.and(has),
    })
}

/// Whether both are tokens of an issuer for the same user. Whoever holds one gets
/// the next by itself, so they speak with one voice.
pub(crate) fn are_of_one_voice(one: &Principal, other: &Principal) -> bool {
    match (one, other) {
        (Principal::Token { user, id }, Principal::Token { user: of, id: next }) => {
            user == of && [id, next].iter().all(|id| id.starts_with(ID_PREFIX))
        }
        (
            Principal::Core { .. }
            | Principal::User { .. }
            | Principal::Token { .. }
            | Principal::Extension { .. }
            | Principal::Automation { .. },
            _,
        ) => false,
    }
}

/// Which refusals were told in this minute, by their reason. A client tries again:
/// the same is told once.
#[derive(Default)]
struct Told {
    since_ms: u64,
    /// One at most for each reason there is.
    reasons: Vec<ToldOf>,
}

struct ToldOf {
    why: Refused,
    count: u32,
    untold: u64,
    last: Alleged,
}

impl Told {
    /// What was not told in the minute before, once it is over; it begins anew.
    fn untold(&mut self, now_ms: u64) -> Vec<(Refused, u64)> {
        if self.reasons.is_empty() || now_ms.saturating_sub(self.since_ms) < TOLD_WINDOW_MS {
            return Vec::new();
        }
        let over = std::mem::take(&mut self.reasons).into_iter();
        over.filter(|one| one.untold > 0)
            .map(|one| (one.why, one.untold))
            .collect()
    }

    fn is_to_be_told(&mut self, why: Refused, alleged: &Alleged, now_ms: u64) -> bool {
        if self.reasons.is_empty() {
            self.since_ms = now_ms;
        }
        let Some(one) = self.reasons.iter_mut().find(|one| one.why == why) else {
            self.reasons.push(ToldOf {
                why,
                count: 1,
                untold: 0,
                last: alleged.clone(),
            });
            return true;
        };
        if one.count >= MAX_TOLD || one.last == *alleged {
            one.untold += 1;
            return false;
        }
        one.count += 1;
        one.last = alleged.clone();
        true
    }
}

#[cfg(test)]
#[allow(dead_code, reason = "the tests over HTTP use all of it")]
#[path = "../../tests/http/signer.rs"]
pub(crate) mod signer;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_five_times_a_minute_and_hides_no_other() {
        let mut told = Told::default();
        let alleged = |kid: u32| Alleged {
            kid: Some(kid.to_string()),
            alg: None,
        };
        assert!(told.is_to_be_told(Refused::Signature, &alleged(0), 1_000_000));
        assert!(!told.is_to_be_told(Refused::Signature, &alleged(0), 1_000_001));
        let more = (1..1_000)
            .filter(|kid| told.is_to_be_told(Refused::Signature, &alleged(*kid), 1_000_002))
            .count();
        assert_eq!(more, 4);
        assert!(told.is_to_be_told(Refused::Expired, &alleged(0), 1_000_003));
        assert_eq!(told.untold(1_059_999), []);
        assert_eq!(told.untold(1_060_000), [(Refused::Signature, 996)]);
        assert_eq!(told.untold(1_060_000), []);
        assert!(told.is_to_be_told(Refused::Signature, &alleged(0), 1_060_000));
        assert!(!told.is_to_be_told(Refused::Signature, &alleged(0), 1_119_999));
        assert_eq!(told.untold(1_120_000), [(Refused::Signature, 1)]);
    }

    #[test]
    fn a_token_of_somebody_unknown_here_takes_no_room() {
        let ed = signer::Signer::ed("d");
        let keys = IssuerKeys::from_jwks(&signer::key_set(&[&ed])).unwrap();
        let terms = IssuerTerms {
            issuer: "i".to_owned(),
            audience: "a".to_owned(),
            user_claim: "sub".to_owned(),
        };
        let told = Arc::new(Mutex::new(Vec::new()));
        let telling = Arc::clone(&told);
        let tell = move |telling_of: Telling<'_>| match telling_of {
            Telling::One(why, _) => telling.lock().unwrap().push(why),
            Telling::More(why, count) => panic!("{why:?} {count}"),
        };
        let issuer = Issuer::new(terms, keys, Box::new(tell));
        let claims = serde_json::json!({"iss": "i", "aud": "a", "sub": "eve", "exp": 2});
        let token = ed.token(&claims);
        let nobody = CredentialBook::default();
        assert!(issuer.known(&token, &nobody, 1_000).is_none());
        assert_eq!(*told.lock().unwrap(), [Refused::UnknownUser]);
        let print = Print::of(&token, &token::parts(&token).unwrap());
        assert!(issuer.state().verified.named(&print.id, 1_000).is_none());
    }

    #[test]
    fn tokens_of_an_issuer_for_one_user_speak_with_one_voice() {
        let token = |user: &str, id: &str| Principal::Token {
            user: user.into(),
            id: id.into(),
        };
        let (one, next) = (token("ada", "jwt_1"), token("ada", "jwt_2"));
        assert!(are_of_one_voice(&one, &next));
        assert!(!are_of_one_voice(&one, &token("bob", "jwt_2")));
        assert!(!are_of_one_voice(&one, &token("ada", "0123456789")));
        assert!(!are_of_one_voice(
            &one,
            &Principal::User { id: "ada".into() }
        ));
    }
}
