//! The doorman who knows the store's credentials.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use portcullis_gate::Clock;
use portcullis_store::{CredentialBook, Store, StoreError, Switch};

use super::door::Doorman;
use super::guests::Guests;
use super::identity::{Identity, Via};
use crate::issuer::{Issuer, Known};

/// Every credential of the store, in memory: looking one up reads no disk.
pub struct Credentials {
    store: Store,
    clock: Arc<dyn Clock>,
    guests: Arc<Guests>,
    /// Who else's tokens count.
    issuer: Option<Arc<Issuer>>,
    book: ArcSwap<CredentialBook>,
    /// Held by who loads another: an older one must not take a newer one's place.
    loading: Mutex<()>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("book", &self.book.load())
            .finish_non_exhaustive()
    }
}

impl Credentials {
    /// Reads them.
    pub fn open(
        store: Store,
        clock: Arc<dyn Clock>,
        guests: Arc<Guests>,
    ) -> Result<Self, StoreError> {
        let book = store.credentials()?;
        guests.approve(book.approved());
        Ok(Self {
            book: ArcSwap::from_pointee(book),
            loading: Mutex::default(),
            store,
            clock,
            guests,
            issuer: None,
        })
    }

    /// With the tokens of an issuer elsewhere.
    #[must_use]
    pub fn with_issuer(mut self, issuer: Arc<Issuer>) -> Self {
        self.issuer = Some(issuer);
        self
    }
}

impl Credentials {
    /// Ends what extensions had, when nobody is served any more.
    pub fn end(&self) {
        self.guests.approve(&Arc::default());
    }

    /// Whose `presented` is by the book, or by what an issuer's token is to `issued`.
    fn known_or_issued(
        &self,
        via: Via,
        presented: &str,
        issued: impl FnOnce(&Issuer, &str, &CredentialBook, u64) -> Option<Known>,
    ) -> Option<Identity> {
        let (book, now) = (self.book.load(), self.clock.now_ms());
        let credential = match via {
            Via::Bearer => book.bearer(presented, now),
            Via::Cookie => Some(book.cookie(presented, now)?),
        };
        let Some(credential) = credential else {
            let known = issued(self.issuer.as_ref()?, presented, &book, now)?;
            return Some(Identity {
                principal: known.principal,
                user: known.user,
                scopes: known.scopes,
                via,
            });
        };
        Some(Identity {
            principal: credential.principal,
            user: credential.user,
            scopes: credential.scopes,
            via,
        })
    }

    fn read_again(&self) -> Result<(), StoreError> {
        if self.store.version()? != self.book.load().version() {
            self.book.store(Arc::new(self.store.credentials()?));
        }
        Ok(())
    }
}

impl Doorman for Credentials {
    fn known(&self, via: Via, presented: &str) -> Option<Identity> {
        self.known_or_issued(via, presented, Issuer::known)
    }

    fn recalled(&self, via: Via, presented: &str) -> Option<Identity> {
        self.known_or_issued(via, presented, Issuer::recalled)
    }

    fn edition(&self) -> (u64, u64) {
        let keys = self.issuer.as_ref().map(|issuer| issuer.edition());
        (self.book.load().version(), keys.unwrap_or_default())
    }

    fn files(&self, user: &str) -> Switch {
        self.book.load().files(user)
    }

