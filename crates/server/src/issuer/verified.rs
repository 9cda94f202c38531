//! Tokens that were checked and have not ended: so many, and so many of one user.
//!
//! What is kept is what was signed, never the token. An entry goes when its token
//! ends or when the key that signed it goes, and never to make room: what the token
//! has begun would end with it. Who comes when there is no room is refused.

use std::collections::HashMap;
use std::sync::Arc;

use portcullis_proto::ScopeSet;
use ring::digest::{Context, SHA256};

use super::keys::{IssuerKeys, Key};
use super::token::{Claims, Parts, Refused};

/// Tokens kept at once; each has its grants, of which there are 4,096 in all.
pub(super) const MAX_VERIFIED: usize = 1_024;
/// A user may have one part in so many of what is left: who gets tokens without
/// end has 256 and leaves 768, the next has 192, and who has none finds room.
const SHARE: usize = 3;
/// How the id of a token's principal begins; those of our own tokens are shorter.
pub(super) const ID_PREFIX: &str = "jwt_";

/// Which token it is. Two that are signed alike are one: a signature by ES256 can
/// be written in two ways by anybody, and who does is nobody else by that.
pub(super) struct Print {
    /// By what was signed.
    pub(super) id: Arc<str>,
    /// By all of it.
    whole: [u8; 32],
}

impl Print {
    pub(super) fn of(presented: &str, parts: &Parts<'_>) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(parts.signed.as_bytes());
        let signed = context.clone().finish();
        let rest = presented.as_bytes().get(parts.signed.len()..);
        context.update(rest.unwrap_or_default());
        let whole = context.finish();
        let begins = signed.as_ref().first_chunk().copied().unwrap_or_default();
        let mut print = Self {
            id: format!("{ID_PREFIX}{:016x}", u64::from_be_bytes(begins)).into(),
            whole: [0; 32],
        };
        print.whole.copy_from_slice(whole.as_ref());
        print
    }
}

/// A token that was checked.
#[derive(Clone)]
pub(super) struct Entry {
    whole: [u8; 32],
    key: Arc<Key>,
    pub(super) user: Arc<str>,
    pub(super) scopes: ScopeSet,
    pub(super) ends_at: u64,
}

/// The tokens that were checked.
#[derive(Default)]
pub(super) struct Verified {
    entries: HashMap<Arc<str>, Entry>,
}

impl Verified {
    /// The very token of that print, if it was checked and has not ended.
    pub(super) fn presented(&self, print: &Print, now_ms: u64) -> Option<&Entry> {
        self.named(&print.id, now_ms)
            .filter(|entry| entry.whole == print.whole)
    }

    /// The token of that name, unless it has ended.
    pub(super) fn named(&self, id: &str, now_ms: u64) -> Option<&Entry> {
        self.entries.get(id).filter(|one| one.ends_at > now_ms)
    }

    /// Keeps what was checked, if there is room.
    pub(super) fn keep(
        &mut self,
        print: &Print,
        key: &Arc<Key>,
        claims: Claims,
        now_ms: u64,
    ) -> Result<Entry, Refused> {
        self.forget_ended(now_ms);
        if !self.entries.contains_key(&print.id) && !self.has_room_for(&claims.user) {
            return Err(Refused::TooMany);
        }
        let entry = Entry {
            whole: print.whole,
            key: Arc::clone(key),
            user: claims.user.into(),
            scopes: claims.scopes,
            ends_at: claims.ends_at,
        };
        self.entries.insert(Arc::clone(&print.id), entry.clone());
        Ok(entry)
    }

    pub(super) fn forget_ended(&mut self, now_ms: u64) {
        self.entries.retain(|_, entry| entry.ends_at > now_ms);
    }

    /// Forgets what no key of `keys` signed.
    pub(super) fn forget_unsigned(&mut self, keys: &IssuerKeys) {
        self.entries.retain(|_, entry| keys.hold(&entry.key));
    }

