//! Extensions: registered with a manifest, approved by their owner.
//!
//! What is approved is what the owner saw: an approval names the permissions it
//! is for, and an extension that asks for more waits again.

use std::collections::BTreeSet;

use portcullis_files::sha256;
use portcullis_gate::ManifestPermission;
use portcullis_proto::{Access, RootId, Scope, ScopeSet};
use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::tokens::{New, NewToken};
use super::{is_name, time, users};
use crate::db::Lasting;
use crate::error::{StoreError, Trouble};
use crate::store::{Store, ms};

/// How many extensions there may be: all of them are in memory where requests come in.
const MAX_EXTENSIONS: i64 = 1_000;
/// How many of them may be one user's.
const MAX_OF_USER: i64 = 100;
/// How many permissions a manifest may ask for: every kind of root with
/// `readwrite`, and single accesses besides.
const MAX_PERMISSIONS: usize = 32;

/// Whether an extension may do anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExtensionState {
    /// It waits for its owner.
    Pending,
    /// It may do what its permissions say.
    Approved,
    /// It may do nothing until its owner approves it again.
    Revoked,
}

impl ExtensionState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Approved, Self::Revoked];

    /// The state as it is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Revoked => "revoked",
        }
    }
}

/// An extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    /// Which.
    pub id: String,
    /// Whose; `None` once that user is gone.
    pub owner: Option<String>,
    /// What its manifest asks for, each once, sorted.
    pub permissions: Vec<String>,
    /// Whether it may do anything.
    pub state: ExtensionState,
    /// When it was first registered, in milliseconds since 1970.
    pub created_at: u64,
}

