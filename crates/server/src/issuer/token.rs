//! A token of an issuer elsewhere: a signed JWT (RFC 7519, RFC 8725, RFC 9068),
//! read strictly and from the outside in.
//!
//! What it claims is not looked at before its signature is known to be the
//! issuer's. Nothing in the token says where a key is: `jwk`, `jku`, `x5u` and
//! `x5c` are as good as absent.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use portcullis_proto::{Scope, ScopeSet};
use serde_json::{Map, Value};

use super::json;
use super::keys::{Algorithm, IssuerKeys, Key, MAX_KEY_ID};

/// Bytes of a token: those of the issuers there are have one or two KiB.
pub(super) const MAX_TOKEN: usize = 8 * 1024;
/// How far the issuer's clock may be ahead of ours. It makes no token last
/// longer: its end is its end.
pub(super) const CLOCK_LEEWAY: Duration = Duration::from_mins(1);
/// Bytes of an algorithm's name that are told in the log.
const MAX_TOLD: usize = 64;

/// What a token has to say to count here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerTerms {
    /// Who issues it, as `iss` spells it.
    pub issuer: String,
    /// Who it is for: one of its `aud`.
    pub audience: String,
    /// Which claim names the user.
    pub user_claim: String,
}

/// Why a token does not count. Told to the log and never to who brought it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is longer than a token is.
    TooLong,
    /// It is not spelled as a token is.
    Malformed,
    /// It is signed by none of the algorithms that count, or by no one.
    Algorithm,
    /// It says that something in it must be understood, and it is not.
    Critical,
    /// It is a token for something else.
    Kind,
    /// No key of the issuer has its name and its algorithm, or more than one.
    UnknownKey,
    /// The key it names did not sign it.
    Signature,
    /// Its claims are not spelled as claims are, or one is there twice.
    Claims,
    /// Somebody else issued it.
    Issuer,
    /// It is for somebody else.
    Audience,
    /// It does not say when it ends.
    Endless,
    /// It has ended.
    Expired,
    /// It has not begun, or was issued in the future.
    NotYet,
    /// It is bound to a key of its holder, who has to prove that it has it.
    Bound,
    /// It does not name a user.
    NoUser,
    /// The user it names is none of ours.
    UnknownUser,
    /// Its user has as many as can be known at once.
    TooMany,
}

impl Refused {
    /// What is wrong, in words that say nothing of what the token holds.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLong => "it is longer than 8 KiB",
            Self::Malformed => "it is not a signed JWT",
            Self::Algorithm => "its algorithm is not RS256, PS256, ES256 or EdDSA",
            Self::Critical => "it has critical header fields (crit), which are not known here",
            Self::Kind => "its type (typ) is not that of an access token",
            Self::UnknownKey => "the key file holds no key, or more than one, for its kid and alg",
            Self::Signature => "its signature is not by the key it names",
            Self::Claims => "its claims are malformed, or one is there twice",
            Self::Issuer => "its issuer (iss) is not the one of --oauth-issuer",
            Self::Audience => "its audience (aud) is not this server's",
            Self::Endless => "it has no end (exp)",
            Self::Expired => "it has expired (exp)",
            Self::NotYet => "it is not valid yet (nbf, iat): are the clocks right?",
            Self::Bound => "it is bound to its holder's key (cnf), which cannot be checked here",
            Self::NoUser => "the claim of --oauth-user-claim is not there",
            Self::UnknownUser => "there is no user of the name it says: portcullis user list",
            Self::TooMany => {
                "too many tokens of its user have not ended: 256 count at once, fewer where others have many"
            }
        }
    }
}

/// What a token says of itself before anything is proved: for the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alleged {
    /// The name of its key.
    pub kid: Option<String>,
    /// Its algorithm.
    pub alg: Option<String>,
}

/// What a token says, once it is known that the issuer signed it. Does not prove
/// that there is such a user, or that it has not ended since.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Claims {
    pub(super) user: String,
    /// What it was issued for, as far as that is known here.
    pub(super) scopes: ScopeSet,
    /// From when on it is refused.
    pub(super) ends_at: u64,
}

