//! Who may come in: users, their tokens, their sign-ins, their extensions.
//!
//! No secret is stored, only its SHA-256. A secret has 256 bits of chance, so
//! its digest cannot be guessed from a copy of the database and needs no salt.

mod book;
mod extensions;
mod secret;
mod sign_ins;
mod switches;
mod tokens;
mod users;

pub use book::{Credential, CredentialBook};
pub use extensions::{Extension, ExtensionState};
pub use secret::Revealed;
pub use sign_ins::{SignedIn, sign_in_url};
pub use switches::Switch;
pub use tokens::{NewToken, Token};
pub use users::{User, is_user_name};

pub(crate) use secret::{digest_of, new_id, random_text};
pub(crate) use users::require as user_number;

use portcullis_proto::ScopeSet;

use crate::error::StoreError;

/// The longest name of a user or an extension.
const MAX_NAME: usize = 64;

/// Whether `name` begins with a letter or digit, and all of it is letters,
/// digits and `also`. So it is never `.`, `..`, a path or an option.
fn is_name(name: &str, also: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= MAX_NAME
        && name.as_bytes().first().is_some_and(plain)
        && name
            .bytes()
            .all(|byte| plain(&byte) || also.contains(&byte))
}

/// Scopes as they were stored. One that nobody knows fails them all: what it
/// was to mean cannot be guessed.
fn stored_scopes(text: &str) -> Result<ScopeSet, StoreError> {
    ScopeSet::parse(text).map_err(StoreError::damaged)
}

/// A time or a number as SQLite held it.
pub(crate) fn time(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or_default()
}
