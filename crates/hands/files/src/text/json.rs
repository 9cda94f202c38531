//! JSON out of untrusted bytes: bounded in size and depth, errors with a place.

use portcullis_proto::{Extent, Failure, Reason};
use serde_json::Value;

/// How much JSON is taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonLimits {
    /// The largest document, in bytes.
    pub max_bytes: usize,
    /// The deepest nesting of arrays and objects. Over 127 counts as 127,
    /// because the parser itself recurses no deeper.
    pub max_depth: usize,
}

impl Default for JsonLimits {
    /// 5 MiB, the cap on writes; 127 levels, the parser's own.
    fn default() -> Self {
        Self {
            max_bytes: 5 * 1024 * 1024,
            max_depth: 127,
        }
    }
}

/// Parses one document. A UTF-8 byte order mark before it is passed over.
pub fn read_json(bytes: &[u8], limits: JsonLimits) -> Result<Value, Failure> {
    if bytes.len() > limits.max_bytes {
        return Err(Failure::new(
            Reason::TooLarge,
            format!(
                "The file has {} bytes; JSON is read up to {}.",
                bytes.len(),
                limits.max_bytes
            ),
        )
        .hint("Read it as text, in windows."));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if let Some((line, column)) = deeper_than(bytes, limits.max_depth.min(127)) {
        return Err(Failure::new(
            Reason::BadJson,
            format!(
                "The JSON nests deeper than {} at line {line} column {column}.",
                limits.max_depth.min(127)
            ),
        ));
    }
    Extent::of(bytes).map_err(|why| {
        Failure::new(Reason::TooLarge, why.to_string()).hint("Read it as text, in windows.")
    })?;
    serde_json::from_slice(bytes).map_err(|error| {
        Failure::new(Reason::BadJson, format!("The file is not JSON: {error}."))
            .hint("Read the file as text at that line.")
    })
}

/// Where the nesting first exceeds `max`, as line and column from 1.
///
/// Looks at brackets outside strings only; whatever else is wrong with the
/// document is the parser's to say.
fn deeper_than(bytes: &[u8], max: usize) -> Option<(usize, usize)> {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for (at, &byte) in bytes.iter().enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                if depth > max {
                    let before = &bytes[..at];
                    let line = memchr::memchr_iter(b'\n', before).count() + 1;
                    let start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
                    return Some((line, at - start + 1));
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], want: Result<Value, (Reason, &str)>) {
        let limits = JsonLimits {
            max_bytes: 1000,
            max_depth: 4,
        };
        match (read_json(bytes, limits), want) {
            (Ok(got), Ok(want)) => assert_eq!(got, want),
            (Err(got), Err((reason, part))) => {
                assert_eq!(got.reason(), reason);
                assert!(got.message().contains(part), "{}", got.message());
            }
            (got, want) => panic!("{got:?}, not {want:?}"),
        }
    }

    #[test]
    fn documents_are_read_and_faults_have_a_place() {
        check(
            br#"{"a": [1, null]}"#,
            Ok(serde_json::json!({"a": [1, null]})),
        );
        check(b"\xef\xbb\xbf[]", Ok(serde_json::json!([])));
        check(br#""[[[[[[""#, Ok(serde_json::json!("[[[[[[")));
        check(b"[[[[]]]]", Ok(serde_json::json!([[[[]]]])));
        check(b"{\n  \"a\": }", Err((Reason::BadJson, "line 2 column 8")));
        check(b"[1] x", Err((Reason::BadJson, "line 1 column 5")));
        check(b"", Err((Reason::BadJson, "line 1 column 0")));
        check(b"[\n [[[[]]]]]", Err((Reason::BadJson, "line 2 column 5")));
        check(b"\"\xff\"", Err((Reason::BadJson, "line 1")));
        check(&[b' '; 1001], Err((Reason::TooLarge, "1001 bytes")));
    }

    #[test]
    fn many_values_are_refused_before_they_are_built() {
        let many = format!("[{}0]", "0,".repeat(200_000));
        let failure = read_json(many.as_bytes(), JsonLimits::default()).unwrap_err();
        assert_eq!(failure.reason(), Reason::TooLarge);
    }

    #[test]
    fn a_bomb_of_brackets_neither_overflows_nor_parses() {
        let bomb = vec![b'['; 1024 * 1024];
        let failure = read_json(&bomb, JsonLimits::default()).unwrap_err();
        assert_eq!(failure.reason(), Reason::BadJson);
    }
}
