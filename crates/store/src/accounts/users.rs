//! Users: people who answer, and on whose behalf tokens act.
//!
//! From the first user on there is always one who may administer.

use portcullis_proto::{Scope, ScopeSet};
use rusqlite::{OptionalExtension, Transaction, params};

use super::{is_name, stored_scopes, time};
use crate::db::Lasting;
use crate::error::{StoreError, Trouble};
use crate::store::{Store, ms};

/// How many users there may be: all of them are in memory where requests come in.
const MAX_USERS: i64 = 1_000;

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name, which nobody else has.
    pub name: String,
    /// What the user's credentials may be used for at most.
    pub scopes: ScopeSet,
    /// Since when, in milliseconds since 1970.
    pub created_at: u64,
}

/// Who an agent on a pipe acts for.
const RESERVED: &str = "me";

/// Whether `name` can be a user's: 1 to 64 of `a-z`, `0-9`, `.`, `_` and `-`,
/// the first one a letter or digit.
pub fn is_user_name(name: &str) -> bool {
    is_name(name, b"._-")
}

impl Store {
    /// Adds a user. The first one ever gets every scope, whatever `scopes` says.
    pub fn add_user(&self, name: &str, scopes: ScopeSet, now_ms: u64) -> Result<User, StoreError> {
        if !is_user_name(name) {
            return Err(StoreError::invalid(
                "A user's name has 1 to 64 characters of a-z, 0-9, `.`, `_` and `-`, and begins with a letter or a digit.",
            ));
        }
        if name == RESERVED {
            return Err(StoreError::invalid(
                "`me` is whoever works at this machine without a server; a user of that name would own what they did.",
            ));
        }
        self.write(Lasting::Disk, |tx| {
            let count: i64 = tx.query_row("SELECT count(*) FROM users", [], |row| row.get(0))?;
            if count >= MAX_USERS {
                return Err(StoreError::new(
                    Trouble::Full,
                    "There are 1,000 users, which is the most there may be.",
                )
                .hint("Remove some with `portcullis user remove`."));
            }
            let scopes = if count == 0 { ScopeSet::ALL } else { scopes };
            let new = tx.execute(
                "INSERT OR IGNORE INTO users (name, scopes, created_at) VALUES (?1, ?2, ?3)",
                params![name, scopes.to_string(), ms(now_ms)],
            )?;
            if new == 0 {
                return Err(StoreError::new(
                    Trouble::Taken,
                    format!("There is a user {name} already."),
                )
                .hint("portcullis user list"));
            }
            Ok(User {
                name: name.to_owned(),
                scopes,
                created_at: now_ms,
            })
        })
    }

    /// Every user, the first one first.
    pub fn users(&self) -> Result<Vec<User>, StoreError> {
        self.read(|conn| {
            let mut statement =
                conn.prepare_cached("SELECT name, scopes, created_at FROM users ORDER BY uid")?;
            let mut rows = statement.query([])?;
            let mut users = Vec::new();
            while let Some(row) = rows.next()? {
                users.push(User {
                    name: row.get(0)?,
                    scopes: stored_scopes(row.get_ref(1)?.as_str().map_err(StoreError::damaged)?)?,
                    created_at: time(row.get(2)?),
                });
            }
            Ok(users)
        })
    }

    /// Removes a user with all tokens, sign-ins and sign-in links; whether there
    /// was one. Their extensions are revoked, and nobody else gets the ids: the
    /// files of an extension are found by its id.
    pub fn remove_user(&self, name: &str) -> Result<bool, StoreError> {
        self.write(Lasting::Disk, |tx| {
            let Some(uid) = find(tx, name)? else {
                return Ok(false);
            };
            tx.execute(
                "UPDATE extensions SET state = 'revoked' WHERE uid = ?1",
                [uid],
            )?;
            tx.execute("DELETE FROM users WHERE uid = ?1", [uid])?;
            keep_an_admin(tx)?;
            Ok(true)
        })
    }

    /// Gives a user other scopes; whether there is one. What the user's tokens
    /// may be used for shrinks and grows with them.
    pub fn set_user_scopes(&self, name: &str, scopes: ScopeSet) -> Result<bool, StoreError> {
        self.write(Lasting::Disk, |tx| {
            let known = tx.execute(
                "UPDATE users SET scopes = ?2 WHERE name = ?1",
                params![name, scopes.to_string()],
            )?;
            if known > 0 {
                keep_an_admin(tx)?;
            }
            Ok(known > 0)
        })
    }
}

/// The number of the user called `name`.
pub(super) fn find(tx: &Transaction<'_>, name: &str) -> Result<Option<i64>, StoreError> {
    Ok(tx
        .prepare_cached("SELECT uid FROM users WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()?)
}

/// The number of the user called `name`, who has to be there.
pub(crate) fn require(tx: &Transaction<'_>, name: &str) -> Result<i64, StoreError> {
    find(tx, name)?.ok_or_else(|| {
        // What was typed is shown only if it can be a name.
        let message = if is_user_name(name) {
            format!("There is no user {name}.")
        } else {
            "There is no user of that name.".to_owned()
        };
        StoreError::new(Trouble::Missing, message)
            .hint("`portcullis user list` shows who there is; `portcullis user add` adds one.")
    })
}

/// Fails what would leave nobody to administer; the transaction goes with it.
fn keep_an_admin(tx: &Transaction<'_>) -> Result<(), StoreError> {
    let mut statement = tx.prepare_cached("SELECT scopes FROM users")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let scopes = stored_scopes(row.get_ref(0)?.as_str().map_err(StoreError::damaged)?)?;
        if scopes.has(Scope::Admin) {
            return Ok(());
        }
    }
    Err(StoreError::new(
        Trouble::Refused,
        "That is the last user who may administer. Nothing was changed.",
    )
    .hint("Make another one first: portcullis user add NAME --scope admin,fs:read,fs:write,approve,audit"))
}
