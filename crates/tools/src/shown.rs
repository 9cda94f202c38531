//! Pieces of replies that several tools show alike.

use std::borrow::Cow;

use portcullis_files::{Entry, Meta};
use portcullis_policy::Containment;
use portcullis_proto::{Counts, RelPath};
use schemars::JsonSchema;
use serde::Serialize;

use crate::quoted::Object;

/// One entry of a listing.
#[derive(Debug, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShownEntry {
    /// Name.
    pub(crate) name: String,
    /// Path from the root; absent when no path can ask for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub(crate) path: Option<RelPath>,
    /// file, directory, symlink, mount or special.
    pub(crate) r#type: &'static str,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size_bytes: Option<u64>,
    /// Last change, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) modified_ms: Option<i64>,
}

impl From<Entry> for ShownEntry {
    fn from(entry: Entry) -> Self {
        Self {
            name: entry.name,
            path: entry.path,
            r#type: entry.entity.as_str(),
            size_bytes: entry.meta.as_ref().map(|meta| meta.size),
            modified_ms: entry.meta.as_ref().map(Meta::modified_ms),
        }
    }
}

impl ShownEntry {
    /// Writes it to the end of `out`.
    pub(crate) fn write(&self, out: &mut String) {
        let mut object = Object::begin(out);
        object.text("name", &self.name);
        if let Some(path) = &self.path {
            object.text("path", path.shown());
        }
        object.word("type", self.r#type);
        if let Some(size) = self.size_bytes {
            object.number("sizeBytes", size);
        }
        if let Some(modified) = self.modified_ms {
            object.signed("modifiedMs", modified);
        }
        object.end();
    }
}

/// What a listing left out, counted and not named.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Skipped {
    /// Denied by a rule.
    pub(crate) denied: u64,
    /// Of a protected class: ask for one by name.
    pub(crate) secret: u64,
    /// Named by an ignore file or excluded by default.
    pub(crate) ignored: u64,
    /// Directories and files moved away while they were read.
    pub(crate) moved: u64,
}

impl From<Counts> for Skipped {
    fn from(counts: Counts) -> Self {
        Self {
            denied: counts.denied,
            secret: counts.secret,
            ignored: counts.ignored,
            moved: counts.moved,
        }
    }
}

impl Skipped {
    /// Writes it to the end of `out`.
    pub(crate) fn write(&self, out: &mut String) {
        let mut object = Object::begin(out);
        object
            .number("denied", self.denied)
            .number("secret", self.secret)
            .number("ignored", self.ignored)
            .number("moved", self.moved);
        object.end();
    }

    /// One line for people, or nothing.
    pub(crate) fn sentence(&self) -> Option<String> {
        let parts: Vec<String> = [
            (self.denied, "denied by a rule"),
            (self.secret, "secret (ask for one by name)"),
            (self.ignored, "ignored (includeIgnored shows them)"),
            (self.moved, "moved meanwhile"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
        (!parts.is_empty()).then(|| format!("left out: {}", parts.join(", ")))
    }
}

/// How firmly the path was held inside the root, as the wire spells it.
pub(crate) fn containment(containment: Containment) -> String {
    match containment {
        Containment::KernelAtomic => "kernel_atomic",
        Containment::BestEffort => "best_effort",
    }
    .to_owned()
}

/// A name as text shows it. One that no path can ask for may hold a line break
/// or a terminal's command, and must not pass for lines of ours.
pub(crate) fn on_one_line(name: &str, askable: bool) -> Cow<'_, str> {
    if askable {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(name.escape_debug().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_cannot_forge_a_line_of_a_listing() {
        assert_eq!(on_one_line("ü.txt", true), "ü.txt");
        assert_eq!(
            on_one_line("a\n.env\u{1b}[31m\u{202e}", false),
            "a\\n.env\\u{1b}[31m\\u{202e}"
        );
    }
}
