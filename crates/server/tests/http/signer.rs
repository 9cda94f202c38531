//! An issuer of the tests: real keys, and tokens signed with them, good and bad.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RSA_PSS_SHA256, RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};

/// Made for these tests: `ring` signs with RSA keys and makes none.
const RSA: &str = include_str!("issuer/rsa-for-tests-only.pem");

/// Base64url without padding.
pub(crate) fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A header and claims as they are signed.
pub(crate) fn to_sign(header: &str, claims: &str) -> String {
    format!("{}.{}", encoded(header), encoded(claims))
}

/// A key that signs tokens.
pub(crate) struct Signer {
    pub(crate) kid: String,
    pair: Pair,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Signer {
    pub(crate) fn rsa(kid: &str) -> Self {
        let lines = RSA.lines().filter(|line| !line.starts_with('-'));
        let der = STANDARD.decode(lines.collect::<String>()).unwrap();
        let pair = RsaKeyPair::from_pkcs8(&der).unwrap();
        Self::of(kid, Pair::Rsa(Box::new(pair)))
    }

    pub(crate) fn ec(kid: &str) -> Self {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let made = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, made.as_ref(), &random).unwrap();
        Self::of(kid, Pair::Ec(pair))
    }

    pub(crate) fn ed(kid: &str) -> Self {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(made.as_ref()).unwrap();
        Self::of(kid, Pair::Ed(pair))
    }

    fn of(kid: &str, pair: Pair) -> Self {
        Self {
            kid: kid.to_owned(),
            pair,
        }
    }

    /// Its public half, as the issuer publishes it.
    pub(crate) fn jwk(&self) -> Value {
        let kid = &self.kid;
        match &self.pair {
            Pair::Rsa(pair) => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
                let (n, e) = (encoded(public.n), encoded(public.e));
                json!({"kty": "RSA", "use": "sig", "kid": kid, "n": n, "e": e})
            }
            Pair::Ec(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                let (x, y) = (encoded(x), encoded(y));
                json!({"kty": "EC", "crv": "P-256", "kid": kid, "x": x, "y": y})
            }
            Pair::Ed(pair) => {
                let x = encoded(pair.public_key());
                json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x})
            }
        }
    }

    /// The algorithm it signs by, unless another is named.
    pub(crate) fn alg(&self) -> &'static str {
        match &self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::Ec(_) => "ES256",
            Pair::Ed(_) => "EdDSA",
        }
    }

    /// Its signature; `alg` chooses where a key has more than one way to sign.
    pub(crate) fn signature(&self, alg: &str, message: &str) -> Vec<u8> {
        let (random, message) = (SystemRandom::new(), message.as_bytes());
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let padding: &dyn ring::signature::RsaEncoding = if alg == "PS256" {
                    &RSA_PSS_SHA256
                } else {
                    &RSA_PKCS1_SHA256
                };
                pair.sign(padding, &random, message, &mut signature)
                    .unwrap();
                signature
            }
            Pair::Ec(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    /// A token for `claims`, as an issuer writes it.
    pub(crate) fn token(&self, claims: &Value) -> String {
        self.written(
            &json!({"alg": self.alg(), "kid": self.kid, "typ": "at+jwt"}),
            &claims.to_string(),
        )
    }

    /// A token with this header and these claims, however they are spelled.
    pub(crate) fn written(&self, header: &Value, claims: &str) -> String {
        let alg = header["alg"].as_str().unwrap_or_default();
        let message = to_sign(&header.to_string(), claims);
        let signature = self.signature(alg, &message);
        format!("{message}.{}", encoded(signature))
    }
}

/// A JWK set of these keys.
pub(crate) fn key_set(signers: &[&Signer]) -> String {
    let keys: Vec<Value> = signers.iter().map(|one| one.jwk()).collect();
    json!({ "keys": keys }).to_string()
}
