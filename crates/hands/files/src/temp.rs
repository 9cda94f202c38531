//! Private workspaces: made closed to everybody else, reached through the gate
//! alone, and gone with their owner, however that ends.
//!
//! Invariants: whoever makes one holds a lock on it for as long as it lives, and
//! makes and locks it while holding the lock on the directory of them all. So one
//! that can be locked under that lock has no owner any more, and only such a one
//! is swept away.

use std::ops::Deref;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use portcullis_gate::{Caller, Deed, Grant, GrantSource, RootEntry, RootSpec, Settled};
use portcullis_policy::RootPolicy;
use portcullis_proto::{
    AccessSet, Facts, Failure, Reason, RelPath, Resource, RootId, RootKind, Verb,
};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, mkdirat, openat};

use crate::authority::{Authority, Declared};
use crate::deeds::Key;
use crate::errno::failure;
use crate::ledger::Unfinished;
use crate::options::NewModes;
use crate::private_dir::PrivateDir;
use crate::root::{Resolver, Root};
use crate::scoped::{ScopedFs, elsewhere};
use crate::undo::{names, remove_tree};
use crate::writing::PathLock;

/// Where they are, in our own state.
const TEMP: &str = "temp";
/// How their names begin.
const PREFIX: &str = "temp-";

/// A private workspace. It goes when this is dropped, and with it every grant
/// on it; if the process dies, at the next start.
#[derive(Debug)]
pub struct TempWorkspace {
    scope: ScopedFs,
    /// Taken back before the directory goes: fields go in this order.
    _granted: Granted,
    _place: Place,
}

/// The directory of one, gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    parent: PrivateDir,
    name: String,
    /// Holds the lock.
    _owner: OwnedFd,
}

impl Deref for TempWorkspace {
    type Target = ScopedFs;

    fn deref(&self) -> &ScopedFs {
        &self.scope
    }
}

impl Place {
    /// Makes one under a name of its own.
    pub(crate) fn make(data: &PrivateDir, policy: &RootPolicy) -> Result<(Self, Root), Failure> {
        Self::called(data.sub(TEMP)?, fresh_name()?, policy)
    }

    fn called(
        parent: PrivateDir,
        name: String,
        policy: &RootPolicy,
    ) -> Result<(Self, Root), Failure> {
        let (root, owner) = make(&parent, &name, policy)?;
        let place = Self {
            parent,
            name,
            _owner: owner,
        };
        Ok((place, root))
    }

    /// Its name, as a root's.
    pub(crate) fn id(&self) -> Result<RootId, Failure> {
        Ok(RootId::parse(&self.name).ok_or(Reason::Bug)?)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What cannot be removed now is swept away by the next start.
        let _left = remove_tree(self.parent.fd(), &self.name);
    }
}

/// A grant that goes with whoever holds this, done or given up.
#[derive(Debug)]
struct Granted(Arc<Grant>);

impl Drop for Granted {
    fn drop(&mut self) {
        self.0.revoke();
    }
}

/// A workspace about to be made.
#[derive(Debug)]
pub struct MakingTemp {
    entry: Arc<RootEntry>,
}

impl Deed for MakingTemp {
    type Key = Key;

    fn facts(&self) -> Facts {
        Facts {
            verb: Verb::Mkdir,
            resources: vec![Resource {
                root: self.entry.id().clone(),
                kind: self.entry.kind(),
                path: RelPath::root(),
                access: Verb::Mkdir.access(),
                identity: None,
                above: self.entry.policy().above.clone(),
            }],
            shown: None,
            shrinks: false,
            below: Vec::new(),
            more_below: 0,
            unkept: false,
        }
    }
}

