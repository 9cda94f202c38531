//! Reads a file line by line through a small buffer.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

/// How much is read at once.
const BUFFER: usize = 64 << 10;
/// How far the buffer grows for a line that does not end, such as the run of
/// zeros a power cut can leave.
const MAX_BUFFER: usize = 128 << 20;

/// The lines of a file from some place on.
#[derive(Debug)]
pub(crate) struct Lines {
    file: OwnedFd,
    buffer: Vec<u8>,
    /// The part of the buffer that was read and not yet given out.
    start: usize,
    end: usize,
    /// Where in the file `end` is.
    offset: u64,
}

impl Lines {
    pub(crate) fn new(file: OwnedFd, offset: u64) -> Self {
        Self {
            file,
            buffer: vec![0; BUFFER],
            start: 0,
            end: 0,
            offset,
        }
    }

    /// Where in the file the next line begins.
    pub(crate) fn position(&self) -> u64 {
        self.offset - (self.end - self.start) as u64
    }

    /// The next line with its newline; only the last one can be without.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, Errno> {
        let mut searched = self.start;
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[searched..self.end]) {
                return Ok(Some(self.give(searched + at + 1)));
            }
            searched = self.end;
            if self.end == self.buffer.len() {
                if self.start == 0 && self.end >= MAX_BUFFER {
                    return Err(Errno::FBIG);
                }
                if self.start == 0 {
                    self.buffer.resize(self.end * 2, 0);
                }
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                searched -= self.start;
                self.start = 0;
            }
            match rustix::io::pread(&self.file, &mut self.buffer[self.end..], self.offset) {
                Ok(0) if self.start == self.end => return Ok(None),
                Ok(0) => return Ok(Some(self.give(self.end))),
                Ok(read) => {
                    self.end += read;
                    self.offset += read as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    fn give(&mut self, to: usize) -> &[u8] {
        let from = std::mem::replace(&mut self.start, to);
        &self.buffer[from..to]
    }
}
