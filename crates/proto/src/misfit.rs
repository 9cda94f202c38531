//! Why something from outside does not fit, in words of a bounded length.
//!
//! A parser repeats the value it did not expect, whole: of 16 MiB where there were
//! 16 MiB. Whoever is told, and whatever is written down, gets the beginning of it.

use std::fmt::{self, Display, Write};

/// The longest such reason, in bytes.
const MAX_MISFIT: usize = 512;

/// What `error` says, as far as it is told.
pub fn misfit(error: &impl Display) -> String {
    let mut told = Clipped(String::new());
    // The only failure is that there was more.
    if write!(told, "{error}").is_err() {
        told.0.push('…');
    }
    told.0
}

/// Text that takes so much and no more.
struct Clipped(String);

impl Write for Clipped {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = text.floor_char_boundary(MAX_MISFIT.saturating_sub(self.0.len()));
        self.0.push_str(text.get(..end).unwrap_or_default());
        if end < text.len() {
            Err(fmt::Error)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_is_told_whole_and_what_is_long_begins() {
        assert_eq!(misfit(&"x"), "x");
        assert_eq!(misfit(&"é".repeat(256)), "é".repeat(256));
        let told = misfit(&format_args!("{}{}", "x", "é".repeat(1 << 20)));
        assert_eq!(told, format!("x{}…", "é".repeat(255)));
    }

    #[test]
    fn a_parser_that_repeats_what_it_was_given_is_cut_short() {
        let given = format!("\"{}\"", "z".repeat(1 << 20));
        let error = serde_json::from_str::<Vec<u8>>(&given).unwrap_err();
        assert!(error.to_string().len() > 1 << 20);
        let told = misfit(&error);
        assert!(told.starts_with("invalid type: string \"zzz"), "{told}");
        assert!(told.len() <= MAX_MISFIT + '…'.len_utf8());
    }
}
