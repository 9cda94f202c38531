//! The doorman who knows the store's credentials.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use portcullis_gate::Clock;
use portcullis_store::{CredentialBook, Store, StoreError};

use super::door::Doorman;
use super::guests::Guests;
use super::identity::{Identity, Via};

/// Every credential of the store, in memory: looking one up reads no disk.
pub struct Credentials {
    store: Store,
    clock: Arc<dyn Clock>,
    guests: Arc<Guests>,
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
        Ok(Self {
            book: ArcSwap::from_pointee(book),
            loading: Mutex::default(),
            store,
            clock,
            guests,
        })
    }
}

impl Doorman for Credentials {
    fn known(&self, via: Via, presented: &str) -> Option<Identity> {
        let (book, now) = (self.book.load(), self.clock.now_ms());
        let credential = match via {
            Via::Bearer => book.bearer(presented, now)?,
            Via::Cookie => book.cookie(presented, now)?,
        };
        Some(Identity {
            principal: credential.principal,
            user: credential.user,
            scopes: credential.scopes,
            via,
        })
    }

    /// Reads them again if the store changed, and takes back what was granted
    /// to whoever lost a credential or ran out of time.
    fn refresh(&self) -> Result<(), StoreError> {
        let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if self.store.version()? != self.book.load().version() {
            self.book.store(Arc::new(self.store.credentials()?));
        }
        let (book, now) = (self.book.load(), self.clock.now_ms());
        self.guests
            .review(|principal| book.scopes_of(principal, now));
        Ok(())
    }
}
