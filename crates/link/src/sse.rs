//! Server-sent events: written by the server, read by the daemon as they come.

use std::fmt;

use crate::bounds::MAX_MESSAGE;

/// A comment that says the stream is alive.
pub fn ping_frame() -> &'static str {
    ": ping\n\n"
}

/// An event with this data, which has no line break, and an id where the dialect
/// has them.
pub fn event_frame(id: Option<u64>, data: &str) -> String {
    debug_assert!(!data.contains(['\n', '\r']), "data of several lines");
    match id {
        Some(id) => format!("id: {id}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    }
}

/// What came over a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A comment: the stream is alive.
    Comment,
    /// An event.
    Event {
        /// The last id told so far, this event's included.
        id: Option<u64>,
        /// Its data, several lines joined.
        data: String,
    },
}

/// A line or an event is larger than any may be: the stream is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oversized;

impl fmt::Display for Oversized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event of more than {MAX_MESSAGE} bytes")
    }
}

/// Takes a stream apart as its bytes come. Holds one event at most, and no more
/// than an event may have.
#[derive(Debug, Default)]
pub struct Frames {
    line: Vec<u8>,
    data: String,
    has_data: bool,
    last_id: Option<u64>,
    /// A line ended with a carriage return: a line feed now belongs to it.
    after_return: bool,
    begun: bool,
}

impl Frames {
    /// Takes `bytes` in; `tell` hears every frame they complete.
    pub fn take(&mut self, bytes: &[u8], mut tell: impl FnMut(Frame)) -> Result<(), Oversized> {
        let mut rest = bytes;
        if self.after_return && !rest.is_empty() {
            self.after_return = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', rest) {
            let (piece, after) = rest.split_at(end);
            self.grow(piece)?;
            rest = match after {
                [b'\r', b'\n', after @ ..] | [b'\r' | b'\n', after @ ..] => after,
                _ => &[],
            };
            self.after_return = after == b"\r";
            let line = std::mem::take(&mut self.line);
            self.end_line(&line, &mut tell)?;
            self.line = line;
            self.line.clear();
        }
        self.grow(rest)
    }

    /// The last id told, for `Last-Event-ID`.
    pub fn last_id(&self) -> Option<u64> {
        self.last_id
    }

    fn grow(&mut self, piece: &[u8]) -> Result<(), Oversized> {
        if self.line.len() + self.data.len() + piece.len() > MAX_MESSAGE {
            return Err(Oversized);
        }
        self.line.extend_from_slice(piece);
        Ok(())
    }

    fn end_line(&mut self, line: &[u8], tell: &mut impl FnMut(Frame)) -> Result<(), Oversized> {
        let mut line = line;
        if !self.begun {
            self.begun = true;
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            if std::mem::take(&mut self.has_data) {
                tell(Frame::Event {
                    id: self.last_id,
                    data: std::mem::take(&mut self.data),
                });
            }
            return Ok(());
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(0) => {
                tell(Frame::Comment);
                return Ok(());
            }
            Some(colon) => {
                let (field, value) = line.split_at(colon);
                let value = value.get(1..).unwrap_or_default();
                (field, value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &b""[..]),
        };
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                // Bytes that are no text become three times as long.
                let text = String::from_utf8_lossy(value);
                if self.data.len() + text.len() > MAX_MESSAGE {
                    return Err(Oversized);
                }
                self.data.push_str(&text);
            }
            b"id" => {
                let number = std::str::from_utf8(value).ok();
                if let Some(id) = number.and_then(|id| id.parse().ok()) {
                    self.last_id = Some(id);
                }
            }
            // `event` and `retry` say nothing here, and others nothing to anybody.
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<Frame> {
        let mut frames = Frames::default();
        let mut told = Vec::new();
        for piece in pieces {
            frames.take(piece, |frame| told.push(frame)).unwrap();
        }
        told
    }

    fn event(id: Option<u64>, data: &str) -> Frame {
        Frame::Event {
            id,
            data: data.to_owned(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let text = format!(
            "{}{}{}",
            event_frame(None, "{}"),
            ping_frame(),
            event_frame(Some(7), "[1]")
        );
        assert_eq!(
            read(&[text.as_bytes()]),
            [event(None, "{}"), Frame::Comment, event(Some(7), "[1]")]
        );
    }

    #[test]
    fn lines_end_in_each_of_the_three_ways_and_data_may_have_several() {
        let text = b"\xef\xbb\xbfdata: a\r\ndata:b\rdata\nevent: x\nretry: 5\nother\n\r\nid: 3\n\n";
        assert_eq!(read(&[text]), [event(None, "a\nb\n")]);
    }

    #[test]
    fn an_id_that_is_none_leaves_the_last_one() {
        assert_eq!(
            read(&[b"id: 4\nid: x\nid: -1\ndata: a\n\n"]),
            [event(Some(4), "a")]
        );
    }

    #[test]
    fn an_event_that_never_ends_is_given_up_and_not_held() {
        let mut frames = Frames::default();
        let piece = vec![b'x'; 1024 * 1024];
        let mut taken = 0;
        while frames.take(&piece, |_| ()).is_ok() {
            taken += piece.len();
            assert!(taken <= MAX_MESSAGE, "{taken}");
        }
        let mut lines = Frames::default();
        let line = [&b"data: "[..], &piece, b"\n"].concat();
        let fitted = (0..64).take_while(|_| lines.take(&line, |_| ()).is_ok());
        assert!(fitted.count() <= 16);
    }

    proptest! {
        #[test]
        fn where_a_stream_is_cut_makes_no_difference(
            text in "(data: ?[a-z]{0,4}|id: [0-9x]{1,2}|: ping|[a-z]{0,3})?((\r\n|\r|\n)(data: ?[a-z]{0,4}|id: [0-9x]{1,2}|:|)){0,12}",
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&bytes[from..cut]);
                from = cut;
            }
            pieces.push(&bytes[from..]);
            prop_assert_eq!(read(&pieces), read(&[bytes]));
        }

        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            read(&[&bytes]);
        }
    }
}
