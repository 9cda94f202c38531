//! The keys an issuer signs with: a JWK set (RFC 7517), and what they are good for.
//!
//! A key has one type, and a type its algorithms: which one a token names can
//! choose among those of the key and never the key's meaning. There is no secret
//! that could be taken for a key here.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256,
    RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::{Map, Value};

use super::json;

/// Keys of one issuer: those there are, and those that come and go beside them.
const MAX_KEYS: usize = 64;
/// Bytes of an RSA modulus: 2,048 to 8,192 bits, as `ring` takes them.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;
/// Bytes of an RSA exponent; nearly all are 65,537.
const MAX_EXPONENT: usize = 4;
/// Bytes of an Ed25519 key, and of each coordinate on P-256.
const CURVE_BYTES: usize = 32;
/// What stands before the two coordinates of a point.
const UNCOMPRESSED: u8 = 4;
/// Bytes of a key's name.
pub(super) const MAX_KEY_ID: usize = 256;

/// How a token may be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Ps256,
    Es256,
    EdDsa,
}

impl Algorithm {
    const ALL: [Self; 4] = [Self::Rs256, Self::Ps256, Self::Es256, Self::EdDsa];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Ps256 => "PS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The algorithm spelled `word`, to the letter.
    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }
}

/// One public key.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key {
    id: Option<String>,
    /// The one algorithm it is for, where its issuer says so.
    only: Option<Algorithm>,
    material: Material,
}

#[derive(Clone, PartialEq, Eq)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256 { point: Vec<u8> },
    Ed25519 { public: Vec<u8> },
}

impl Material {
    const fn is_for(&self, algorithm: Algorithm) -> bool {
        match self {
            Self::Rsa { .. } => matches!(algorithm, Algorithm::Rs256 | Algorithm::Ps256),
            Self::P256 { .. } => matches!(algorithm, Algorithm::Es256),
            Self::Ed25519 { .. } => matches!(algorithm, Algorithm::EdDsa),
        }
    }
}

impl Key {
    fn is_for(&self, algorithm: Algorithm) -> bool {
        self.material.is_for(algorithm) && self.only.is_none_or(|only| only == algorithm)
    }

    /// Whether a token that means one could mean the other.
    fn is_taken_for(&self, other: &Self) -> bool {
        let both = |one: Algorithm| self.is_for(one) && other.is_for(one);
        self.id.is_some() && self.id == other.id && Algorithm::ALL.into_iter().any(both)
    }

    /// Whether it signed `message`, by an algorithm it [`is_for`](Self::is_for).
    pub(super) fn signed(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let checked =
            match (&self.material, algorithm) {
                (Material::Rsa { n, e }, Algorithm::Rs256) => RsaPublicKeyComponents { n, e }
                    .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature),
                (Material::Rsa { n, e }, Algorithm::Ps256) => RsaPublicKeyComponents { n, e }
                    .verify(&RSA_PSS_2048_8192_SHA256, message, signature),
                (Material::P256 { point }, Algorithm::Es256) => {
                    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                        .verify(message, signature)
                }
                (Material::Ed25519 { public }, Algorithm::EdDsa) => {
                    UnparsedPublicKey::new(&ED25519, public).verify(message, signature)
                }
                (Material::Rsa { .. }, Algorithm::Es256 | Algorithm::EdDsa)
                | (Material::P256 { .. }, Algorithm::Rs256 | Algorithm::Ps256 | Algorithm::EdDsa)
                | (
                    Material::Ed25519 { .. },
                    Algorithm::Rs256 | Algorithm::Ps256 | Algorithm::Es256,
                ) => return false,
            };
        checked.is_ok()
    }
}

/// The public keys of an issuer; there may be none. Proves that each is whole and
/// of a type that is known here; does not prove whose they are.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuerKeys {
    keys: Vec<Arc<Key>>,
    left_out: usize,
}

impl fmt::Debug for IssuerKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IssuerKeys({})", self.keys.len())
    }
}

/// Why a file holds no keys that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadKeys {
    /// It is no JWK set.
    NoSet,
    /// It holds more keys than an issuer has.
    TooMany,
    /// A key is a private one.
    Private,
    /// Two keys for one algorithm have the same name.
    SameName,
    /// No key is whole, and of a type and for a use that is known here.
    Unusable,
}

impl fmt::Display for BadKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSet => "it is not a JWK set, an object with a list `keys`, each name once",
            Self::TooMany => "it holds more than 64 keys",
            Self::Private => "a key in it is a private key, which belongs to the issuer alone",
            Self::SameName => "two keys in it for one algorithm have the same `kid`",
            Self::Unusable => {
                "no key in it is for signatures by RS256, PS256, ES256 or EdDSA (Ed25519), whole and, of RSA, of 2048 to 8192 bits"
            }
        })
    }
}

impl std::error::Error for BadKeys {}

