//! What an extension reaches: the workspace as far as its owner approved, its
//! own storage, and scratch that goes with it.
//!
//! Invariants: an [`ExtensionFs`] is an authority of its own, and the roots of
//! every other extension are not in it: there is no name, path or link to reach
//! them by. What it grants ends with it, for deeds already permitted too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use portcullis_gate::{ApprovedExtension, Caller, Entitlements, Grant, GrantSource, RootSpec};
use portcullis_policy::RootPolicy;
use portcullis_proto::{AccessSet, Failure, Principal, Reason, RootId, RootKind, Subject, Verb};
use rustix::io::Errno;

use crate::authority::{Authority, Declared};
use crate::errno::failure;
use crate::options::NewModes;
use crate::private_dir::PrivateDir;
use crate::root::{Resolver, Root};
use crate::scoped::ScopedFs;
use crate::temp::{Place, open_dir};
use crate::undo::{UNDO, names, place_name, remove_tree};

/// Where the storage of extensions is, in our own state.
const STORAGE: &str = "extensions";
/// How the names of their storage begin.
const PREFIX: &str = "storage-";
/// How the names of storage begin whose extension was removed.
const GONE: &str = "gone-";
/// How often removing it is tried, and how long is waited between.
const REMOVALS: usize = 5;
const BETWEEN_REMOVALS: Duration = Duration::from_millis(20);
/// How many of them are looked at after a crash: as many as there may be extensions.
const MAX_STORED: usize = 1_000;

/// The files of one extension: the seed's `ctx.filesystem`.
///
/// Proves that it was approved when this was made. Dropped or [ended](Self::end)
/// it grants nothing more, and its scratch is removed.
///
/// ```no_run
/// # async fn index(
/// #     authority: portcullis_files::Authority,
/// #     approved: portcullis_gate::ApprovedExtension,
/// # ) -> Result<(), portcullis_proto::Failure> {
/// use portcullis_files::{ByteWindow, WriteOptions};
/// use portcullis_proto::{Access, AccessSet};
///
/// let files = authority.extension(&approved)?;
/// let me = files.caller("indexer");
/// let look = AccessSet::of(&[Access::Read, Access::List]);
/// let workspace = files.workspace(&me, look, "index files")?;
/// let page = workspace.read_bytes("README.md", ByteWindow::Whole).await?;
/// let keep = AccessSet::of(&[Access::Read, Access::Write]);
/// let storage = files.extension_storage(&me, keep, "cache the index")?;
/// storage.write_bytes("index/readme", page.bytes, &WriteOptions::default()).await?;
/// let scratch = files.temp(&me, "render a preview")?;
/// # let _ = scratch;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ExtensionFs {
    authority: Arc<Authority>,
    subject: Subject,
    grants: Vec<Arc<Grant>>,
    workspace: Option<RootId>,
    storage: RootId,
    temp: RootId,
    /// Goes with this, and the directory with it.
    _scratch: Place,
}

impl Authority {
    /// The files of an approved extension: roots of every kind its permissions
    /// name, as far as they name it, its storage and its scratch. Both are made,
    /// closed to others, where they are missing.
    pub fn extension(&self, approved: &ApprovedExtension) -> Result<ExtensionFs, Failure> {
        self.extension_within(approved, None)
    }

