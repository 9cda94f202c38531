//! Sign-ins: a link that counts once becomes the cookie of a browser.

use rusqlite::{OptionalExtension, params};

use super::secret::{self, Revealed};
use super::users;
use crate::db::Lasting;
use crate::error::StoreError;
use crate::store::{Store, ms};

/// What the secret of a link begins with.
const PREFIX: &str = "pcs_";
/// How long a link can be used: no secret stands in a URL for longer.
const LINK_MS: u64 = 5 * 60 * 1000;
/// How long a sign-in holds.
const SIGN_IN_MS: u64 = 30 * 24 * 60 * 60 * 1000;
/// How many links of one user can wait; the oldest goes.
const MAX_LINKS: i64 = 8;
/// How many browsers one user can be signed in with; the oldest goes.
const MAX_SIGN_INS: i64 = 32;

/// A person who has signed in.
#[derive(Clone, Debug)]
pub struct SignedIn {
    /// Who.
    pub user: String,
    /// The value of the cookie, shown once.
    pub cookie: Revealed,
    /// From when on it is refused.
    pub expires_at: u64,
}

/// Where a browser uses `link`, on the server at `base`. Behind the #, so that
/// no server or proxy on the way is sent it.
pub fn sign_in_url(base: &str, link: &Revealed) -> String {
    format!("{}/sign-in#{}", base.trim_end_matches('/'), link.expose())
}

impl Store {
    /// Makes a sign-in link of `user`, which counts once and for 5 minutes.
    pub fn create_sign_in_link(&self, user: &str, now_ms: u64) -> Result<Revealed, StoreError> {
        let (text, digest) = secret::new_secret()?;
        self.write(Lasting::Disk, |tx| {
            let uid = users::require(tx, user)?;
            tx.execute(
                "DELETE FROM sign_in_links WHERE expires_at <= ?1",
                [ms(now_ms)],
            )?;
            tx.execute(
                "INSERT INTO sign_in_links (digest, uid, expires_at) VALUES (?1, ?2, ?3)",
                params![digest, uid, ms(now_ms.saturating_add(LINK_MS))],
            )?;
            tx.execute(
                "DELETE FROM sign_in_links WHERE uid = ?1 AND seq NOT IN
                 (SELECT seq FROM sign_in_links WHERE uid = ?1 ORDER BY seq DESC LIMIT ?2)",
                [uid, MAX_LINKS],
            )?;
            Ok(())
        })?;
        Ok(Revealed::new(format!("{PREFIX}{text}")))
    }

    /// Uses a link: a sign-in for exactly one caller, in whichever process, and
    /// none for everyone else and once its time is over.
    pub fn use_sign_in_link(
        &self,
        link: &str,
        now_ms: u64,
    ) -> Result<Option<SignedIn>, StoreError> {
        let Some(text) = link.strip_prefix(PREFIX) else {
            return Ok(None);
        };
        let used = secret::digest(text.as_bytes());
        // Whoever guesses takes no write lock from anybody.
        let known = self.read(|conn| {
            Ok(conn
                .prepare_cached("SELECT 1 FROM sign_in_links WHERE digest = ?1")?
                .exists([used])?)
        })?;
        if !known {
            return Ok(None);
        }
        let id = secret::new_id()?;
        let (text, digest) = secret::new_secret()?;
        let expires_at = now_ms.saturating_add(SIGN_IN_MS);
        // On the disk: a power cut must not make the link count again.
        let user = self.write(Lasting::Disk, |tx| {
            let link: Option<(i64, i64)> = tx
                .prepare_cached(
                    "DELETE FROM sign_in_links WHERE digest = ?1 RETURNING uid, expires_at",
                )?
                .query_row([used], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            let Some((uid, _)) = link.filter(|(_, end)| *end > ms(now_ms)) else {
                return Ok(None);
            };
            let user: Option<String> = tx
                .query_row("SELECT name FROM users WHERE uid = ?1", [uid], |row| {
                    row.get(0)
                })
                .optional()?;
            let Some(user) = user else {
                return Ok(None);
            };
            tx.execute("DELETE FROM sign_ins WHERE expires_at <= ?1", [ms(now_ms)])?;
            tx.execute(
                "INSERT INTO sign_ins (id, uid, digest, expires_at) VALUES (?1, ?2, ?3, ?4)",
                params![id, uid, digest, ms(expires_at)],
            )?;
            tx.execute(
                "DELETE FROM sign_ins WHERE uid = ?1 AND seq NOT IN
                 (SELECT seq FROM sign_ins WHERE uid = ?1 ORDER BY seq DESC LIMIT ?2)",
                [uid, MAX_SIGN_INS],
            )?;
            Ok(Some(user))
        })?;
        Ok(user.map(|user| SignedIn {
            user,
            cookie: Revealed::new(format!("{id}_{text}")),
            expires_at,
        }))
    }

    /// Ends the sign-in of a cookie; whether there was one. The whole cookie is
    /// needed: an id alone signs nobody out.
    pub fn sign_out(&self, cookie: &str) -> Result<bool, StoreError> {
        let Some((id, text)) = secret::parts(cookie.as_bytes()) else {
            return Ok(false);
        };
        let Ok(id) = std::str::from_utf8(id) else {
            return Ok(false);
        };
        let digest = secret::digest(text);
        self.write(Lasting::Disk, |tx| {
            let gone = tx.execute(
                "DELETE FROM sign_ins WHERE id = ?1 AND digest = ?2",
                params![id, digest],
            )?;
            Ok(gone > 0)
        })
    }
}
