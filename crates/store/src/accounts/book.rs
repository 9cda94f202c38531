//! The book at the door: every credential, in memory, as it was at one moment.
//!
//! Looking one up waits for nothing and reads no disk. An id that nobody has is
//! hashed and compared like one that somebody has, so that time tells no ids.
//! A book never changes: whoever holds one loads the next when
//! [`Store::version`](crate::Store::version) says so.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use portcullis_gate::{ApprovedBook, ApprovedExtension, ManifestPermission};
use portcullis_proto::{Principal, ScopeSet};
use rusqlite::Connection;
use subtle::ConstantTimeEq as _;

use super::secret::{self, Digest, Id};
use super::switches::{self, Switch};
use super::{extensions, stored_scopes, time, tokens};
use crate::error::StoreError;
use crate::store::Store;

/// Compared with where there is no such id. No text is known that has it.
const NOBODY: Digest = [0; 32];

/// Who a credential stands for. Proves that it was presented whole and held at
/// that moment; does not prove that anything may be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Who acts.
    pub principal: Principal,
    /// The person it is, or is on behalf of.
    pub user: Arc<str>,
    /// What it may be used for: its own scopes, as far as its user has them.
    pub scopes: ScopeSet,
    /// From when on it is refused.
    pub expires_at: Option<u64>,
}

impl Credential {
    fn holds(&self, now_ms: u64) -> bool {
        self.expires_at.is_none_or(|end| end > now_ms)
    }
}

/// Every credential, as it was at one moment.
#[derive(Default)]
pub struct CredentialBook {
    version: u64,
    users: HashMap<Arc<str>, ScopeSet>,
    bearers: HashMap<Id, Entry>,
    cookies: HashMap<Id, Entry>,
    extensions: HashMap<Arc<str>, Approved>,
    /// The same extensions, as they are lodged.
    approved: Arc<ApprovedBook>,
    /// Users whose files are off.
    files_off: HashSet<Arc<str>>,
}

struct Entry {
    digest: Digest,
    credential: Credential,
}

/// An extension its owner approved.
struct Approved {
    uid: i64,
    scopes: ScopeSet,
    terms: Arc<ApprovedExtension>,
}

impl fmt::Debug for CredentialBook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialBook")
            .field("version", &self.version)
            .field("users", &self.users.len())
            .field("bearers", &self.bearers.len())
            .field("cookies", &self.cookies.len())
            .field("extensions", &self.extensions.len())
            .field("files_off", &self.files_off.len())
            .field("approved", &self.approved.len())
            .finish()
    }
}

impl CredentialBook {
    /// Whose the bearer `pcl_<id>_<secret>` is, if anybody's, now.
    pub fn bearer(&self, presented: &str, now_ms: u64) -> Option<Credential> {
        let whole = presented.as_bytes().strip_prefix(tokens::PREFIX)?;
        look_up(&self.bearers, whole, now_ms)
    }

    /// Whose the cookie `<id>_<secret>` is, if anybody's, now.
    pub fn cookie(&self, presented: &str, now_ms: u64) -> Option<Credential> {
        look_up(&self.cookies, presented.as_bytes(), now_ms)
    }

    /// What `principal` may still ask for; `None` once it is revoked, expired or
    /// removed, and with it whatever was granted to it.
    pub fn scopes_of(&self, principal: &Principal, now_ms: u64) -> Option<ScopeSet> {
        match principal {
            Principal::User { id } => self.users.get(id).copied(),
            Principal::Token { id, .. } => {
                let id = id.as_bytes().first_chunk::<{ size_of::<Id>() }>()?;
                let credential = &self.bearers.get(id)?.credential;
                (credential.principal == *principal && credential.holds(now_ms))
                    .then_some(credential.scopes)
            }
            Principal::Extension { id } => Some(self.extensions.get(id)?.scopes),
            Principal::Core { .. } | Principal::Automation { .. } => None,
        }
    }

