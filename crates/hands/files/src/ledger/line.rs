//! One line of a chain: `{"n":N,"prev":"…64 hex…",` and the rest of an object.
//!
//! Invariants: a line is valid JSON, at most [`MAX_LINE`] bytes with its
//! newline, and begins with its number and the hash of the line before, in
//! that order and spelling, so that verifying needs no JSON parser.
//!
//! The rest is written first, before the chain is locked; the front is put in
//! place, right-aligned, when number and hash are known.

use super::json::{Json, digits};

/// The longest line, newline included.
pub(crate) const MAX_LINE: usize = 4096;

const BEFORE_N: &[u8] = b"{\"n\":";
const BEFORE_PREV: &[u8] = b",\"prev\":\"";
const AFTER_PREV: &[u8] = b"\",";
/// Room for the longest front: a number has at most 20 digits.
const ROOM: usize = BEFORE_N.len() + 20 + BEFORE_PREV.len() + 64 + AFTER_PREV.len();
/// The longest rest that fits behind the longest front.
pub(crate) const MAX_REST: usize = MAX_LINE - ROOM;

/// A line being written; its buffer is used again.
#[derive(Debug)]
pub(crate) struct Line {
    buffer: Vec<u8>,
}

impl Line {
    pub(crate) fn new() -> Self {
        let mut buffer = Vec::with_capacity(1024);
        buffer.resize(ROOM, 0);
        Self { buffer }
    }

    /// Begins the rest anew.
    pub(crate) fn rest(&mut self, string_limit: usize) -> Json<'_> {
        self.buffer.truncate(ROOM);
        Json::new(&mut self.buffer, string_limit)
    }

    /// How long the rest is so far.
    pub(crate) fn rest_len(&self) -> usize {
        self.buffer.len() - ROOM
    }

    /// How long the whole line can get at most.
    pub(crate) fn max_len(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// Appends to what has been sealed already.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Puts the front before the rest and gives the whole line.
    pub(crate) fn seal(&mut self, n: u64, prev: &[u8; 64]) -> &[u8] {
        let (digits, from) = digits(n);
        let mut at = ROOM;
        for part in [AFTER_PREV, prev, BEFORE_PREV, &digits[from..], BEFORE_N] {
            self.buffer[at - part.len()..at].copy_from_slice(part);
            at -= part.len();
        }
        &self.buffer[at..]
    }
}

/// What stands at the front of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Front<'a> {
    /// Its number.
    pub(crate) n: u64,
    /// The hash of the line before, as hex.
    pub(crate) prev: &'a [u8],
    /// What comes after.
    pub(crate) rest: &'a [u8],
}

impl<'a> Front<'a> {
    /// Reads the front of a line, if it has one in our spelling.
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
        let after_n = line.strip_prefix(BEFORE_N)?;
        let count = after_n.iter().take_while(|c| c.is_ascii_digit()).count();
        let (digits, rest) = after_n.split_at_checked(count)?;
        // One spelling per number: no leading zero.
        if count == 0 || count > 20 || (count > 1 && digits[0] == b'0') {
            return None;
        }
        let n = digits.iter().try_fold(0u64, |n, c| {
            n.checked_mul(10)?.checked_add(u64::from(c - b'0'))
        })?;
        let (prev, rest) = rest.strip_prefix(BEFORE_PREV)?.split_at_checked(64)?;
        let rest = rest.strip_prefix(AFTER_PREV)?;
        Some(Self { n, prev, rest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_reads_back() {
        for n in [0, 7, 10, 999, u64::MAX] {
            let mut line = Line::new();
            line.rest(99).raw("\"x\":1}\n");
            let prev = [b'a'; 64];
            let raw = line.seal(n, &prev).to_vec();
            let front = Front::parse(&raw).unwrap();
            assert_eq!((front.n, front.prev), (n, &prev[..]));
            assert_eq!(front.rest, b"\"x\":1}\n");
            let value: serde_json::Value = serde_json::from_slice(&raw).unwrap();
            assert_eq!(value["n"], n);
        }
    }

    #[test]
    fn other_spellings_of_a_front_are_refused() {
        let prev = "a".repeat(64);
        for front in [
            format!("{{\"n\":07,\"prev\":\"{prev}\","),
            format!("{{\"n\":,\"prev\":\"{prev}\","),
            format!("{{ \"n\":7,\"prev\":\"{prev}\","),
            format!("{{\"n\":99999999999999999999,\"prev\":\"{prev}\","),
            "{\"n\":7,\"prev\":\"abc\",".to_owned(),
        ] {
            assert_eq!(Front::parse(front.as_bytes()), None, "{front}");
        }
    }
}
