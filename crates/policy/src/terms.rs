//! What a yes carries: the limits of the act, and for bulk deeds the filter
//! that decides path by path.

use portcullis_proto::{Access, Entity, Group, RelPath};

use crate::explain::Silent;
use crate::judge::{Ruling, Standing, View, rule_on_path};
use crate::{Class, Containment, Hardlinks, Symlinks};

/// The limits a verdict carries.
#[derive(Clone, Debug)]
pub struct Terms {
    view: View,
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
    pub(crate) fn of(view: View) -> Self {
        Self { view }
    }

    /// The limits a resolution has to keep to, before there is a verdict: they
    /// follow from the root's policy alone.
    pub fn before_judgement(view: &View) -> Self {
        Self::of(view.clone())
    }

    /// What to do with symbolic links.
    pub fn symlinks(&self) -> Symlinks {
        self.view.policy.symlinks
    }

    /// What to do with files that have another name.
    pub fn hardlinks(&self) -> Hardlinks {
        self.view.policy.hardlinks
    }

    /// The largest file that may be read whole.
    pub fn max_file_bytes(&self) -> u64 {
        self.view.policy.max_file_bytes
    }

    /// The weakest containment accepted.
    pub fn containment(&self) -> Containment {
        self.view.policy.containment
    }

    /// Whether a bulk deed may touch what stands at `path`: the ruling a single
    /// read (of a file) or list (of a directory) would get there.
    pub fn admits(&self, path: &RelPath, entity: Entity) -> Admit {
        let access = match entity {
            Entity::Directory => Access::List,
            Entity::File | Entity::Symlink | Entity::Mount | Entity::Special => Access::Read,
        };
        let standing = Standing {
            view: &self.view,
            granted: true,
        };
        match rule_on_path(
            Group::FilesystemRead,
            path,
            access,
            Some(entity),
            &standing,
            &mut Silent,
        ) {
            Ruling::Allow(_) => Admit::Yes,
            Ruling::Deny(_) => Admit::Denied,
            Ruling::Ask(asking) => match asking.class {
                // The listing itself was approved, which answers for what the
                // mode asks about; a protected class is asked about by name.
                None => Admit::Yes,
                Some(Class::Secret | Class::AutoExec) => Admit::WouldAsk,
            },
        }
    }
}