impl Store {
    /// Registers an extension, or its next version. It waits for its owner; an
    /// approved one goes on as it is unless it asks for more than it has, and a
    /// revoked one stays revoked.
    pub fn register_extension(
        &self,
        id: &str,
        owner: &str,
        permissions: &[String],
        now_ms: u64,
    ) -> Result<Extension, StoreError> {
        if !is_name(id, b".-") {
            return Err(StoreError::invalid(
                "An extension's id has 1 to 64 characters of a-z, 0-9, `.` and `-`, and begins with a letter or a digit.",
            ));
        }
        let permissions: BTreeSet<&str> = permissions.iter().map(String::as_str).collect();
        if permissions.len() > MAX_PERMISSIONS {
            return Err(StoreError::invalid(
                "A manifest asks for at most 32 permissions.",
            ));
        }
        let wanted = permissions
            .iter()
            .map(|text| ManifestPermission::parse(text))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|bad| StoreError::invalid(bad.to_string()))?;
        let written = permissions.iter().copied().collect::<Vec<_>>().join(" ");
        self.write(Lasting::Disk, |tx| {
            let uid = users::require(tx, owner)?;
            let Some(known) = find(tx, id)? else {
                make_sure_of_room(tx, uid)?;
                tx.execute(
                    "INSERT INTO extensions (id, uid, permissions, state, created_at)
                     VALUES (?1, ?2, ?3, 'pending', ?4)",
                    params![id, uid, written, ms(now_ms)],
                )?;
                return extension(tx, id);
            };
            if known.uid != Some(uid) {
                return Err(StoreError::new(
                    Trouble::Taken,
                    "Another extension has that id already.",
                )
                .hint("Choose another id."));
            }
            let state = match known.state {
                ExtensionState::Approved if covers(&parsed(&known.permissions)?, &wanted) => {
                    ExtensionState::Approved
                }
                ExtensionState::Approved | ExtensionState::Pending => ExtensionState::Pending,
                ExtensionState::Revoked => ExtensionState::Revoked,
            };
            if known.permissions != written || known.state != state {
                tx.execute(
                    "UPDATE extensions SET permissions = ?2, state = ?3 WHERE id = ?1",
                    params![id, written, state.as_str()],
                )?;
            }
            extension(tx, id)
        })
    }

    /// Approves an extension `by` its owner, for exactly the `permissions` the
    /// owner was shown. False where the owner has no such extension; refused
    /// where it asks for something else by now.
    pub fn approve_extension(
        &self,
        id: &str,
        by: &str,
        permissions: &[String],
    ) -> Result<bool, StoreError> {
        let seen: BTreeSet<&str> = permissions.iter().map(String::as_str).collect();
        self.write(Lasting::Disk, |tx| {
            let by = users::require(tx, by)?;
            let Some(known) = find(tx, id)?.filter(|known| known.uid == Some(by)) else {
                return Ok(false);
            };
            if !seen.iter().copied().eq(known.permissions.split_whitespace()) {
                return Err(StoreError::new(
                    Trouble::Refused,
                    "The extension asks for other permissions than those that were shown. Nothing was changed.",
                )
                .hint("`portcullis extension list` shows what it asks for now."));
            }
            if known.state != ExtensionState::Approved {
                tx.execute(
                    "UPDATE extensions SET state = 'approved' WHERE id = ?1",
                    [id],
                )?;
            }
            Ok(true)
        })
    }

    /// Revokes an extension, `of` that owner or of anybody, with all its tokens:
    /// approved again, it needs new ones. Whether there was one.
    pub fn revoke_extension(&self, id: &str, of: Option<&str>) -> Result<bool, StoreError> {
        self.write(Lasting::Disk, |tx| {
            let known = tx.execute(
                "UPDATE extensions SET state = 'revoked' WHERE id = ?1
                 AND (?2 IS NULL OR uid = (SELECT uid FROM users WHERE name = ?2))",
                params![id, of],
            )?;
            if known > 0 {
                tx.execute("DELETE FROM tokens WHERE extension = ?1", [id])?;
            }
            Ok(known > 0)
        })
    }

    /// Forgets an extension with its tokens, `of` that owner or of anybody, and
    /// tells the root of the files it leaves, to be removed; nothing where there
    /// was none. Its id can then be anybody's; its files never are.
    pub fn remove_extension(
        &self,
        id: &str,
        of: Option<&str>,
    ) -> Result<Option<RootId>, StoreError> {
        self.write(Lasting::Disk, |tx| {
            let registered: Option<i64> = tx
                .prepare_cached(
                    "DELETE FROM extensions WHERE id = ?1
                     AND (?2 IS NULL OR uid = (SELECT uid FROM users WHERE name = ?2))
                     RETURNING created_at",
                )?
                .query_row(params![id, of], |row| row.get(0))
                .optional()?;
            registered.map(|at| storage(id, at)).transpose()
        })
    }

    /// Every extension of `owner`, or of everybody, by id.
    pub fn extensions(&self, owner: Option<&str>) -> Result<Vec<Extension>, StoreError> {
        self.read(|conn| {
            let mut statement = conn.prepare_cached(
                "SELECT id, name, permissions, state, extensions.created_at
                 FROM extensions LEFT JOIN users USING (uid)
                 WHERE ?1 IS NULL OR name = ?1 ORDER BY id",
            )?;
            let mut rows = statement.query([owner])?;
            let mut extensions = Vec::new();
            while let Some(row) = rows.next()? {
                extensions.push(stored(row)?);
            }
            Ok(extensions)
        })
    }

    /// Makes the token of an approved extension, `by` its owner. It holds until
    /// the extension is revoked or the next one is made; the one before holds
    /// no more.
    pub fn create_extension_token(
        &self,
        id: &str,
        by: &str,
        now_ms: u64,
    ) -> Result<NewToken, StoreError> {
        self.write(Lasting::Disk, |tx| {
            let uid = users::require(tx, by)?;
            let known = find(tx, id)?.filter(|known| known.uid == Some(uid));
            let Some(known) = known else {
                return Err(missing());
            };
            if known.state != ExtensionState::Approved {
                return Err(StoreError::new(
                    Trouble::Refused,
                    format!("The extension is {}.", known.state.as_str()),
                )
                .hint("Its owner approves it with `portcullis extension approve`."));
            }
            tx.execute("DELETE FROM tokens WHERE extension = ?1", [id])?;
            let made = New {
                uid,
                extension: Some(id),
                label: id,
                scopes: scopes(&parsed(&known.permissions)?),
                expires_at: None,
            };
            made.insert(tx, now_ms)
        })
    }
}

