//! Files as MCP resources: `portcullis://<root>/<path>`.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use portcullis_files::{Authority, ByteWindow, ListRequest, Order, ScopedFs, Want, WatchRequest};
use portcullis_gate::Caller;
use portcullis_proto::{Entity, Failure, Reason, RelPath, RootId, Verb};

use crate::arguments::scope;
use crate::machine::{ResourceEntry, ResourcePage, ResourceText, ResourceWatch};

/// How many resources a page lists.
const PAGE: usize = 200;
const SCHEME: &str = "portcullis://";
/// For how long changes are gathered: a client looks again once, not once a save.
const GATHER: Duration = Duration::from_millis(100);

/// Lists the files at the top of every root the caller may list, root by root.
pub(crate) async fn list(
    authority: &Authority,
    caller: &Caller,
    cursor: Option<String>,
) -> Result<ResourcePage, Failure> {
    let bad = || {
        let why = Failure::from(Reason::BadCursor)
            .hint("Pass the `nextCursor` of the page before, unchanged.");
        authority.gate().refuse(caller, Verb::List, "", why)
    };
    let ids: Vec<RootId> = authority
        .roots()
        .map(|declared| declared.entry().id().clone())
        .collect();
    let (start, mut after) = match cursor.as_deref() {
        None => (0, None),
        Some(cursor) => {
            let (id, after) = cursor.split_once('/').ok_or_else(bad)?;
            let at = ids
                .iter()
                .position(|known| known.as_str() == id)
                .ok_or_else(bad)?;
            (at, (!after.is_empty()).then(|| after.to_owned()))
        }
    };
    for (at, id) in ids.iter().enumerate().skip(start) {
        let request = ListRequest {
            want: Want::All,
            order: Order::Name,
            max: PAGE,
            after: after.take(),
            metadata: true,
            include_ignored: false,
            mark_ignored: false,
        };
        // A root this caller may not list is not there for it.
        let Ok(listed) = authority.scope(caller, Some(id))?.list(".", request).await else {
            continue;
        };
        let entries: Vec<ResourceEntry> = listed
            .entries
            .into_iter()
            .filter(|entry| matches!(entry.entity, Entity::File | Entity::Directory))
            .filter_map(|entry| {
                Some(ResourceEntry {
                    uri: uri(id, entry.path.as_ref()?),
                    name: entry.name,
                    directory: entry.entity == Entity::Directory,
                    size: entry.meta.map(|meta| meta.size),
                })
            })
            .collect();
        let next = match listed.next {
            Some(after) => Some(format!("{id}/{after}")),
            None => ids.get(at + 1).map(|next| format!("{next}/")),
        };
        if !entries.is_empty() || next.is_none() {
            return Ok((entries, next));
        }
    }
    Ok((Vec::new(), None))
}

/// Reads a file, or lists a directory as text, by its URI. Returns the content
/// and its media type.
pub(crate) async fn read(
    authority: &Authority,
    caller: &Caller,
    uri: &str,
) -> Result<(ResourceText, String), Failure> {
    let (scope, path) = named(authority, caller, Verb::Read, uri)?;
    let page = scope.read_bytes(&path, ByteWindow::Whole).await?;
    Ok(match String::from_utf8(page.bytes) {
        Ok(text) if !text.contains('\0') => (
            ResourceText::Text(text),
            "text/plain; charset=utf-8".to_owned(),
        ),
        Ok(text) => (
            ResourceText::Bytes(text.into_bytes()),
            "application/octet-stream".to_owned(),
        ),
        Err(binary) => (
            ResourceText::Bytes(binary.into_bytes()),
            "application/octet-stream".to_owned(),
        ),
    })
}

/// The scope and the path that a URI names, for `verb`.
fn named(
    authority: &Authority,
    caller: &Caller,
    verb: Verb,
    uri: &str,
) -> Result<(ScopedFs, String), Failure> {
    let refuse = |why: Failure| authority.gate().refuse(caller, verb, uri, why);
    let rest = uri.strip_prefix(SCHEME).ok_or_else(|| {
        refuse(
            Failure::new(Reason::UnknownRoot, "The URI names no root served here.")
                .hint("URIs look like portcullis://workspace/src/main.rs."),
        )
    })?;
    let (root, path) = rest.split_once('/').unwrap_or((rest, ""));
    let path = decode(path).ok_or_else(|| refuse(Reason::BadName.into()))?;
    // In a URI everything behind the root is relative; `//etc` is no absolute path.
    if path.starts_with('/') || path.starts_with('~') {
        return Err(refuse(Reason::Escape.into()));
    }
    scope(authority, caller, verb, Some(root), &path)
}

/// Watches a file, or a directory and all below it, by its URI.
pub(crate) async fn watch(
    authority: &Authority,
    caller: &Caller,
    uri: &str,
) -> Result<ResourceWatch, Failure> {
    let (scope, path) = named(authority, caller, Verb::Watch, uri)?;
    let request = WatchRequest {
        gather: GATHER,
        ..WatchRequest::default()
    };
    let watch = scope.watch(&path, request).await?;
    let root = scope.declared().entry().id().clone();
    let gate = Arc::clone(authority.gate());
    Ok(ResourceWatch::new(watch, root, gate, caller))
}

pub(crate) fn uri(root: &RootId, path: &RelPath) -> String {
    let mut uri = format!("{SCHEME}{root}/");
    for byte in path.as_str().bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'/') {
            uri.push(byte.into());
        } else {
            // Writing to a String cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

fn decode(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let pair = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&pair).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// Bytes as base64, as every MCP wire wants them.
pub fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_a_path_and_back() {
        let id = RootId::parse("workspace").unwrap();
        let path = RelPath::parse("a b/ü%.txt").unwrap();
        let uri = uri(&id, &path);
        assert_eq!(uri, "portcullis://workspace/a%20b/%C3%BC%25.txt");
        assert_eq!(
            decode(uri.strip_prefix("portcullis://workspace/").unwrap()).as_deref(),
            Some(path.as_str())
        );
        assert_eq!(decode("%zz"), None);
        assert_eq!(decode("%2"), None);
    }
}
