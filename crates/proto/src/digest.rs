//! A SHA-256 value, shown as hex.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// All zero: what stands before the first line of a chain.
    pub const ZERO: Self = Self([0; 32]);

    /// The digest as 64 lower-case hex digits.
    pub fn hex(&self) -> String {
        let mut text = String::with_capacity(64);
        self.write_hex(&mut text);
        text
    }

    /// Appends the hex digits to `text`, without an allocation of its own.
    pub fn write_hex(&self, text: &mut String) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for byte in self.0 {
            text.push(DIGITS[usize::from(byte >> 4)].into());
            text.push(DIGITS[usize::from(byte & 15)].into());
        }
    }

    /// Reads 64 lower-case hex digits: a digest has one spelling.
    pub fn parse(hex: &str) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
        if pairs.len() != 32 || !rest.is_empty() {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex())
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.hex())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not 64 hex digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_one_spelling() {
        let digest = Digest([0xa5; 32]);
        assert_eq!(Digest::parse(&digest.hex()), Some(digest));
        for bad in [
            digest.hex().to_uppercase(),
            "+f".repeat(32),
            "a5".repeat(31),
            format!("{}0", digest.hex()),
            "é".repeat(32),
        ] {
            assert_eq!(Digest::parse(&bad), None, "{bad}");
        }
    }
}
