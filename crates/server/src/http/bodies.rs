//! How much memory bodies on their way may take: in all, and for one principal.
//!
//! Room is taken for all of a body before the first byte of it is read, so that
//! bodies never wait for each other half read. Who finds none waits a while,
//! behind its own alone as far as its own share goes.

use std::sync::Arc;
use std::time::Duration;

use portcullis_proto::{Failure, Principal, Reason};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::{BODIES, BODIES_OF_ONE, SMALL_BODY};
use super::shares::{EachTheir, Holder};

/// How long room is waited for.
const ROOM_PATIENCE: Duration = Duration::from_secs(10);
/// What room is counted in.
const KIB: usize = 1_024;

/// The memory there is for bodies.
#[derive(Debug)]
pub(crate) struct Bodies {
    all: Arc<Semaphore>,
    of_one: EachTheir,
}

/// Room for one body, until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Room(Vec<OwnedSemaphorePermit>);

impl Room {
    /// Whether there is none.
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Both as one.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// The body turned out to be so long: what it does not take is given back.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let units = if bytes <= SMALL_BODY {
            0
        } else {
            bytes.div_ceil(KIB)
        };
        for permit in &mut self.0 {
            let spare = permit.num_permits().saturating_sub(units);
            drop(permit.split(spare));
        }
    }
}

impl Default for Bodies {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(BODIES / KIB)),
            of_one: EachTheir::new(BODIES_OF_ONE / KIB),
        }
    }
}

impl Bodies {
    /// Room for a body of `who` that may be so long.
    pub(crate) async fn room(&self, who: &Principal, bytes: usize) -> Result<Room, Failure> {
        if bytes <= SMALL_BODY {
            return Ok(Room::default());
        }
        let units = u32::try_from(bytes.min(BODIES_OF_ONE).div_ceil(KIB)).unwrap_or(u32::MAX);
        let own = self.of_one.of(&Holder::of(who));
        let all = Arc::clone(&self.all);
        let waiting = async {
            // Its own first: who waits behind itself holds nothing of the rest.
            let own = own.acquire_many_owned(units).await.ok()?;
            let all = all.acquire_many_owned(units).await.ok()?;
            Some(Room(vec![own, all]))
        };
        let waited = tokio::time::timeout(ROOM_PATIENCE, waiting).await;
        waited.ok().flatten().ok_or_else(|| {
            let why = "There is no room for a body of this size now. Nothing was read.";
            Failure::new(Reason::Overload, why).hint("Send it again in some seconds.")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(id: &str) -> Principal {
        Principal::User { id: id.into() }
    }

    #[tokio::test(start_paused = true)]
    async fn one_fills_its_own_share_and_the_others_get_theirs() {
        let bodies = Bodies::default();
        let (ada, bob) = (user("ada"), user("bob"));
        let held = bodies.room(&ada, BODIES_OF_ONE - SMALL_BODY).await.unwrap();
        let refused = bodies.room(&ada, 2 * SMALL_BODY).await.err().unwrap();
        assert_eq!(refused.reason(), Reason::Overload);
        // What is small needs no room, and another has their own.
        bodies.room(&ada, SMALL_BODY).await.unwrap();
        bodies.room(&bob, BODIES_OF_ONE).await.unwrap();
        drop(held);
        // A body that says no length may be of any, until it is there.
        let mut held = bodies.room(&ada, usize::MAX).await.unwrap();
        held.shrink(3 * SMALL_BODY);
        assert_eq!(held.0[0].num_permits(), 3 * SMALL_BODY / KIB);
        held.shrink(SMALL_BODY);
        bodies.room(&ada, BODIES_OF_ONE).await.unwrap();
        drop(held);
        assert_eq!(bodies.all.available_permits(), BODIES / KIB);
    }

    #[tokio::test(start_paused = true)]
    async fn all_of_them_take_no_more_than_there_is() {
        let bodies = Bodies::default();
        let mut held = Vec::new();
        for n in 0..BODIES / BODIES_OF_ONE {
            let who = user(&n.to_string());
            held.push(bodies.room(&who, BODIES_OF_ONE).await.unwrap());
        }
        let eve = user("eve");
        assert!(bodies.room(&eve, BODIES_OF_ONE).await.is_err());
        let waiting = bodies.room(&eve, BODIES_OF_ONE);
        tokio::pin!(waiting);
        assert!(
            tokio::time::timeout(Duration::from_secs(1), &mut waiting)
                .await
                .is_err()
        );
        held.pop();
        waiting.await.unwrap();
    }
}
