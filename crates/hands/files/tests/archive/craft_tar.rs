//! Tars made block by block, and what they can be packed in.

use std::io::Write as _;

/// A header block.
pub(crate) fn header(name: &[u8], kind: u8, size: u64, mode: u32) -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..name.len().min(100)].copy_from_slice(&name[..name.len().min(100)]);
    block[100..108].copy_from_slice(format!("{mode:07o}\0").as_bytes());
    block[108..116].copy_from_slice(b"0000000\0");
    block[116..124].copy_from_slice(b"0000000\0");
    block[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    block[136..148].copy_from_slice(b"00000000000\0");
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
    summed(block)
}

/// A header that names what it links to.
pub(crate) fn link(name: &str, kind: u8, to: &str) -> Vec<u8> {
    let mut block = header(name.as_bytes(), kind, 0, 0o777);
    block[157..157 + to.len()].copy_from_slice(to.as_bytes());
    summed(block)
}

/// The header with its sum right again.
pub(crate) fn summed(mut block: Vec<u8>) -> Vec<u8> {
    block[148..156].copy_from_slice(b"        ");
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// An entry: header, content, padding.
pub(crate) fn entry(name: &[u8], kind: u8, content: &[u8]) -> Vec<u8> {
    let mut out = header(name, kind, content.len() as u64, 0o644);
    out.extend_from_slice(content);
    out.resize(out.len().next_multiple_of(512), 0);
    out
}

pub(crate) fn file(name: &str, content: &str) -> Vec<u8> {
    entry(name.as_bytes(), b'0', content.as_bytes())
}

/// One line of a POSIX extension header.
pub(crate) fn pax_line(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    format!("{length} {key}={value}\n")
}

/// An extension header for the next entry (`x`) or all of them (`g`).
pub(crate) fn pax(kind: u8, lines: &[(&str, &str)]) -> Vec<u8> {
    let text: String = lines
        .iter()
        .map(|(key, value)| pax_line(key, value))
        .collect();
    entry(b"PaxHeaders/x", kind, text.as_bytes())
}

/// The parts, and the end behind them.
pub(crate) fn tar(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut out = parts.concat();
    out.resize(out.len() + 1024, 0);
    out
}

pub(crate) fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn bz2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::new(6));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
