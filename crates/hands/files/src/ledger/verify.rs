//! Checks the audit: what was changed, dropped, reordered or inserted before
//! the last head of a chain is found, and what was lost after a head that is
//! still known.
//!
//! Each line is hashed once and its front compared; no line is parsed as JSON
//! but the first of a chain. Only the last head's signature is checked, since
//! the hashes bind all lines before it, earlier heads included.

use std::collections::BTreeMap;
use std::fmt;

use ed25519_dalek::VerifyingKey;
use portcullis_proto::Failure;
use rustix::io::Errno;

use super::files::{HEADS, chains, open_read, segment_name, segments};
use super::head::Head;
use super::lines::Lines;
use super::walk::{LastIsBad, Signatures, Walk};
use crate::private_dir::{PrivateDir, os_failure};

/// More problems than this are not listed: the log is gone.
const MAX_PROBLEMS: usize = 1000;

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not a line of ours.
    Malformed,
    /// The line before is not the one it was written after.
    BrokenLink,
    /// Its number is not the next one.
    OutOfOrder {
        /// The next number.
        want: u64,
        /// The number it has.
        found: u64,
    },
    /// It names another chain.
    ForeignChain,
    /// The chain names another key than this audit's.
    WrongKey,
    /// The audit's key is missing, so signatures prove less.
    NoKey,
    /// The signature of a head is not by the audit's key.
    BadSignature,
    /// The copy of this head that was kept elsewhere is different.
    OtherHead,
    /// A file of the chain is missing.
    MissingSegment,
    /// A chain that was signed is missing.
    MissingChain,
    /// Lines that were signed are missing at the end.
    LostTail {
        /// How many lines are there.
        have: u64,
        /// How many were signed.
        signed: u64,
    },
    /// It could not be read.
    Unreadable,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("not a line of the audit"),
            Self::BrokenLink => f.write_str("the line before was changed, dropped or inserted"),
            Self::OutOfOrder { want, found } => {
                write!(f, "line number {found} stands where {want} belongs")
            }
            Self::ForeignChain => f.write_str("belongs to another chain"),
            Self::WrongKey => f.write_str("signed by another key than this audit's"),
            Self::NoKey => f.write_str("the audit's key is missing"),
            Self::BadSignature => f.write_str("the signature is not this audit's"),
            Self::OtherHead => f.write_str("not the head that was signed"),
            Self::MissingSegment => f.write_str("the file is missing"),
            Self::MissingChain => f.write_str("the chain is missing"),
            Self::LostTail { have, signed } => {
                write!(f, "{signed} lines were signed, {have} are there")
            }
            Self::Unreadable => f.write_str("cannot be read"),
        }
    }
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// In which chain.
    pub chain: String,
    /// In which of its files.
    pub segment: u32,
    /// Which line of that file, from 1; 0 for the file or chain itself.
    pub line: u64,
    /// What.
    pub what: Fault,
}

/// Lines that no head covers: what is lost there leaves no trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsignedTail {
    /// In which chain.
    pub chain: String,
    /// How many.
    pub lines: u64,
    /// Whether the last line is not finished.
    pub torn: bool,
    /// Whether the process that writes the chain is alive, and will sign.
    pub live: bool,
}

/// What checking found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Chains checked.
    pub chains: u64,
    /// Lines checked.
    pub lines: u64,
    /// Bytes checked.
    pub bytes: u64,
    /// Heads met.
    pub heads: u64,
    /// Lines that dying processes left torn and that were recovered.
    pub recovered: u64,
    /// What is wrong: at most the first 1,000.
    pub problems: Vec<Problem>,
    /// What no head covers, chain by chain.
    pub unsigned_tail: Vec<UnsignedTail>,
}

impl Verification {
    /// Whether nothing is wrong. Lines that no head covers are not wrong.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    fn add(&mut self, chain: Self) {
        self.chains += chain.chains;
        self.lines += chain.lines;
        self.bytes += chain.bytes;
        self.heads += chain.heads;
        self.recovered += chain.recovered;
        self.unsigned_tail.extend(chain.unsigned_tail);
        let room = MAX_PROBLEMS.saturating_sub(self.problems.len());
        self.problems.extend(chain.problems.into_iter().take(room));
    }

    pub(crate) fn problem(&mut self, chain: &str, segment: u32, line: u64, what: Fault) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem {
                chain: chain.to_owned(),
                segment,
                line,
                what,
            });
        }
    }
}