impl IssuerKeys {
    /// Reads a JWK set. Keys that are for something else, damaged or of no type known
    /// here are left out (RFC 7517, 5), so that one of them keeps no other from
    /// coming or going. A list that holds nothing is an issuer's word that none of
    /// its keys counts; one of which nothing is left is more likely a mistake.
    pub fn from_jwks(text: &str) -> Result<Self, BadKeys> {
        let set = json::object(text.as_bytes()).ok_or(BadKeys::NoSet)?;
        let listed = set.get("keys").and_then(Value::as_array);
        let listed = listed.ok_or(BadKeys::NoSet)?;
        if listed.len() > MAX_KEYS {
            return Err(BadKeys::TooMany);
        }
        let mut keys: Vec<Arc<Key>> = Vec::new();
        let mut left_out = 0;
        for one in listed {
            let jwk = one.as_object().ok_or(BadKeys::NoSet)?;
            // The private part of RSA, EC and OKP keys is `d`; a symmetric one is `k`.
            if jwk.contains_key("d") || jwk.contains_key("k") {
                return Err(BadKeys::Private);
            }
            let key = match key(jwk) {
                Ok(Some(key)) => key,
                Ok(None) => continue,
                Err(Unfit) => {
                    left_out += 1;
                    continue;
                }
            };
            if keys.iter().any(|other| key.is_taken_for(other)) {
                return Err(BadKeys::SameName);
            }
            keys.push(Arc::new(key));
        }
        if keys.is_empty() && !listed.is_empty() {
            return Err(BadKeys::Unusable);
        }
        Ok(Self { keys, left_out })
    }

    /// Whether there is none: then no token counts.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// How many were left out as damaged, out of range or of a type unknown here.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// The key a token means: by its name, or without one the only one that fits.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&Arc<Key>> {
        let mut fitting = self.keys.iter().filter(|key| {
            key.is_for(algorithm) && id.is_none_or(|id| key.id.as_deref() == Some(id))
        });
        let found = fitting.next()?;
        fitting.next().is_none().then_some(found)
    }

    /// Whether `key` is one of them still.
    pub(super) fn hold(&self, key: &Key) -> bool {
        self.keys.iter().any(|one| **one == *key)
    }
}

/// A key that is damaged, out of range or of no type known here.
struct Unfit;

/// The key a JWK spells; nothing where it is for another use.
fn key(jwk: &Map<String, Value>) -> Result<Option<Key>, Unfit> {
    let word = |name: &str| match jwk.get(name) {
        None => Ok(None),
        Some(Value::String(word)) => Ok(Some(word.as_str())),
        Some(_) => Err(Unfit),
    };
    if word("use")?.is_some_and(|used| used != "sig") || !is_for_verifying(jwk)? {
        return Ok(None);
    }
    let only = match word("alg")? {
        None => None,
        Some(named) => Some(Algorithm::parse(named).ok_or(Unfit)?),
    };
    let bytes = |name: &str| {
        let text = word(name)?.ok_or(Unfit)?;
        URL_SAFE_NO_PAD.decode(text).map_err(|_| Unfit)
    };
    let material = match (word("kty")?, word("crv")?) {
        (Some("RSA"), _) => rsa(bytes("n")?, bytes("e")?)?,
        (Some("EC"), Some("P-256")) => p256(&bytes("x")?, &bytes("y")?)?,
        (Some("OKP"), Some("Ed25519")) => ed25519(bytes("x")?)?,
        (Some(_) | None, _) => return Err(Unfit),
    };
    if only.is_some_and(|only| !material.is_for(only)) {
        return Err(Unfit);
    }
    let id = word("kid")?;
    if id.is_some_and(|id| id.len() > MAX_KEY_ID) {
        return Err(Unfit);
    }
    Ok(Some(Key {
        id: id.map(str::to_owned),
        only,
        material,
    }))
}

fn is_for_verifying(jwk: &Map<String, Value>) -> Result<bool, Unfit> {
    match jwk.get("key_ops") {
        None => Ok(true),
        Some(Value::Array(uses)) => Ok(uses.iter().any(|one| one == "verify")),
        Some(_) => Err(Unfit),
    }
}

fn rsa(n: Vec<u8>, e: Vec<u8>) -> Result<Material, Unfit> {
    let is_odd = |number: &[u8]| number.last().is_some_and(|last| last % 2 == 1);
    let begins = |number: &[u8]| number.first().is_some_and(|first| *first != 0);
    // The first byte of 2,048 bits has its highest bit set.
    let long_enough = n.len() > *RSA_BYTES.start() || n.first().is_some_and(|first| *first >= 0x80);
    let whole = RSA_BYTES.contains(&n.len()) && long_enough && begins(&n) && is_odd(&n);
    let exponent = (1..=MAX_EXPONENT).contains(&e.len()) && begins(&e) && is_odd(&e) && e != [1];
    if whole && exponent {
        Ok(Material::Rsa { n, e })
    } else {
        Err(Unfit)
    }
}

fn p256(x: &[u8], y: &[u8]) -> Result<Material, Unfit> {
    if x.len() != CURVE_BYTES || y.len() != CURVE_BYTES {
        return Err(Unfit);
    }
    Ok(Material::P256 {
        point: [&[UNCOMPRESSED], x, y].concat(),
    })
}