    /// The same, where the person who approved it can give it no more of a root
    /// than `entitled` gives them.
    pub fn extension_within(
        &self,
        approved: &ApprovedExtension,
        entitled: Option<&Entitlements>,
    ) -> Result<ExtensionFs, Failure> {
        let nowhere = || {
            Failure::new(
                Reason::Os,
                "No place for the files of extensions was named.",
            )
            .hint("Name a state directory, then start again.")
        };
        let data = self.data().ok_or_else(nowhere)?;
        let principal = approved.principal();
        let mut roots: BTreeMap<RootId, Arc<Declared>> = self
            .roots()
            .filter(|root| is_shared(root.entry().kind()))
            .filter(|root| approved.access(root.entry().kind()) != AccessSet::NONE)
            .map(|root| (root.entry().id().clone(), Arc::clone(root)))
            .collect();
        let first = self.root(None).map(|root| root.entry().id());
        let workspace = first
            .filter(|id| roots.contains_key(id))
            .or_else(|| roots.keys().next())
            .cloned();
        let storage = open_storage(data, &approved.storage, principal.clone())?;
        let (scratch, temp) = Place::make(data, &RootPolicy::of(RootKind::Temp))?;
        let temp_id = scratch.id()?;
        let temp = Declared::over(
            temp,
            own(temp_id.clone(), RootKind::Temp, principal.clone()),
            NewModes::default(),
            None,
        );
        roots.insert(approved.storage.clone(), storage);
        roots.insert(temp_id.clone(), temp);
        let owner = Principal::User {
            id: Arc::clone(&approved.user),
        };
        let granted = |root: &Arc<Declared>| -> Vec<(RootId, AccessSet, Option<u64>)> {
            let (entry, access) = (root.entry(), approved.access(root.entry().kind()));
            match entitled.filter(|_| is_shared(entry.kind())) {
                Some(entitled) => entitled
                    .on(entry, &owner, access)
                    .into_iter()
                    .map(|grant| (grant.root, grant.access, grant.expires_at))
                    .collect(),
                None => vec![(entry.id().clone(), access, None)],
            }
        };
        let grants = roots
            .values()
            .flat_map(granted)
            .filter(|(_, access, _)| *access != AccessSet::NONE)
            .map(|(root, access, until)| {
                let source = GrantSource::Manifest;
                Grant::new(principal.clone(), root, access, until, source)
            })
            .collect::<Vec<_>>();
        let mut fs = ExtensionFs {
            grants: Vec::new(),
            subject: approved.subject(),
            storage: approved.storage.clone(),
            temp: temp_id,
            _scratch: scratch,
            authority: Arc::new(self.over(
                roots,
                workspace.clone().or_else(|| Some(approved.storage.clone())),
            )),
            workspace,
        };
        for grant in grants {
            // What was granted so far goes with `fs`.
            let grant = self.gate().grants().issue(grant).ok_or_else(|| {
                Failure::from(Reason::Busy).hint("Too much is granted already; try again later.")
            })?;
            fs.grants.push(grant);
        }
        Ok(fs)
    }
}

impl ExtensionFs {
    /// The extension as a caller through `route`, with what it was granted and
    /// nothing more. Add somebody to ask, where there is somebody.
    pub fn caller(&self, route: &'static str) -> Caller {
        Caller::new(self.subject.clone(), route).by_grant_alone()
    }

    /// The workspace, if every access asked for was approved. A refusal is in
    /// the audit, with the reason that was given.
    pub fn workspace(
        &self,
        caller: &Caller,
        access: AccessSet,
        reason: &str,
    ) -> Result<ScopedFs, Failure> {
        let Some(id) = &self.workspace else {
            let why = Failure::new(Reason::NoGrant, "No workspace was approved for it.")
                .hint("Ask for filesystem:workspace:read in the manifest.");
            return Err(self
                .authority
                .gate()
                .refuse(caller, Verb::Stat, reason, why));
        };
        self.request(caller, id, access, reason)
    }

    /// Its own files, which nobody else reaches.
    pub fn extension_storage(
        &self,
        caller: &Caller,
        access: AccessSet,
        reason: &str,
    ) -> Result<ScopedFs, Failure> {
        self.request(caller, &self.storage, access, reason)
    }

    /// Scratch that nobody else reaches, and that goes with this.
    pub fn temp(&self, caller: &Caller, reason: &str) -> Result<ScopedFs, Failure> {
        self.request(caller, &self.temp, AccessSet::NONE, reason)
    }

    /// All of its roots, for surfaces that name them.
    pub fn authority(&self) -> &Arc<Authority> {
        &self.authority
    }

    /// Takes back all it was granted, for deeds already permitted too.
    pub fn end(&self) {
        for grant in &self.grants {
            grant.revoke();
        }
    }

    fn request(
        &self,
        caller: &Caller,
        id: &RootId,
        access: AccessSet,
        reason: &str,
    ) -> Result<ScopedFs, Failure> {
        // Whatever the kind of a root gives unasked, an extension has what was
        // approved.
        let caller = caller.clone().by_grant_alone();
        self.authority.request_root(&caller, id, access, reason)
    }
}

