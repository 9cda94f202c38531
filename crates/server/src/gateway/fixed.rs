//! The key that needs no pairing, and the one machine at a time that comes with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_link::Event;
use portcullis_store::{LinkKey, LinkKeyKind, StoreError};
use ring::digest::{Digest, SHA256, digest};

use super::registry::Gateway;
use crate::http::{Pace, Rate};

/// A key that needs no pairing.
pub(super) struct Fixed {
    digest: Digest,
    user: Arc<str>,
    /// The machine that came with it last.
    machine: Mutex<Option<String>>,
    /// Held by who comes with it.
    coming: Mutex<()>,
    /// How often daemons came with it.
    inits: Pace,
}

impl Fixed {
    pub(super) fn new(key: &[u8], user: &str) -> Self {
        Self {
            digest: digest(&SHA256, key),
            user: user.into(),
            machine: Mutex::default(),
            coming: Mutex::default(),
            inits: Pace::default(),
        }
    }

    /// Whether `presented` is it, in the time it takes for any.
    pub(super) fn is(&self, presented: &str) -> bool {
        let digest = digest(&SHA256, presented.as_bytes());
        let pairs = digest.as_ref().iter().zip(self.digest.as_ref());
        pairs.fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
    }

    fn machine(&self) -> MutexGuard<'_, Option<String>> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose it is, and which machine came with it.
    pub(super) fn key(&self) -> LinkKey {
        LinkKey {
            user: self.user.as_ref().to_owned(),
            machine: self.machine().clone(),
            kind: LinkKeyKind::Fixed,
        }
    }
}

/// What was ended of a machine that came with the fixed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unlinked {
    /// Nothing: it is not that key's.
    Not,
    /// Nothing was left of its link.
    Away,
    /// Its link.
    Linked,
}

impl Gateway {
    /// Lets one come with the fixed key after the other: each puts out the one
    /// before it.
    pub(super) fn one_with_fixed(&self) -> Option<MutexGuard<'_, ()>> {
        let coming = &self.fixed.as_ref()?.coming;
        Some(coming.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A daemon came with the fixed key, as this machine; as which the one before
    /// it did, where that is another.
    pub(super) fn came_with_fixed(&self, machine: &str) -> Option<String> {
        let mut stands = self.fixed.as_ref()?.machine();
        stands
            .replace(machine.to_owned())
            .filter(|before| before != machine)
    }

    /// The fixed key stands for a machine no more: that one has a key of its own
    /// from now on, or has left.
    pub(super) fn not_with_fixed(&self, machine: &str) {
        if let Some(fixed) = &self.fixed {
            fixed.machine().take_if(|one| one == machine);
        }
    }

    /// Whether one more may come with the fixed key now; if not, when.
    pub(super) fn pace_fixed(&self, rate: Rate, now_us: u64) -> Result<(), Duration> {
        let fixed = self.fixed.as_ref();
        fixed.map_or(Ok(()), |fixed| fixed.inits.step(rate, now_us))
    }

    /// Ends the link of a machine that came with the fixed key: what has a key of
    /// its own by now is not theirs to end. Waits for the disk.
    pub(crate) fn disconnect_unpaired(
        &self,
        user: &str,
        machine: &str,
        last: Option<&Event>,
    ) -> Result<Unlinked, StoreError> {
        if !self.store.end_unpaired_link(machine)? {
            return Ok(Unlinked::Not);
        }
        self.not_with_fixed(machine);
        let mut links = self.links();
        let link = links.get(user, machine).filter(|link| !link.about().keyed);
        let link = link.cloned();
        if let Some(link) = &link {
            links.take(link);
        }
        drop(links);
        let Some(link) = link else {
            return Ok(Unlinked::Away);
        };
        self.end(&link, last);
        self.changed(&link.user);
        Ok(Unlinked::Linked)
    }
}
