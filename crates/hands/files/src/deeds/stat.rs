//! Looking at one entry's metadata.

use std::os::fd::AsFd;
use std::sync::Arc;

use portcullis_gate::{Deed, Permit, RootEntry, Settled};
use portcullis_policy::{Containment, Terms};
use portcullis_proto::{Entity, Facts, Failure, Reason, RelPath, Verb};
use rustix::fs::OFlags;

use super::{Key, facts_of};
use crate::errno::hinted;
use crate::meta::Meta;
use crate::root::Root;
use crate::sys;

/// An entry, pinned without opening it, about to be looked at.
#[derive(Debug)]
pub struct Looking {
    entry: Arc<RootEntry>,
    path: RelPath,
    meta: Meta,
    containment: Containment,
}

impl Looking {
    pub(crate) fn resolve(
        entry: &Arc<RootEntry>,
        root: &Root,
        path: &RelPath,
        terms: &Terms,
    ) -> Result<Self, Failure> {
        // O_PATH: a pipe is not opened, a device does not act, nothing is read.
        let opened = root.open(path, OFlags::PATH, terms.symlinks())?;
        // Size and times of a file that is not the root's own tell about
        // somewhere else, as its bytes would.
        if opened.meta.entity == Entity::File
            && !opened.meta.admits_links(terms.hardlinks(), || {
                sys::is_named(opened.handle.as_fd(), &opened.path)
            })
        {
            return Err(hinted(Reason::Hardlink));
        }
        Ok(Self {
            entry: Arc::clone(entry),
            path: opened.path,
            meta: opened.meta,
            containment: root.containment(),
        })
    }
}

impl Deed for Looking {
    type Key = Key;

    fn facts(&self) -> Facts {
        facts_of(Verb::Stat, &self.entry, &self.path, &self.meta)
    }
}

/// What stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatReply {
    /// Where it really stands, where links are followed.
    pub path: RelPath,
    /// What it is.
    pub meta: Meta,
    /// How firmly the path was held inside the root.
    pub containment: Containment,
}

/// Looks.
pub(crate) fn stat(permit: Permit<Looking>) -> Result<StatReply, Failure> {
    permit.spend(Key::turn(), |looking, _, _| {
        let reply = StatReply {
            path: looking.path,
            meta: looking.meta,
            containment: looking.containment,
        };
        Ok((reply, Settled::default()))
    })
}