fn ed25519(public: Vec<u8>) -> Result<Material, Unfit> {
    if public.len() == CURVE_BYTES {
        Ok(Material::Ed25519 { public })
    } else {
        Err(Unfit)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ed(kid: &str) -> Value {
        let x = URL_SAFE_NO_PAD.encode([7; 32]);
        json!({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": kid})
    }

    fn rsa_of(bytes: usize, first: u8) -> Value {
        let mut n = vec![0xff; bytes];
        n[0] = first;
        json!({"kty": "RSA", "n": URL_SAFE_NO_PAD.encode(n), "e": "AQAB", "kid": "r"})
    }

    fn with(mut key: Value, name: &str, value: impl Into<Value>) -> Value {
        key[name] = value.into();
        key
    }

    /// How many of `keys` count, and how many are left out.
    #[track_caller]
    fn check(keys: &[Value], want: Result<(usize, usize), BadKeys>) {
        let text = json!({ "keys": keys }).to_string();
        let got = IssuerKeys::from_jwks(&text).map(|keys| (keys.keys.len(), keys.left_out()));
        assert_eq!(got, want, "{text}");
    }

    #[test]
    fn keys_that_cannot_be_used_are_left_out_and_private_ones_fail_the_set() {
        check(&[ed("a")], Ok((1, 0)));
        check(&[rsa_of(256, 0x80)], Ok((1, 0)));
        check(&[rsa_of(1024, 1)], Ok((1, 0)));
        for other in [
            with(ed("b"), "use", "enc"),
            with(ed("b"), "key_ops", json!(["sign"])),
        ] {
            check(&[other.clone(), ed("a")], Ok((1, 0)));
            check(&[other], Err(BadKeys::Unusable));
        }
        for unfit in [
            with(ed("b"), "alg", "ES512"),
            with(ed("b"), "crv", "Ed448"),
            with(ed("b"), "kty", "AKP"),
            rsa_of(128, 0xff),
            rsa_of(256, 0x7f),
            rsa_of(255, 0xff),
            rsa_of(1025, 1),
            rsa_of(257, 0),
            with(rsa_of(256, 0x80), "e", "AQ"),
            with(rsa_of(256, 0x80), "e", "AQAB="),
            with(ed("a"), "x", "AAAA"),
            with(ed("a"), "x", 1),
            with(ed("a"), "alg", "RS256"),
            with(ed("a"), "alg", 1),
            with(ed("a"), "kid", 1),
            with(ed("a"), "kid", "k".repeat(MAX_KEY_ID + 1)),
            json!({"kid": "a"}),
        ] {
            check(&[unfit.clone(), ed("a")], Ok((1, 1)));
            check(&[ed("b"), unfit.clone()], Ok((1, 1)));
            let private = with(unfit.clone(), "d", "AA");
            check(&[ed("c"), private], Err(BadKeys::Private));
            check(&[unfit], Err(BadKeys::Unusable));
        }
        check(&[with(ed("a"), "d", "AA")], Err(BadKeys::Private));
        check(&[json!({"kty": "oct", "k": "AAAA"})], Err(BadKeys::Private));
        check(&[ed("a"), ed("a")], Err(BadKeys::SameName));
        let only = |alg: &str| with(rsa_of(256, 0x80), "alg", alg);
        check(&[only("RS256"), only("PS256")], Ok((2, 0)));
        check(&[only("RS256"), only("RS256")], Err(BadKeys::SameName));
        let any = [only("RS256"), rsa_of(256, 0x80)];
        check(&any, Err(BadKeys::SameName));
        check(&[], Ok((0, 0)));
        check(&vec![ed("a"); MAX_KEYS + 1], Err(BadKeys::TooMany));
        for text in [
            "",
            "[]",
            "{}",
            r#"{"keys":1}"#,
            r#"{"keys":[1]}"#,
            r#"{"keys":[],"keys":[]}"#,
        ] {
            assert_eq!(IssuerKeys::from_jwks(text), Err(BadKeys::NoSet), "{text}");
        }
    }

    #[test]
    fn a_key_is_meant_by_name_or_because_no_other_fits() {
        let text = json!({"keys": [ed("a"), ed("b"), rsa_of(256, 0x80)]}).to_string();
        let keys = IssuerKeys::from_jwks(&text).unwrap();
        let found = |id, algorithm| keys.find(id, algorithm).is_some();
        assert!(found(Some("a"), Algorithm::EdDsa) && found(Some("b"), Algorithm::EdDsa));
        assert!(found(None, Algorithm::Rs256) && found(None, Algorithm::Ps256));
        assert!(!found(None, Algorithm::EdDsa), "two fit");
        assert!(!found(None, Algorithm::Es256), "none fits");
        assert!(!found(Some("c"), Algorithm::EdDsa));
        assert!(
            !found(Some("a"), Algorithm::Rs256),
            "the name of another type"
        );
        let only = json!({"keys": [with(rsa_of(256, 0x80), "alg", "PS256")]}).to_string();
        let keys = IssuerKeys::from_jwks(&only).unwrap();
        assert!(keys.find(Some("r"), Algorithm::Ps256).is_some());
        assert!(keys.find(Some("r"), Algorithm::Rs256).is_none());
    }
}
