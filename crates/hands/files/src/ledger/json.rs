//! Writes JSON into a buffer that is used again and again.
//!
//! A line of the audit is written many thousand times a second, so nothing
//! here allocates once the buffer has grown. Characters that would make a line
//! show something other than what it says (controls, text-direction overrides)
//! are always escaped: a line can be printed on a terminal as it is.

/// The name of a member, quoted, with its colon: a literal, so that it is copied
/// at once.
macro_rules! key {
    ($name:literal) => {
        concat!("\"", $name, "\":")
    };
}
pub(crate) use key;

/// A JSON object under construction.
#[derive(Debug)]
pub(crate) struct Json<'a> {
    out: &'a mut Vec<u8>,
    /// The longest a string may get, in bytes as escaped.
    limit: usize,
    clipped: bool,
}

impl<'a> Json<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>, limit: usize) -> Self {
        Self {
            out,
            limit,
            clipped: false,
        }
    }

    /// Whether a string had to be clipped.
    pub(crate) fn clipped(&self) -> bool {
        self.clipped
    }

    /// Bytes that are JSON already.
    #[inline]
    pub(crate) fn raw(&mut self, json: &str) {
        self.out.extend_from_slice(json.as_bytes());
    }

    /// `"name":"value",`
    #[inline]
    pub(crate) fn text(&mut self, key: &str, value: &str) {
        self.raw(key);
        self.string(value);
        self.out.push(b',');
    }

    /// `"name":"word",`, for a word of ours that needs no escape.
    #[inline]
    pub(crate) fn word(&mut self, key: &str, word: &str) {
        self.raw(key);
        self.out.push(b'"');
        self.raw(word);
        self.raw("\",");
    }

    /// `"name":123,`
    #[inline]
    pub(crate) fn number(&mut self, key: &str, value: u64) {
        self.raw(key);
        decimal(self.out, value);
        self.out.push(b',');
    }

    /// `"name":"hex",`
    pub(crate) fn hex(&mut self, key: &str, bytes: &[u8]) {
        self.raw(key);
        self.out.push(b'"');
        hex(self.out, bytes);
        self.raw("\",");
    }

    /// `"name":0.412,`: microseconds as the milliseconds other tools expect.
    pub(crate) fn millis(&mut self, key: &str, micros: u64) {
        self.raw(key);
        decimal(self.out, micros / 1000);
        let part = micros % 1000;
        let digits = [b'.', digit(part / 100), digit(part / 10), digit(part), b','];
        self.out.extend_from_slice(&digits);
    }

    /// `"name":"2026-11-15T21:41:07.123Z",`
    pub(crate) fn time(&mut self, key: &str, at_ms: u64) {
        self.raw(key);
        self.out.push(b'"');
        timestamp(self.out, at_ms);
        self.raw("\",");
    }

    /// `"value"`, clipped in its middle when it is too long: both the way to a
    /// file and its name stay readable.
    pub(crate) fn string(&mut self, value: &str) {
        self.out.push(b'"');
        if value.len() <= self.limit && all_plain(value) {
            self.raw(value);
        } else if value.chars().map(escaped_len).sum::<usize>() <= self.limit {
            value.chars().for_each(|c| escape(self.out, c));
        } else {
            self.clipped = true;
            let half = self.limit / 2;
            let head = fitting(value.chars(), half);
            let tail = fitting(value.chars().rev(), half);
            value.chars().take(head).for_each(|c| escape(self.out, c));
            self.raw("…");
            let skip = value.chars().count().saturating_sub(tail);
            value.chars().skip(skip).for_each(|c| escape(self.out, c));
        }
        self.out.push(b'"');
    }

    /// Takes back the comma after the last member or element, if there is one.
    #[inline]
    pub(crate) fn no_comma(&mut self) {
        if self.out.last() == Some(&b',') {
            self.out.pop();
        }
    }
}

/// How many of `chars` fit into `room` bytes.
fn fitting(chars: impl Iterator<Item = char>, room: usize) -> usize {
    let mut used = 0;
    chars
        .take_while(|&c| {
            used += escaped_len(c);
            used <= room
        })
        .count()
}

/// The bytes that stand for themselves in a JSON string of ours.
static PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = b' ';
    while byte <= b'~' {
        plain[byte as usize] = byte != b'"' && byte != b'\\';
        byte += 1;
    }
    plain
};

/// Whether no character needs an escape. Looks at all bytes instead of stopping
/// at the first that does: nearly always there is none.
#[inline]
fn all_plain(value: &str) -> bool {
    value
        .bytes()
        .fold(true, |plain, byte| plain & PLAIN[usize::from(byte)])
}

/// Controls, and what changes the direction or place of the text around it.
fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

fn escaped_len(c: char) -> usize {
    match c {
        '"' | '\\' => 2,
        _ if is_deceptive(c) => 6,
        _ => c.len_utf8(),
    }
}