    /// Reads them again if the store changed, and takes back what was granted
    /// to whoever lost a credential or ran out of time.
    fn refresh(&self) -> Result<(), StoreError> {
        let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        // Time goes on where the store cannot be read: what ends by it ends.
        let read = self.read_again();
        let (book, now) = (self.book.load(), self.clock.now_ms());
        if let Some(issuer) = &self.issuer {
            issuer.forget_ended(now);
        }
        self.guests.review(|principal| {
            let issued = || self.issuer.as_ref()?.scopes_of(principal, &book, now);
            book.scopes_of(principal, now).or_else(issued)
        });
        self.guests.approve(book.approved());
        read
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use portcullis_files::PrivateDir;
    use portcullis_gate::Entitlements;
    use portcullis_proto::ScopeSet;
    use portcullis_testkit::{FakeClock, Scratch, World};
    use serde_json::json;

    use super::super::door::{Door, Met};
    use super::super::limits::MAX_FAILED;
    use super::*;
    use crate::issuer::signer::{Signer, key_set};
    use crate::issuer::{IssuerKeys, IssuerTerms, Telling};

    /// A store with one user, whom an issuer knows too.
    struct Place {
        world: World,
        clock: Arc<FakeClock>,
        signer: Signer,
        credentials: Credentials,
        guests: Arc<Guests>,
        /// How often a refusal was told, or would have been.
        told: Arc<AtomicU64>,
    }

    impl Place {
        fn new() -> Self {
            let world = World::workspace().over(Scratch::in_memory(""));
            let data = PrivateDir::open_or_create(&world.scratch.at("../data")).unwrap();
            let clock = Arc::new(FakeClock::new());
            let store = Store::new(data.path());
            let now = clock.now_ms();
            store.add_user("ada", ScopeSet::ALL, now).unwrap();
            let roots = world.authority.roots().map(|root| root.entry().clone());
            let entitled = Arc::new(Entitlements::new(roots.collect(), Vec::new()));
            let guests = Arc::new(Guests::new(Arc::clone(&world.gate), entitled));
            let signer = Signer::ed("d");
            let terms = IssuerTerms {
                issuer: "i".to_owned(),
                audience: "a".to_owned(),
                user_claim: "sub".to_owned(),
            };
            let told = Arc::new(AtomicU64::new(0));
            let counting = Arc::clone(&told);
            let tell = move |telling: Telling<'_>| {
                let more = match telling {
                    Telling::One(..) => 1,
                    Telling::More(_, count) => count,
                };
                counting.fetch_add(more, Ordering::Relaxed);
            };
            let keys = IssuerKeys::from_jwks(&key_set(&[&signer])).unwrap();
            let issuer = Issuer::new(terms, keys, Box::new(tell));
            let credentials =
                Credentials::open(store, Arc::clone(&clock) as Arc<dyn Clock>, guests.clone());
            Self {
                credentials: credentials.unwrap().with_issuer(Arc::new(issuer)),
                world,
                clock,
                signer,
                guests,
                told,
            }
        }

        /// A token that lasts a minute, of that number.
        fn token(&self, number: usize) -> String {
            let exp = self.clock.now_ms() / 1_000 + 60;
            let claims = json!({
                "iss": "i", "aud": "a", "sub": "ada", "scope": "fs:read", "exp": exp, "jti": number,
            });
            self.signer.token(&claims)
        }

        /// Brings a token, and is granted what it is for.
        fn come_with(&self, token: &str) -> Option<Identity> {
            let identity = self.credentials.known(Via::Bearer, token)?;
            self.guests.welcome(&identity);
            Some(identity)
        }

        fn grants(&self, of: &Identity) -> usize {
            let held = self.world.gate.grants().list();
            held.iter()
                .filter(|grant| grant.principal == of.principal)
                .count()
        }
    }

    #[test]
    fn however_many_tokens_come_none_loses_what_it_has_begun() {
        let place = Place::new();
        let first = place.come_with(&place.token(0)).unwrap();
        let let_in = (1..600)
            .filter(|number| place.come_with(&place.token(*number)).is_some())
            .count();
        assert_eq!(let_in, 255, "the bound holds");
        place.credentials.refresh().unwrap();
        assert_eq!(place.grants(&first), 1, "its deeds go on");
        // When those end there is room again.
        place.clock.pass(Duration::from_mins(1));
        place.credentials.refresh().unwrap();
        assert_eq!(place.grants(&first), 0);
        assert!(place.come_with(&place.token(600)).is_some());
    }

    #[test]
    fn who_has_to_wait_brings_nothing_new_in_and_keeps_what_is_known() {
        let place = Place::new();
        let (known, new) = (place.token(0), place.token(1));
        assert!(place.come_with(&known).is_some());
        let door = Door::new();
        let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let meet = |presented: &str, from| {
            let met = door.meet(&place.credentials, Some((Via::Bearer, presented)), from, 0);
            matches!(met, Met::Known(_))
        };
        for _ in 0..MAX_FAILED {
            assert!(!meet(&format!("{new}AA"), from));
        }
        assert!(meet(&known, from), "what was checked counts");
        assert!(!meet(&new, from), "no signature is checked for a guesser");
        assert!(meet(&new, IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))));
        assert!(meet(&new, from), "it was checked elsewhere");
    }

    #[test]
    fn what_is_refused_is_looked_at_again_if_something_changed_and_only_then() {
        let place = Place::new();
        let door = Door::new();
        let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let claims = json!({
            "iss": "i", "aud": "a", "sub": "bob", "exp": place.clock.now_ms() / 1_000 + 600,
        });
        let bobs = place.signer.token(&claims);
        let meet = || {
            let met = door.meet(&place.credentials, Some((Via::Bearer, &bobs)), from, 0);
            matches!(met, Met::Known(_))
        };
        assert!(!meet());
        // What was not told is told when the minute is over.
        place.clock.pass(Duration::from_mins(1));
        place.credentials.refresh().unwrap();
        assert_eq!(place.told.load(Ordering::Relaxed), 1, "it is checked once");
        let now = place.clock.now_ms();
        let store = place.credentials.store.clone();
        store.add_user("bob", ScopeSet::ALL, now).unwrap();
        assert!(meet());
    }

    #[test]
    fn what_ends_by_its_time_ends_where_the_store_cannot_be_read() {
        let place = Place::new();
        let token = place.token(0);
        let identity = place.come_with(&token).unwrap();
        // Others may read it: it is not opened.
        place
            .world
            .scratch
            .rename("../data/state.db", "../data/old.db");
        place.world.scratch.file("../data/state.db", "no database");
        place.world.scratch.chmod("../data/state.db", 0o644);
        assert!(place.credentials.refresh().is_err());
        assert_eq!(
            place.grants(&identity),
            1,
            "what was in force stays in force"
        );
        place.clock.pass(Duration::from_mins(1));
        assert!(place.credentials.refresh().is_err());
        assert_eq!(place.grants(&identity), 0);
    }
}
