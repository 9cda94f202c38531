//! Goes through one chain from its first line to its last.
//!
//! Each line must carry the next number and the hash of the line before. After
//! a line that does not, the walk goes on from what is there, so that one
//! change is one problem, not one for every line after it.

use ed25519_dalek::VerifyingKey;
use rustix::io::Errno;
use serde::de::IgnoredAny;

use super::chain::{GENESIS, hash};
use super::files::{is_live, open_read, segment_name, segments};
use super::head::Head;
use super::json::unhex;
use super::line::{Front, MAX_LINE};
use super::lines::Lines;
use super::verify::{Fault, UnsignedTail, Verification};
use crate::private_dir::PrivateDir;

const EVENT: &[u8] = b"\"timestamp\":\"";
const START: &[u8] = b"\"line\":\"start\",\"chain\":\"";
const SEGMENT: &[u8] = b"\"line\":\"segment\",\"chain\":\"";
const RECOVERED: &[u8] = b"\"line\":\"recovered\",";
/// How every whole line ends.
const END: &[u8] = b"}\n";

/// What a line is, by what follows its front.
enum Kind<'a> {
    Event,
    /// With what follows `"chain":"`.
    Start(&'a [u8]),
    Segment(&'a [u8]),
    Head,
    Recovered,
    /// Not one of ours, or cut off before its end.
    Unknown,
}

impl<'a> Kind<'a> {
    fn of(rest: &'a [u8]) -> Self {
        if !rest.ends_with(END) {
            // What a dying process left of a head or of a start proves nothing
            // and promises nothing: the `recovered` line after it excuses it.
            Self::Unknown
        } else if rest.starts_with(EVENT) {
            Self::Event
        } else if Head::begins(rest) {
            Self::Head
        } else if let Some(named) = rest.strip_prefix(START) {
            Self::Start(named)
        } else if let Some(named) = rest.strip_prefix(SEGMENT) {
            Self::Segment(named)
        } else if rest.starts_with(RECOVERED) {
            Self::Recovered
        } else {
            Self::Unknown
        }
    }
}

/// Which heads' signatures to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signatures {
    /// The last one: the hashes bind all that comes before it.
    Last,
    /// Every one.
    All,
}

/// The signature of the chain's last head is not good.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastIsBad;

