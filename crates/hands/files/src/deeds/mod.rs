//! One file per deed: how it is resolved, what it looks like from outside, how
//! it is done.

mod change;
mod glob;
mod list;
mod pack;
mod pinned;
mod read;
mod search;
mod snapshot;
mod stat;
mod text;
mod tree;
mod unpack;
mod walk;
mod watch;

use std::sync::Arc;

use portcullis_gate::RootEntry;
use portcullis_policy::{Admit, Terms};
use portcullis_proto::{Access, Counts, Facts, RelPath, Resource, Verb};

use crate::dirs::Name;
use crate::meta::Meta;

pub use change::Changing;
pub(crate) use change::change;
pub(crate) use glob::glob;
pub use glob::{Found, GlobRequest, Globbing};
pub(crate) use list::list;
pub use list::{Entry, ListRequest, Listed, Listing, Order, Want};
pub use pack::Packing;
pub(crate) use pack::{Gathered, gather, pack};
pub(crate) use pinned::{Pinned, Sighted};
pub use read::{ByteWindow, BytesPage, Reading, RedactedReply};
pub(crate) use read::{read_bytes, read_redacted};
pub(crate) use search::search;
pub use search::{Case, FoundIn, FoundLine, FoundLines, SearchRequest, Searching};
pub(crate) use snapshot::read_snapshot;
pub use snapshot::{Snapshot, SnapshotReply, SnapshotRequest};
pub(crate) use stat::stat;
pub use stat::{Looking, StatReply};
pub use text::{TextFrom, TextReply, TextRequest};
pub(crate) use text::{read_json, read_text};
pub(crate) use tree::tree;
pub use tree::{Tree, TreeNode, TreeRequest, Treeing};
pub use unpack::Unpacking;
pub(crate) use unpack::{Protected, inspect, unpack};
pub use walk::Hidden;
pub use watch::{Change, ChangeKind, Changes, Watch, WatchRequest, Watching};
pub(crate) use watch::{ends, watch};

/// The key to spend a permit on a file; made nowhere but in this crate.
#[derive(Debug)]
pub struct Key(());

impl Key {
    pub(crate) const fn turn() -> Self {
        Self(())
    }
}

/// The facts of a deed on one thing.
fn facts_of(verb: Verb, entry: &Arc<RootEntry>, path: &RelPath, meta: &Meta) -> Facts {
    let access: Access = verb.access();
    Facts {
        verb,
        resources: vec![Resource {
            root: entry.id().clone(),
            kind: entry.kind(),
            path: path.clone(),
            access,
            identity: Some(meta.identity()),
            above: entry.policy().above.clone(),
        }],
        shown: None,
        shrinks: false,
        below: Vec::new(),
        more_below: 0,
        unkept: false,
    }
}

/// The path of what a walk found, from the directory it began at.
fn below<'a>(top: &RelPath, path: &'a RelPath) -> &'a str {
    path.as_str()
        .strip_prefix(top.as_str())
        .map_or(path.as_str(), |rest| rest.trim_start_matches('/'))
}

/// Whether a bulk deed may show `name`; what it may not is counted, not named.
fn admitted(terms: &Terms, dir: &RelPath, name: &Name, counts: &mut Counts) -> bool {
    let ruling = name
        .judged(dir)
        .map_or(Admit::Denied, |path| terms.admits(&path, name.entity));
    match ruling {
        Admit::Yes => true,
        Admit::Denied => {
            counts.denied += 1;
            false
        }
        Admit::WouldAsk => {
            counts.secret += 1;
            false
        }
    }
}
