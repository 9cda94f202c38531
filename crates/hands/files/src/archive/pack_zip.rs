//! Writing a zip: the same tree makes the same bytes.
//!
//! Sizes and sums follow each entry's bytes, so that nothing is held in memory
//! and nothing written is written again.

use std::io::Write as _;
use std::os::fd::OwnedFd;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use portcullis_gate::Live;
use portcullis_proto::{Digest, Failure, Reason};

use super::sink::{Sink, each_chunk};

/// 1 January 1980, as a zip spells it: every entry's time.
const DAY: u16 = 0x21;
/// Sizes and sum follow the bytes.
const LATER: u16 = 1 << 3;
/// The name is UTF-8.
const UTF8: u16 = 1 << 11;

pub(super) struct ZipWriter<'a> {
    /// `None` only while an entry is being packed.
    sink: Option<Sink<'a>>,
    directory: Vec<u8>,
    entries: u16,
}

struct Entry<'n> {
    name: &'n str,
    flags: u16,
    method: u16,
    mode: u32,
    crc: u32,
    packed: u32,
    size: u32,
    at: u32,
}

impl<'a> ZipWriter<'a> {
    pub(super) fn new(sink: Sink<'a>) -> Self {
        Self {
            sink: Some(sink),
            directory: Vec::new(),
            entries: 0,
        }
    }

    pub(super) fn directory(&mut self, name: &str) -> Result<(), Failure> {
        let name = format!("{name}/");
        let entry = Entry {
            name: &name,
            flags: UTF8,
            method: 0,
            mode: 0o040_755,
            crc: 0,
            packed: 0,
            size: 0,
            at: self.at()?,
        };
        let local = local(&entry);
        self.put(&local)?;
        self.list(&entry)
    }

    pub(super) fn file(
        &mut self,
        name: &str,
        executable: bool,
        file: &OwnedFd,
        size: u64,
        live: &Live<'_>,
    ) -> Result<(), Failure> {
        let mut entry = Entry {
            name,
            flags: UTF8 | LATER,
            method: 8,
            mode: if executable { 0o100_755 } else { 0o100_644 },
            crc: 0,
            packed: 0,
            size: 0,
            at: self.at()?,
        };
        let local = local(&entry);
        self.put(&local)?;
        let start = self.at()?;
        let sink = self.sink.take().ok_or(Reason::Bug)?;
        let mut deflate = DeflateEncoder::new(sink, Compression::new(6));
        let mut sum = Crc::new();
        each_chunk(file, size, live, |bytes| {
            sum.update(bytes);
            match deflate.write_all(bytes) {
                Ok(()) => Ok(()),
                Err(error) => Err(deflate.get_mut().failed(&error)),
            }
        })?;
        if let Err(error) = deflate.try_finish() {
            return Err(deflate.get_mut().failed(&error));
        }
        let sink = deflate.finish();
        self.sink = Some(sink.map_err(|error| Failure::from(Reason::Io).detail(error))?);
        entry.crc = sum.sum();
        entry.packed = self.at()? - start;
        entry.size = u32::try_from(size).map_err(|_| Reason::TooLarge)?;
        let mut behind = b"PK\x07\x08".to_vec();
        four(&mut behind, &[entry.crc, entry.packed, entry.size]);
        self.put(&behind)?;
        self.list(&entry)
    }

    pub(super) fn finish(mut self) -> Result<(u64, Digest), Failure> {
        let at = self.at()?;
        let size = u32::try_from(self.directory.len()).map_err(|_| Reason::TooLarge)?;
        let mut end = std::mem::take(&mut self.directory);
        end.extend_from_slice(b"PK\x05\x06");
        two(&mut end, &[0, 0, self.entries, self.entries]);
        four(&mut end, &[size, at]);
        two(&mut end, &[0]);
        self.put(&end)?;
        self.sink.take().ok_or(Reason::Bug)?.finish()
    }

    fn at(&self) -> Result<u32, Failure> {
        let bytes = self
            .sink
            .as_ref()
            .map(|sink| sink.bytes)
            .ok_or(Reason::Bug)?;
        u32::try_from(bytes).map_err(|_| Reason::TooLarge.into())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let sink = self.sink.as_mut().ok_or(Reason::Bug)?;
        match sink.write_all(bytes) {
            Ok(()) => Ok(()),
            Err(error) => Err(sink.failed(&error)),
        }
    }

    /// Adds it to the directory.
    fn list(&mut self, entry: &Entry<'_>) -> Result<(), Failure> {
        let name = u16::try_from(entry.name.len()).map_err(|_| Reason::NameTooLong)?;
        let out = &mut self.directory;
        out.extend_from_slice(b"PK\x01\x02");
        // Made on a Unix; read by version 2.0.
        two(out, &[0x031e, 20, entry.flags, entry.method, 0, DAY]);
        four(out, &[entry.crc, entry.packed, entry.size]);
        two(out, &[name, 0, 0, 0, 0]);
        four(out, &[entry.mode << 16, entry.at]);
        out.extend_from_slice(entry.name.as_bytes());
        self.entries += 1;
        Ok(())
    }
}

fn local(entry: &Entry<'_>) -> Vec<u8> {
    let mut out = b"PK\x03\x04".to_vec();
    two(&mut out, &[20, entry.flags, entry.method, 0, DAY]);
    four(&mut out, &[entry.crc, entry.packed, entry.size]);
    let name = u16::try_from(entry.name.len()).unwrap_or_default();
    two(&mut out, &[name, 0]);
    out.extend_from_slice(entry.name.as_bytes());
    out
}

fn two(out: &mut Vec<u8>, numbers: &[u16]) {
    out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

fn four(out: &mut Vec<u8>, numbers: &[u32]) {
    out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}