impl Authority {
    /// Makes a private workspace for `caller`, who alone may do anything in it.
    /// Nothing of it is kept for undo.
    pub async fn create_temp_workspace(&self, caller: &Caller) -> Result<TempWorkspace, Failure> {
        let refuse = |why| self.gate().refuse(caller, Verb::Mkdir, TEMP, why);
        let nowhere = || {
            Failure::new(Reason::Os, "No place for private workspaces was named.")
                .hint("Name a state directory, then start again.")
        };
        let parent = self.data().ok_or_else(nowhere);
        let parent = parent.and_then(|data| data.sub(TEMP)).map_err(refuse)?;
        let name = fresh_name().map_err(refuse)?;
        let principal = caller.subject.principal.clone();
        let id = RootId::parse(&name).ok_or(Reason::Bug)?;
        let spec = RootSpec {
            id: id.clone(),
            kind: RootKind::Temp,
            display_name: None,
            policy: RootPolicy::of(RootKind::Temp),
            owner: Some(principal.clone()),
            trusted: true,
        };
        let entry = RootEntry::new(spec.clone());
        let grant = Grant::new(principal, id, AccessSet::ALL, None, GrantSource::Core);
        let granted = self.gate().grants().issue(grant).map(Granted);
        let granted = granted.ok_or_else(|| {
            refuse(
                Failure::from(Reason::Busy).hint("Close a private workspace, or try again later."),
            )
        })?;
        let attempt = self.gate().attempt(caller, Verb::Mkdir, &entry, ".")?;
        let permit = attempt
            .enter(|_| {
                Ok(MakingTemp {
                    entry: Arc::clone(&entry),
                })
            })
            .await?;
        let policy = spec.policy.clone();
        let (place, root) = elsewhere(move || {
            permit.spend(Key::turn(), |_, _, live| {
                live.still()?;
                Place::called(parent, name, &policy).map(|made| (made, Settled::default()))
            })
        })
        .await?;
        let declared = Declared::over(root, spec, NewModes::default(), None);
        Ok(TempWorkspace {
            scope: ScopedFs::new(Arc::clone(self.gate()), caller.clone(), declared),
            _granted: granted,
            _place: place,
        })
    }
}

/// Makes the directory and locks it, before anybody can take it for abandoned.
fn make(parent: &PrivateDir, name: &str, policy: &RootPolicy) -> Result<(Root, OwnedFd), Failure> {
    let all = open_dir(parent, ".")?;
    let _lock = PathLock::take(&all)?;
    mkdirat(parent.fd(), name, Mode::RWXU).map_err(failure)?;
    let made = open_dir(parent, name).and_then(|owner| {
        flock(&owner, FlockOperation::NonBlockingLockExclusive).map_err(failure)?;
        let root = Root::adopt(&parent.path().join(name), policy, Resolver::Best)?;
        let stat = rustix::fs::fstat(&owner).map_err(failure)?;
        if root.identity() != (stat.st_dev, stat.st_ino) {
            return Err(Reason::ProtectedState.into());
        }
        Ok((root, owner))
    });
    if made.is_err() {
        let _not_made = remove_tree(parent.fd(), name);
    }
    made
}

/// Whether an operation was under way in a workspace, or led into one. It went
/// with the workspace, or will.
pub(crate) fn is_of_workspace(operation: &Unfinished) -> bool {
    let names = [Some(&operation.root_name), operation.to_root.as_ref()];
    names.into_iter().flatten().any(|name| is_name(name))
}

/// Removes the workspaces whose owners are gone and names them; with `dry_run`
/// only names them. What cannot be removed now keeps nothing else back: it is
/// tried again at the next start.
pub(crate) fn sweep(data: &PrivateDir, dry_run: bool) -> Vec<String> {
    let mut swept = Vec::new();
    let Ok(parent) = data.existing(TEMP) else {
        return swept;
    };
    let Ok(all) = open_dir(&parent, ".") else {
        return swept;
    };
    let mut candidates = Vec::new();
    {
        // Only for the look: whoever makes one waits for it.
        let Ok(_lock) = PathLock::take(&all) else {
            return swept;
        };
        for name in names(&all).unwrap_or_default() {
            let Ok(name) = String::from_utf8(name) else {
                continue;
            };
            let Ok(dir) = open_dir(&parent, &name) else {
                continue;
            };
            let free = flock(&dir, FlockOperation::NonBlockingLockExclusive).is_ok();
            if free && is_name(&name) {
                candidates.push((name, dir));
            }
        }
        drop(all);
    }
    for (name, _held) in candidates {
        if dry_run || remove_tree(parent.fd(), &name).is_ok() {
            swept.push(name);
        }
    }
    swept
}

pub(crate) fn open_dir(parent: &PrivateDir, name: &str) -> Result<OwnedFd, Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent.fd().as_fd(), name, flags, Mode::empty()).map_err(failure)
}

fn fresh_name() -> Result<String, Failure> {
    let mut random = [0u8; 8];
    getrandom::fill(&mut random).map_err(|error| Failure::from(Reason::Io).detail(error))?;
    Ok(format!("{PREFIX}{:016x}", u64::from_le_bytes(random)))
}

fn is_name(name: &str) -> bool {
    let random = name.strip_prefix(PREFIX);
    random.is_some_and(|rest| rest.len() == 16 && rest.bytes().all(|b| b.is_ascii_hexdigit()))
}
