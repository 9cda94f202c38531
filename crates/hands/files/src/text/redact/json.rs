//! JSON and what people write for it: punctuation and keys stay, nothing else.
//!
//! A tokeniser without a grammar, so a broken file is read like a sound one.

use super::Out;
use super::name::is_name;

/// Redacts `text`.
pub(super) fn redact(text: &str, out: &mut Out<'_>) {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '{' | '}' | '[' | ']' | ',' | ':' | ' ' | '\t' | '\r' | '\n' => {
                out.text.push(first);
                1
            }
            '"' | '\'' => string(rest, first, out),
            '/' if rest.starts_with("//") => {
                let end = rest.find('\n').unwrap_or(rest.len());
                comment(rest.get(2..end).unwrap_or_default(), out);
                end
            }
            '/' if rest.starts_with("/*") => {
                let end = rest.find("*/").map_or(rest.len(), |at| at + 2);
                comment(rest.get(2..end).unwrap_or_default(), out);
                end
            }
            _ => bare(rest, out),
        };
        rest = rest.get(length..).unwrap_or_default();
    }
}

fn comment(inner: &str, out: &mut Out<'_>) {
    out.show("// ");
    out.value(inner);
    // What followed a comment of the other kind may not end up inside this one.
    if inner.ends_with("*/") {
        out.show("\n");
    }
}

fn string(rest: &str, quote: char, out: &mut Out<'_>) -> usize {
    let mut escaped = false;
    let end = rest.char_indices().skip(1).find(|&(_, c)| {
        let closes = c == quote && !escaped;
        escaped = c == '\\' && !escaped;
        closes
    });
    let (inner, length) = match end {
        Some((at, _)) => (rest.get(1..at).unwrap_or_default(), at + 1),
        None => (rest.get(1..).unwrap_or_default(), rest.len()),
    };
    token(inner, rest.get(length..).unwrap_or_default(), out);
    length
}

fn bare(rest: &str, out: &mut Out<'_>) -> usize {
    let ends = |c: char| {
        c.is_ascii_whitespace() || matches!(c, '{' | '}' | '[' | ']' | ',' | ':' | '"' | '\'')
    };
    let length = rest.find(ends).unwrap_or(rest.len());
    let (word, after) = rest.split_at(length);
    token(word, after, out);
    length
}

/// A key, if a colon follows and it looks like one; else a value.
fn token(inner: &str, after: &str, out: &mut Out<'_>) {
    out.show("\"");
    if after.trim_start().starts_with(':') && is_name(inner) {
        out.show(inner);
    } else {
        out.value(inner);
    }
    out.show("\"");
}
