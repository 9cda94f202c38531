//! Protected classes: files whose change runs code, and files that are secret.
//!
//! Decided by name alone, so that a path can be classed before it is resolved
//! and before it exists. Names are compared without regard to case, because on
//! a case-insensitive volume `.ENV` is `.env`. What decides what runs stands in
//! the table of triggers.

use std::borrow::Cow;

use portcullis_proto::{Access, RelPath};

use crate::trigger::{Trigger, folded};

/// Why a path needs a person's yes even where its group is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Whoever writes it decides what runs later.
    AutoExec,
    /// It holds credentials.
    Secret,
}

impl Class {
    /// The class as rules, prompts and the audit spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AutoExec => "auto-exec",
            Self::Secret => "secret",
        }
    }

    /// The class that protects `path` from `access`, if any.
    pub fn of(path: &RelPath, access: Access) -> Option<Self> {
        if is_secret(path) {
            return Some(Self::Secret);
        }
        (access.mutates() && Trigger::of(path).is_some()).then_some(Self::AutoExec)
    }

    /// The class that protects `path` from being changed, if any.
    pub fn of_change(path: &RelPath) -> Option<Self> {
        Self::of(path, Access::Write)
    }
}

fn is(name: &str, other: &str) -> bool {
    name.eq_ignore_ascii_case(other)
}

fn starts(name: &str, prefix: &str) -> bool {
    name.as_bytes()
        .get(..prefix.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(prefix.as_bytes()))
}

fn ends(name: &str, suffix: &str) -> bool {
    name.len() > suffix.len()
        && name
            .as_bytes()
            .get(name.len() - suffix.len()..)
            .is_some_and(|tail| tail.eq_ignore_ascii_case(suffix.as_bytes()))
}

/// What a name ends in, from its last dot; empty where nothing stands before
/// the dot. Every name of a listing is held against two dozen endings: found
/// once, most of them are ruled out by their length.
fn ending(name: &str) -> &str {
    match name.bytes().rposition(|byte| byte == b'.') {
        None | Some(0) => "",
        Some(dot) => name.get(dot..).unwrap_or_default(),
    }
}

/// Directories whose whole content is secret.
const SECRET_DIRS: &[&str] = &[".ssh", ".gnupg", ".aws", ".azure", ".password-store"];
/// Secret names, at any depth.
const SECRET_NAMES: &[&str] = &[
    ".env",
    ".envrc",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".pgpass",
    ".my.cnf",
    ".htpasswd",
    ".vault-token",
    ".dockercfg",
    ".s3cfg",
    ".boto",
    ".credentials.json",
    ".terraformrc",
];
/// Secret by the directory they stand in.
const SECRET_PAIRS: &[(&str, &str)] = &[
    (".kube", "config"),
    (".docker", "config.json"),
    (".cargo", "credentials"),
    (".cargo", "credentials.toml"),
    (".gem", "credentials"),
    (".config", "gcloud"),
    ("gh", "hosts.yml"),
    (".terraform.d", "credentials.tfrc.json"),
    (".composer", "auth.json"),
    (".codex", "auth.json"),
    (".m2", "settings.xml"),
    (".gradle", "gradle.properties"),
];
/// Secret names that begin with a letter, at any depth.
const SECRET_FILES: &[&str] = &[
    "kubeconfig",
    "credentials.json",
    "service-account.json",
    "service_account.json",
    "serviceaccount.json",
    "service-account-key.json",
    "serviceaccountkey.json",
    "application_default_credentials.json",
    "secrets.json",
    "secrets.toml",
    "secrets.yaml",
    "secrets.yml",
    "pgpass.conf",
];
/// Each with the one dot it begins with.
const SECRET_ENDINGS: &[&str] = &[
    ".pem",
    ".key",
    ".p12",
    ".pfx",
    ".jks",
    ".keystore",
    ".kdbx",
    ".ppk",
    ".p8",
    ".ovpn",
    ".keytab",
    ".kubeconfig",
];
/// Templates of `.env` that are meant to be read.
const ENV_TEMPLATES: &[&str] = &[".example", ".sample", ".template", ".dist", ".defaults"];
/// Private keys by their usual names.
const KEY_NAMES: &[&str] = &[
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_ecdsa_sk",
    "id_ed25519_sk",
];

