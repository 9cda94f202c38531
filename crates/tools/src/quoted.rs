//! JSON written by hand. A page of a file, or of a directory, goes into every
//! reply, and the writer of serde_json, which looks at text byte by byte and at
//! every member's name, takes as long as the deed did.

use portcullis_proto::Json;

/// Writes `text` out as a JSON string.
pub(crate) fn quoted(text: &str) -> Json {
    // Room for a line end in every sixteen bytes.
    let mut out = String::with_capacity(text.len() + text.len() / 16 + 2);
    quote(text, &mut out);
    Json::vouched(out)
}

/// Writes `text` to the end of `out`, as a JSON string.
pub(crate) fn quote(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some((plain, special, after)) = next_special(rest) {
        out.push_str(plain);
        escape(special, out);
        rest = after;
    }
    out.push_str(rest);
    out.push('"');
}

/// Writes `number` to the end of `out`. Every entry of a listing has two, and
/// formatting costs three times as much.
pub(crate) fn push_number(number: u64, out: &mut String) {
    let mut digits = [b'0'; 20];
    let mut first = digits.len();
    let mut rest = number;
    for (at, digit) in digits.iter_mut().enumerate().rev() {
        *digit += (rest % 10) as u8;
        first = at;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let digits = digits.get(first..).unwrap_or_default();
    // Digits are text.
    out.push_str(std::str::from_utf8(digits).unwrap_or_default());
}

/// An object that is being written, member by member. Names of members are
/// ours, and plain.
#[derive(Debug)]
pub(crate) struct Object<'a> {
    out: &'a mut String,
    empty: bool,
}

impl<'a> Object<'a> {
    /// Begins one at the end of `out`.
    pub(crate) fn begin(out: &'a mut String) -> Self {
        out.push('{');
        Self { out, empty: true }
    }

    fn name(&mut self, name: &'static str) -> &mut String {
        self.out.push_str(if std::mem::take(&mut self.empty) {
            "\""
        } else {
            ",\""
        });
        self.out.push_str(name);
        self.out.push_str("\":");
        self.out
    }

    pub(crate) fn text(&mut self, name: &'static str, text: &str) -> &mut Self {
        quote(text, self.name(name));
        self
    }

    /// A word of ours, which has nothing to escape.
    pub(crate) fn word(&mut self, name: &'static str, word: &'static str) -> &mut Self {
        let out = self.name(name);
        out.push('"');
        out.push_str(word);
        out.push('"');
        self
    }

    pub(crate) fn number(&mut self, name: &'static str, number: u64) -> &mut Self {
        push_number(number, self.name(name));
        self
    }

    pub(crate) fn signed(&mut self, name: &'static str, number: i64) -> &mut Self {
        let out = self.name(name);
        if number < 0 {
            out.push('-');
        }
        push_number(number.unsigned_abs(), out);
        self
    }

    pub(crate) fn flag(&mut self, name: &'static str, flag: bool) -> &mut Self {
        self.name(name)
            .push_str(if flag { "true" } else { "false" });
        self
    }

    /// A word of ours, or null.
    pub(crate) fn word_or_null(
        &mut self,
        name: &'static str,
        word: Option<&'static str>,
    ) -> &mut Self {
        match word {
            Some(word) => self.word(name, word),
            None => self.null(name),
        }
    }

    /// A number, or null.
    pub(crate) fn number_or_null(&mut self, name: &'static str, number: Option<u64>) -> &mut Self {
        match number {
            Some(number) => self.number(name, number),
            None => self.null(name),
        }
    }

    pub(crate) fn null(&mut self, name: &'static str) -> &mut Self {
        self.name(name).push_str("null");
        self
    }

    /// A member that is written already.
    pub(crate) fn json(&mut self, name: &'static str, json: &Json) -> &mut Self {
        self.name(name).push_str(json.get());
        self
    }

    /// A member whose value `write` writes.
    pub(crate) fn with(
        &mut self,
        name: &'static str,
        write: impl FnOnce(&mut String),
    ) -> &mut Self {
        write(self.name(name));
        self
    }

    /// Ends it.
    pub(crate) fn end(self) {
        self.out.push('}');
    }
}

/// Writes a list to the end of `out`, each of `items` by `write`.
pub(crate) fn push_list<T>(out: &mut String, items: &[T], write: impl Fn(&T, &mut String)) {
    out.push('[');
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        write(item, out);
    }
    out.push(']');
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
            assert_eq!(quoted(text).get(), serde_json::to_string(text).unwrap());
        }
        // Every character, and everything at every place in a word.
        for skipped in 0..24 {
            let text: String = every.chars().skip(skipped).collect();
            assert_eq!(quoted(&text).get(), serde_json::to_string(&text).unwrap());
        }
        for byte in (0..0x80u8).map(char::from) {
            for place in 0..18 {
                let text = format!("{}{byte}{byte}ÿ{byte}z", "y".repeat(place));
                assert_eq!(quoted(&text).get(), serde_json::to_string(&text).unwrap());
            }
        }
    }

    #[test]
    fn an_object_is_written_as_serde_json_writes_it() {
        let numbers = [0, 1, 9, 10, 12_345, u64::MAX];
        for number in numbers {
            let mut out = String::new();
            let mut object = Object::begin(&mut out);
            let signed = number.cast_signed();
            object
                .text("text", "a \"b\"\n")
                .word("word", "plain")
                .number("number", number)
                .signed("signed", signed)
                .flag("flag", number == 0)
                .json("json", &quoted("\u{1}"))
                .with("with", |out| out.push_str("[]"));
            object.end();
            let want = format!(
                r#"{{"text":"a \"b\"\n","word":"plain","number":{number},"signed":{signed},"flag":{},"json":"\u0001","with":[]}}"#,
                number == 0
            );
            assert_eq!(out, want);
        }
        let mut out = String::new();
        Object::begin(&mut out).end();
        assert_eq!(out, "{}");
    }
}
