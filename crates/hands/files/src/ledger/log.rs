//! Reads the audit of all processes, chain by chain.

use ed25519_dalek::VerifyingKey;
use portcullis_proto::Failure;

use super::files::{self, AUDIT, chains, open_read, segment_name, segments};
use super::follow::Follow;
use super::key::Key;
use super::lines::Lines;
use super::record::{Filter, Record};
use super::verify::{self, Verification};
use crate::private_dir::{PrivateDir, os_failure};

/// The audit in a data directory, for reading.
#[derive(Debug)]
pub struct AuditLog {
    audit: PrivateDir,
    key: Option<VerifyingKey>,
}

impl AuditLog {
    pub(crate) fn audit(&self) -> &PrivateDir {
        &self.audit
    }

    /// Opens the audit in `data`.
    pub fn open(data: &PrivateDir) -> Result<Self, Failure> {
        let audit = data.sub(AUDIT)?;
        let key = Key::load(&audit)?.map(|key| key.public());
        Ok(Self { audit, key })
    }

    /// The names of the chains, oldest first. A name begins with the start of
    /// its process in milliseconds.
    pub fn chains(&self) -> Result<Vec<String>, Failure> {
        chains(&self.audit)
    }

    /// Whether the process that writes `chain` is alive.
    pub fn is_live(&self, chain: &str) -> bool {
        self.audit
            .existing(chain)
            .is_ok_and(|dir| files::is_live(&dir))
    }

    /// The lines `filter` admits: chain by chain in the order they started,
    /// each from its beginning.
    pub fn records(&self, filter: Filter) -> Result<Records, Failure> {
        let mut chains = self.chains()?;
        chains.reverse();
        Ok(Records {
            audit: self.audit.clone(),
            filter,
            chains,
            open: None,
        })
    }

    /// What is written from now on, by this and every other process.
    pub fn follow(&self, filter: Filter) -> Result<Follow, Failure> {
        Follow::new(self.audit.clone(), filter)
    }

    /// Checks every chain against itself, its signatures and the file of heads.
    pub fn verify(&self) -> Result<Verification, Failure> {
        self.verify_against(&[])
    }

    /// Checks as [`Self::verify`] does, and against head lines that were kept
    /// elsewhere, out of reach of whoever could change this directory.
    pub fn verify_against(&self, heads: &[String]) -> Result<Verification, Failure> {
        verify::verify(&self.audit, self.key.as_ref(), heads)
    }
}

/// A line that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// In which chain.
    pub chain: String,
    /// In which of its files.
    pub segment: u32,
    /// Which line of that file, from 1; 0 for the file itself.
    pub line: u64,
    /// What is wrong with it.
    pub why: String,
}

/// The lines of the audit that a filter admits.
#[derive(Debug)]
pub struct Records {
    audit: PrivateDir,
    filter: Filter,
    /// Still to be read; the next one is last.
    chains: Vec<String>,
    open: Option<OpenChain>,
}

#[derive(Debug)]
struct OpenChain {
    name: String,
    dir: PrivateDir,
    /// Still to be read; the next one is last.
    segments: Vec<u32>,
    segment: u32,
    line: u64,
    lines: Option<Lines>,
}

impl OpenChain {
    fn new(audit: &PrivateDir, name: String) -> Result<Self, BadLine> {
        let open = || {
            let dir = audit.existing(&name)?;
            let mut segments = segments(&dir)?;
            segments.reverse();
            Ok((dir, segments))
        };
        match open() {
            Ok((dir, segments)) => Ok(Self {
                dir,
                segments,
                segment: 0,
                line: 0,
                lines: None,
                name,
            }),
            Err(failure) => Err(bad(&name, 0, 0, Failure::message(&failure))),
        }
    }

    /// The next line, or `None` at the end of the chain.
    fn next(&mut self) -> Option<Result<Record, BadLine>> {
        loop {
            let Some(lines) = &mut self.lines else {
                self.segment = self.segments.pop()?;
                self.line = 0;
                match open_read(&self.dir, &segment_name(self.segment)) {
                    Ok(file) => self.lines = Some(Lines::new(file, 0)),
                    Err(errno) => return Some(Err(self.bad(&os(errno, &self.dir)))),
                }
                continue;
            };
            match lines.next() {
                Ok(Some(raw)) => {
                    self.line += 1;
                    let record = parse(raw, &self.name);
                    return Some(record.map_err(|why| self.bad(&why)));
                }
                Ok(None) => self.lines = None,
                Err(errno) => {
                    self.lines = None;
                    return Some(Err(self.bad(&os(errno, &self.dir))));
                }
            }
        }
    }

    fn bad(&self, why: &str) -> BadLine {
        bad(&self.name, self.segment, self.line, why)
    }
}

impl Records {
    /// The lines of one file alone.
    pub(crate) fn of_one(audit: PrivateDir, chain: &str, segment: u32, filter: Filter) -> Self {
        let open = audit.existing(chain).ok().map(|dir| OpenChain {
            name: chain.to_owned(),
            dir,
            segments: vec![segment],
            segment: 0,
            line: 0,
            lines: None,
        });
        Self {
            audit,
            filter,
            chains: Vec::new(),
            open,
        }
    }
}

impl Iterator for Records {
    type Item = Result<Record, BadLine>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(chain) = &mut self.open else {
                match OpenChain::new(&self.audit, self.chains.pop()?) {
                    Ok(chain) => self.open = Some(chain),
                    Err(bad) => return Some(Err(bad)),
                }
                continue;
            };
            match chain.next() {
                Some(Ok(record)) if self.filter.admits(&record) => return Some(Ok(record)),
                Some(Ok(_)) => {}
                Some(Err(bad)) => return Some(Err(bad)),
                None => self.open = None,
            }
        }
    }
}

/// Reads one line, and fills in its chain, which only some lines name.
pub(crate) fn parse(raw: &[u8], chain: &str) -> Result<Record, String> {
    if !raw.ends_with(b"\n") {
        return Err("the line is not finished".to_owned());
    }
    let mut record: Record = serde_json::from_slice(raw).map_err(|error| error.to_string())?;
    if record.chain.is_empty() {
        chain.clone_into(&mut record.chain);
    }
    Ok(record)
}

fn bad(chain: &str, segment: u32, line: u64, why: &str) -> BadLine {
    BadLine {
        chain: chain.to_owned(),
        segment,
        line,
        why: why.to_owned(),
    }
}

fn os(errno: rustix::io::Errno, dir: &PrivateDir) -> String {
    os_failure(errno, dir.path()).message().to_owned()
}