/// Whether `name` stands in a table of secrets as it is, and not by an ending.
pub(crate) fn is_of_the_table(name: &str) -> bool {
    let name = &*folded(name);
    let mut names = SECRET_DIRS.iter().chain(SECRET_NAMES);
    names.any(|one| is(name, one))
        || SECRET_PAIRS
            .iter()
            .any(|(dir, file)| is(name, dir) || is(name, file))
}

fn is_secret(path: &RelPath) -> bool {
    may_hold_secret(path.as_str()) && holds_secret(path)
}

fn holds_secret(path: &RelPath) -> bool {
    let mut above = Cow::Borrowed("");
    for name in path.components().map(folded) {
        if (name.starts_with('.') && SECRET_DIRS.iter().any(|dir| is(&name, dir)))
            // Of the directories that make a pair, all but `gh` are hidden.
            || ((above.starts_with('.') || above.len() == 2)
                && SECRET_PAIRS
                    .iter()
                    .any(|(dir, file)| is(&above, dir) && is(&name, file)))
            || is_secret_name(&name)
        {
            return true;
        }
        above = name;
    }
    false
}

/// What editors and careful people put behind the name of a copy they keep, each
/// with the one dot it begins with.
const COPY_ENDINGS: &[&str] = &[
    ".bak", ".backup", ".old", ".orig", ".save", ".swp", ".swo", ".tmp", ".copy",
];

/// How much of the end of `name` makes it a copy: an ending, or one character
/// that editors add or that a volume which drops trailing dots leaves out.
fn copy_ending(name: &str) -> usize {
    if name.len() > 1 && matches!(name.as_bytes().last(), Some(b'~' | b'.' | b' ' | b'#')) {
        return 1;
    }
    let ending = ending(name);
    if !ending.is_empty() && COPY_ENDINGS.iter().any(|copy| is(ending, copy)) {
        ending.len()
    } else {
        0
    }
}

/// The name a copy was made of: `.env~`, `..env.swp`, `#.env#`, `id_rsa.bak`.
fn original(name: &str) -> &str {
    // Our own: somebody's save that met a change, kept beside the file. Looked
    // for by its last character, since looking for all of it costs ten times as
    // much, and every name of a listing comes by here.
    let mut rest = name;
    let mut before = name;
    while let Some(at) = before.bytes().rposition(|byte| byte == b'_') {
        before = before.get(..at).unwrap_or_default();
        if let Some(original) = before.strip_suffix(".conflict-r") {
            rest = original;
            break;
        }
    }
    loop {
        match copy_ending(rest) {
            0 => break,
            length => rest = rest.get(..rest.len() - length).unwrap_or_default(),
        }
    }
    let bare = rest
        .strip_prefix(".#")
        .or_else(|| rest.strip_prefix('#'))
        .or_else(|| rest.strip_prefix('.').filter(|bare| bare.starts_with('.')));
    match bare {
        Some(bare) => bare,
        // vim hides the copy of a name that is not hidden: `.id_rsa.swp`.
        None if rest.len() < name.len() && is_secret_itself(rest.trim_start_matches('.')) => {
            rest.trim_start_matches('.')
        }
        None => rest,
    }
}

/// A copy of a secret is one.
fn is_secret_name(name: &str) -> bool {
    is_secret_itself(name) || {
        let original = original(name);
        original.len() < name.len() && is_secret_itself(original)
    }
}

fn is_secret_itself(name: &str) -> bool {
    let first = name.as_bytes().first().copied().unwrap_or_default();
    if first == b'.' || first == b'_' {
        if starts(name, ".env.") {
            return !ENV_TEMPLATES.iter().any(|ending| ends(name, ending));
        }
        if SECRET_NAMES.iter().any(|secret| is(name, secret)) {
            return true;
        }
    }
    if (first == b'i' || first == b'I') && KEY_NAMES.iter().any(|key| is(name, key)) {
        return true;
    }
    if SECRET_FILES.iter().any(|secret| is(name, secret)) {
        return true;
    }
    let ending = ending(name);
    if ending.is_empty() {
        return false;
    }
    if is(ending, ".env") {
        // `example.env` is a template as `.env.example` is.
        return !ENV_TEMPLATES.iter().any(|word| {
            let word = word.trim_start_matches('.');
            starts(name, word) && name.len() == word.len() + ".env".len()
        });
    }
    SECRET_ENDINGS.iter().any(|secret| is(ending, secret))
}

