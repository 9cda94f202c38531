//! The store: two connections, opened when first needed.
//!
//! One reads and one writes. In write-ahead mode a reader never waits for a
//! writer, so a read stays short enough (some 10 µs) to run where it is needed,
//! while a write that waits for the disk or for another process holds up
//! nobody but other writes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use portcullis_proto::RootId;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use crate::db::{Db, Lasting};
use crate::error::StoreError;
use crate::waiting::Room;

/// Our own state. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    dir: PathBuf,
    reader: Mutex<Option<Db>>,
    writer: Mutex<Option<Db>>,
    room: Room,
    places: OnceLock<Places>,
}

/// The directory of each root, by the root's name.
pub(crate) type Places = BTreeMap<String, String>;

impl Store {
    /// The store in `dir`, a directory hands/files vouches for: ours, 0700, not
    /// a link. Nothing is opened yet.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            inner: Arc::new(Inner {
                dir: dir.into(),
                reader: Mutex::default(),
                writer: Mutex::default(),
                room: Room::default(),
                places: OnceLock::new(),
            }),
        }
    }

    /// Says, once, in which directory each root of this process begins: answers
    /// given for good are kept for that directory, and not for every root that
    /// is called so. A root that is not named here is meant wherever it is.
    pub fn stands_at<'a>(&self, roots: impl IntoIterator<Item = (&'a RootId, String)>) {
        let places = roots.into_iter();
        let places = places.map(|(root, place)| (root.as_str().to_owned(), place));
        self.inner.places.get_or_init(|| places.collect());
    }

    pub(crate) fn places(&self) -> Option<&Places> {
        self.inner.places.get()
    }

    /// The directory the database stands in.
    pub fn dir(&self) -> &Path {
        &self.inner.dir
    }

    /// A number that differs from the last one whenever a rule, trust, a user,
    /// a token, a sign-in or an extension was added, changed or removed by
    /// whichever process; 0 while nothing was ever stored. Compare for equality alone. Polled every 100 ms or faster, it
    /// makes a revocation seen within 100 ms.
    pub fn version(&self) -> Result<u64, StoreError> {
        self.read(|conn| {
            let value: i64 = conn
                .prepare_cached("SELECT value FROM counters WHERE name = 'version'")?
                .query_row([], |row| row.get(0))?;
            Ok(value.unsigned_abs())
        })
    }

    /// Reads the whole database and reports the first damage found. Slow on a
    /// large one: for `portcullis doctor`.
    pub fn check(&self) -> Result<(), StoreError> {
        self.read(|conn| {
            let said: Option<String> = conn
                .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
                .optional()?;
            match said.as_deref() {
                None | Some("ok") => Ok(()),
                Some(damage) => Err(StoreError::damaged(damage)),
            }
        })
    }

    pub(crate) fn room(&self) -> &Room {
        &self.inner.room
    }

    /// Runs `act` on the reading connection; where there is no database yet,
    /// nothing is made and the answer is empty.
    pub(crate) fn read<T: Default>(
        &self,
        act: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut slot = self.current(&self.inner.reader);
        if slot.is_none() {
            let opened = Db::open(&self.inner.dir)?;
            if let Some(db) = &opened {
                db.conn.pragma_update(None, "query_only", true)?;
            }
            *slot = opened;
        }
        match &*slot {
            Some(db) => act(&db.conn),
            None => Ok(T::default()),
        }
    }

    /// Runs `act` in one transaction that has the write lock from its start.
    /// What it returns as an error leaves no trace.
    pub(crate) fn write<T>(
        &self,
        lasting: Lasting,
        act: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut slot = self.current(&self.inner.writer);
        let db = match &mut *slot {
            Some(db) => db,
            empty @ None => empty.insert(Db::open_or_create(&self.inner.dir)?),
        };
        db.make_last(lasting)?;
        let tx = db
            .conn
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let value = act(&tx)?;
        tx.commit()?;
        Ok(value)
    }

    /// The connection, unless somebody moved the file away or put another in
    /// its place: then what is connected to is no longer our state.
    fn current<'a>(&self, slot: &'a Mutex<Option<Db>>) -> MutexGuard<'a, Option<Db>> {
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if slot
            .as_ref()
            .is_some_and(|db| !db.is_current(&self.inner.dir))
        {
            *slot = None;
        }
        slot
    }
}

/// A time as SQLite holds it. The far future is the far future.
pub(crate) fn ms(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}