/// The root of an extension's own files. One of the same id that is registered
/// after this one was removed has another: nothing is inherited.
pub(super) fn storage(id: &str, created_at: i64) -> Result<RootId, StoreError> {
    let digest = sha256(format!("{id}\0{created_at}").as_bytes()).hex();
    let name: String = "storage-".chars().chain(digest.chars().take(32)).collect();
    RootId::parse(&name).ok_or_else(|| StoreError::damaged("a storage has no name"))
}

/// Permissions as they were stored.
pub(super) fn parsed(written: &str) -> Result<Vec<ManifestPermission>, StoreError> {
    written
        .split_whitespace()
        .map(|text| ManifestPermission::parse(text).map_err(StoreError::damaged))
        .collect()
}

/// The scopes that let an extension come as far as its permissions.
pub(super) fn scopes(permissions: &[ManifestPermission]) -> ScopeSet {
    let asks = |looking: bool| {
        permissions.iter().any(|one| {
            one.access
                .iter()
                .any(|access| is_looking(access) == looking)
        })
    };
    let mut list = Vec::with_capacity(2);
    if asks(true) {
        list.push(Scope::FsRead);
    }
    if asks(false) {
        list.push(Scope::FsWrite);
    }
    ScopeSet::of(&list)
}

/// Whether `fs:read` is enough for it, as `ScopeSet::access` has it.
fn is_looking(access: Access) -> bool {
    ScopeSet::of(&[Scope::FsRead]).access().has(access)
}

/// Whether everything in `wanted` is in `held`, kind by kind.
fn covers(held: &[ManifestPermission], wanted: &[ManifestPermission]) -> bool {
    wanted.iter().all(|one| {
        one.access.iter().all(|access| {
            held.iter()
                .any(|held| held.kind == one.kind && held.access.has(access))
        })
    })
}

struct Known {
    uid: Option<i64>,
    permissions: String,
    state: ExtensionState,
}

fn find(tx: &Transaction<'_>, id: &str) -> Result<Option<Known>, StoreError> {
    let row: Option<(Option<i64>, String, String)> = tx
        .prepare_cached("SELECT uid, permissions, state FROM extensions WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    row.map(|(uid, permissions, state)| {
        Ok(Known {
            uid,
            permissions,
            state: state_of(&state)?,
        })
    })
    .transpose()
}

fn extension(tx: &Transaction<'_>, id: &str) -> Result<Extension, StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT id, name, permissions, state, extensions.created_at
         FROM extensions LEFT JOIN users USING (uid) WHERE id = ?1",
    )?;
    let mut rows = statement.query([id])?;
    match rows.next()? {
        Some(row) => stored(row),
        None => Err(missing()),
    }
}

fn stored(row: &Row<'_>) -> Result<Extension, StoreError> {
    let permissions: String = row.get(2)?;
    let state: String = row.get(3)?;
    Ok(Extension {
        id: row.get(0)?,
        owner: row.get(1)?,
        permissions: permissions.split_whitespace().map(str::to_owned).collect(),
        state: state_of(&state)?,
        created_at: time(row.get(4)?),
    })
}

fn state_of(word: &str) -> Result<ExtensionState, StoreError> {
    ExtensionState::ALL
        .into_iter()
        .find(|state| state.as_str() == word)
        .ok_or_else(|| StoreError::damaged("an extension has an unknown state"))
}

fn missing() -> StoreError {
    StoreError::new(Trouble::Missing, "There is no such extension.")
        .hint("portcullis extension list")
}

fn make_sure_of_room(tx: &Transaction<'_>, uid: i64) -> Result<(), StoreError> {
    let (all, own): (i64, i64) = tx.query_row(
        "SELECT count(*), ifnull(sum(uid = ?1), 0) FROM extensions",
        [uid],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let message = if all >= MAX_EXTENSIONS {
        "There are 1,000 extensions, which is the most there may be."
    } else if own >= MAX_OF_USER {
        "The user has 100 extensions, which is the most one may have."
    } else {
        return Ok(());
    };
    Err(StoreError::new(Trouble::Full, message)
        .hint("Remove some with `portcullis extension remove`."))
}
