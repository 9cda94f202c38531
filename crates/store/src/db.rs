//! The database file: made whole or not at all, checked before it is used.
//!
//! SQLite opens by path, so what stands at the path is looked at first. Nobody
//! but us can swap it in between: the directory is ours and 0700.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "SQLite takes no handle; this file names our own database, in a directory hands/files vouches for"
)]

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};

use crate::error::{StoreError, Trouble};
use crate::schema;

/// The database, in the data directory.
const NAME: &str = "state.db";
/// How often a write that waits for another process's tries again. SQLite's own
/// waiting backs off to 100 ms, and starves beside a process that writes on end.
const TRY_EVERY: Duration = Duration::from_millis(1);
/// How often it tries: about five seconds. A write takes milliseconds; past
/// this something is stuck, and the caller is told.
const TRIES: i32 = 5_000;
/// The write-ahead log is cut back to this after a checkpoint.
const MAX_LOG: i64 = 4 << 20;

/// Whether a write must survive a power cut, or a crash of this process only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lasting {
    /// On the disk before the call returns.
    Disk,
    /// In the operating system's hands before the call returns.
    System,
}

/// One connection, and which very file it is to.
#[derive(Debug)]
pub(crate) struct Db {
    pub(crate) conn: Connection,
    file: (u64, u64),
    lasting: Lasting,
}

impl Db {
    /// Opens the database in `dir`, if there is one.
    pub(crate) fn open(dir: &Path) -> Result<Option<Self>, StoreError> {
        let path = dir.join(NAME);
        let Some(file) = look(dir, &path)? else {
            return Ok(None);
        };
        let mut conn = connect(&path)?;
        schema::check(&mut conn)?;
        Ok(Some(Self {
            conn,
            file,
            lasting: Lasting::Disk,
        }))
    }

    /// Opens the database in `dir`, making it first where there is none.
    pub(crate) fn open_or_create(dir: &Path) -> Result<Self, StoreError> {
        if let Some(db) = Self::open(dir)? {
            return Ok(db);
        }
        create(dir)?;
        Self::open(dir)?.ok_or_else(|| StoreError::io("state.db vanished right after it was made"))
    }

    /// Whether the file this is connected to still stands in `dir`.
    pub(crate) fn is_current(&self, dir: &Path) -> bool {
        fs::symlink_metadata(dir.join(NAME)).is_ok_and(|meta| (meta.dev(), meta.ino()) == self.file)
    }

    /// Makes the next commits last as long as `lasting` says.
    pub(crate) fn make_last(&mut self, lasting: Lasting) -> Result<(), StoreError> {
        if self.lasting != lasting {
            let level = match lasting {
                Lasting::Disk => "FULL",
                Lasting::System => "NORMAL",
            };
            self.conn.pragma_update(None, "synchronous", level)?;
            self.lasting = lasting;
        }
        Ok(())
    }
}

/// What stands at `path`; `None` where nothing does.
///
/// It is never opened here: closing a second handle to a database drops the
/// locks this process holds on it.
fn look(dir: &Path, path: &Path) -> Result<Option<(u64, u64)>, StoreError> {
    // Asked first: a log comes after its database, so one seen now without a
    // database then has lost it. SQLite would play it into the next one.
    let log = fs::symlink_metadata(path.with_extension("db-wal")).is_ok();
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound && log => {
            return Err(StoreError::damaged("state.db is missing, its log is there"));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io(error)),
    };
    let owner = fs::symlink_metadata(dir).map_err(StoreError::io)?.uid();
    let fault = if !meta.file_type().is_file() {
        Some("it is not a regular file")
    } else if meta.uid() != owner {
        Some("it belongs to somebody else")
    } else if meta.mode() & 0o077 != 0 {
        Some("others may read or write it")
    } else {
        None
    };
    if let Some(fault) = fault {
        return Err(StoreError::new(
            Trouble::Unsafe,
            format!("`state.db` in the data directory cannot be used: {fault}."),
        )
        .hint(
            "Make it a file of your own with mode 0600 (`chmod 600 state.db`), or move it away.",
        ));
    }
    // Ours is never empty, not even while it is made: an empty one lost its
    // content, and with it somebody's denials.
    if meta.len() == 0 {
        return Err(StoreError::damaged("state.db is empty"));
    }
    Ok(Some((meta.dev(), meta.ino())))
}

/// Makes the database under another name and publishes it whole, so that no
/// process ever sees half of one. Whoever comes second uses the first's.
fn create(dir: &Path) -> Result<(), StoreError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!(
        "{NAME}.new-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    );
    let draft = Draft(dir.join(name));
    draft.remove();
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft.0)
        .map_err(StoreError::io)?;
    let mut conn = connect(&draft.0)?;
    schema::create(&mut conn)?;
    // Closing the only connection folds the log into the file.
    conn.close().map_err(|(_, error)| error)?;
    match fs::hard_link(&draft.0, dir.join(NAME)) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(StoreError::io(error)),
    }
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(StoreError::io)
}

/// A database not yet published; gone when dropped.
struct Draft(PathBuf);

impl Draft {
    fn remove(&self) {
        for suffix in ["", "-wal", "-shm", "-journal"] {
            let mut path = self.0.clone().into_os_string();
            path.push(suffix);
            // Usually there is nothing; what cannot be removed does no harm.
            fs::remove_file(path).ok();
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        self.remove();
    }
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    // One connection is used by one thread at a time, under our own lock. The
    // name is a path and never a URI.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = Connection::open_with_flags(path, flags)?;
    conn.busy_handler(Some(|tried| {
        std::thread::sleep(TRY_EVERY);
        tried < TRIES
    }))?;
    // A database is data: what stands in its schema may not reach out of it,
    // nor SQL of ours damage it.
    conn.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    conn.pragma_update(None, "foreign_keys", true)?;
    conn.pragma_update(None, "cell_size_check", true)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "journal_size_limit", MAX_LOG)?;
    Ok(conn)
}
