//! A head: the line that signs its chain up to itself.
//!
//! `{"n":N,"prev":"…","line":"head","chain":"…","timestamp":"…",
//! "segment":S,"closed":false,"sig":"…128 hex…"}`. The signature covers every
//! byte before `,"sig":`, and so the chain's name, the number and the hash of
//! all that came before. What follows has one spelling. So no bit of a head can
//! change unnoticed, and a copy of it kept elsewhere stands on its own.

use ed25519_dalek::VerifyingKey;

use super::json::{hex, key, unhex};
use super::key::{Key, signed};
use super::line::{Front, Line};

const BEFORE_CHAIN: &[u8] = b"\"line\":\"head\",\"chain\":\"";
const BEFORE_SIG: &[u8] = b",\"sig\":\"";
const AFTER_SIG: &[u8] = b"\"}\n";
const SIG_HEX: usize = 128;

/// Whether a head is the chain's last word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// The process goes on.
    No,
    /// The process closed its ledger in order.
    Yes,
}

/// Writes a head, all but its signature.
pub(crate) fn write_head(line: &mut Line, chain: &str, segment: u32, at_ms: u64, last: Last) {
    let mut json = line.rest(usize::MAX);
    json.word(key!("line"), "head");
    json.word(key!("chain"), chain);
    json.time(key!("timestamp"), at_ms);
    json.number(key!("segment"), segment.into());
    json.raw(key!("closed"));
    json.raw(match last {
        Last::No => "false",
        Last::Yes => "true",
    });
}

/// Puts a head's front and signature in place.
pub(crate) fn sign_head<'l>(line: &'l mut Line, n: u64, prev: &[u8; 64], key: &Key) -> &'l [u8] {
    let signature = key.sign(line.seal(n, prev));
    let mut tail = Vec::with_capacity(BEFORE_SIG.len() + SIG_HEX + AFTER_SIG.len());
    tail.extend_from_slice(BEFORE_SIG);
    hex(&mut tail, &signature);
    tail.extend_from_slice(AFTER_SIG);
    line.extend(&tail);
    line.seal(n, prev)
}

/// A head as read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    pub(crate) n: u64,
    pub(crate) chain: &'a str,
    raw: &'a [u8],
}

impl<'a> Head<'a> {
    /// Whether what follows a front is that of a head.
    pub(crate) fn begins(rest: &[u8]) -> bool {
        rest.starts_with(BEFORE_CHAIN)
    }

    /// Reads a head line. Proves nothing about its signature.
    pub(crate) fn parse(raw: &'a [u8]) -> Option<Self> {
        let front = Front::parse(raw)?;
        let named = front.rest.strip_prefix(BEFORE_CHAIN)?;
        let end = memchr::memchr(b'"', named)?;
        let chain = std::str::from_utf8(named.get(..end)?).ok()?;
        Some(Self {
            n: front.n,
            chain,
            raw,
        })
    }

    /// Whether the signature is there, spelled as we spell it, and `key`'s.
    pub(crate) fn is_signed_by(&self, key: &VerifyingKey) -> bool {
        let parts = || {
            let before = self.raw.strip_suffix(AFTER_SIG)?;
            let (before, sig) = before.split_at_checked(before.len().checked_sub(SIG_HEX)?)?;
            Some((before.strip_suffix(BEFORE_SIG)?, unhex::<64>(sig)?))
        };
        parts().is_some_and(|(text, signature)| signed(key, text, &signature))
    }
}
