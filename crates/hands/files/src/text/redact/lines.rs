//! Files of lines: `.env`, shell, INI, properties, TOML, YAML, netrc, PEM, and
//! all that is not known.
//!
//! A line is a key with a value, a section, a comment, or not understood, which
//! makes it a value. A value may go on over lines: quotes, brackets, heredocs,
//! block scalars, backslashes, PEM blocks. Where its end is in doubt it is the
//! later one, and that of the file if there is none.

use super::name::is_name;
use super::{Out, Style};

/// Labels of PEM blocks that are shown.
const PEM_LABELS: &[&str] = &[
    "CERTIFICATE",
    "CERTIFICATE REQUEST",
    "DH PARAMETERS",
    "DSA PRIVATE KEY",
    "EC PARAMETERS",
    "EC PRIVATE KEY",
    "ENCRYPTED PRIVATE KEY",
    "OPENSSH PRIVATE KEY",
    "PGP MESSAGE",
    "PGP PRIVATE KEY BLOCK",
    "PGP PUBLIC KEY BLOCK",
    "PKCS7",
    "PRIVATE KEY",
    "PUBLIC KEY",
    "RSA PRIVATE KEY",
    "RSA PUBLIC KEY",
    "X509 CRL",
];
const PEM_BEGIN: &str = "-----BEGIN";
const PEM_END: &str = "-----END";
/// What may stand before a key in a shell.
const SHELL_WORDS: &[&str] = &["export ", "declare -x ", "readonly ", "local "];
/// What begins a comment.
const COMMENTS: &[&str] = &["#", ";", "//", "!", "--"];
/// A base64 line shorter than this cannot be told from a key without a value.
const SHORTEST_BASE64: usize = 10;

/// Redacts `text`.
pub(super) fn redact(text: &str, style: Style, out: &mut Out<'_>) {
    let mut at = 0;
    while at < text.len() {
        let end = one(text, at, style, out).max(at);
        let (ending, next) = line_break(text, end);
        out.show(ending);
        at = next;
    }
}

/// Redacts what starts in the line at `at`; says where its last line ends.
fn one(text: &str, at: usize, style: Style, out: &mut Out<'_>) -> usize {
    let end = line_end(text, at);
    let line = slice(text, at, end);
    let mut body = line.trim_start_matches([' ', '\t']);
    let mut column = line.len() - body.len();
    out.show(slice(line, 0, column));
    if style == Style::Yaml {
        if matches!(body.trim_end(), "---" | "...") {
            out.show(body.trim_end());
            return end;
        }
        while let Some(rest) = body.strip_prefix("- ") {
            let rest = rest.trim_start_matches(' ');
            let dash = body.len() - rest.len();
            // One column of a list item is the dash's, if no key follows.
            column += dash;
            out.show(slice(body, 0, dash));
            body = rest;
        }
    }
    let start = end - body.len();
    if body.trim().is_empty() {
        return end;
    }
    if body.starts_with(PEM_BEGIN) {
        return pem(text, start, out);
    }
    let mark = COMMENTS.iter().find(|mark| body.starts_with(**mark));
    if let Some(mark) = mark
        && !body.starts_with("---")
    {
        out.show(mark);
        out.show(" ");
        let end = with_pem(text, start, end);
        out.value(slice(text, start + mark.len(), end));
        return end;
    }
    if style == Style::Plain && body.starts_with('[') && section(body, out) {
        return end;
    }
    match key(body, style) {
        Some(shown) => {
            out.show(slice(body, 0, shown));
            value(text, start + shown, column, style, out)
        }
        None => value(text, start, column.saturating_sub(1), style, out),
    }
}

/// `[name]`, `[[a.b]]`, `[remote "origin"]`; whatever follows is a value.
fn section(body: &str, out: &mut Out<'_>) -> bool {
    let Some(close) = body.rfind(']') else {
        return false;
    };
    let (head, rest) = body.split_at(close + 1);
    let inner = head.trim_matches(['[', ']']);
    let mut words = inner
        .split([' ', '"', '\''])
        .filter(|word| !word.is_empty());
    if !words.all(is_name) {
        return false;
    }
    out.show(head);
    if !rest.trim().is_empty() {
        out.show(" ");
        out.value(rest);
    }
    true
}

