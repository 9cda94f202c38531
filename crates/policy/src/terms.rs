//! What a yes carries: the limits of the act, and for bulk deeds the filter
//! that decides path by path.

use portcullis_proto::{Access, Entity, RelPath, Verb};

use crate::explain::Silent;
use crate::judge::{Ruling, Standing, View, rule_on_path};
use crate::{Class, Containment, Hardlinks, RootPolicy, Symlinks};

/// The limits a verdict carries.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Of the resource that leads; bulk deeds have no other.
    view: View,
    symlinks: Symlinks,
    hardlinks: Hardlinks,
    max_file_bytes: u64,
    containment: Containment,
}

/// Whether a bulk deed may touch one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admit {
    /// A single deed on it would go ahead.
    Yes,
    /// A rule denies it: it is not opened, not named, and counted.
    Denied,
    /// A person would have to say, and nobody is asked inside a bulk deed.
    WouldAsk,
}

impl Terms {
    /// The terms of a deed that touches what these views see, the leading one
    /// first: where its roots differ, the strictest limit counts. `None` where
    /// there is no view. Also what a resolution keeps to before there is a
    /// verdict.
    pub fn under(views: impl IntoIterator<Item = View>) -> Option<Self> {
        let mut views = views.into_iter();
        let view = views.next()?;
        let policy = &view.policy;
        let lead = Self {
            symlinks: policy.symlinks,
            hardlinks: policy.hardlinks,
            max_file_bytes: policy.max_file_bytes,
            containment: policy.containment,
            view,
        };
        Some(views.fold(lead, |terms, view| Self {
            symlinks: terms.symlinks.min(view.policy.symlinks),
            hardlinks: terms.hardlinks.min(view.policy.hardlinks),
            max_file_bytes: terms.max_file_bytes.min(view.policy.max_file_bytes),
            containment: terms.containment.min(view.policy.containment),
            view: terms.view,
        }))
    }

    /// The policy of the root that leads.
    pub fn policy(&self) -> &RootPolicy {
        &self.view.policy
    }

    /// The view that leads.
    pub fn into_view(self) -> View {
        self.view
    }

    /// Whether these are by the very rules that `others` are by.
    pub fn are_by_the_rules_of(&self, others: &Self) -> bool {
        self.view.is_by_the_rules_of(&others.view)
    }

    /// Whether the root's allowed globs admit `path` only as a directory on the
    /// way to what they name: whatever else is found there, or is not, the
    /// answer is the same.
    pub fn only_leads(&self, path: &RelPath) -> bool {
        let allowed = &self.view.policy.allowed;
        !allowed.is_empty() && !allowed.covers(path)
    }

    /// What to do with symbolic links.
    pub fn symlinks(&self) -> Symlinks {
        self.symlinks
    }

    /// What to do with files that have another name.
    pub fn hardlinks(&self) -> Hardlinks {
        self.hardlinks
    }

    /// The largest file that may be read whole.
    pub fn max_file_bytes(&self) -> u64 {
        self.max_file_bytes
    }

    /// The weakest containment accepted.
    pub fn containment(&self) -> Containment {
        self.containment
    }

    /// Whether the file at `path` may be read by a deed of its own, unasked.
    pub fn reads_unasked(&self, path: &RelPath) -> bool {
        let ruling = self.ruling(Verb::Read, Access::Read, path, Entity::File);
        matches!(ruling, Ruling::Allow(_))
    }

    /// Whether a deed that names a directory above `path` may do this to what
    /// stands there: as for a bulk deed, a protected class is asked about.
    pub fn admits_change(&self, verb: Verb, access: Access, path: &RelPath) -> Admit {
        admit(&self.ruling(verb, access, path, Entity::File))
    }

    fn ruling(&self, verb: Verb, access: Access, path: &RelPath, entity: Entity) -> Ruling {
        let standing = Standing {
            view: &self.view,
            granted: true,
        };
        rule_on_path(verb, path, access, Some(entity), &standing, &mut Silent)
    }

    /// Whether a bulk deed may touch what stands at `path`: the ruling a single
    /// read (of a file) or list (of a directory) would get there.
    pub fn admits(&self, path: &RelPath, entity: Entity) -> Admit {
        let verb = match entity {
            Entity::Directory => Verb::List,
            Entity::File | Entity::Symlink | Entity::Mount | Entity::Special => Verb::Read,
        };
        admit(&self.ruling(verb, verb.access(), path, entity))
    }
}

fn admit(ruling: &Ruling) -> Admit {
    match ruling {
        Ruling::Allow(_) => Admit::Yes,
        Ruling::Deny(_) => Admit::Denied,
        Ruling::Ask(asking) => match asking.class {
            // The deed itself was approved, which answers for what the mode
            // asks about; a protected class is asked about by name.
            None => Admit::Yes,
            Some(Class::Secret | Class::AutoExec) => Admit::WouldAsk,
        },
    }
}
