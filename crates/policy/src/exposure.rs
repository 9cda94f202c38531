//! What a deed reads besides what it names: a secret it takes to where it can
//! be read, or compares with what the caller sends.
//!
//! A yes to change a secret is no yes to read it, so such a deed is judged as a
//! read of it too, and no remembered answer about a change covers that.

use portcullis_proto::{Access, Facts, Resource, Verb};

use crate::{Terms, View};

/// The facts such a deed is judged by: its own and, last, the read. With them
/// the number of the resource that is read. `None` where a deed is judged by its
/// own facts. `views` are those of the resources.
pub fn judged_with_read(facts: &Facts, views: &[View]) -> Option<(Facts, usize)> {
    let read = also_reads(facts, views)?;
    let resource = facts.resources.get(read)?;
    let mut facts = facts.clone();
    facts.resources.push(Resource {
        access: Access::Read,
        ..resource.clone()
    });
    Some((facts, read))
}

fn also_reads(facts: &Facts, views: &[View]) -> Option<usize> {
    let (from, to) = carries(facts.verb)?;
    let side = |number: usize| Some((facts.resources.get(number)?, views.get(number)?));
    let (source, here) = side(from)?;
    let is_secret = |resource: &Resource, view: &View| view.policy.is_secret(&resource.path);
    let reads = match to {
        // An edit says whether a text is there.
        None => is_secret(source, here),
        Some(to) => {
            let (target, there) = side(to)?;
            // What leaves its root is read there by the rules of another.
            source.root != target.root
                || (is_secret(source, here)
                    && (!is_secret(target, there)
                        || Terms::under([there.clone()])
                            .is_none_or(|terms| terms.reads_unasked(&target.path))))
        }
    };
    reads.then_some(from)
}

/// Which resource of such a deed holds the content, and where that goes, if it
/// goes anywhere.
fn carries(verb: Verb) -> Option<(usize, Option<usize>)> {
    match verb {
        Verb::Edit => Some((0, None)),
        Verb::Move => Some((0, Some(1))),
        // A move that is undone goes back.
        Verb::Undo => Some((1, Some(0))),
        Verb::Read
        | Verb::ReadRedacted
        | Verb::Stat
        | Verb::List
        | Verb::Tree
        | Verb::Glob
        | Verb::Search
        | Verb::Inspect
        | Verb::Watch
        | Verb::Write
        | Verb::Append
        | Verb::Mkdir
        // A copy names what it reads, and so does what packs and unpacks.
        | Verb::Copy
        | Verb::Remove
        | Verb::Chmod
        | Verb::Extract
        | Verb::Archive
        | Verb::Administer
        | Verb::Relay => None,
    }
}

/// Whether a deed reads a resource only because of what it does to another
/// access of it: a yes to that is never remembered.
pub(crate) fn is_by_exposure(verb: Verb, resource: &Resource) -> bool {
    resource.access == Access::Read && carries(verb).is_some()
}