    /// Whether one more of `user` can be kept.
    fn has_room_for(&self, user: &str) -> bool {
        let of_user = |entry: &&Entry| *entry.user == *user;
        let theirs = self.entries.values().filter(of_user).count();
        let left = MAX_VERIFIED.saturating_sub(self.entries.len());
        theirs < left.div_ceil(SHARE)
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::Algorithm;
    use super::super::token::parts;
    use super::*;

    fn keys() -> IssuerKeys {
        let x = "A".repeat(43);
        let set = format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","x":"{x}"}}]}}"#);
        IssuerKeys::from_jwks(&set).unwrap()
    }

    fn print(text: &str) -> Print {
        Print::of(text, &parts(text).unwrap())
    }

    fn keep(
        kept: &mut Verified,
        user: &str,
        number: usize,
        ends_at: u64,
    ) -> Result<Print, Refused> {
        let (print, keys) = (print(&format!("{user}.{number}.s")), keys());
        let claims = Claims {
            user: user.to_owned(),
            scopes: ScopeSet::ALL,
            ends_at,
        };
        let key = keys.find(None, Algorithm::EdDsa).unwrap();
        kept.keep(&print, key, claims, 0).map(|_| print)
    }

    /// How many of `user` are kept before there is no room.
    fn fill(kept: &mut Verified, user: &str) -> usize {
        let more = 0..=MAX_VERIFIED;
        more.take_while(|number| keep(kept, user, *number, 100).is_ok())
            .count()
    }

    #[test]
    fn two_ways_to_write_one_signature_are_one_token() {
        let (one, other) = (print("a.b.c"), print("a.b.d"));
        assert_eq!(one.id, other.id);
        assert_ne!(one.whole, other.whole);
        assert_ne!(one.id, print("a.c.c").id);
        assert_eq!(one.id.len(), ID_PREFIX.len() + 16);
    }

    #[test]
    fn only_the_very_token_that_was_checked_is_known_and_only_until_it_ends() {
        let mut kept = Verified::default();
        let one = keep(&mut kept, "ada", 1, 100).unwrap();
        assert!(kept.presented(&one, 99).is_some() && kept.named(&one.id, 99).is_some());
        assert!(
            kept.presented(&print("ada.1.t"), 99).is_none(),
            "another signature"
        );
        assert!(kept.presented(&one, 100).is_none() && kept.named(&one.id, 100).is_none());
        kept.forget_unsigned(&keys());
        assert!(kept.presented(&one, 99).is_some(), "its key is there still");
        kept.forget_ended(100);
        assert!(kept.entries.is_empty());
    }

    #[test]
    fn who_gets_tokens_without_end_is_in_nobody_elses_way() {
        let mut kept = Verified::default();
        let first = keep(&mut kept, "ada", 0, 100).unwrap();
        assert_eq!(fill(&mut kept, "ada"), 256);
        let one_more = keep(&mut kept, "ada", MAX_VERIFIED, 100);
        assert_eq!(one_more.err(), Some(Refused::TooMany));
        assert!(
            kept.presented(&first, 0).is_some(),
            "none goes to make room"
        );
        let again = keep(&mut kept, "ada", 0, 100);
        assert!(again.is_ok(), "one that is kept needs no room");
        assert_eq!(fill(&mut kept, "bob"), 192);
        for hoarder in 0..15 {
            let got = fill(&mut kept, &format!("hoarder{hoarder}"));
            assert!(got > 0, "hoarder{hoarder} finds room");
        }
        keep(&mut kept, "cleo", 0, 100).unwrap_or_else(|why| panic!("{why:?}"));
        for number in 0..2 * MAX_VERIFIED {
            keep(&mut kept, &format!("user{number}"), 0, 100).ok();
        }
        assert_eq!(kept.entries.len(), MAX_VERIFIED);
        kept.forget_ended(100);
        assert_eq!(fill(&mut kept, "bob"), 256);
    }
}
