//! A reply that is too large for one body, in pieces.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bounds::{MAX_MESSAGE, PIECE};

/// A piece of the JSON text of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Which one, from 0.
    pub index: u32,
    /// Whether it is the last.
    pub last: bool,
    /// The piece.
    pub text: String,
}

/// Cuts a text into pieces, none within a character.
pub fn chunks(text: &str) -> Vec<Chunk> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.len() > PIECE {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    let last = pieces.len() - 1;
    let numbered = pieces.into_iter().enumerate();
    numbered
        .map(|(n, piece)| Chunk {
            index: u32::try_from(n).unwrap_or(u32::MAX),
            last: n == last,
            text: piece.to_owned(),
        })
        .collect()
}

/// What came of a reply so far.
#[derive(Debug, Default)]
pub struct Gathered {
    next: u32,
    text: String,
}

/// Why a piece was not taken. What came before it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadChunk {
    /// Another one is to come first. Where it is one that came already, that was
    /// a repeat and does no harm.
    OutOfOrder {
        /// The one that is missing.
        expected: u32,
    },
    /// It would be more than a reply may have.
    TooLarge,
}

impl fmt::Display for BadChunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfOrder { expected } => write!(f, "piece {expected} is to come next"),
            Self::TooLarge => write!(f, "a reply may have {MAX_MESSAGE} bytes"),
        }
    }
}

impl Gathered {
    /// Adds a piece; the whole text, when it was the last. A piece that came
    /// before is taken for a repeat of it.
    pub fn add(&mut self, chunk: &Chunk) -> Result<Option<String>, BadChunk> {
        if chunk.index < self.next {
            return Ok(None);
        }
        if chunk.index > self.next {
            return Err(BadChunk::OutOfOrder {
                expected: self.next,
            });
        }
        if self.text.len() + chunk.text.len() > MAX_MESSAGE {
            return Err(BadChunk::TooLarge);
        }
        self.text.push_str(&chunk.text);
        self.next += 1;
        // Where it is not taken as a whole, all of it comes again.
        Ok(chunk.last.then(|| std::mem::take(self).text))
    }

    /// How many bytes are held.
    pub fn held(&self) -> usize {
        self.text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_together_again_repeats_and_all() {
        let text = "é€".repeat(400_000);
        let pieces = chunks(&text);
        assert!(pieces.len() > 2);
        let mut gathered = Gathered::default();
        for piece in &pieces {
            assert_eq!(gathered.add(piece).unwrap().is_some(), piece.last);
            if !piece.last {
                assert_eq!(gathered.add(piece), Ok(None));
            }
        }
        // Whoever sends it all once more is heard once more.
        for _ in 0..2 {
            let mut pieces = pieces.iter();
            let whole = pieces.find_map(|piece| gathered.add(piece).unwrap());
            assert_eq!(whole.as_deref(), Some(text.as_str()));
        }
    }

    #[test]
    fn a_gap_and_a_flood_are_refused() {
        let piece = |index, length| Chunk {
            index,
            last: false,
            text: "x".repeat(length),
        };
        let mut gathered = Gathered::default();
        assert_eq!(
            gathered.add(&piece(1, 1)),
            Err(BadChunk::OutOfOrder { expected: 0 })
        );
        assert_eq!(gathered.add(&piece(0, MAX_MESSAGE)), Ok(None));
        assert_eq!(gathered.add(&piece(1, 1)), Err(BadChunk::TooLarge));
        assert_eq!(gathered.held(), MAX_MESSAGE);
    }

    #[test]
    fn a_short_text_is_one_piece() {
        let pieces = chunks("");
        assert_eq!(pieces.len(), 1);
        assert!(pieces.iter().all(|piece| piece.last));
    }
}
