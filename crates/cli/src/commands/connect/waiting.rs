//! `portcullis connect` without a token: waits at the door on loopback until a
//! server's page asks, and puts that before the person.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portcullis_daemon::{Address, Porter, Wanted};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::origins::is_allowed;
use super::screen::Screen;
use crate::peer::is_own;

/// How many origins are told apart after a no. Who gets so many is asked no more.
const MAX_REFUSED: usize = 64;

/// A machine that is lent to who asked at the door.
struct Lent {
    to: String,
    screen: Arc<Screen>,
    ending: CancellationToken,
}

/// What is put before the person.
pub(super) enum Put {
    /// A page of this origin looks whether somebody waits here. It was refused.
    Knocked(String),
    /// A page wants this machine lent.
    Wanted(Wanted),
}

/// Who stands at the door.
pub(super) struct AtTheDoor {
    /// The origins that may ask; where none is named, those the person lets.
    allowed: Vec<String>,
    /// The origins the person let ask.
    admitted: Mutex<BTreeSet<String>>,
    asks: SyncSender<Put>,
    /// Whether the person is deciding.
    is_deciding: Mutex<bool>,
    /// The origins that got a no: they do not ask again.
    refused: Mutex<BTreeSet<String>>,
    lent: Mutex<Option<Lent>>,
}

impl AtTheDoor {
    pub(super) fn new(allowed: Vec<String>) -> (Arc<Self>, Receiver<Put>) {
        let (asks, asked) = sync_channel(1);
        let door = Self {
            allowed,
            admitted: Mutex::default(),
            asks,
            is_deciding: Mutex::new(false),
            refused: Mutex::default(),
            lent: Mutex::default(),
        };
        (Arc::new(door), asked)
    }

    /// The person has decided: somebody else may ask, and whoever got a no does
    /// not, for as long as this runs.
    pub(super) fn decided(&self, refused: Option<&str>) {
        if let Some(origin) = refused {
            self.refused().insert(origin.to_owned());
        }
        *self.deciding() = false;
    }

    /// The person lets pages of this origin ask, for as long as this runs.
    pub(super) fn admit(&self, origin: String) {
        self.admitted().insert(origin);
        *self.deciding() = false;
    }

    /// From now on it is lent to this origin.
    pub(super) fn lend(&self, to: &str, screen: Arc<Screen>, ending: CancellationToken) {
        *self.lent() = Some(Lent {
            to: to.to_owned(),
            screen,
            ending,
        });
    }

    fn lent(&self) -> MutexGuard<'_, Option<Lent>> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refused(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admitted(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.admitted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an origin got a no, or so many did that nobody else is heard.
    fn is_refused(&self, origin: &str) -> bool {
        let refused = self.refused();
        refused.len() >= MAX_REFUSED || refused.contains(origin)
    }

    fn deciding(&self) -> MutexGuard<'_, bool> {
        self.is_deciding
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Porter for AtTheDoor {
    fn is_own(&self, from: SocketAddr, to: SocketAddr) -> bool {
        is_own(from, to)
    }

    fn may_ask(&self, origin: &str) -> bool {
        if self.is_refused(origin) {
            return false;
        }
        if self.allowed.is_empty() {
            return self.admitted().contains(origin);
        }
        Address::parse(origin).is_ok_and(|address| is_allowed(&self.allowed, &address))
    }

    fn knocked(&self, origin: &str) {
        // Where it was said whose pages may ask, the others are not shown either.
        if !self.allowed.is_empty() || self.is_refused(origin) {
            return;
        }
        let mut is_deciding = self.deciding();
        let is_put = !*is_deciding && self.asks.try_send(Put::Knocked(origin.to_owned())).is_ok();
        *is_deciding |= is_put;
    }

    fn lent_to(&self) -> Option<String> {
        self.lent().as_ref().map(|lent| lent.to.clone())
    }

    fn status(&self) -> Value {
        self.lent()
            .as_ref()
            .map_or_else(|| json!({}), |lent| lent.screen.status())
    }

    fn ask(&self, wanted: Wanted) -> Result<(), Wanted> {
        let mut is_deciding = self.deciding();
        // It may have begun to ask before the no.
        let may_ask = Address::parse(&wanted.url).is_ok_and(|to| self.may_ask(to.origin()));
        if *is_deciding || !may_ask {
            return Err(wanted);
        }
        match self.asks.try_send(Put::Wanted(wanted)) {
            Ok(()) => {
                *is_deciding = true;
                Ok(())
            }
            Err(
                TrySendError::Full(Put::Wanted(wanted))
                | TrySendError::Disconnected(Put::Wanted(wanted)),
            ) => Err(wanted),
            // What was sent comes back.
            Err(
                TrySendError::Full(Put::Knocked(_)) | TrySendError::Disconnected(Put::Knocked(_)),
            ) => Ok(()),
        }
    }

    fn disconnect(&self) {
        if let Some(lent) = self.lent().as_ref() {
            lent.screen.note("the server's page asked to disconnect");
            lent.ending.cancel();
        }
    }
}