fn escape(out: &mut Vec<u8>, c: char) {
    match c {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        // All deceptive characters are below U+10000: one `\u` is enough.
        _ if is_deceptive(c) => {
            out.extend_from_slice(b"\\u");
            let code = u32::from(c).to_be_bytes();
            hex(out, &code[2..]);
        }
        _ => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// Appends `value` in decimal.
pub(crate) fn decimal(out: &mut Vec<u8>, value: u64) {
    let (digits, from) = digits(value);
    out.extend_from_slice(&digits[from..]);
}

/// The decimal digits of `value`, right-aligned, and where they begin.
#[inline]
pub(crate) fn digits(mut value: u64) -> ([u8; 20], usize) {
    let mut digits = [b'0'; 20];
    let mut from = digits.len();
    while value >= 100 {
        from -= 2;
        (digits[from], digits[from + 1]) = (digit(value / 10), digit(value));
        value /= 100;
    }
    from -= 1;
    digits[from] = digit(value);
    if value >= 10 {
        from -= 1;
        digits[from] = digit(value / 10);
    }
    (digits, from)
}

/// The last decimal digit.
const fn digit(value: u64) -> u8 {
    b'0' + (value % 10).to_le_bytes()[0]
}

/// The two hex digits of every byte.
static PAIRS: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    pairs
};

/// Appends `bytes` as lower-case hex.
pub(crate) fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        out.extend_from_slice(&PAIRS[usize::from(*byte)]);
    }
}

/// A hash as lower-case hex.
pub(crate) fn hex_hash(hash: &[u8; 32]) -> [u8; 64] {
    let mut text = [0; 64];
    for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(hash) {
        *pair = PAIRS[usize::from(*byte)];
    }
    text
}

/// Reads lower-case hex, and nothing else: an upper-case digit would be a
/// second spelling of the same bytes, and a flipped bit nobody notices.
pub(crate) fn unhex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    fn nibble(c: u8) -> Option<u8> {
        match c {
            b'0'..=b'9' => Some(c - b'0'),
            b'a'..=b'f' => Some(c - b'a' + 10),
            _ => None,
        }
    }
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(bytes)
}

/// Milliseconds since 1970 of a time as [`timestamp`] writes it.
pub(crate) fn parse_timestamp(text: &str) -> Option<u64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let ms = number(20, 23)?;
    if text.len() != 24 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // The inverse: years begin in March, so that the leap day comes last.
    let year = year.checked_sub(u64::from(month <= 2))?;
    let (era, year_of_era) = (year / 400, year % 400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (era * 146_097 + day_of_era).checked_sub(719_468)?;
    Some(((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + ms)
}

/// Appends RFC 3339 in UTC with milliseconds. Always the same width (until the
/// year 10000), so that times compare as text.
pub(crate) fn timestamp(out: &mut Vec<u8>, at_ms: u64) {
    let (seconds, ms) = (at_ms / 1000, at_ms % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days to a date in the proleptic Gregorian calendar, counting years from
    // March so that the leap day comes last.
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let mut text = *b"0000-00-00T00:00:00.000Z";
    for (at, value) in [
        (0, year / 100),
        (2, year),
        (5, month),
        (8, day),
        (11, second / 3600),
        (14, second / 60 % 60),
        (17, second % 60),
        (20, ms / 10),
    ] {
        text[at] = digit(value / 10);
        text[at + 1] = digit(value);
    }
    text[22] = digit(ms);
    out.extend_from_slice(&text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_time(at_ms: u64, want: &str) {
        let mut out = Vec::new();
        timestamp(&mut out, at_ms);
        assert_eq!(parse_timestamp(want), Some(at_ms));
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn times_are_rfc_3339() {
        check_time(0, "1970-01-01T00:00:00.000Z");
        check_time(951_782_399_999, "2000-02-28T23:59:59.999Z");
        check_time(951_782_400_000, "2000-02-29T00:00:00.000Z");
        check_time(1_735_689_599_001, "2024-12-31T23:59:59.001Z");
        check_time(4_107_542_400_000, "2100-03-01T00:00:00.000Z");
    }

    #[track_caller]
    fn check(value: &str, limit: usize, want: &str) {
        let mut out = Vec::new();
        Json::new(&mut out, limit).string(value);
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn strings_are_escaped_and_clipped_in_the_middle() {
        check("plain", 99, r#""plain""#);
        check("a\"b\\c\n", 99, r#""a\"b\\c\u000a""#);
        check("a\u{202e}b\u{7f}", 99, r#""a\u202eb\u007f""#);
        check("Grüße", 99, r#""Grüße""#);
        check("abcdefghij", 6, r#""abc…hij""#);
        check("\n\n\n\n", 12, r#""\u000a…\u000a""#);
        check("", 0, r#""""#);
    }

    #[test]
    fn hex_has_one_spelling() {
        assert_eq!(unhex::<2>(b"0aff"), Some([10, 255]));
        assert_eq!(unhex::<2>(b"0aFF"), None);
        assert_eq!(unhex::<2>(b"0af"), None);
    }
}
