//! What stands where: one thing, a directory, or what a pattern names.

use portcullis_files::{Entry, GlobRequest, ListRequest, Meta, Order, ScopedFs, Want};
use portcullis_proto::{Entity, Failure, Json, RelPath};

use super::{ListAsk, MAX_ENTRIES};
use crate::limits::LIMITS;
use crate::quoted::{Object, push_list};

/// What something is, as these routes spell it.
const fn kind(entity: Entity) -> &'static str {
    match entity {
        Entity::File => "file",
        Entity::Directory => "directory",
        Entity::Symlink => "symlink",
        Entity::Mount | Entity::Special => "other",
    }
}

pub(super) async fn stat(scope: &ScopedFs, path: &str) -> Result<Json, Failure> {
    let stat = scope.stat(path).await?;
    let mut out = String::with_capacity(256);
    let mut object = Object::begin(&mut out);
    object
        .word("kind", "stat")
        .text("path", stat.path.shown())
        .word("type", kind(stat.meta.entity))
        .number("sizeBytes", stat.meta.size)
        .with("modifiedMs", |out| out.push_str(&exact_ms(&stat.meta)))
        .text("version", &stat.meta.version());
    object.end();
    Ok(Json::vouched(out))
}

/// When it changed, in milliseconds with what is below them.
fn exact_ms(meta: &Meta) -> String {
    let (ms, below) = (
        meta.mtime_ns.div_euclid(1_000_000),
        meta.mtime_ns.rem_euclid(1_000_000),
    );
    if below == 0 || ms < 0 {
        return ms.to_string();
    }
    let text = format!("{ms}.{below:06}");
    text.trim_end_matches('0').to_owned()
}

pub(super) async fn list(scope: &ScopedFs, path: &str, ask: &ListAsk) -> Result<Json, Failure> {
    let paged = ask.limit.is_some() || ask.cursor.is_some();
    let request = ListRequest {
        want: Want::All,
        order: Order::Name,
        max: ask.limit.unwrap_or(MAX_ENTRIES).min(MAX_ENTRIES),
        after: ask.cursor.clone(),
        metadata: paged,
        include_ignored: ask.include_ignored,
        mark_ignored: ask.include_ignored,
    };
    let listed = scope.list(path, request).await?;
    let mut out = String::with_capacity(64 * listed.entries.len() + 256);
    let mut object = Object::begin(&mut out);
    object
        .word("kind", "list")
        .text("path", listed.path.shown())
        .with("entries", |out| {
            push_list(out, &listed.entries, |entry, out| {
                write_entry(entry, paged, out);
            });
        })
        .flag("truncated", listed.next.is_some() || !listed.complete)
        .null("matchedIgnore");
    if paged {
        match &listed.next {
            Some(next) => object.text("nextCursor", next),
            None => object.null("nextCursor"),
        };
    }
    object
        .number("omittedDenied", listed.counts.denied)
        .number("omittedSecret", listed.counts.secret);
    object.end();
    Ok(Json::vouched(out))
}

fn write_entry(entry: &Entry, paged: bool, out: &mut String) {
    let mut object = Object::begin(out);
    object
        .text("name", &entry.name)
        .word("kind", kind(entry.entity))
        .flag("ignored", entry.ignored);
    if let Some(meta) = entry.meta.as_ref().filter(|_| paged) {
        object
            .number("sizeBytes", meta.size)
            .signed("modifiedMs", meta.modified_ms());
    }
    object.end();
}

/// A glob, asked for.
pub(super) struct Globbed {
    pub(super) pattern: String,
    pub(super) cwd: String,
    pub(super) include_ignored: bool,
    pub(super) max_results: usize,
}

impl Globbed {
    pub(super) async fn find(
        self,
        scope: &ScopedFs,
        path: &str,
        took_us: impl Fn() -> u64,
    ) -> Result<Json, Failure> {
        let request = GlobRequest {
            pattern: Some(self.pattern.clone()),
            want: Want::All,
            max: self.max_results,
            include_ignored: self.include_ignored,
            patience_us: LIMITS.walk_ms.default as u64 * 1_000,
        };
        let found = scope.glob(path, request).await?;
        // The directory itself is no name below it, but a pattern may mean it.
        let itself = (self.pattern == ".").then(|| found.path.shown().to_owned());
        let below = found.entries.iter().filter_map(|entry| entry.path.as_ref());
        let matches: Vec<&str> = itself
            .as_deref()
            .into_iter()
            .chain(below.map(RelPath::shown))
            .collect();
        let mut out = String::with_capacity(48 * matches.len() + 256);
        let mut object = Object::begin(&mut out);
        object
            .word("kind", "glob")
            .text("pattern", &self.pattern)
            .text("cwd", &self.cwd)
            .with("matches", |out| {
                push_list(out, &matches, |path, out| crate::quoted::quote(path, out));
            })
            .number("count", matches.len() as u64)
            .flag("truncated", found.truncated || !found.complete)
            .number("durationMs", took_us() / 1_000);
        object.end();
        Ok(Json::vouched(out))
    }
}
