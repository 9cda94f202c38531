//! What a tar is packed in: one compressed stream, to its very end.

use std::io::{BufRead as _, BufReader, Read as _};

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use super::format::Format;
use super::limits::{MAX_WINDOW, max_decoded};
use super::source::{Source, Window};
use super::why::{Stop, Why};

type Packed<'a> = BufReader<Window<'a>>;

enum Decoder<'a> {
    Plain(Packed<'a>),
    Gz(Box<GzDecoder<Packed<'a>>>),
    Bz2(BzDecoder<Packed<'a>>),
    Xz(Box<XzReader<Packed<'a>>>),
    Zst(Box<StreamingDecoder<Packed<'a>, FrameDecoder>>),
}

/// A tar's bytes, decoded as they are asked for.
pub(super) struct Input<'a> {
    decoder: Decoder<'a>,
    decoded: u64,
    most: u64,
}

impl<'a> Input<'a> {
    /// The tar in `source`, which is of `format`.
    pub(super) fn new(source: Source<'a>, format: Format) -> Result<Self, Stop> {
        let packed = BufReader::with_capacity(64 * 1024, Window::new(source));
        let decoder = match format {
            Format::TarGz => Decoder::Gz(Box::new(GzDecoder::new(packed))),
            Format::TarBz2 => Decoder::Bz2(BzDecoder::new(packed)),
            Format::TarXz => {
                let most = u32::try_from(MAX_WINDOW / 1024).unwrap_or(u32::MAX);
                // Next to its window a decoder has some tables.
                let most = most + 1024;
                Decoder::Xz(Box::new(XzReader::new_mem_limit(packed, false, most)))
            }
            Format::TarZst => {
                let decoder = StreamingDecoder::new_with_max_window_size(packed, MAX_WINDOW);
                Decoder::Zst(Box::new(decoder.map_err(|error| {
                    if matches!(error, FrameDecoderError::WindowSizeTooBig { .. }) {
                        Why::Memory
                    } else {
                        Why::Damaged
                    }
                })?))
            }
            Format::Tar | Format::Zip => Decoder::Plain(packed),
        };
        Ok(Self {
            decoder,
            decoded: 0,
            most: match format {
                Format::Tar | Format::Zip => u64::MAX,
                Format::TarGz | Format::TarBz2 | Format::TarXz | Format::TarZst => {
                    max_decoded(source.len())
                }
            },
        })
    }

    /// Some bytes; none at the end of the stream.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize, Stop> {
        let got = loop {
            let read = match &mut self.decoder {
                Decoder::Plain(input) => input.read(into),
                Decoder::Gz(input) => input.read(into),
                Decoder::Bz2(input) => input.read(into),
                Decoder::Xz(input) => input.read(into),
                Decoder::Zst(input) => input.read(into),
            };
            match read {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.decoded += got as u64;
        if self.decoded > self.most {
            return Err(Why::Ratio.into());
        }
        Ok(got)
    }

    /// Passes over up to `length` bytes; says how many it were.
    pub(super) fn skip(&mut self, length: u64, buffer: &mut [u8]) -> Result<u64, Stop> {
        if let Decoder::Plain(input) = &mut self.decoder {
            let buffered = input.buffer().len();
            if length > buffered as u64 {
                let behind = length - buffered as u64;
                input.consume(buffered);
                let window = input.get_mut();
                if behind > window.left() {
                    return Err(Why::Truncated.into());
                }
                window.at += behind;
                return Ok(length);
            }
        }
        let most = usize::try_from(length)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let got = self.read(buffer.get_mut(..most).unwrap_or_default())?;
        Ok(got as u64)
    }

    /// Whether the stream is whole, and the last thing in its file.
    pub(super) fn finish(&mut self) -> Result<(), Stop> {
        let (rest, magic) = match &mut self.decoder {
            Decoder::Plain(input) => (input, &b""[..]),
            Decoder::Gz(input) => (input.get_mut(), &b"\x1f\x8b"[..]),
            Decoder::Bz2(input) => (input.get_mut(), &b"BZh"[..]),
            Decoder::Xz(input) => (input.inner_mut(), &b"\xfd7zXZ\0"[..]),
            Decoder::Zst(input) => {
                let decoder = &input.decoder;
                let told = decoder.get_checksum_from_data();
                if told.is_some() && told != decoder.get_calculated_checksum() {
                    return Err(Why::Checksum.into());
                }
                (input.get_mut(), &b"\x28\xb5\x2f\xfd"[..])
            }
        };
        let rest = rest.fill_buf()?;
        if rest.is_empty() {
            return Ok(());
        }
        if rest.starts_with(magic) {
            return Err(Why::Concatenated.into());
        }
        Err(Why::Trailing.into())
    }
}
