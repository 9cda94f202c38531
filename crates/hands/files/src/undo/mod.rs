//! What changes displaced, kept so that they can be undone.
//!
//! An operation leaves at most two files in its root's store: `<id>.pre`, the
//! very inode or tree that was displaced (or a copy, where it could not be
//! moved), and `<id>.json`, which says what was done. While they are made there
//! may be `<id>.part`, a copy that is not whole yet, and while an operation is
//! undone `<undoing>.undoes`, which names it. The store is closed to everybody
//! else and bounded; what displaced something is kept for a day whatever the
//! bounds. Nothing in it is ever reached through a root.

mod entry;
mod place;
mod prune;
mod store;
mod tree;

pub use entry::{Entry, State};
pub use place::Where;
pub(crate) use place::{UNDO, place_name};
pub use prune::UndoHeld;
pub(crate) use prune::{MAX_BYTES, weight};
pub(crate) use store::{Kept, Pre, UndoStore};
pub(crate) use tree::{Found, Surveyed, names, remove_tree, same_mount, survey};