/// How much of `body` is a key with its separator and the space after it.
fn key(body: &str, style: Style) -> Option<usize> {
    let before = match style {
        Style::Shell | Style::Plain => SHELL_WORDS
            .iter()
            .find(|word| body.starts_with(**word))
            .map_or(0, |word| word.len()),
        Style::Yaml => 0,
    };
    let rest = body.get(before..)?;
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
    let separator = if let Some(quote) = quote {
        let close = rest.get(1..)?.find(quote)? + 1;
        if !is_name(rest.get(1..close)?) {
            return None;
        }
        let after = rest.get(close + 1..)?;
        let space = after.len() - after.trim_start_matches([' ', '\t']).len();
        close + 1 + space
    } else {
        let at = match style {
            Style::Shell | Style::Plain => rest.find(['=', ':'])?,
            Style::Yaml => rest
                .match_indices(':')
                .map(|(at, _)| at)
                .find(|at| matches!(rest.as_bytes().get(at + 1), None | Some(b' ' | b'\t')))?,
        };
        let name = rest.get(..at)?.trim_end_matches([' ', '\t']);
        let name = name.strip_suffix(['+', '?']).unwrap_or(name);
        if !is_name(name) || is_base64(name, rest.get(at..)?) {
            return None;
        }
        at
    };
    let after = rest.get(separator..)?;
    let operator = match style {
        Style::Yaml => after.strip_prefix(':')?,
        Style::Shell | Style::Plain => after
            .strip_prefix(":=")
            .or_else(|| after.strip_prefix(['=', ':']))?,
    };
    let value = operator.trim_start_matches([' ', '\t']);
    Some(body.len() - value.len())
}

/// Whether what looks like a key without a value is the end of some base64.
fn is_base64(name: &str, rest: &str) -> bool {
    rest.starts_with('=')
        && rest.trim_end().trim_matches('=').is_empty()
        && name.len() >= SHORTEST_BASE64
        && !name.contains(['_', '-', '.'])
}

/// Takes out the value at `start`, of a key in `column`; says where it ends.
fn value(text: &str, start: usize, column: usize, style: Style, out: &mut Out<'_>) -> usize {
    let first_line = slice(text, start, line_end(text, start)).trim();
    let mut end = quoted_end(text, start, style);
    end = with_pem(text, start, end);
    match style {
        Style::Shell => end = heredoc_end(text, start, end),
        Style::Yaml => {
            let tag_alone = first_line.starts_with(['&', '!']) && !first_line.contains(' ');
            if !first_line.is_empty() && !first_line.ends_with(':') && !tag_alone {
                end = indented_end(text, end, column);
            }
        }
        Style::Plain => {}
    }
    out.value(slice(text, start, end));
    end
}

/// The end of the line in which quotes, brackets and backslashes are closed.
fn quoted_end(text: &str, start: usize, style: Style) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    for triple in ["\"\"\"", "'''"] {
        if let Some(inner) = rest.strip_prefix(triple) {
            let close = inner.find(triple).map(|at| start + at + 2 * triple.len());
            return close.map_or(text.len(), |close| line_end(text, close));
        }
    }
    let brackets: &[char] = match style {
        Style::Shell if rest.starts_with('(') || rest.starts_with("$(") => &['(', ')'],
        Style::Yaml | Style::Plain if rest.starts_with(['[', '{']) => &['[', ']', '{', '}'],
        Style::Shell | Style::Yaml | Style::Plain => &[],
    };
    let (mut quote, mut depth, mut escaped, mut before) = (None, 0usize, false, ' ');
    for (at, c) in rest.char_indices() {
        if c == '\n' && quote.is_none() && depth == 0 && !escaped {
            return line_end(text, start + at.saturating_sub(usize::from(before == '\r')));
        }
        // A backslash before CR LF goes on like one before LF.
        let goes_on = escaped && c == '\r';
        match quote {
            Some(open) if c == open && !escaped => quote = None,
            None if escaped => {}
            // An apostrophe inside a word opens nothing.
            None if matches!(c, '"' | '\'' | '`') && !before.is_alphanumeric() => quote = Some(c),
            None if brackets.contains(&c) => {
                depth = match c {
                    '(' | '[' | '{' => depth + 1,
                    _ => depth.saturating_sub(1),
                };
            }
            Some(_) | None => {}
        }
        escaped = goes_on || (c == '\\' && !escaped && quote != Some('\''));
        before = c;
    }
    text.len()
}

/// `end`, or the end of the PEM block that begins before it.
fn with_pem(text: &str, start: usize, end: usize) -> usize {
    let Some(begin) = slice(text, start, end).rfind(PEM_BEGIN) else {
        return end;
    };
    let rest = text.get(start + begin..).unwrap_or_default();
    match rest.find(PEM_END) {
        Some(at) => line_end(text, start + begin + at).max(end),
        None => text.len(),
    }
}