/// A token, taken apart and not checked.
pub(super) struct Parts<'a> {
    /// What is signed: the first two parts, as they were sent.
    pub(super) signed: &'a str,
    header: &'a str,
    payload: &'a str,
    signature: &'a str,
}

/// Takes apart what has the shape of a token: three parts with dots between them.
pub(super) fn parts(presented: &str) -> Option<Parts<'_>> {
    let (signed, signature) = presented.rsplit_once('.')?;
    let (header, payload) = signed.split_once('.')?;
    let plain = |part: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        part.bytes().all(known)
    };
    // The last part of an unsigned token is empty: it is one, and refused as that.
    let shaped = !header.is_empty() && [header, payload, signature].into_iter().all(plain);
    shaped.then_some(Parts {
        signed,
        header,
        payload,
        signature,
    })
}

impl Parts<'_> {
    /// Who signed it for what, if `keys` and `terms` say that it counts now.
    pub(super) fn check<'k>(
        &self,
        keys: &'k IssuerKeys,
        terms: &IssuerTerms,
        now_ms: u64,
        alleged: &mut Alleged,
    ) -> Result<(&'k Arc<Key>, Claims), Refused> {
        let key = self.signer(keys, alleged)?;
        let claims = decoded(self.payload).and_then(|bytes| json::object(&bytes));
        let claims = checked(&claims.ok_or(Refused::Claims)?, terms, now_ms)?;
        Ok((key, claims))
    }

    /// The key that signed it.
    fn signer<'k>(
        &self,
        keys: &'k IssuerKeys,
        alleged: &mut Alleged,
    ) -> Result<&'k Arc<Key>, Refused> {
        let header = decoded(self.header).and_then(|bytes| json::object(&bytes));
        let header = header.ok_or(Refused::Malformed)?;
        let word = |name: &str| match header.get(name) {
            None => Ok(None),
            Some(Value::String(word)) => Ok(Some(word.as_str())),
            Some(_) => Err(Refused::Malformed),
        };
        let (alg, kid) = (word("alg")?, word("kid")?);
        alleged.alg = alg.map(told);
        alleged.kid = kid.map(told);
        let alg = alg.ok_or(Refused::Malformed)?;
        let algorithm = Algorithm::parse(alg).ok_or(Refused::Algorithm)?;
        if header.contains_key("crit") {
            return Err(Refused::Critical);
        }
        if !word("typ")?.is_none_or(is_access_token) {
            return Err(Refused::Kind);
        }
        if kid.is_some_and(|kid| kid.len() > MAX_KEY_ID) {
            return Err(Refused::UnknownKey);
        }
        let key = keys.find(kid, algorithm).ok_or(Refused::UnknownKey)?;
        let signature = decoded(self.signature).ok_or(Refused::Malformed)?;
        if !key.signed(algorithm, self.signed.as_bytes(), &signature) {
            return Err(Refused::Signature);
        }
        Ok(key)
    }
}

/// The media types an access token goes by (RFC 9068), and the one all JWTs have.
fn is_access_token(typ: &str) -> bool {
    ["JWT", "at+jwt", "application/at+jwt"]
        .iter()
        .any(|known| typ.eq_ignore_ascii_case(known))
}

/// Base64url, spelled in the one way there is: no padding, no stray bits.
fn decoded(part: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part).ok()
}

/// As much of what a stranger wrote as a line of a log can hold.
fn told(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_graphic() { c } else { '?' };
    text.chars().take(MAX_TOLD).map(plain).collect()
}

fn checked(
    claims: &Map<String, Value>,
    terms: &IssuerTerms,
    now_ms: u64,
) -> Result<Claims, Refused> {
    if claims.get("iss").and_then(Value::as_str) != Some(&terms.issuer) {
        return Err(Refused::Issuer);
    }
    if !is_for(claims, &terms.audience)? {
        return Err(Refused::Audience);
    }
    let ends_at = moment(claims, "exp")?.ok_or(Refused::Endless)?;
    if ends_at <= now_ms {
        return Err(Refused::Expired);
    }
    let leeway = u64::try_from(CLOCK_LEEWAY.as_millis()).unwrap_or_default();
    for begins in ["nbf", "iat"] {
        let begins = moment(claims, begins)?.unwrap_or_default();
        if begins > now_ms.saturating_add(leeway) {
            return Err(Refused::NotYet);
        }
    }
    if claims.contains_key("cnf") {
        return Err(Refused::Bound);
    }
    let user = claims.get(&terms.user_claim).and_then(Value::as_str);
    Ok(Claims {
        user: user.ok_or(Refused::NoUser)?.to_owned(),
        scopes: scopes(claims)?,
        ends_at,
    })
}

