//! Zips made byte by byte, so that every field of them can lie.

use std::io::Write as _;

/// One entry, and what its two headers say instead of the truth.
#[derive(Clone, Debug, Default)]
pub(crate) struct ZipEntry {
    pub(crate) name: Vec<u8>,
    pub(crate) content: Vec<u8>,
    pub(crate) deflate: bool,
    /// The Unix mode, as the directory has it.
    pub(crate) mode: u32,
    pub(crate) flags: u16,
    pub(crate) method: Option<u16>,
    pub(crate) central_size: Option<u32>,
    pub(crate) central_packed: Option<u32>,
    pub(crate) central_crc: Option<u32>,
    pub(crate) central_offset: Option<u32>,
    pub(crate) central_disk: u16,
    pub(crate) central_extra: Vec<u8>,
    pub(crate) local_name: Option<Vec<u8>>,
    pub(crate) local_size: Option<u32>,
    pub(crate) local_crc: Option<u32>,
    pub(crate) local_method: Option<u16>,
    pub(crate) local_extra: Vec<u8>,
    /// Sizes behind the bytes, and this sum there.
    pub(crate) descriptor: Option<u32>,
    /// Bytes behind the entry that belong to nothing.
    pub(crate) gap: Vec<u8>,
}

pub(crate) fn file(name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> ZipEntry {
    ZipEntry {
        name: name.as_ref().to_vec(),
        content: content.as_ref().to_vec(),
        mode: 0o100_644,
        ..ZipEntry::default()
    }
}

pub(crate) fn deflated(name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> ZipEntry {
    ZipEntry {
        deflate: true,
        ..file(name, content)
    }
}

pub(crate) fn with_mode(name: &str, content: &str, mode: u32) -> ZipEntry {
    ZipEntry {
        mode,
        ..file(name, content)
    }
}

/// What stands around the entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Around {
    pub(crate) before: Vec<u8>,
    pub(crate) behind: Vec<u8>,
    pub(crate) comment: Vec<u8>,
    pub(crate) entries: Option<u16>,
    pub(crate) disk: u16,
    /// A 64-bit end that says there are so many entries.
    pub(crate) end64: Option<u64>,
}

pub(crate) fn crc(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

pub(crate) fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(6));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zip(entries: &[ZipEntry]) -> Vec<u8> {
    zip_around(entries, &Around::default())
}

pub(crate) fn zip_around(entries: &[ZipEntry], around: &Around) -> Vec<u8> {
    let mut out = around.before.clone();
    let mut central = Vec::new();
    let two = |out: &mut Vec<u8>, n: u16| out.extend_from_slice(&n.to_le_bytes());
    let four = |out: &mut Vec<u8>, n: u32| out.extend_from_slice(&n.to_le_bytes());
    let length = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap();
    for entry in entries {
        let packed = if entry.deflate {
            deflate(&entry.content)
        } else {
            entry.content.clone()
        };
        let offset = u32::try_from(out.len() - around.before.len()).unwrap();
        let method = entry.method.unwrap_or(if entry.deflate { 8 } else { 0 });
        let (sum, size) = (
            crc(&entry.content),
            u32::try_from(entry.content.len()).unwrap(),
        );
        let packed_size = u32::try_from(packed.len()).unwrap();
        let later = entry.descriptor.is_some();
        let flags = entry.flags | if later { 8 } else { 0 };
        let name = entry.local_name.as_ref().unwrap_or(&entry.name);
        out.extend_from_slice(b"PK\x03\x04");
        two(&mut out, 20);
        two(&mut out, flags);
        two(&mut out, entry.local_method.unwrap_or(method));
        four(&mut out, 0);
        four(
            &mut out,
            entry.local_crc.unwrap_or(if later { 0 } else { sum }),
        );
        four(&mut out, if later { 0 } else { packed_size });
        four(
            &mut out,
            entry.local_size.unwrap_or(if later { 0 } else { size }),
        );
        two(&mut out, length(name));
        two(&mut out, length(&entry.local_extra));
        out.extend_from_slice(name);
        out.extend_from_slice(&entry.local_extra);
        out.extend_from_slice(&packed);
        if let Some(sum) = entry.descriptor {
            out.extend_from_slice(b"PK\x07\x08");
            four(&mut out, sum);
            four(&mut out, packed_size);
            four(&mut out, size);
        }
        out.extend_from_slice(&entry.gap);

        central.extend_from_slice(b"PK\x01\x02");
        two(&mut central, 0x031e);
        two(&mut central, 20);
        two(&mut central, flags);
        two(&mut central, method);
        four(&mut central, 0);
        four(&mut central, entry.central_crc.unwrap_or(sum));
        four(&mut central, entry.central_packed.unwrap_or(packed_size));
        four(&mut central, entry.central_size.unwrap_or(size));
        two(&mut central, length(&entry.name));
        two(&mut central, length(&entry.central_extra));
        two(&mut central, 0);
        two(&mut central, entry.central_disk);
        two(&mut central, 0);
        four(&mut central, entry.mode << 16);
        four(&mut central, entry.central_offset.unwrap_or(offset));
        central.extend_from_slice(&entry.name);
        central.extend_from_slice(&entry.central_extra);
    }
    let at = u32::try_from(out.len() - around.before.len()).unwrap();
    let size = u32::try_from(central.len()).unwrap();
    let count = around
        .entries
        .unwrap_or_else(|| u16::try_from(entries.len()).unwrap_or(u16::MAX));
    out.extend_from_slice(&central);
    if let Some(entries) = around.end64 {
        let here = out.len() as u64;
        out.extend_from_slice(b"PK\x06\x06");
        out.extend_from_slice(&44u64.to_le_bytes());
        two(&mut out, 45);
        two(&mut out, 45);
        four(&mut out, 0);
        four(&mut out, 0);
        for n in [entries, entries, u64::from(size), u64::from(at)] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        out.extend_from_slice(b"PK\x06\x07");
        four(&mut out, 0);
        out.extend_from_slice(&here.to_le_bytes());
        four(&mut out, 1);
    }
    out.extend_from_slice(b"PK\x05\x06");
    two(&mut out, around.disk);
    two(&mut out, 0);
    two(&mut out, count);
    two(&mut out, count);
    four(&mut out, size);
    four(&mut out, at);
    two(&mut out, length(&around.comment));
    out.extend_from_slice(&around.comment);
    out.extend_from_slice(&around.behind);
    out
}
