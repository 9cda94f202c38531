//! Where a text stands in the bytes of a file: every place, in linear time.
//!
//! A place starts and ends between two characters, and never between the CR and
//! the LF of one line end. The bytes are compared as they are; nothing here
//! knows of similar text.

use std::ops::Range;

use super::breaks::{Terminator, Unit, last_break, next_terminator};
use super::charset::Charset;

/// What is searched: a file's bytes after its byte order mark.
#[derive(Clone, Copy)]
pub(super) struct Body<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) charset: Charset,
}

impl Body<'_> {
    pub(super) fn unit(&self) -> Unit {
        self.charset.unit()
    }

    /// Whether `at` is between the CR and the LF of one line end.
    fn splits_line_end(&self, at: usize) -> bool {
        let unit = self.unit();
        let before = at.checked_sub(unit.width());
        before.is_some_and(|before| unit.get(self.bytes, before) == Some(0x0d))
            && unit.get(self.bytes, at) == Some(0x0a)
    }
}

/// Every place of `needle` in `body`, overlapping ones included, ascending.
pub(super) fn places(body: Body<'_>, needle: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    // Most needles are there once or not at all, and this is the fast way to know.
    let Some(first) = memchr::memmem::find(body.bytes, needle) else {
        return found;
    };
    if needle.is_empty() {
        return found;
    }
    let width = body.unit().width();
    let mut walk = Walk::new(body.charset);
    let borders = borders(needle);
    let mut matched = 0;
    for (at, byte) in body.bytes.iter().enumerate().skip(first) {
        while matched > 0 && needle.get(matched) != Some(byte) {
            matched = border(&borders, matched);
        }
        if needle.get(matched) == Some(byte) {
            matched += 1;
        }
        if matched < needle.len() {
            continue;
        }
        let place = at + 1 - needle.len()..at + 1;
        matched = border(&borders, matched);
        if place.start.is_multiple_of(width)
            && walk.is_between_characters(body.bytes, place.start)
            && !body.splits_line_end(place.start)
            && !body.splits_line_end(place.end)
        {
            found.push(place);
        }
    }
    found
}

/// For each length of a prefix, the longest shorter prefix that also ends it.
fn borders(needle: &[u8]) -> Vec<usize> {
    let mut borders = vec![0; needle.len() + 1];
    let mut length = 0;
    for (at, byte) in needle.iter().enumerate().skip(1) {
        while length > 0 && needle.get(length) != Some(byte) {
            length = border(&borders, length);
        }
        if needle.get(length) == Some(byte) {
            length += 1;
        }
        borders[at + 1] = length;
    }
    borders
}

fn border(borders: &[usize], length: usize) -> usize {
    borders.get(length).copied().unwrap_or(0)
}

/// Steps over the characters of a file in an encoding that does not synchronise
/// itself. Asked in ascending order, it passes each byte once.
struct Walk {
    charset: Charset,
    /// Always between two characters.
    at: usize,
}

impl Walk {
    fn new(charset: Charset) -> Self {
        Self { charset, at: 0 }
    }

    fn is_between_characters(&mut self, bytes: &[u8], place: usize) -> bool {
        if !self.charset.needs_walking() || place <= self.at {
            return !self.charset.needs_walking() || place == self.at;
        }
        // CR and LF are never part of a character, so a line is a fresh start.
        if let Some((found, _)) = last_break(&bytes[self.at..place], Unit::Byte) {
            self.at += found + 1;
        }
        while self.at < place {
            self.at += self.charset.first_length(&bytes[self.at..]).max(1);
        }
        self.at == place
    }
}

/// A copy in which every line ends in LF, and the way back.
pub(super) struct LfCopy {
    bytes: Vec<u8>,
    /// Where in the copy the LF of each CR LF stands.
    shortened: Vec<usize>,
    unit: Unit,
}

impl LfCopy {
    pub(super) fn of(body: Body<'_>) -> Self {
        let unit = body.unit();
        let mut copy = Self {
            bytes: Vec::with_capacity(body.bytes.len()),
            shortened: Vec::new(),
            unit,
        };
        let lf: &[u8] = match unit {
            Unit::Byte => b"\n",
            Unit::Utf16Le => b"\n\0",
            Unit::Utf16Be => b"\0\n",
        };
        let mut rest = body.bytes;
        while let Some((at, terminator)) = next_terminator(rest, unit) {
            copy.bytes.extend_from_slice(&rest[..at]);
            if terminator == Terminator::Crlf {
                copy.shortened.push(copy.bytes.len());
            }
            copy.bytes.extend_from_slice(lf);
            rest = &rest[at + terminator.as_str().len() * unit.width()..];
        }
        copy.bytes.extend_from_slice(rest);
        copy
    }

    /// Every place of `needle` in the copy, as places in the original.
    pub(super) fn places(&self, charset: Charset, needle: &[u8]) -> Vec<Range<usize>> {
        let body = Body {
            bytes: &self.bytes,
            charset,
        };
        places(body, needle)
            .into_iter()
            .map(|place| self.original(place.start)..self.original(place.end))
            .collect()
    }

    fn original(&self, at: usize) -> usize {
        at + self.unit.width() * self.shortened.partition_point(|&lf| lf < at)
    }
}

/// The line end in use at places asked for in ascending order: the first one at
/// or after the place, else the commonest of the file.
pub(super) struct LineEnds<'a> {
    body: Body<'a>,
    /// The last one found, and where; `None` when none follows.
    next: Option<(usize, Terminator)>,
    commonest: Option<Terminator>,
    started: bool,
}

impl<'a> LineEnds<'a> {
    pub(super) fn new(body: Body<'a>) -> Self {
        Self {
            body,
            next: None,
            commonest: None,
            started: false,
        }
    }

    pub(super) fn at(&mut self, place: usize) -> Terminator {
        let stale = self.next.is_some_and(|(at, _)| at < place);
        if stale || !self.started {
            self.started = true;
            let rest = self.body.bytes.get(place..).unwrap_or_default();
            self.next = next_terminator(rest, self.body.unit())
                .map(|(at, terminator)| (place + at, terminator));
        }
        match self.next {
            Some((_, terminator)) => terminator,
            None => *self.commonest.get_or_insert_with(|| commonest(self.body)),
        }
    }
}

fn commonest(body: Body<'_>) -> Terminator {
    let unit = body.unit();
    let (mut lf, mut crlf, mut cr) = (0u64, 0u64, 0u64);
    let mut rest = body.bytes;
    while let Some((at, terminator)) = next_terminator(rest, unit) {
        match terminator {
            Terminator::Lf => lf += 1,
            Terminator::Crlf => crlf += 1,
            Terminator::Cr => cr += 1,
        }
        rest = &rest[at + terminator.as_str().len() * unit.width()..];
    }
    if crlf > lf && crlf >= cr {
        Terminator::Crlf
    } else if cr > lf {
        Terminator::Cr
    } else {
        Terminator::Lf
    }
}
