//! Changing files: atomic, conditional, and kept for undo.
//!
//! A change is made beside its target, synced, and swapped in by one rename;
//! what the swap displaced is looked at before anybody is told of success, and
//! put back if it is not what was judged. So a target is unchanged or wholly
//! changed, whoever else writes to it, and whenever the power goes.
//!
//! Invariants: nothing is written through a handle of the target but where a
//! receipt says `in_place`; nothing is unlinked but what this very deed made
//! and nobody has seen; every name made beside a target is told to the audit
//! before it is made, so that recovery never walks a tree.

mod base;
mod carry;
mod draft;
mod lock;
mod names;
mod over;
mod parents;
mod place;
mod publish;
mod receipt;
mod relocate;
mod remove;
mod small;

pub use base::digest;
pub(crate) use base::{digest_file, digest_up_to, read_all};
pub(crate) use carry::carry_over;
pub(crate) use draft::Draft;
pub(crate) use lock::{PathLock, Tickets};
pub(crate) use names::{admit_new_name, conflict_name, staged_name};
pub(crate) use over::put;
pub(crate) use parents::Parents;
pub(crate) use place::{Base, Place, Want, moved_on};
pub(crate) use publish::{Before, Content, Published, Rules, Source, entry_of, publish};
pub use receipt::{Cas, Label, Receipt, Version};
pub(crate) use relocate::{Circumstances, relocate};
pub use remove::Removed;
pub(crate) use remove::remove;
pub(crate) use small::{make_directory, set_mode};