    /// The user of that name, if there is one, and what they have now.
    pub fn user(&self, name: &str) -> Option<(&Arc<str>, ScopeSet)> {
        let (name, scopes) = self.users.get_key_value(name)?;
        Some((name, *scopes))
    }

    /// Whether `user`'s files are switched on. While they are not, no
    /// credential of theirs has a scope for files.
    pub fn files(&self, user: &str) -> Switch {
        if self.files_off.contains(user) {
            Switch::Off
        } else {
            Switch::On
        }
    }

    /// What an approved extension may be granted, by kind of root; `None` where
    /// there is none.
    pub fn permissions(&self, extension: &str) -> Option<&[ManifestPermission]> {
        Some(&self.extensions.get(extension)?.terms.permissions)
    }

    /// Every approved extension.
    pub const fn approved(&self) -> &Arc<ApprovedBook> {
        &self.approved
    }

    /// Which [`Store::version`](crate::Store::version) it is of.
    pub const fn version(&self) -> u64 {
        self.version
    }
}

fn look_up(entries: &HashMap<Id, Entry>, presented: &[u8], now_ms: u64) -> Option<Credential> {
    let (id, secret) = secret::parts(presented)?;
    let digest = secret::digest(secret);
    let entry = entries.get(id);
    let kept = entry.map_or(&NOBODY, |entry| &entry.digest);
    let proved = bool::from(digest.ct_eq(kept));
    entry
        .filter(|entry| proved && entry.credential.holds(now_ms))
        .map(|entry| entry.credential.clone())
}

impl Store {
    /// Every credential there is. One row that cannot be understood fails them
    /// all.
    pub fn credentials(&self) -> Result<CredentialBook, StoreError> {
        self.read(|conn| {
            // One moment: a user removed between two queries is no user in either.
            let moment = conn.unchecked_transaction()?;
            load(&moment)
        })
    }
}

/// A user while the book is loaded.
struct Owner {
    name: Arc<str>,
    /// Without those for files while they are off.
    scopes: ScopeSet,
    files: Switch,
}

fn load(conn: &Connection) -> Result<CredentialBook, StoreError> {
    let version: i64 = conn
        .prepare_cached("SELECT value FROM counters WHERE name = 'version'")?
        .query_row([], |row| row.get(0))?;
    let owners = owners(conn)?;
    let extensions = approved(conn, &owners)?;
    let approved = extensions
        .iter()
        .map(|(id, one)| (Arc::clone(id), Arc::clone(&one.terms)))
        .collect();
    let files_off = owners.values().filter(|owner| owner.files == Switch::Off);
    Ok(CredentialBook {
        version: version.unsigned_abs(),
        files_off: files_off.map(|owner| Arc::clone(&owner.name)).collect(),
        bearers: bearers(conn, &owners, &extensions)?,
        cookies: cookies(conn, &owners)?,
        users: owners
            .into_values()
            .map(|owner| (owner.name, owner.scopes))
            .collect(),
        extensions,
        approved: Arc::new(approved),
    })
}

fn owners(conn: &Connection) -> Result<HashMap<i64, Owner>, StoreError> {
    let off = switches::off(conn)?;
    let mut statement = conn.prepare_cached("SELECT uid, name, scopes FROM users")?;
    let mut rows = statement.query([])?;
    let mut owners = HashMap::new();
    while let Some(row) = rows.next()? {
        let uid = row.get(0)?;
        let scopes = stored_scopes(row.get_ref(2)?.as_str().map_err(StoreError::damaged)?)?;
        let (scopes, files) = if off.contains(&uid) {
            (switches::without_files(scopes), Switch::Off)
        } else {
            (scopes, Switch::On)
        };
        let name = row.get::<_, String>(1)?.into();
        let owner = Owner {
            name,
            scopes,
            files,
        };
        owners.insert(uid, owner);
    }
    Ok(owners)
}