/// What secret names look like from afar: their lengths, by the byte they begin
/// with and by the one they end in.
struct Outline {
    by_first: [u64; 256],
    by_last: [u64; 256],
}

impl Outline {
    const fn empty() -> Self {
        Self {
            by_first: [0; 256],
            by_last: [0; 256],
        }
    }

    /// With these names, in either case.
    const fn with(mut self, names: &[&str]) -> Self {
        let mut n = 0;
        while n < names.len() {
            self = self.with_one(names[n].as_bytes());
            n += 1;
        }
        self
    }

    const fn with_dirs(mut self, pairs: &[(&str, &str)]) -> Self {
        let mut n = 0;
        while n < pairs.len() {
            self = self.with_one(pairs[n].0.as_bytes());
            n += 1;
        }
        self
    }

    const fn with_one(mut self, name: &[u8]) -> Self {
        let (first, last) = (name[0], name[name.len() - 1]);
        let length = 1 << name.len();
        self.by_first[first.to_ascii_lowercase() as usize] |= length;
        self.by_first[first.to_ascii_uppercase() as usize] |= length;
        self.by_last[last.to_ascii_lowercase() as usize] |= length;
        self.by_last[last.to_ascii_uppercase() as usize] |= length;
        self
    }

    /// Whether `name` looks like one of them; no other one is.
    fn may_hold(&self, name: &[u8]) -> bool {
        let (Some(first), Some(last)) = (name.first(), name.last()) else {
            return false;
        };
        let lengths = self.by_first[usize::from(*first)] & self.by_last[usize::from(*last)];
        name.len() < 64 && lengths & (1 << name.len()) != 0
    }
}

/// Names, and the directories that make a pair.
static NAMES: Outline = Outline::empty()
    .with(SECRET_DIRS)
    .with(SECRET_NAMES)
    .with(SECRET_FILES)
    .with(KEY_NAMES)
    .with_dirs(SECRET_PAIRS);
/// Endings, of secrets and of copies.
static ENDINGS: Outline = Outline::empty()
    .with(SECRET_ENDINGS)
    .with(COPY_ENDINGS)
    .with(&[".env"]);

/// The bytes that say something of the name they stand in: where it ends, where its
/// ending begins, what may be a copy of ours, what is not ASCII.
static TELLING: [bool; 256] = {
    let mut telling = [false; 256];
    let mut byte = 128;
    while byte < 256 {
        telling[byte] = true;
        byte += 1;
    }
    telling[b'/' as usize] = true;
    telling[b'.' as usize] = true;
    telling[b'_' as usize] = true;
    telling
};

/// Whether a closer look at `path` is worth it: every deed asks, of every path a
/// listing or a search comes across, and nearly always the answer is no. Says yes
/// to whatever [`holds_secret`] does, and to some more, and goes through the path
/// once.
fn may_hold_secret(path: &str) -> bool {
    let bytes = path.as_bytes();
    let (mut name, mut dot) = (0, None);
    for (at, byte) in bytes.iter().enumerate() {
        if !TELLING[usize::from(*byte)] {
            continue;
        }
        match byte {
            b'/' => {
                if looks_secret(&bytes[name..at], dot.map(|dot| &bytes[dot..at])) {
                    return true;
                }
                (name, dot) = (at + 1, None);
            }
            b'.' => dot = Some(at),
            b'_' if !bytes[..at].ends_with(b"-r") => {}
            _ => return true,
        }
    }
    looks_secret(&bytes[name..], dot.map(|dot| &bytes[dot..]))
}

