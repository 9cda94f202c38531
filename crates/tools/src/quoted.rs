//! Text as a JSON string. A page of a file goes into every reply, and the
//! writer of serde_json, which looks at it byte by byte, takes as long as
//! reading the file did.

use serde_json::value::RawValue;

/// Writes `text` out as a JSON string.
pub(crate) fn quoted(text: &str) -> serde_json::Result<Box<RawValue>> {
    // Room for a line end in every sixteen bytes.
    let mut out = String::with_capacity(text.len() + text.len() / 16 + 2);
    out.push('"');
    let mut rest = text;
    while let Some((plain, special, after)) = next_special(rest) {
        out.push_str(plain);
        escape(special, &mut out);
        rest = after;
    }
    out.push_str(rest);
    out.push('"');
    // Looks at it once more: nothing that is no JSON leaves here.
    RawValue::from_string(out)
}

/// What comes before the first byte that cannot stand for itself, that byte,
/// and what comes after.
fn next_special(text: &str) -> Option<(&str, u8, &str)> {
    let at = first_special(text.as_bytes())?;
    // All of them are ASCII, so characters begin and end there.
    let special = *text.as_bytes().get(at)?;
    Some((text.get(..at)?, special, text.get(at + 1..)?))
}

/// Eight bytes at a time: a control character, a quote or a backslash leaves
/// the high bit of its byte set, and no byte before it has one.
fn first_special(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let (words, tail) = bytes.as_chunks::<8>();
    for (n, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let quote = zero(word ^ (ONES * u64::from(b'"')));
        let backslash = zero(word ^ (ONES * u64::from(b'\\')));
        let found = (control | quote | backslash) & (ONES << 7);
        if found != 0 {
            return Some(n * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let special = |byte: &u8| matches!(*byte, 0..0x20 | b'"' | b'\\');
    Some(words.len() * 8 + tail.iter().position(special)?)
}

fn escape(special: u8, out: &mut String) {
    let letter = match special {
        b'\n' => 'n',
        b'\r' => 'r',
        b'\t' => 't',
        0x08 => 'b',
        0x0c => 'f',
        b'"' | b'\\' => special.into(),
        control => {
            let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
            out.push_str("\\u00");
            out.push(digit(control >> 4));
            out.push(digit(control & 15));
            return;
        }
    };
    out.push('\\');
    out.push(letter);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_written_as_serde_json_writes_it() {
        let every: String = (0..=0x2100).filter_map(char::from_u32).collect();
        for text in [
            "",
            "a",
            "\"",
            "\n\n",
            "plain ascii, longer than a word",
            "ü\u{1f600}\\",
        ] {
            assert_eq!(
                quoted(text).unwrap().get(),
                serde_json::to_string(text).unwrap()
            );
        }
        // Every character, and everything at every place in a word.
        for skipped in 0..24 {
            let text: String = every.chars().skip(skipped).collect();
            assert_eq!(
                quoted(&text).unwrap().get(),
                serde_json::to_string(&text).unwrap()
            );
        }
        for byte in (0..0x80u8).map(char::from) {
            for place in 0..18 {
                let text = format!("{}{byte}{byte}ÿ{byte}z", "y".repeat(place));
                assert_eq!(
                    quoted(&text).unwrap().get(),
                    serde_json::to_string(&text).unwrap()
                );
            }
        }
    }
}