/// Heads known from outside their chain: the last of each, and its number.
type Known = BTreeMap<String, (u64, Vec<u8>)>;

pub(crate) fn verify(
    audit: &PrivateDir,
    key: Option<&VerifyingKey>,
    elsewhere: &[String],
) -> Result<Verification, Failure> {
    let mut found = Verification::default();
    // The heads are read before the chains: a chain is never behind its heads.
    let known = known_heads(audit, key, elsewhere, &mut found)?;
    let names = chains(audit)?;
    if key.is_none() && !names.is_empty() {
        found.problem("", 0, 0, Fault::NoKey);
    }
    for chain in known.keys().filter(|chain| !names.contains(chain)) {
        found.problem(chain, 0, 0, Fault::MissingChain);
    }
    for name in &names {
        let known = known.get(name).map(|(n, raw)| (*n, raw.as_slice()));
        let walk = |signatures| Walk::new(name, key.copied(), known, signatures).run(audit);
        let chain = match walk(Signatures::Last) {
            // Which lines a good signature covers is worth checking them all.
            Err(LastIsBad) => walk(Signatures::All).unwrap_or_default(),
            Ok(chain) => chain,
        };
        found.add(chain);
    }
    Ok(found)
}

/// Collects the last head of each chain from the file of heads and from
/// `elsewhere`.
fn known_heads(
    audit: &PrivateDir,
    key: Option<&VerifyingKey>,
    elsewhere: &[String],
    found: &mut Verification,
) -> Result<Known, Failure> {
    let failed = |errno| os_failure(errno, &audit.path().join(HEADS));
    let mut known = Known::new();
    for (index, line) in elsewhere.iter().enumerate() {
        let line = format!("{}\n", line.trim_end());
        // What was handed to us is checked one by one: there are few.
        match Head::parse(line.as_bytes()) {
            Some(head) if key.is_none_or(|key| head.is_signed_by(key)) => {
                remember(&mut known, head, line.as_bytes());
            }
            _ => found.problem("", 0, index as u64 + 1, Fault::BadSignature),
        }
    }
    let file = match open_read(audit, HEADS) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(known),
        Err(errno) => return Err(failed(errno)),
    };
    let mut last = Known::new();
    let mut lines = Lines::new(file, 0);
    while let Some(raw) = lines.next().map_err(failed)? {
        // A line that a dying process left torn may stand before a whole one;
        // on its own it says nothing.
        let start = memchr::memmem::rfind(raw, b"{\"n\":").unwrap_or_default();
        if let Some(head) = Head::parse(&raw[start..]) {
            remember(&mut last, head, &raw[start..]);
        }
    }
    for (_, raw) in last.values() {
        let Some(head) = Head::parse(raw) else {
            continue;
        };
        if key.is_none_or(|key| head.is_signed_by(key)) {
            remember(&mut known, head, raw);
        } else if !is_torn_copy(audit, head.chain, raw) {
            found.problem(head.chain, 0, 0, Fault::BadSignature);
        }
    }
    Ok(known)
}

/// Whether `raw` is the beginning of a head that stands whole in its chain: a
/// process that died while it wrote the copy leaves that, and the next process
/// ends the line.
fn is_torn_copy(audit: &PrivateDir, chain: &str, raw: &[u8]) -> bool {
    let torn = raw.strip_suffix(b"\n").unwrap_or(raw);
    let Ok(dir) = audit.existing(chain) else {
        return false;
    };
    segments(&dir)
        .unwrap_or_default()
        .into_iter()
        .any(|number| {
            let Ok(file) = open_read(&dir, &segment_name(number)) else {
                return false;
            };
            let mut lines = Lines::new(file, 0);
            while let Ok(Some(line)) = lines.next() {
                if line.starts_with(torn) && line.len() > raw.len() {
                    return true;
                }
            }
            false
        })
}

fn remember(known: &mut Known, head: Head<'_>, raw: &[u8]) {
    let newer = known.get(head.chain).is_none_or(|(n, _)| *n <= head.n);
    if newer {
        known.insert(head.chain.to_owned(), (head.n, raw.to_vec()));
    }
}