impl Drop for ExtensionFs {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whether roots of a kind are there for more than one.
const fn is_shared(kind: RootKind) -> bool {
    match kind {
        RootKind::ExtensionStorage | RootKind::Temp => false,
        RootKind::Workspace
        | RootKind::Artifact
        | RootKind::Knowledge
        | RootKind::Downloads
        | RootKind::Secret => true,
    }
}

fn own(id: RootId, kind: RootKind, owner: Principal) -> RootSpec {
    RootSpec {
        id,
        kind,
        display_name: None,
        policy: RootPolicy::of(kind),
        owner: Some(owner),
        trusted: true,
    }
}

fn open_storage(
    data: &PrivateDir,
    id: &RootId,
    owner: Principal,
) -> Result<Arc<Declared>, Failure> {
    if !is_name(id.as_str()) {
        return Err(Failure::from(Reason::Bug).detail("no name of an extension's storage"));
    }
    let dir = data.sub(STORAGE)?.sub(id.as_str())?;
    let spec = own(id.clone(), RootKind::ExtensionStorage, owner);
    let root = Root::adopt(dir.path(), &spec.policy, Resolver::Best)?;
    let stat = rustix::fs::fstat(dir.fd()).map_err(failure)?;
    // Adopted by its path: it has to be what the handle holds.
    if root.identity() != (stat.st_dev, stat.st_ino) {
        return Err(Reason::ProtectedState.into());
    }
    Ok(Declared::over(
        root,
        spec,
        NewModes::default(),
        Some(data.clone()),
    ))
}

/// The storage there is, whosever it is, for putting right what a crash left.
pub(crate) fn stored(data: &PrivateDir) -> Vec<Arc<Declared>> {
    let Ok(all) = data.existing(STORAGE) else {
        return Vec::new();
    };
    let names = open_dir(&all, ".").and_then(|all| names(&all));
    let names = names.unwrap_or_default();
    let nobody = || Principal::Core {
        id: "recovery".into(),
    };
    names
        .into_iter()
        .filter_map(|name| RootId::parse(std::str::from_utf8(&name).ok()?))
        .filter(|id| is_name(id.as_str()))
        .take(MAX_STORED)
        .filter_map(|id| open_storage(data, &id, nobody()).ok())
        .collect()
}

/// Removes the storage of an extension that was removed, with all that is in it
/// and all that is kept of it for undo.
pub fn remove_extension_storage(data: &PrivateDir, storage: &RootId) -> Result<(), Failure> {
    let name = storage.as_str();
    let registered = name.strip_prefix(PREFIX).filter(|_| is_name(name));
    let registered = registered
        .ok_or_else(|| Failure::from(Reason::Bug).detail("no name of an extension's storage"))?;
    let all = data.sub(STORAGE)?;
    let gone = format!("{GONE}{registered}");
    // Out of its place first: a call that is still under way makes nothing there
    // again, and what a crash leaves is known to be nobody's.
    match rustix::fs::renameat(all.fd(), name, all.fd(), &gone) {
        Ok(()) | Err(Errno::NOENT) => remove_gone(data, &all, &gone),
        Err(errno) => Err(failure(errno)),
    }
}

/// Removes what removed extensions left when a crash or a call under way was in
/// the way. What cannot be removed now is tried again at the next start.
pub(crate) fn sweep(data: &PrivateDir) {
    let Ok(all) = data.existing(STORAGE) else {
        return;
    };
    let names = open_dir(&all, ".").and_then(|all| names(&all));
    for name in names.unwrap_or_default() {
        if let Ok(name) = std::str::from_utf8(&name)
            && name.starts_with(GONE)
        {
            let _tried_again_later = remove_gone(data, &all, name);
        }
    }
}

fn remove_gone(data: &PrivateDir, all: &PrivateDir, gone: &str) -> Result<(), Failure> {
    let ignoring_absence = |removed: Result<(), Failure>| match removed {
        Err(why) if why.reason() == Reason::NotFound => Ok(()),
        other => other,
    };
    // Held to the end: until then no other has its inode, and so its undo.
    let dir = match all.existing(gone) {
        Err(why) if why.reason() == Reason::NotFound => return Ok(()),
        other => other?,
    };
    let stat = rustix::fs::fstat(dir.fd()).map_err(failure)?;
    let kept = place_name((stat.st_dev, stat.st_ino));
    let remove_both = || {
        ignoring_absence(remove_tree(all.fd(), gone))?;
        match data.existing(UNDO) {
            Ok(undo) => ignoring_absence(remove_tree(undo.fd(), &kept)),
            Err(why) => ignoring_absence(Err(why)),
        }
    };
    // What was permitted before the grants went may still be making a file.
    for _ in 1..REMOVALS {
        if remove_both().is_ok() {
            return Ok(());
        }
        std::thread::sleep(BETWEEN_REMOVALS);
    }
    remove_both()
}

fn is_name(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX);
    rest.is_some_and(|rest| rest.len() == 32 && rest.bytes().all(|b| b.is_ascii_hexdigit()))
}
