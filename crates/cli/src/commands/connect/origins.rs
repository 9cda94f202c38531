//! The servers `--auto-confirm` counts for.

use portcullis_daemon::Address;

/// Whether one of `patterns` names the server at `address`: scheme and port as
/// they are, `*` in the host for anything, dots included.
pub(super) fn is_allowed(patterns: &[String], address: &Address) -> bool {
    patterns
        .iter()
        .any(|pattern| names(pattern.trim().trim_end_matches('/'), address.origin()))
}

fn names(pattern: &str, origin: &str) -> bool {
    let Some((scheme, host, port)) = apart(pattern) else {
        return false;
    };
    apart(origin).is_some_and(|(of_scheme, of_host, of_port)| {
        scheme == of_scheme
            && port == of_port
            && spans(host.to_ascii_lowercase().as_bytes(), of_host.as_bytes())
    })
}

/// Scheme, host and port, the usual one where none is written.
fn apart(origin: &str) -> Option<(&str, &str, u16)> {
    let (scheme, rest) = origin.split_once("://")?;
    let usual = match scheme {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    if rest.is_empty() || rest.contains(['/', '?', '#', '@']) {
        return None;
    }
    match rest.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => Some((scheme, host, port.parse().ok()?)),
        Some(_) | None => Some((scheme, rest, usual)),
    }
}

/// Whether `pattern`, in which `*` stands for one character or more, is `text`.
fn spans(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([b'*', rest @ ..], text) => {
            (1..=text.len()).any(|end| text.get(end..).is_some_and(|after| spans(rest, after)))
        }
        ([one, rest @ ..], [same, after @ ..]) if one == same => spans(rest, after),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_spans_dots_and_scheme_and_port_are_the_same() {
        for (pattern, url, want) in [
            ("https://a.example", "https://a.example", true),
            ("https://A.example/", "https://a.example/n8n", true),
            ("https://a.example:443", "https://a.example", true),
            ("https://a.example", "http://a.example", false),
            ("https://a.example", "https://a.example:8443", false),
            ("https://*.example", "https://a.b.example", true),
            ("https://*.example", "https://example", false),
            ("https://*.example", "https://a.example.evil", false),
            ("https://*.example", "https://evilexample", false),
            ("http://127.0.0.1:5678", "http://127.0.0.1:5678", true),
            ("http://[::1]:5678", "http://[::1]:5678", true),
            ("*", "https://a.example", false),
            ("", "https://a.example", false),
            ("https://", "https://a.example", false),
        ] {
            let address = Address::parse(url).unwrap();
            let patterns = ["x".to_owned(), pattern.to_owned()];
            assert_eq!(is_allowed(&patterns, &address), want, "{pattern} {url}");
        }
    }
}