/// One chain being checked.
pub(crate) struct Walk<'a> {
    chain: &'a str,
    key: Option<VerifyingKey>,
    /// The last head known from outside.
    known: Option<(u64, &'a [u8])>,
    signatures: Signatures,
    found: Verification,
    segment: u32,
    line: u64,
    /// The number and hash the next line must carry.
    next: u64,
    prev: [u8; 64],
    /// Lines that are none of ours, unless a `recovered` line follows.
    suspects: Vec<(u32, u64)>,
    last_head: Option<Vec<u8>>,
    /// The last line, which nothing but a signature covers.
    last: Vec<u8>,
    /// The number after the last head that counts.
    signed: u64,
    torn: bool,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(
        chain: &'a str,
        key: Option<VerifyingKey>,
        known: Option<(u64, &'a [u8])>,
        signatures: Signatures,
    ) -> Self {
        Self {
            chain,
            key,
            known,
            signatures,
            found: Verification::default(),
            segment: 0,
            line: 0,
            next: 0,
            prev: GENESIS,
            suspects: Vec::new(),
            last_head: None,
            last: Vec::new(),
            signed: 0,
            torn: false,
        }
    }

    pub(crate) fn run(mut self, audit: &PrivateDir) -> Result<Verification, LastIsBad> {
        self.found.chains = 1;
        let mut live = false;
        if let Ok(dir) = audit.existing(self.chain) {
            live = is_live(&dir);
            self.read(&dir);
        } else {
            self.problem(Fault::Unreadable);
        }
        self.finish(live)
    }

    fn read(&mut self, dir: &PrivateDir) {
        let Ok(numbers) = segments(dir) else {
            return self.problem(Fault::Unreadable);
        };
        let last = numbers.last().copied().unwrap_or_default();
        let mut want = 0;
        for number in numbers {
            self.line = 0;
            for missing in want..number {
                self.segment = missing;
                self.problem(Fault::MissingSegment);
            }
            want = number + 1;
            self.segment = number;
            if self.read_segment(dir, number == last).is_err() {
                self.problem(Fault::Unreadable);
            }
        }
    }

    fn read_segment(&mut self, dir: &PrivateDir, is_last: bool) -> Result<(), Errno> {
        let mut lines = Lines::new(open_read(dir, &segment_name(self.segment))?, 0);
        while let Some(raw) = lines.next()? {
            self.line += 1;
            self.found.bytes += raw.len() as u64;
            if is_last && !raw.ends_with(b"\n") {
                // Nothing was promised about a line that is not finished.
                self.torn = true;
            } else {
                self.found.lines += 1;
                self.check(raw);
            }
        }
        Ok(())
    }

    fn check(&mut self, raw: &[u8]) {
        match Front::parse(raw) {
            Some(front) if raw.len() <= MAX_LINE => self.check_front(raw, front),
            _ => self.suspects.push((self.segment, self.line)),
        }
        self.next = self.next.saturating_add(1);
        self.prev = hash(raw);
        self.last.clear();
        self.last.extend_from_slice(raw);
    }

    fn check_front(&mut self, raw: &[u8], front: Front<'_>) {
        let in_order = front.n == self.next;
        let linked = front.prev == self.prev;
        let kind = Kind::of(front.rest);
        match kind {
            Kind::Recovered if in_order && linked => {
                self.found.recovered += 1;
                self.suspects.clear();
            }
            Kind::Unknown => self.suspects.push((self.segment, self.line)),
            Kind::Event | Kind::Start(_) | Kind::Segment(_) | Kind::Head | Kind::Recovered => {
                self.accuse();
            }
        }
        if !in_order {
            self.problem(Fault::OutOfOrder {
                want: self.next,
                found: front.n,
            });
            self.next = front.n;
        } else if !linked {
            self.problem(Fault::BrokenLink);
        }
        match kind {
            Kind::Start(named) => {
                self.check_name(named);
                self.check_start(raw);
            }
            Kind::Segment(named) => self.check_name(named),
            Kind::Head => self.check_head(raw),
            Kind::Event | Kind::Recovered | Kind::Unknown => {}
        }
        if let Some((n, known)) = self.known
            && n == front.n
            && known != raw
        {
            self.problem(Fault::OtherHead);
        }
    }

    /// The suspects have no excuse.
    fn accuse(&mut self) {
        for (segment, line) in std::mem::take(&mut self.suspects) {
            self.found
                .problem(self.chain, segment, line, Fault::Malformed);
        }
    }

    fn check_name(&mut self, named: &[u8]) {
        let end = memchr::memchr(b'"', named).unwrap_or_default();
        if named.get(..end) != Some(self.chain.as_bytes()) {
            self.problem(Fault::ForeignChain);
        }
    }

    /// The first line tells the key, which must be the audit's.
    fn check_start(&mut self, raw: &[u8]) {
        #[derive(serde::Deserialize)]
        struct Start<'a> {
            key: &'a str,
        }
        let named = serde_json::from_slice::<Start<'_>>(raw)
            .ok()
            .and_then(|start| unhex::<32>(start.key.as_bytes()))
            .and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok());
        match (self.key, named) {
            (_, None) => self.problem(Fault::Malformed),
            (None, Some(named)) => self.key = Some(named),
            (Some(key), Some(named)) if key == named => {}
            (Some(_), Some(_)) => self.problem(Fault::WrongKey),
        }
    }

    fn check_head(&mut self, raw: &[u8]) {
        self.found.heads += 1;
        let Some(head) = Head::parse(raw) else {
            return self.problem(Fault::Malformed);
        };
        if head.chain != self.chain {
            return self.problem(Fault::ForeignChain);
        }
        match self.signatures {
            Signatures::Last => {
                let last = self.last_head.get_or_insert_default();
                last.clear();
                last.extend_from_slice(raw);
            }
            Signatures::All if self.is_signed(head) => {}
            Signatures::All => return self.problem(Fault::BadSignature),
        }
        self.signed = head.n.saturating_add(1);
    }

    fn is_signed(&self, head: Head<'_>) -> bool {
        self.key.is_some_and(|key| head.is_signed_by(&key))
    }

    fn finish(mut self, live: bool) -> Result<Verification, LastIsBad> {
        let last = self.last_head.take();
        if let Some(head) = last.as_deref().and_then(Head::parse)
            && !self.is_signed(head)
        {
            return Err(LastIsBad);
        }
        // No hash covers the last line, and no signature if it is not a head:
        // at least it must be one line.
        let is_json = || serde_json::from_slice::<IgnoredAny>(&self.last).is_ok();
        if self.suspects.is_empty() && !self.last.is_empty() && !is_json() {
            self.problem(Fault::Malformed);
        }
        self.accuse();
        if let Some((n, _)) = self.known
            && self.next <= n
        {
            self.line = 0;
            self.problem(Fault::LostTail {
                have: self.next,
                signed: n + 1,
            });
        }
        let lines = self.next.saturating_sub(self.signed);
        if lines > 0 || self.torn {
            self.found.unsigned_tail.push(UnsignedTail {
                chain: self.chain.to_owned(),
                lines,
                torn: self.torn,
                live,
            });
        }
        Ok(self.found)
    }

    fn problem(&mut self, what: Fault) {
        self.found
            .problem(self.chain, self.segment, self.line, what);
    }
}
