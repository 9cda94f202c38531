//! Writing a tar.gz: the same tree makes the same bytes.

use std::io::Write as _;
use std::os::fd::OwnedFd;

use flate2::Compression;
use flate2::write::GzEncoder;
use portcullis_gate::Live;
use portcullis_proto::{Digest, Failure};

use super::sink::{Sink, each_chunk};
use super::tar::BLOCK;

pub(super) struct TarWriter<'a> {
    gz: GzEncoder<Sink<'a>>,
}

impl<'a> TarWriter<'a> {
    pub(super) fn new(sink: Sink<'a>) -> Self {
        Self {
            gz: GzEncoder::new(sink, Compression::new(6)),
        }
    }

    pub(super) fn directory(&mut self, name: &str) -> Result<(), Failure> {
        self.header(&format!("{name}/"), b'5', 0, 0o755)
    }

    pub(super) fn file(
        &mut self,
        name: &str,
        executable: bool,
        file: &OwnedFd,
        size: u64,
        live: &Live<'_>,
    ) -> Result<(), Failure> {
        self.header(name, b'0', size, if executable { 0o755 } else { 0o644 })?;
        each_chunk(file, size, live, |bytes| self.put(bytes))?;
        self.pad(size)
    }

    pub(super) fn finish(mut self) -> Result<(u64, Digest), Failure> {
        self.put(&[0; 2 * BLOCK])?;
        match self.gz.try_finish() {
            Ok(()) => {}
            Err(error) => return Err(self.gz.get_mut().failed(&error)),
        }
        let sink = self.gz.finish();
        sink.map_err(|error| Failure::from(portcullis_proto::Reason::Io).detail(error))?
            .finish()
    }

    /// A header, after one that holds the name where this one has no room.
    fn header(&mut self, name: &str, kind: u8, size: u64, mode: u32) -> Result<(), Failure> {
        if name.len() > 100 || !name.is_ascii() {
            let record = pax_line("path", name);
            self.put(&block("PaxHeaders", b'x', record.len() as u64, 0o644))?;
            self.put(record.as_bytes())?;
            self.pad(record.len() as u64)?;
        }
        self.put(&block(name, kind, size, mode))
    }

    fn pad(&mut self, size: u64) -> Result<(), Failure> {
        let padding = size.next_multiple_of(BLOCK as u64) - size;
        let zeros = [0; BLOCK];
        let padding = usize::try_from(padding).unwrap_or_default();
        self.put(zeros.get(..padding).unwrap_or_default())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match self.gz.write_all(bytes) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.gz.get_mut().failed(&error)),
        }
    }
}

/// `length key=value`, where the length counts itself.
fn pax_line(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let mut length = rest;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    format!("{length} {key}={value}\n")
}

fn block(name: &str, kind: u8, size: u64, mode: u32) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(field) = block.get_mut(at..at + bytes.len()) {
            field.copy_from_slice(bytes);
        }
    };
    put(
        0,
        name.as_bytes()
            .get(..name.len().min(100))
            .unwrap_or_default(),
    );
    put(100, format!("{mode:07o}\0").as_bytes());
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    if let Some(field) = block.get_mut(148..156) {
        field.copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    block
}