fn is_for(claims: &Map<String, Value>, audience: &str) -> Result<bool, Refused> {
    match claims.get("aud") {
        None => Ok(false),
        Some(Value::String(one)) => Ok(one == audience),
        Some(value) => Ok(words(value)?.contains(&audience)),
    }
}

/// A NumericDate in milliseconds: seconds since 1970, which may have a fraction.
fn moment(claims: &Map<String, Value>, name: &str) -> Result<Option<u64>, Refused> {
    let Some(value) = claims.get(name) else {
        return Ok(None);
    };
    let since = match (value.as_u64(), value.as_f64()) {
        (Some(seconds), _) => Some(Duration::from_secs(seconds)),
        (None, Some(seconds)) => Duration::try_from_secs_f64(seconds).ok(),
        (None, None) => None,
    };
    let since = since.and_then(|since| u64::try_from(since.as_millis()).ok());
    since.map(Some).ok_or(Refused::Claims)
}

/// What it was issued for: `scope` with spaces, else `scp`, as a list or the same.
/// What is no scope of ours is another server's.
fn scopes(claims: &Map<String, Value>) -> Result<ScopeSet, Refused> {
    let listed = match (claims.get("scope"), claims.get("scp")) {
        (Some(Value::String(scope)), _) | (None, Some(Value::String(scope))) => {
            scope.split(' ').collect()
        }
        (None, Some(list)) => words(list)?,
        (None, None) => Vec::new(),
        (Some(_), _) => return Err(Refused::Claims),
    };
    let known: Vec<Scope> = listed.into_iter().filter_map(Scope::parse).collect();
    Ok(ScopeSet::of(&known))
}