fn approved(
    conn: &Connection,
    owners: &HashMap<i64, Owner>,
) -> Result<HashMap<Arc<str>, Approved>, StoreError> {
    let mut statement = conn.prepare_cached(
        "SELECT id, uid, permissions, created_at FROM extensions
         WHERE state = 'approved' AND uid IS NOT NULL",
    )?;
    let mut rows = statement.query([])?;
    let mut approved = HashMap::new();
    while let Some(row) = rows.next()? {
        let uid = row.get(1)?;
        // One whose user somebody removed by hand is nobody's.
        let Some(owner) = owners.get(&uid) else {
            continue;
        };
        let written: String = row.get(2)?;
        let permissions = extensions::parsed(&written)?;
        let scopes = extensions::scopes(&permissions).and(owner.scopes);
        let id: Arc<str> = row.get::<_, String>(0)?.into();
        let terms = ApprovedExtension {
            storage: extensions::storage(&id, row.get(3)?)?,
            id: Arc::clone(&id),
            user: Arc::clone(&owner.name),
            permissions: permissions.into_boxed_slice(),
            most: scopes.access(),
        };
        let one = Approved {
            uid,
            scopes,
            terms: Arc::new(terms),
        };
        approved.insert(id, one);
    }
    Ok(approved)
}

fn bearers(
    conn: &Connection,
    owners: &HashMap<i64, Owner>,
    extensions: &HashMap<Arc<str>, Approved>,
) -> Result<HashMap<Id, Entry>, StoreError> {
    let mut statement =
        conn.prepare_cached("SELECT id, digest, uid, extension, scopes, expires_at FROM tokens")?;
    let mut rows = statement.query([])?;
    let mut bearers = HashMap::new();
    while let Some(row) = rows.next()? {
        let uid: i64 = row.get(2)?;
        let Some(owner) = owners.get(&uid) else {
            continue;
        };
        let text: String = row.get(0)?;
        let id = id(&text)?;
        let scopes = stored_scopes(row.get_ref(4)?.as_str().map_err(StoreError::damaged)?)?;
        let (principal, scopes) = match row.get::<_, Option<String>>(3)? {
            None => {
                let user = Arc::clone(&owner.name);
                let id = text.into();
                (Principal::Token { user, id }, scopes.and(owner.scopes))
            }
            Some(extension) => {
                // Only an approved one is anybody, and only for its owner.
                let known = extensions.get_key_value(extension.as_str());
                let Some((name, one)) = known.filter(|(_, one)| one.uid == uid) else {
                    continue;
                };
                // What it may do follows its permissions, not those it had
                // when the token was made.
                let id = Arc::clone(name);
                (Principal::Extension { id }, one.scopes)
            }
        };
        let entry = Entry {
            digest: row.get(1)?,
            credential: Credential {
                principal,
                user: Arc::clone(&owner.name),
                scopes,
                expires_at: row.get::<_, Option<i64>>(5)?.map(time),
            },
        };
        bearers.insert(id, entry);
    }
    Ok(bearers)
}

fn cookies(
    conn: &Connection,
    owners: &HashMap<i64, Owner>,
) -> Result<HashMap<Id, Entry>, StoreError> {
    let mut statement = conn.prepare_cached("SELECT id, digest, uid, expires_at FROM sign_ins")?;
    let mut rows = statement.query([])?;
    let mut cookies = HashMap::new();
    while let Some(row) = rows.next()? {
        let Some(owner) = owners.get(&row.get(2)?) else {
            continue;
        };
        let text: String = row.get(0)?;
        let entry = Entry {
            digest: row.get(1)?,
            credential: Credential {
                principal: Principal::User {
                    id: Arc::clone(&owner.name),
                },
                user: Arc::clone(&owner.name),
                scopes: owner.scopes,
                expires_at: Some(time(row.get(3)?)),
            },
        };
        cookies.insert(id(&text)?, entry);
    }
    Ok(cookies)
}

fn id(text: &str) -> Result<Id, StoreError> {
    text.as_bytes()
        .try_into()
        .map_err(|_| StoreError::damaged("a credential has an id of another length"))
}