/// As [`may_hold_secret`], for one name and what it ends in from its last dot.
fn looks_secret(name: &[u8], ending: Option<&[u8]>) -> bool {
    let (Some(first), Some(last)) = (name.first(), name.last()) else {
        return false;
    };
    matches!(first, b'.' | b'#')
        || matches!(last, b'~' | b'.' | b' ' | b'#')
        || ending.is_some_and(|ending| ENDINGS.may_hold(ending))
        || NAMES.may_hold(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_secret_looks_like_none() {
        let names = [SECRET_DIRS, SECRET_NAMES, SECRET_FILES, KEY_NAMES].concat();
        let stems = names.iter().map(|name| (*name).to_owned());
        let ended = SECRET_ENDINGS.iter().chain(&[".env"]);
        let stems = stems.chain(ended.map(|ending| format!("x{ending}")));
        let pairs = SECRET_PAIRS
            .iter()
            .map(|(dir, file)| format!("{dir}/{file}"));
        let mut secrets = 0;
        for stem in stems.chain(pairs) {
            for copy in COPY_ENDINGS
                .iter()
                .chain(&["", "~", ".", " ", "#", ".conflict-r_0f_1"])
            {
                for front in ["", ".", ".#", "#", "a/", "gh/"] {
                    for path in [
                        format!("{front}{stem}{copy}"),
                        format!("{front}{stem}{copy}/b"),
                    ] {
                        for path in [path.to_uppercase(), path] {
                            let path = RelPath::parse(&path).unwrap();
                            let is_one = holds_secret(&path);
                            secrets += usize::from(is_one);
                            assert!(!is_one || may_hold_secret(path.as_str()), "{path:?}");
                        }
                    }
                }
            }
        }
        assert!(secrets > 5_000, "{secrets} were tried");
    }

    proptest! {
        #[test]
        fn whatever_is_secret_looks_like_it(path in "([._#~a-tA-T/ -]|env|key|pem|gh/|hosts.yml|.bak|.conflict-r_|ſ){1,12}") {
            if let Ok(path) = RelPath::parse(&path) {
                prop_assert!(!holds_secret(&path) || may_hold_secret(path.as_str()));
            }
        }
    }

    #[track_caller]
    fn check(path: &str, access: Access, want: Option<Class>) {
        assert_eq!(
            Class::of(&RelPath::parse(path).unwrap(), access),
            want,
            "{path}"
        );
    }

    #[test]
    fn credentials_are_secret_wherever_they_stand_and_however_they_are_spelled() {
        for path in [
            ".env",
            "app/.env.production",
            ".ENV",
            ".ssh/config",
            "home/.ssh/id_rsa",
            "keys/server.pem",
            "keys/a.asc.KEY",
            "a.b.p12",
            ".aws/credentials",
            ".kube/config",
            ".docker/config.json",
            "id_ed25519",
            ".npmrc",
            ".env/nested",
            "a/.Git-Credentials",
            "prod.env",
            "k8s/prod.kubeconfig",
            "Service-Account.json",
            ".aw\u{17f}/credentials",
        ] {
            check(path, Access::Read, Some(Class::Secret));
        }
        for path in [
            ".env.example",
            ".environment",
            "environment",
            "kube/config",
            "docs/keys.md",
            "id_rsa.pub",
            ".pem",
            "monkey",
            "example.env",
            "notes.bak",
            "~",
            "...",
            ".key",
            "a.pemx",
            "pem",
            "src/credentials/mod.rs",
            "docs/secrets.md",
            "kubeconfig.go",
        ] {
            check(path, Access::Read, None);
        }
    }

    #[test]
    fn what_is_secret_where_it_stands_is_secret_there_alone() {
        for (dir, file) in SECRET_PAIRS {
            check(
                &format!("a/{dir}/{file}"),
                Access::Read,
                Some(Class::Secret),
            );
            check(&format!("{dir}x/{file}"), Access::Read, None);
        }
    }

    #[test]
    fn a_copy_an_editor_left_of_a_secret_is_secret() {
        for path in [
            ".env~",
            "..env.swp",
            ".#.env",
            "#.env#",
            ".env.bak",
            "app/.ENV.OLD~",
            "id_rsa.bak",
            ".id_rsa.swp",
            "server.pem.orig",
            "server.pem.",
            ".netrc.save",
            ".env ",
            "server.pem.conflict-r_00ff_12",
            ".env.conflict-r_00ff_12",
        ] {
            check(path, Access::Read, Some(Class::Secret));
        }
        for path in ["main.rs~", ".main.rs.swp", ".#notes", "é~"] {
            check(path, Access::Read, None);
        }
    }

    #[test]
    fn what_decides_what_runs_may_be_read_but_not_written_unasked() {
        for path in [
            ".git/hooks/pre-commit",
            "vendor/x/.git/config",
            ".github/workflows/ci.yml",
            ".vscode/tasks.json",
            ".bashrc",
            ".mcp.json",
            ".claude/settings.json",
            "Jenkinsfile",
            ".GIT/hooks/x",
            ".cargo/config.toml",
        ] {
            check(path, Access::Write, Some(Class::AutoExec));
            check(path, Access::Read, None);
        }
        check(".github/ISSUE_TEMPLATE.md", Access::Write, None);
        check(".gitignore", Access::Write, None);
    }
}