fn words(value: &Value) -> Result<Vec<&str>, Refused> {
    let list = value.as_array().ok_or(Refused::Claims)?;
    let words: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
    words.ok_or(Refused::Claims)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::signer::{Signer, key_set};
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    fn terms() -> IssuerTerms {
        IssuerTerms {
            issuer: "https://login.example".to_owned(),
            audience: "https://files.example/mcp".to_owned(),
            user_claim: "sub".to_owned(),
        }
    }

    fn good() -> Value {
        json!({
            "iss": "https://login.example", "aud": "https://files.example/mcp",
            "sub": "ada", "exp": NOW / 1_000 + 60, "scope": "fs:read openid fs:write",
        })
    }

    fn claims(name: &str, value: Value) -> Result<Claims, Refused> {
        let mut claims = good();
        claims[name] = value;
        checked(claims.as_object().unwrap(), &terms(), NOW)
    }

    #[track_caller]
    fn check(name: &str, value: Value, want: Result<(), Refused>) {
        let got = claims(name, value.clone()).map(|_| ());
        assert_eq!(got, want, "{name}: {value}");
    }

    #[test]
    fn claims_count_as_they_are_spelled_and_no_other_way() {
        check("jti", json!("x"), Ok(()));
        for other in [
            json!("https://login.example/"),
            json!(1),
            json!(["https://login.example"]),
        ] {
            check("iss", other, Err(Refused::Issuer));
        }
        let here = "https://files.example/mcp";
        check("aud", json!([here]), Ok(()));
        check("aud", json!(["x", here]), Ok(()));
        for other in [json!("https://files.example/mcp/"), json!([]), json!(["x"])] {
            check("aud", other, Err(Refused::Audience));
        }
        for wrong in [json!(1), json!([here, 1]), json!({}), json!(null)] {
            check("aud", wrong, Err(Refused::Claims));
        }
        check("sub", json!(1), Err(Refused::NoUser));
        check("cnf", json!({"jkt": "x"}), Err(Refused::Bound));
        let mut without = good();
        without.as_object_mut().unwrap().remove("exp");
        let got = checked(without.as_object().unwrap(), &terms(), NOW);
        assert_eq!(got, Err(Refused::Endless));
    }

    #[test]
    fn time_is_exact_at_the_end_and_lenient_at_the_beginning() {
        let now = NOW / 1_000;
        check("exp", json!(now), Err(Refused::Expired));
        check("exp", json!(now + 1), Ok(()));
        check("exp", json!(1_800_000_000.5_f64), Ok(()));
        check("exp", json!(1e15), Ok(()));
        for wrong in [
            json!(-1),
            json!("1"),
            json!(null),
            json!(1e300),
            json!(u64::MAX),
        ] {
            check("exp", wrong, Err(Refused::Claims));
        }
        for name in ["nbf", "iat"] {
            check(name, json!(now + 60), Ok(()));
            check(name, json!(now + 61), Err(Refused::NotYet));
            check(name, json!("x"), Err(Refused::Claims));
        }
    }

    #[test]
    fn scopes_are_those_of_ours_it_names() {
        let got = |name: &str, value: Value| claims(name, value).map(|claims| claims.scopes);
        let of = |list: &[Scope]| Ok(ScopeSet::of(list));
        let both = of(&[Scope::FsRead, Scope::FsWrite]);
        assert_eq!(got("jti", json!(1)), both);
        assert_eq!(got("scope", json!("FS:READ fs:readx  ")), of(&[]));
        assert_eq!(got("scope", json!(["fs:read"])), Err(Refused::Claims));
        // Where both are there, `scope` is the standard's.
        assert_eq!(got("scp", json!(["admin"])), both);
        let mut with_list = good();
        let map = with_list.as_object_mut().unwrap();
        map.remove("scope");
        assert_eq!(scopes(map), of(&[]));
        for (scp, want) in [
            (json!(["fs:read", "other"]), of(&[Scope::FsRead])),
            (
                json!("fs:read approve"),
                of(&[Scope::FsRead, Scope::Approve]),
            ),
            (json!([1]), Err(Refused::Claims)),
            (json!({}), Err(Refused::Claims)),
        ] {
            map.insert("scp".to_owned(), scp);
            assert_eq!(scopes(map), want);
        }
    }

    #[test]
    fn a_token_has_three_parts_of_plain_letters() {
        for shaped in ["a.b.c", "a.b.", "a..", "A-_9.b.c"] {
            assert!(parts(shaped).is_some(), "{shaped}");
        }
        for other in [
            "", "a", "a.b", ".b.c", "a.b.c.d", "a.b c.d", "a.b.c=", "pcl_x",
        ] {
            assert!(parts(other).is_none(), "{other}");
        }
    }

    #[test]
    fn no_byte_of_a_token_can_be_changed() {
        let signer = Signer::ed("d");
        let keys = IssuerKeys::from_jwks(&key_set(&[&signer])).unwrap();
        let token = signer.token(&good());
        let counts = |text: &str| {
            let parts = parts(text)?;
            let checked = parts.check(&keys, &terms(), NOW, &mut Alleged::default());
            checked.ok().map(|(_, claims)| claims)
        };
        assert!(counts(&token).is_some());
        let mut tried = 0;
        for at in 0..token.len() {
            for other in *b"AQgwBz09-_.= " {
                let mut changed = token.clone().into_bytes();
                if changed[at] == other {
                    continue;
                }
                changed[at] = other;
                let changed = String::from_utf8(changed).unwrap();
                assert_eq!(counts(&changed), None, "{changed}");
                tried += 1;
            }
            let (head, tail) = token.split_at(at);
            assert_eq!(counts(head), None, "{head}");
            assert_eq!(counts(&format!("{head}A{tail}")), None, "one more at {at}");
        }
        assert!(tried > 1_000, "{tried}");
    }

    #[test]
    fn what_is_told_of_a_stranger_fits_into_a_line() {
        assert_eq!(told("a b\n\u{e9}"), "a?b??");
        assert_eq!(told(&"x".repeat(1_000)).len(), MAX_TOLD);
    }
}