/// `end`, or the end of the heredoc that begins before it.
fn heredoc_end(text: &str, start: usize, end: usize) -> usize {
    let Some((before, after)) = slice(text, start, end).split_once("<<") else {
        return end;
    };
    let word = after.trim_start_matches(['-', '~', ' ', '\t', '\'', '"', '\\']);
    let length = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let word = slice(word, 0, length.unwrap_or(word.len()));
    if word.is_empty() {
        return end;
    }
    // Brackets may have gone past it already.
    let mut at = line_end(text, start + before.len());
    while at < text.len() {
        let (_, next) = line_break(text, at);
        at = line_end(text, next);
        if slice(text, next, at).trim() == word {
            return at.max(end);
        }
    }
    text.len()
}

/// The end of the last line after `end` that is indented deeper than `column`.
fn indented_end(text: &str, end: usize, column: usize) -> usize {
    let (mut last, mut at) = (end, end);
    while at < text.len() {
        let (_, next) = line_break(text, at);
        at = line_end(text, next);
        let line = slice(text, next, at);
        let body = line.trim_start_matches([' ', '\t']);
        if body.trim().is_empty() {
            continue;
        }
        if line.len() - body.len() <= column {
            break;
        }
        last = at;
    }
    last
}

/// A block from its first line on: its header and footer if they are known ones.
fn pem(text: &str, start: usize, out: &mut Out<'_>) -> usize {
    let head_end = line_end(text, start);
    let head = slice(text, start, head_end).trim_end();
    edge(head, PEM_BEGIN, out);
    let (ending, body) = line_break(text, head_end);
    let Some(found) = text.get(body..).and_then(|rest| rest.find(PEM_END)) else {
        // No footer: all that follows may be the key.
        out.show(ending);
        out.value(text.get(body..).unwrap_or_default());
        return text.len();
    };
    let foot = body + found;
    out.show(ending);
    out.value(slice(text, body, foot));
    out.show("\n");
    let end = line_end(text, foot);
    edge(slice(text, foot, end).trim_end(), PEM_END, out);
    end
}

fn edge(line: &str, mark: &str, out: &mut Out<'_>) {
    let label = line
        .strip_prefix(mark)
        .and_then(|rest| rest.strip_suffix("-----"))
        .map(str::trim);
    if label.is_some_and(|label| PEM_LABELS.contains(&label)) {
        out.show(line);
    } else {
        out.value(line);
    }
}

/// Redacts a netrc: its words stay, what they name goes.
pub(super) fn redact_netrc(text: &str, out: &mut Out<'_>) {
    let mut at = 0;
    let mut wants_value = false;
    while at < text.len() {
        let rest = text.get(at..).unwrap_or_default();
        let space = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
        if space > 0 {
            out.show(slice(rest, 0, space));
            at += space;
            continue;
        }
        let word = rest
            .split([' ', '\t', '\r', '\n'])
            .next()
            .unwrap_or_default();
        let mut length = word.len();
        match word {
            _ if wants_value && !word.starts_with('"') => {
                out.value(word);
                wants_value = false;
            }
            _ if word.starts_with('"') => {
                let close = rest.get(1..).and_then(|inner| inner.find('"'));
                length = close.map_or(rest.len(), |close| close + 2);
                out.value(slice(rest, 0, length));
                wants_value = false;
            }
            "machine" | "login" | "password" | "account" => {
                out.show(word);
                wants_value = true;
            }
            "default" => out.show(word),
            // The name and body of a macro, up to a blank line.
            "macdef" => {
                out.show("macdef ");
                let end = ["\n\n", "\r\n\r\n"].iter().filter_map(|end| rest.find(end));
                length = end.min().unwrap_or(rest.len());
                out.value(rest.get("macdef".len()..length).unwrap_or_default());
            }
            _ if word.starts_with('#') => {
                length = line_end(rest, 0);
                out.show("# ");
                out.value(slice(rest, 1, length));
            }
            _ => out.value(word),
        }
        at += length;
    }
}

/// Where the line at `at` ends, its terminator not counted.
fn line_end(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let line = match rest.find('\n') {
        Some(end) => slice(rest, 0, end),
        None => return text.len(),
    };
    at + line.strip_suffix('\r').unwrap_or(line).len()
}

/// The terminator at `end`, and where the next line starts.
fn line_break(text: &str, end: usize) -> (&str, usize) {
    let rest = text.get(end..).unwrap_or_default();
    let length = if rest.starts_with("\r\n") {
        2
    } else {
        usize::from(rest.starts_with('\n'))
    };
    if length == 0 {
        return ("", text.len());
    }
    (slice(rest, 0, length), end + length)
}

fn slice(text: &str, from: usize, to: usize) -> &str {
    text.get(from..to).unwrap_or_default()
}
