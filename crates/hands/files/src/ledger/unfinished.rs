//! Operations that a dead process began and never closed.

use std::collections::HashMap;

use portcullis_proto::{Failure, RelPath, Verb};
use serde_json::from_slice;

use super::files::{
    self, AUDIT, chains, create_append, is_live, open_read, read_at, segment_name, segments,
};
use super::json::parse_timestamp;
use super::lines::Lines;
use super::record::{Record, RecordIdentity, RecordSubject};
use crate::private_dir::{PrivateDir, os_failure};

/// In a chain's directory: nothing of it is left to put right.
const SWEPT: &str = "swept";

/// Something an operation made, and in which root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) root: (u64, u64),
    pub(crate) thing: (u64, u64),
}

/// One operation without a closing line.
#[derive(Clone, Debug)]
pub(crate) struct Unfinished {
    pub(crate) request: String,
    /// When it began, in milliseconds since 1970.
    pub(crate) at: u64,
    /// The number of its opening line.
    n: u64,
    pub(crate) verb: Verb,
    /// The name of the root it was asked for in.
    pub(crate) root_name: String,
    pub(crate) path: RelPath,
    pub(crate) to: Option<RelPath>,
    pub(crate) subject: RecordSubject,
    /// What stood at the target (at the destination, for a copy or an archive).
    pub(crate) base: Option<(u64, u64)>,
    /// What stood at the destination of a move.
    pub(crate) over: Option<(u64, u64)>,
    /// Which directory the root was; `None` if it never made anything.
    pub(crate) root: Option<(u64, u64)>,
    /// What it made, in order: directories on the way, then its draft.
    pub(crate) made: Vec<Made>,
    /// Whether it may have made one more, of which it did not come to tell.
    pub(crate) untold: bool,
    /// The name of the root it led to, if that is another.
    pub(crate) to_root: Option<String>,
}

impl Unfinished {
    /// Whether it is something it made in the root that is `root`.
    pub(crate) fn has_made(&self, root: (u64, u64), thing: (u64, u64)) -> bool {
        self.made.contains(&Made { root, thing })
    }
}

/// A chain whose process is dead, and what it left unfinished.
#[derive(Clone, Debug)]
pub(crate) struct DeadChain {
    pub(crate) name: String,
    pub(crate) operations: Vec<Unfinished>,
}

/// Every chain that was not closed in order and not swept yet.
pub(crate) fn unfinished(data: &PrivateDir) -> Result<Vec<DeadChain>, Failure> {
    let audit = data.sub(AUDIT)?;
    let mut dead = Vec::new();
    for name in chains(&audit)? {
        let chain = audit.existing(&name)?;
        if open_read(&chain, SWEPT).is_ok() || is_live(&chain) || is_closed(&chain)? {
            continue;
        }
        let operations = operations(&chain)?;
        dead.push(DeadChain { name, operations });
    }
    Ok(dead)
}

/// Nothing of the chain called `name` is left to put right.
pub(crate) fn mark_swept(data: &PrivateDir, name: &str) -> Result<(), Failure> {
    let chain = data.sub(AUDIT)?.existing(name)?;
    match create_append(&chain, SWEPT) {
        Ok(_) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(errno) => Err(os_failure(errno, chain.path())),
    }
}

/// Whether the chain ends in the head of a process that closed it in order:
/// then every operation has its closing line.
fn is_closed(chain: &PrivateDir) -> Result<bool, Failure> {
    let Some(last) = segments(chain)?.last().copied() else {
        return Ok(true);
    };
    let failed = |errno| os_failure(errno, chain.path());
    let file = open_read(chain, &segment_name(last)).map_err(failed)?;
    let mut tail = [0; 1024];
    let from = files::length(&file)
        .map_err(failed)?
        .saturating_sub(tail.len() as u64);
    let read = read_at(&file, &mut tail, from).map_err(failed)?;
    let tail = tail.get(..read).unwrap_or_default();
    let line = tail.strip_suffix(b"\n").map(|tail| {
        let start = memchr::memrchr(b'\n', tail).map_or(0, |at| at + 1);
        tail.get(start..).unwrap_or_default()
    });
    Ok(line.is_some_and(|line| memchr::memmem::find(line, b"\"closed\":true").is_some()))
}

fn operations(chain: &PrivateDir) -> Result<Vec<Unfinished>, Failure> {
    let failed = |errno| os_failure(errno, chain.path());
    let mut open: HashMap<String, Unfinished> = HashMap::new();
    for number in segments(chain)? {
        let mut lines = Lines::new(open_read(chain, &segment_name(number)).map_err(failed)?, 0);
        while let Some(line) = lines.next().map_err(failed)? {
            let is = |phase: &[u8]| memchr::memmem::find(line, phase).is_some();
            let opening = is(b"\"phase\":\"opening\"");
            if !opening && (open.is_empty() || !is(b"\"phase\":")) {
                continue;
            }
            // A torn line promises nothing and closes nothing.
            let Ok(record) = from_slice::<Record>(line) else {
                continue;
            };
            let Some(request) = record.request_id.clone() else {
                continue;
            };
            match record.phase.as_deref() {
                Some("opening") => {
                    if let Some(begun) = begun(request.clone(), record) {
                        open.insert(request, begun);
                    }
                }
                Some("staged") => {
                    if let Some(operation) = open.get_mut(&request) {
                        operation.root = record.staged_root.map(thing).or(operation.root);
                        let made = record.staged.map(thing);
                        operation.untold = made.is_none();
                        let made = operation.root.zip(made);
                        let made = made.map(|(root, thing)| Made { root, thing });
                        operation.made.extend(made);
                    }
                }
                _ => {
                    open.remove(&request);
                }
            }
        }
    }
    let mut open: Vec<_> = open.into_values().collect();
    // Latest first: what came last is put right first.
    open.sort_by_key(|operation| std::cmp::Reverse(operation.n));
    Ok(open)
}

fn begun(request: String, record: Record) -> Option<Unfinished> {
    let word = record.operation.as_deref()?;
    let verb = Verb::ALL.into_iter().find(|verb| verb.as_str() == word)?;
    let base = record.identity.map(thing);
    let over = record.destination_identity.map(thing);
    Some(Unfinished {
        request,
        at: parse_timestamp(&record.timestamp).unwrap_or_default(),
        n: record.n,
        verb,
        path: RelPath::parse(record.relative_path.as_deref()?).ok()?,
        to: match record.destination_path.as_deref() {
            Some(to) => Some(RelPath::parse(to).ok()?),
            None => None,
        },
        root_name: record.root.map(|root| root.id).unwrap_or_default(),
        subject: record.subject.unwrap_or_default(),
        base: if matches!(verb, Verb::Copy | Verb::Archive) {
            over
        } else {
            base
        },
        over,
        root: None,
        made: Vec::new(),
        untold: false,
        to_root: record.destination_root.map(|root| root.id),
    })
}

fn thing(identity: RecordIdentity) -> (u64, u64) {
    (identity.dev, identity.ino)
}
