//! Secrets of credentials: made by chance, shown once, kept as a digest.
//!
//! A credential is `<id>_<secret>`: the id finds it, the secret proves it. Both
//! have one length and one spelling, so what is presented is cut at fixed
//! places and nothing of it is decoded.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use crate::error::StoreError;

/// Characters of an id: 50 bits, so ten thousand of them do not meet.
const ID: usize = 10;
/// Bytes of chance in a secret.
const CHANCE: usize = 32;
/// The characters those bytes are written in.
const TEXT: usize = 43;
/// Bytes of chance in a key that is written in thirty-two characters.
const KEY: usize = 24;
/// Thirty-two letters, so a byte picks one without a bias.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The id of a credential, as it is looked up.
pub(super) type Id = [u8; ID];
/// What is stored of a secret.
pub(super) type Digest = [u8; 32];

/// A secret at the one moment it can be shown: only its digest was stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Revealed(Box<str>);

impl Revealed {
    pub(crate) fn new(text: String) -> Self {
        Self(text.into_boxed_str())
    }

    /// The text, for the one who is to have it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Revealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Revealed(…)")
    }
}

/// A new id.
pub(crate) fn new_id() -> Result<String, StoreError> {
    let chance: [u8; ID] = random()?;
    Ok(chance
        .iter()
        .map(|byte| char::from(LETTERS[usize::from(byte & 31)]))
        .collect())
}

/// A new secret: its text, and what is stored of it.
pub(super) fn new_secret() -> Result<(String, Digest), StoreError> {
    let chance: [u8; CHANCE] = random()?;
    let text = URL_SAFE_NO_PAD.encode(chance);
    let digest = digest(text.as_bytes());
    Ok((text, digest))
}

/// What is stored of a secret.
pub(super) fn digest(secret: &[u8]) -> Digest {
    Sha256::digest(secret).into()
}

/// Thirty-two characters of chance, for a key that has no id.
pub(crate) fn random_text() -> Result<String, StoreError> {
    Ok(URL_SAFE_NO_PAD.encode(random::<KEY>()?))
}

/// What is stored of a whole key.
pub(crate) fn digest_of(key: &str) -> [u8; 32] {
    digest(key.as_bytes())
}

/// The id and the secret of a presented `<id>_<secret>`.
pub(super) fn parts(presented: &[u8]) -> Option<(&Id, &[u8])> {
    let (id, rest) = presented.split_first_chunk::<ID>()?;
    let secret = rest.strip_prefix(b"_")?;
    (secret.len() == TEXT).then_some((id, secret))
}

fn random<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(StoreError::io)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_cut_as_it_was_put_together() {
        let id = new_id().unwrap();
        let (secret, stored) = new_secret().unwrap();
        let whole = format!("{id}_{secret}");
        let (found, proof) = parts(whole.as_bytes()).unwrap();
        assert_eq!(found, id.as_bytes());
        assert_eq!(digest(proof), stored);
        for bad in [
            "",
            "_",
            &id,
            &secret,
            &format!("{whole}x"),
            &format!("{id}-{secret}"),
            &format!("{id}_{}", secret.get(1..).unwrap()),
        ] {
            assert_eq!(parts(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn no_two_are_alike_and_none_is_printed() {
        let made: std::collections::HashSet<_> = (0..1000).map(|_| new_id().unwrap()).collect();
        assert_eq!(made.len(), 1000);
        let (secret, _) = new_secret().unwrap();
        assert_ne!(secret, new_secret().unwrap().0);
        assert_eq!(format!("{:?}", Revealed::new(secret)), "Revealed(…)");
    }
}
