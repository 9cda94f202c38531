//! The bytes of one entry of a zip.

use flate2::{Crc, Decompress, FlushDecompress, Status};
use portcullis_proto::Failure;

use super::manifest::{Data, Item};
use super::source::{Pace, Source};
use super::why::{Refused, Stop, Why};

const CHUNK: usize = 64 * 1024;

/// Unpacks entries one after the other, with the same memory.
pub(super) struct Unzip<'a> {
    source: Source<'a>,
    pace: Pace<'a>,
    inflate: Decompress,
    packed: Vec<u8>,
    unpacked: Vec<u8>,
}

impl<'a> Unzip<'a> {
    pub(super) fn new(source: Source<'a>, pace: Pace<'a>) -> Self {
        Self {
            source,
            pace,
            inflate: Decompress::new(false),
            packed: vec![0; CHUNK],
            unpacked: vec![0; CHUNK],
        }
    }

    /// Hands the content of `item` on, and holds it to its size and its sum.
    pub(super) fn unpack(
        &mut self,
        item: &Item,
        data: Data,
        put: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Stop> {
        let done = if data.deflated {
            self.inflate(item, data, put)
        } else {
            self.copy(item, data, put)
        };
        done.map_err(|stop| match stop {
            Stop::Refused(Refused { entry: None, why }) => {
                Stop::Refused(Refused::entry(item.path.as_str().as_bytes(), why))
            }
            other @ (Stop::Refused(_) | Stop::Failed(_)) => other,
        })
    }

    fn copy(
        &mut self,
        item: &Item,
        data: Data,
        put: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Stop> {
        let mut sum = Crc::new();
        let mut done = 0;
        while done < item.size {
            (self.pace)()?;
            let read = Self::chunk(
                self.source,
                &mut self.packed,
                data.at + done,
                item.size - done,
            )?;
            sum.update(read);
            put(read)?;
            done += read.len() as u64;
        }
        is_right(&sum, data)
    }

    fn inflate(
        &mut self,
        item: &Item,
        data: Data,
        put: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Stop> {
        let packed_size = item.packed.unwrap_or_default();
        self.inflate.reset(false);
        let mut sum = Crc::new();
        let mut read = 0;
        let mut written = 0u64;
        let mut input: &[u8] = &[];
        loop {
            (self.pace)()?;
            if input.is_empty() && read < packed_size {
                let left = packed_size - read;
                input = Self::chunk(self.source, &mut self.packed, data.at + read, left)?;
                read += input.len() as u64;
            }
            let before = (self.inflate.total_in(), self.inflate.total_out());
            let status = self
                .inflate
                .decompress(input, &mut self.unpacked, FlushDecompress::None)
                .map_err(|_| Why::Damaged)?;
            let took = usize::try_from(self.inflate.total_in() - before.0).unwrap_or(usize::MAX);
            let gave = usize::try_from(self.inflate.total_out() - before.1).unwrap_or(usize::MAX);
            input = input.get(took..).unwrap_or_default();
            written += gave as u64;
            if written > item.size {
                return Err(Why::WrongSize.into());
            }
            let content = self.unpacked.get(..gave).unwrap_or_default();
            sum.update(content);
            put(content)?;
            match status {
                Status::StreamEnd => break,
                Status::Ok | Status::BufError => {
                    if took == 0 && gave == 0 && input.is_empty() && read == packed_size {
                        return Err(Why::Truncated.into());
                    }
                }
            }
        }
        if written != item.size || read != packed_size || !input.is_empty() {
            return Err(Why::WrongSize.into());
        }
        is_right(&sum, data)
    }

    fn chunk<'b>(
        source: Source<'_>,
        buffer: &'b mut [u8],
        at: u64,
        left: u64,
    ) -> Result<&'b [u8], Stop> {
        let most = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let buffer = buffer.get_mut(..most).unwrap_or_default();
        match source.read_at(buffer, at)? {
            0 => Err(Why::Truncated.into()),
            got => Ok(buffer.get(..got).unwrap_or_default()),
        }
    }
}

fn is_right(sum: &Crc, data: Data) -> Result<(), Stop> {
    if sum.sum() == data.crc {
        return Ok(());
    }
    Err(Why::Checksum.into())
}
