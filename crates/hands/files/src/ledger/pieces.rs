//! The files of the audit by when they were written: who wants the newest lines,
//! or those behind one, need not read all of them.

use portcullis_proto::Failure;

use super::files::{length, open_read, read_at, segment_name, segments};
use super::json;
use super::log::{AuditLog, Records, parse};
use super::record::{Filter, Record};
use crate::private_dir::PrivateDir;

/// How much of a file's beginning and end is looked at for its first and last
/// line. A line longer than that leaves the time unknown.
const LOOKED_AT: usize = 64 << 10;

/// One file of one chain.
///
/// Within a chain time only goes on: lines are stamped before they are written,
/// and clocks are set back, but what has the next number was written next. So a
/// file neither begins nor ends before the one before it has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its chain.
    pub chain: String,
    /// Its number in it.
    pub segment: u32,
    /// The number of its first line; nothing where that cannot be told.
    pub first: Option<u64>,
    /// When it begins, as lines spell it.
    pub begun: Option<String>,
    /// When it ends.
    pub ended: Option<String>,
}

impl Piece {
    /// Whether it ends before `ms`, milliseconds since 1970.
    pub fn ends_before(&self, ms: u64) -> bool {
        let ended = self.ended.as_ref();
        ended.is_some_and(|ended| *ended.as_bytes() < *spelled(ms))
    }

    /// Whether it begins after `ms`.
    pub fn begins_after(&self, ms: u64) -> bool {
        let begun = self.begun.as_ref();
        begun.is_some_and(|begun| *begun.as_bytes() > *spelled(ms))
    }
}

fn spelled(ms: u64) -> Vec<u8> {
    let mut when = Vec::with_capacity(24);
    json::timestamp(&mut when, ms);
    when
}

impl AuditLog {
    /// Every file there is, chain by chain, each in order. One that cannot be
    /// read is among them.
    pub fn pieces(&self) -> Result<Vec<Piece>, Failure> {
        let mut pieces = Vec::new();
        for chain in self.chains()? {
            let Ok(dir) = self.audit().existing(&chain) else {
                continue;
            };
            let mut before = None;
            for segment in segments(&dir).unwrap_or_default() {
                let mut piece = Self::piece(&dir, &chain, segment);
                piece.begun = piece.begun.max(before.clone());
                piece.ended = piece.ended.map(|ended| match &before {
                    Some(before) if *before > ended => before.clone(),
                    Some(_) | None => ended,
                });
                before = piece.ended.clone().max(before);
                pieces.push(piece);
            }
        }
        Ok(pieces)
    }

    fn piece(dir: &PrivateDir, chain: &str, segment: u32) -> Piece {
        let (first, ended) = ends(dir, chain, segment).unwrap_or_default();
        Piece {
            chain: chain.to_owned(),
            segment,
            first: first.as_ref().map(|record| record.n),
            begun: first.map(|record| record.timestamp),
            ended,
        }
    }

    /// The lines of one file that `filter` admits.
    pub fn records_of(&self, piece: &Piece, filter: Filter) -> Records {
        Records::of_one(self.audit().clone(), &piece.chain, piece.segment, filter)
    }
}

/// The first line of a file, and the latest time in what is looked at of its end.
fn ends(dir: &PrivateDir, chain: &str, segment: u32) -> Option<(Option<Record>, Option<String>)> {
    let file = open_read(dir, &segment_name(segment)).ok()?;
    let mut buffer = vec![0; LOOKED_AT];
    let read = read_at(&file, &mut buffer, 0).ok()?;
    let head = buffer.get(..read)?.split_inclusive(|byte| *byte == b'\n');
    let first = head.take(1).find_map(|raw| parse(raw, chain).ok());
    let from = length(&file).ok()?.saturating_sub(LOOKED_AT as u64);
    let read = read_at(&file, &mut buffer, from).ok()?;
    let tail = buffer.get(..read)?.split_inclusive(|byte| *byte == b'\n');
    let ended = tail
        .filter_map(|raw| parse(raw, chain).ok())
        .map(|record| record.timestamp)
        .max();
    Some((first, ended.filter(|ended| !ended.is_empty())))
}
