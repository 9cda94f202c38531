//! An OAuth issuer whose tokens count: what was typed of it, and its key file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use portcullis_files::read_own_text;
use portcullis_proto::Failure;
use portcullis_server::{BadKeys, Issuer, IssuerKeys, IssuerTerms, OAuthResource, Telling};
use tokio::time::MissedTickBehavior;

use crate::args::OAuthArgs;
use crate::log::Log;
use crate::problem::Problem;

/// The largest key file; a set of sixty-four keys of the longest kind has 100 KiB.
const MAX_KEY_FILE: u64 = 256 * 1024;
/// How often the key file is read. It is read whole and compared: a time or an
/// inode can stay the same where what is in it does not.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// An issuer elsewhere.
pub(crate) struct Issuing {
    /// What clients are told of it.
    pub(crate) resource: OAuthResource,
    pub(crate) issuer: Arc<Issuer>,
    file: KeyFile,
}

/// The file its keys come from, as it was last.
struct KeyFile {
    path: PathBuf,
    text: String,
    /// What was wrong with it when it was looked at last.
    wrong: Option<String>,
}

/// What a look at the key file came to.
#[derive(Debug, PartialEq, Eq)]
enum Looked {
    Same,
    Changed(IssuerKeys),
    /// It cannot be used, and nobody was told yet.
    Wrong(String),
}

impl Issuing {
    /// The issuer that was named, for a server at `url`; its keys have to be good.
    pub(crate) fn open(args: &OAuthArgs, url: &str, log: Log) -> Result<Option<Self>, Problem> {
        let (Some(issuer), Some(path)) = (&args.issuer, &args.keys) else {
            return Ok(None);
        };
        let (text, keys) = read_some(path).map_err(|wrong| {
            let found_at = issuer.trim_end_matches('/');
            Problem::new(format!("The keys of {issuer} cannot be used: {wrong}.")).hint(format!(
                "Fetch its JWK set, whose address {found_at}/.well-known/openid-configuration tells as jwks_uri: curl -fsS JWKS_URI -o {}",
                path.display()
            ))
        })?;
        tell_left_out(&keys, log);
        let resource = OAuthResource {
            resource: format!("{url}/mcp"),
            issuer: issuer.clone(),
        };
        let audience = args.audience.as_ref().unwrap_or(&resource.resource);
        let terms = IssuerTerms {
            issuer: issuer.clone(),
            audience: audience.clone(),
            user_claim: args.user_claim.clone(),
        };
        let tell = move |telling: Telling<'_>| match telling {
            Telling::One(why, alleged) => {
                let word = |word: &Option<String>| word.clone().unwrap_or_else(|| "-".to_owned());
                let (kid, alg) = (word(&alleged.kid), word(&alleged.alg));
                log.warn(format_args!(
                    "a token of another issuer is refused: {} (kid={kid} alg={alg})",
                    why.as_str()
                ));
            }
            Telling::More(why, count) => log.warn(format_args!(
                "so many more tokens of another issuer were refused within a minute: {count}: {}",
                why.as_str()
            )),
        };
        Ok(Some(Self {
            issuer: Arc::new(Issuer::new(terms, keys, Box::new(tell))),
            resource,
            file: KeyFile {
                path: path.clone(),
                text,
                wrong: None,
            },
        }))
    }

    /// Puts in force what becomes of the key file, until the runtime ends. A file
    /// that cannot be used changes nothing.
    pub(crate) async fn keep_keys(self, log: Log) {
        let Self {
            issuer, mut file, ..
        } = self;
        let path = file.path.clone();
        let mut tick = tokio::time::interval(LOOK_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tick.tick().await;
            let looked = tokio::task::spawn_blocking(move || (file.look(), file));
            let (looked, back) = match looked.await {
                Ok(came) => came,
                // The runtime ends.
                Err(error) if error.is_cancelled() => return,
                Err(_) => KeyFile::lost(&path),
            };
            file = back;
            match looked {
                Looked::Same => {}
                Looked::Changed(keys) => {
                    tell_left_out(&keys, log);
                    if keys.is_empty() {
                        log.error("the issuer's key file lists no key: none of its tokens counts from now on");
                    } else {
                        log.info("the issuer's keys changed, and hold from now on");
                    }
                    issuer.replace_keys(keys);
                }
                Looked::Wrong(wrong) => log.error(format_args!(
                    "the issuer's new keys cannot be used, and the old ones stay in force: {wrong}"
                )),
            }
        }
    }
}

impl KeyFile {
    /// After a look that did not come to its end: the next one reads it as if for
    /// the first time. Keys that go must go, whatever one look came to.
    fn lost(path: &Path) -> (Looked, Self) {
        let file = Self {
            path: path.to_owned(),
            text: String::new(),
            wrong: None,
        };
        let wrong = format!("looking at {} failed unexpectedly", path.display());
        (Looked::Wrong(wrong), file)
    }

    fn look(&mut self) -> Looked {
        match read(&self.path) {
            Ok((text, keys)) => {
                self.wrong = None;
                if text == self.text {
                    return Looked::Same;
                }
                self.text = text;
                Looked::Changed(keys)
            }
            Err(wrong) if self.wrong.as_ref() == Some(&wrong) => Looked::Same,
            Err(wrong) => {
                self.wrong = Some(wrong.clone());
                Looked::Wrong(wrong)
            }
        }
    }
}

fn tell_left_out(keys: &IssuerKeys, log: Log) {
    let left_out = keys.left_out();
    if left_out > 0 {
        log.warn(format_args!(
            "keys in the issuer's key file that are damaged, too short or of a type unknown here, and do not count: {left_out}"
        ));
    }
}

/// The same, where there have to be some: who starts without any means another file.
fn read_some(path: &Path) -> Result<(String, IssuerKeys), String> {
    let (text, keys) = read(path)?;
    if keys.is_empty() {
        return Err(format!("{}: {}", path.display(), BadKeys::Unusable));
    }
    Ok((text, keys))
}

/// The key file, and the keys in it; or what is wrong with it.
fn read(path: &Path) -> Result<(String, IssuerKeys), String> {
    let shown = path.display();
    let words = |failure: Failure| failure.message().trim_end_matches('.').to_owned();
    let text = read_own_text(path, MAX_KEY_FILE).map_err(words)?;
    let text = text.ok_or_else(|| format!("there is no file at {shown}"))?;
    match IssuerKeys::from_jwks(&text) {
        Ok(keys) => Ok((text, keys)),
        Err(bad) => Err(format!("{shown}: {bad}")),
    }
}

#[cfg(test)]
mod tests {
    use portcullis_testkit::Scratch;

    use super::*;

    #[test]
    fn after_a_look_that_failed_the_keys_are_read_anew() {
        let scratch = Scratch::in_memory("");
        let x = "A".repeat(43);
        let set = format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","x":"{x}"}}]}}"#);
        scratch.file("keys.json", &set);
        let path = scratch.at("keys.json");
        let (looked, mut file) = KeyFile::lost(&path);
        assert!(matches!(looked, Looked::Wrong(_)));
        let keys = IssuerKeys::from_jwks(&set).unwrap();
        assert_eq!(file.look(), Looked::Changed(keys));
        assert_eq!(file.look(), Looked::Same);
    }
}
