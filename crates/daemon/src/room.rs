//! How much a server can have this machine hold and write down: calls and
//! replies under way, their bytes, and refusals a second.
//!
//! Who sends more is not refused for it but not heard: the stream is read on when
//! there is room again. So nothing is tried that has no line in the record, and
//! the record does not grow at the pace of the link.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use portcullis_link::bounds;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep};

use crate::wanted::Wanted;

/// How many calls are under way, those included whose reply is not taken yet.
/// Twice those that run: the others are told that they are too many.
const MAX_UNDER_WAY: usize = 2 * bounds::MAX_PENDING;
/// What the arguments of calls that run may hold in memory, all together.
const MAX_ASKED: usize = 64 * 1024 * 1024;
/// What replies that are not taken yet may hold, all together.
const MAX_UNTAKEN: usize = 64 * 1024 * 1024;
/// How many calls may be refused at once, and how many a second then:
/// each is a line of the record.
pub(crate) const REFUSALS: u32 = 2_000;
const REFUSALS_A_SECOND: f64 = 10.0;
/// How often it is looked whether another one may be.
const LOOK: Duration = Duration::from_millis(50);

/// Bytes are counted by the kibibyte.
const UNIT: usize = 1024;
/// What a value takes besides its text.
const VALUE: usize = 32;

/// A call's place, from when it is heard until its reply is taken.
#[must_use]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
}

/// What a call that runs takes.
pub(crate) struct Share {
    _runs: OwnedSemaphorePermit,
    _asked: OwnedSemaphorePermit,
}

/// See the module.
pub(crate) struct Room {
    places: Arc<Semaphore>,
    runs: Arc<Semaphore>,
    asked: Arc<Semaphore>,
    untaken: Arc<Semaphore>,
    refusals: Mutex<Refusals>,
}

impl Default for Room {
    fn default() -> Self {
        let of = |most: usize| Arc::new(Semaphore::new(most));
        Self {
            places: of(MAX_UNDER_WAY),
            runs: of(bounds::MAX_PENDING),
            asked: of(MAX_ASKED / UNIT),
            untaken: of(MAX_UNTAKEN / UNIT),
            refusals: Mutex::new(Refusals::new(Instant::now())),
        }
    }
}

impl Room {
    /// Waits until another call can be heard.
    pub(crate) async fn place(&self) -> Option<Place> {
        while !self.refusals(Refusals::may_be) {
            sleep(LOOK).await;
        }
        let permit = Arc::clone(&self.places).acquire_owned().await.ok()?;
        Some(Place { _permit: permit })
    }

    /// Room for a call to run; nothing where there is none.
    pub(crate) fn share(&self, wanted: &Wanted) -> Option<Share> {
        let units = units(wanted.name().len() + weight(wanted.arguments()))?;
        Some(Share {
            _runs: Arc::clone(&self.runs).try_acquire_owned().ok()?,
            _asked: Arc::clone(&self.asked).try_acquire_many_owned(units).ok()?,
        })
    }

    /// Room for a reply until it is taken; nothing where there is none.
    pub(crate) fn untaken(&self, body: &Bytes) -> Option<OwnedSemaphorePermit> {
        let units = units(body.len())?;
        Arc::clone(&self.untaken).try_acquire_many_owned(units).ok()
    }

    /// A call was refused.
    pub(crate) fn refused(&self) {
        self.refusals(Refusals::one);
    }

    fn refusals<T>(&self, each: impl FnOnce(&mut Refusals, Instant) -> T) -> T {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        each(&mut refusals, Instant::now())
    }
}

fn units(bytes: usize) -> Option<u32> {
    u32::try_from(bytes.div_ceil(UNIT)).ok()
}

/// What a value takes in memory, about.
fn weight(value: &Value) -> usize {
    VALUE
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(values) => values.iter().map(weight).sum(),
            Value::Object(members) => members
                .iter()
                .map(|(name, value)| name.len() + weight(value))
                .sum(),
        }
}

/// How many refusals there may still be: as many at once as the bound says, and
/// then as many a second.
struct Refusals {
    left: f64,
    at: Instant,
}

impl Refusals {
    fn new(now: Instant) -> Self {
        Self {
            left: f64::from(REFUSALS),
            at: now,
        }
    }

    fn may_be(&mut self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + since * REFUSALS_A_SECOND).min(REFUSALS.into());
        self.at = now;
        self.left >= 1.0
    }

    /// Those that were heard before the last one was refused may go below zero.
    fn one(&mut self, _now: Instant) {
        self.left -= 1.0;
    }
}

#[cfg(test)]
mod tests {
    use portcullis_link::Far;
    use serde_json::json;

    use super::*;

    #[test]
    fn refusals_are_many_at_once_and_few_a_second_then() {
        let began = Instant::now();
        let mut refusals = Refusals::new(began);
        for _ in 0..REFUSALS {
            assert!(refusals.may_be(began));
            refusals.one(began);
        }
        assert!(!refusals.may_be(began));
        assert!(!refusals.may_be(began + Duration::from_millis(90)));
        assert!(refusals.may_be(began + Duration::from_secs(1)));
        let later = began + Duration::from_hours(24);
        let many = (0..2 * REFUSALS).take_while(|_| {
            let may_be = refusals.may_be(later);
            refusals.one(later);
            may_be
        });
        assert_eq!(
            many.count(),
            REFUSALS as usize,
            "they do not add up for ever"
        );
    }

    #[tokio::test]
    async fn calls_have_room_by_number_and_by_bytes() {
        let call = |name: &str, arguments: Value| {
            Wanted::Tool(Far {
                name: name.to_owned(),
                arguments,
            })
        };
        let far = |length: usize| call("write_file", json!({"content": "x".repeat(length)}));
        let room = Room::default();
        let large: Vec<Share> = (0..5).filter_map(|_| room.share(&far(15 << 20))).collect();
        assert_eq!(large.len(), 4);
        assert!(room.share(&far(1 << 20)).is_some(), "what is left is given");
        drop(large);
        let many: Vec<Share> = (0..65).filter_map(|_| room.share(&far(1))).collect();
        assert_eq!(many.len(), bounds::MAX_PENDING);
        // Small things that take much.
        let values = json!(vec![Value::Null; 4 << 20]);
        assert!(Room::default().share(&call("", values)).is_none());
        let body = Bytes::from(vec![b' '; 16 << 20]);
        let taken: Vec<_> = (0..5).filter_map(|_| room.untaken(&body)).collect();
        assert_eq!(taken.len(), 4);
    }
}
