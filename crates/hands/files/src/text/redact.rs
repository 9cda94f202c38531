//! Files of secrets, with the keys left readable and the values taken out.
//!
//! Fails closed: only white space, punctuation of the format, comment marks and
//! names that look like names come through; whatever is not understood is a
//! value. A value is shown by its length and a hash under a key of ours, so two
//! that are equal can be told, and none can be guessed and checked.

mod json;
mod lines;
mod name;

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::charset::OnMalformed;
use super::request::EncodingChoice;
use super::sniff::sniff;

/// A text without its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redacted {
    /// What may be shown.
    pub text: String,
    /// How many values were taken out.
    pub values: u64,
}

/// `text`, the content of a file called `name`, with every value replaced by
/// `<redacted sha256:1a2b3c4d len 24>`, hashed under `key`.
///
/// Comments are values too, because old secrets end up in them. A value that
/// goes over several lines becomes one line.
pub fn redact(name: &str, text: &str, key: &[u8; 32]) -> Redacted {
    let mut out = Out {
        text: String::with_capacity(text.len()),
        values: 0,
        key,
    };
    // The mark is no part of the first key.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match Format::of(name, text) {
        Format::Json => json::redact(text, &mut out),
        Format::Netrc => lines::redact_netrc(text, &mut out),
        Format::Lines(style) => lines::redact(text, style, &mut out),
    }
    Redacted {
        text: out.text,
        values: out.values,
    }
}

/// How the lines of a file are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// `.env` and shell: heredocs, parentheses.
    Shell,
    /// Indentation, dashes, block scalars.
    Yaml,
    /// INI, properties, TOML, and whatever is not known.
    Plain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json,
    Netrc,
    Lines(Style),
}

impl Format {
    fn of(name: &str, text: &str) -> Self {
        let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
        let file = file.to_ascii_lowercase();
        let extension = file.rsplit('.').next().unwrap_or_default();
        match extension {
            "json" | "jsonc" | "json5" | "tfstate" | "ipynb" => return Self::Json,
            "netrc" => return Self::Netrc,
            "yaml" | "yml" => return Self::Lines(Style::Yaml),
            "env" | "envrc" | "sh" | "bash" | "zsh" | "ksh" | "fish" | "bashrc" | "zshrc"
            | "profile" | "bash_profile" | "zshenv" => return Self::Lines(Style::Shell),
            _ => {}
        }
        if file == "_netrc" {
            Self::Netrc
        } else if file.starts_with(".env") || file.starts_with("env.") {
            Self::Lines(Style::Shell)
        } else if file == "kubeconfig" {
            Self::Lines(Style::Yaml)
        } else if text.trim_start().starts_with('{') {
            Self::Json
        } else {
            Self::Lines(Style::Plain)
        }
    }
}

/// What has been made so far.
struct Out<'a> {
    text: String,
    values: u64,
    key: &'a [u8; 32],
}

impl Out<'_> {
    /// Adds what may be shown as it is.
    fn show(&mut self, shown: &str) {
        self.text.push_str(shown);
    }

    /// Adds what stands for `value`, its quotes and the space around it aside;
    /// nothing for an empty one.
    fn value(&mut self, value: &str) {
        let value = value.trim();
        let value = ['"', '\'']
            .iter()
            .find_map(|&quote| value.strip_prefix(quote)?.strip_suffix(quote))
            .unwrap_or(value);
        if value.is_empty() {
            return;
        }
        let mut hash = Sha256::new();
        hash.update(self.key);
        hash.update(value.as_bytes());
        let hash = hash.finalize();
        self.text.push_str("<redacted sha256:");
        for byte in hash.iter().take(4) {
            // A failure to write into a string cannot be.
            let _ = write!(self.text, "{byte:02x}");
        }
        let _ = write!(self.text, " len {}>", value.len());
        self.values += 1;
    }
}

/// `bytes` of a file called `name`, whatever their encoding, with every value
/// hidden. What is not text is hidden whole.
pub fn redact_bytes(name: &str, bytes: &[u8], key: &[u8; 32]) -> Redacted {
    let sniffed = sniff(bytes, true, EncodingChoice::Detect, bytes.len());
    let mut text = String::new();
    let decoded = sniffed.is_ok_and(|sniffed| {
        let body = bytes.get(sniffed.bom_bytes..).unwrap_or_default();
        let replaced = sniffed
            .charset
            .decode(body, &mut text, OnMalformed::Replace);
        replaced.is_ok()
    });
    if decoded {
        return redact(name, &text, key);
    }
    Redacted {
        text: format!("<redacted: {} bytes that are not text>\n", bytes.len()),
        values: 1,
    }
}
