//! Tokens: what agents and programs present as a bearer, `pcl_<id>_<secret>`.

use portcullis_proto::ScopeSet;
use rusqlite::{Row, Transaction, params};

use super::secret::{self, Digest, Revealed};
use super::{stored_scopes, time, users};
use crate::db::Lasting;
use crate::error::{StoreError, Trouble};
use crate::store::{Store, ms};

/// What a token begins with, so that people and scanners of leaks know one.
pub(super) const PREFIX: &[u8] = b"pcl_";
/// How many tokens there may be: all of them are in memory where requests come in.
const MAX_TOKENS: i64 = 10_000;
/// How many of them may be one user's.
const MAX_OF_USER: i64 = 1_000;
/// The longest label, in bytes.
const MAX_LABEL: usize = 128;
/// How long an expired token is still listed.
const KEEP_EXPIRED_MS: u64 = 30 * 24 * 60 * 60 * 1000;

/// A token that was made now.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// Which: stands in the audit, and revokes it.
    pub id: String,
    /// The whole token, shown once.
    pub secret: Revealed,
}

/// A token, without what would prove it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Which.
    pub id: String,
    /// Whose.
    pub user: String,
    /// The extension it stands for, where it is one's.
    pub extension: Option<String>,
    /// What its owner calls it.
    pub label: String,
    /// What it was made for. What it may be used for is no more than its user's
    /// scopes at that moment.
    pub scopes: ScopeSet,
    /// Since when, in milliseconds since 1970.
    pub created_at: u64,
    /// From when on it is refused.
    pub expires_at: Option<u64>,
}

impl Token {
    /// Whether it is refused because its time is over.
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_at.is_some_and(|end| end <= now_ms)
    }
}

impl Store {
    /// Makes a token of `user`. It may not be for more than the user is: a
    /// scope the user is given later must not grow into tokens made before.
    pub fn create_token(
        &self,
        user: &str,
        label: &str,
        scopes: ScopeSet,
        expires_at: Option<u64>,
        now_ms: u64,
    ) -> Result<NewToken, StoreError> {
        if label.len() > MAX_LABEL || label.chars().any(char::is_control) {
            return Err(StoreError::invalid(
                "A token's name has at most 128 bytes and no control characters.",
            ));
        }
        if scopes == ScopeSet::NONE {
            return Err(StoreError::invalid("A token needs a scope."));
        }
        if expires_at.is_some_and(|end| end <= now_ms) {
            return Err(StoreError::invalid("The token would have expired already."));
        }
        self.write(Lasting::Disk, |tx| {
            let uid = users::require(tx, user)?;
            let held: String =
                tx.query_row("SELECT scopes FROM users WHERE uid = ?1", [uid], |row| {
                    row.get(0)
                })?;
            let held = stored_scopes(&held)?;
            let missing: Vec<&str> = scopes
                .iter()
                .filter(|scope| !held.has(*scope))
                .map(portcullis_proto::Scope::as_str)
                .collect();
            if !missing.is_empty() {
                return Err(StoreError::new(
                    Trouble::Refused,
                    format!("{user} does not have {}.", missing.join(", ")),
                )
                .hint("`portcullis user list` shows what each user has; `portcullis user scope` changes it."));
            }
            let made = New {
                uid,
                extension: None,
                label,
                scopes,
                expires_at,
            };
            made.insert(tx, now_ms)
        })
    }

    /// Every token of `user`, or of everybody, oldest first; extensions' too.
    pub fn tokens(&self, user: Option<&str>) -> Result<Vec<Token>, StoreError> {
        self.read(|conn| {
            let mut statement = conn.prepare_cached(
                "SELECT id, name, extension, label, tokens.scopes, tokens.created_at, expires_at
                 FROM tokens JOIN users USING (uid) WHERE ?1 IS NULL OR name = ?1
                 ORDER BY tokens.created_at, id",
            )?;
            let mut rows = statement.query([user])?;
            let mut tokens = Vec::new();
            while let Some(row) = rows.next()? {
                tokens.push(stored(row)?);
            }
            Ok(tokens)
        })
    }

    /// Revokes a token, `of` that user or of anybody; whether there was one.
    pub fn revoke_token(&self, id: &str, of: Option<&str>) -> Result<bool, StoreError> {
        self.write(Lasting::Disk, |tx| {
            let gone = tx.execute(
                "DELETE FROM tokens WHERE id = ?1
                 AND (?2 IS NULL OR uid = (SELECT uid FROM users WHERE name = ?2))",
                params![id, of],
            )?;
            Ok(gone > 0)
        })
    }
}

/// A token about to be made.
pub(super) struct New<'a> {
    pub(super) uid: i64,
    pub(super) extension: Option<&'a str>,
    pub(super) label: &'a str,
    pub(super) scopes: ScopeSet,
    pub(super) expires_at: Option<u64>,
}

impl New<'_> {
    /// Makes it, if there is room.
    pub(super) fn insert(self, tx: &Transaction<'_>, now_ms: u64) -> Result<NewToken, StoreError> {
        tx.execute(
            "DELETE FROM tokens WHERE expires_at <= ?1",
            [ms(now_ms.saturating_sub(KEEP_EXPIRED_MS))],
        )?;
        let (all, own): (i64, i64) = tx.query_row(
            "SELECT count(*), ifnull(sum(uid = ?1), 0) FROM tokens",
            [self.uid],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let full = if all >= MAX_TOKENS {
            Some("There are 10,000 tokens, which is the most there may be.")
        } else if own >= MAX_OF_USER {
            Some("The user has 1,000 tokens, which is the most one may have.")
        } else {
            None
        };
        if let Some(message) = full {
            return Err(StoreError::new(Trouble::Full, message)
                .hint("Revoke some with `portcullis token revoke`."));
        }
        let id = secret::new_id()?;
        let (text, digest): (String, Digest) = secret::new_secret()?;
        tx.execute(
            "INSERT INTO tokens (id, uid, extension, label, scopes, digest, created_at, expires_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                id,
                self.uid,
                self.extension,
                self.label,
                self.scopes.to_string(),
                digest,
                ms(now_ms),
                self.expires_at.map(ms)
            ],
        )?;
        Ok(NewToken {
            secret: Revealed::new(format!("pcl_{id}_{text}")),
            id,
        })
    }
}

fn stored(row: &Row<'_>) -> Result<Token, StoreError> {
    Ok(Token {
        id: row.get(0)?,
        user: row.get(1)?,
        extension: row.get(2)?,
        label: row.get(3)?,
        scopes: stored_scopes(row.get_ref(4)?.as_str().map_err(StoreError::damaged)?)?,
        created_at: time(row.get(5)?),
        expires_at: row.get::<_, Option<i64>>(6)?.map(time),
    })
}
