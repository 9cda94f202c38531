//! A value that must not be printed or compared carelessly.

use std::fmt;

/// A secret: prints as `Secret(…4f)`, compares in constant time.
#[derive(Clone)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// Takes the bytes in.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes, for the one place that needs them.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().zip(&other.0).fold(0u8, |differs, (a, b)| {
                std::hint::black_box(differs | (a ^ b))
            }) == 0
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.0.last().copied().unwrap_or_default();
        write!(f, "Secret(…{last:02x})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_its_last_byte_at_most() {
        assert_eq!(format!("{:?}", Secret::new(*b"hunter\x4f")), "Secret(…4f)");
        assert_eq!(Secret::new(*b"a"), Secret::new(*b"a"));
        assert_ne!(Secret::new(*b"a"), Secret::new(*b"b"));
    }
}
