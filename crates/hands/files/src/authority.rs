//! Which roots there are, and who gets to reach into one.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use portcullis_gate::{Caller, Gate, Grant, GrantSource, RootEntry, RootSpec};
use portcullis_proto::{AccessSet, Failure, Principal, Reason, RelPath, RootId, Verb};

use crate::hashes::Hashes;
use crate::operator::{OperatorFile, OperatorRole, Way};
use crate::options::NewModes;
use crate::private_dir::PrivateDir;
use crate::root::{Resolver, Root};
use crate::scoped::ScopedFs;
use crate::seen::Seen;
use crate::undo::{MAX_BYTES, UndoStore, weight};
use crate::writing::Tickets;

/// A root that was declared: what the gate knows of it, and the pinned handle.
#[derive(Debug)]
pub struct Declared {
    pub(crate) entry: Arc<RootEntry>,
    pub(crate) root: Arc<Root>,
    pub(crate) tickets: Tickets,
    pub(crate) seen: Seen,
    pub(crate) hashes: Hashes,
    pub(crate) modes: NewModes,
    /// Our own state, where displaced files are kept.
    data: Option<PrivateDir>,
    undo: OnceLock<Arc<UndoStore>>,
    redaction_key: OnceLock<[u8; 32]>,
}

impl Declared {
    /// A root that keeps what changes displace in `data`, if it is given.
    pub(crate) fn over(
        root: Root,
        spec: RootSpec,
        modes: NewModes,
        data: Option<PrivateDir>,
    ) -> Arc<Self> {
        let policy = spec.policy.beginning_at(root.host_path());
        Arc::new(Self {
            entry: RootEntry::new(RootSpec { policy, ..spec }),
            root: Arc::new(root),
            tickets: Tickets::default(),
            seen: Seen::default(),
            hashes: Hashes::default(),
            modes,
            data,
            undo: OnceLock::new(),
            redaction_key: OnceLock::new(),
        })
    }

    /// What the gate knows of it.
    pub fn entry(&self) -> &Arc<RootEntry> {
        &self.entry
    }

    /// The pinned directory.
    pub fn root(&self) -> &Arc<Root> {
        &self.root
    }

    /// What values of the file at `path` are hashed with where they are hidden:
    /// equal values of one file can be told, those of two files cannot, and
    /// nobody who can write elsewhere can try values out.
    pub(crate) fn redaction_key(&self, path: &RelPath) -> Result<[u8; 32], Failure> {
        let secret = match (self.redaction_key.get(), &self.data) {
            (Some(key), _) => *key,
            (None, Some(data)) => {
                let secret = crate::shared_secret(data, "redaction.key")?;
                secret.try_into().map_err(|_| Reason::Bug)?
            }
            (None, None) => {
                let mut key = [0; 32];
                getrandom::fill(&mut key).map_err(|e| Failure::from(Reason::Io).detail(e))?;
                key
            }
        };
        let secret = self.redaction_key.get_or_init(|| secret);
        let (dev, ino) = self.root.identity();
        let told = format!("{dev:x}-{ino:x}/{}", path.as_str());
        Ok(crate::writing::digest(&[&secret[..], told.as_bytes()].concat()).0)
    }

    /// Where its displaced files are kept, if they are; opened at the first
    /// change. What cannot be kept is not changed.
    pub(crate) fn undo(&self) -> Result<Option<Arc<UndoStore>>, Failure> {
        let Some(data) = &self.data else {
            return Ok(None);
        };
        if let Some(store) = self.undo.get() {
            return Ok(Some(Arc::clone(store)));
        }
        let store = Arc::new(UndoStore::open(data, &self.root)?);
        Ok(Some(Arc::clone(self.undo.get_or_init(|| store))))
    }

    /// Whether the store has to be looked at before it can be said whether it
    /// has room.
    pub(crate) fn undo_needs_look(&self) -> bool {
        self.data.is_some() && self.undo.get().is_none_or(|store| store.needs_look())
    }

    /// Looks at the store, if there is one; none is made.
    pub(crate) fn look_at_undo(&self) {
        match (self.undo.get(), &self.data) {
            (Some(store), _) => store.look(),
            (None, Some(data)) => {
                if let Some(store) = UndoStore::existing(data, &self.root) {
                    self.undo.get_or_init(|| Arc::new(store));
                }
            }
            (None, None) => {}
        }
    }

    /// Whether what a change displaces, so many bytes, has no room in the store.
    pub(crate) fn lacks_room_for(&self, bytes: u64) -> bool {
        match self.undo.get() {
            Some(store) => store.is_full_for(bytes),
            None => self.data.is_some() && weight(bytes) > MAX_BYTES,
        }
    }
}

/// Where a caller's path was found to belong: by string work alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// In which root.
    pub root: RootId,
    /// At which alleged path below it.
    pub alleged: String,
}

/// Owns every root. Callers get a [`ScopedFs`], never a path.
#[derive(Debug)]
pub struct Authority {
    gate: Arc<Gate>,
    roots: BTreeMap<RootId, Arc<Declared>>,
    default: Option<RootId>,
    own_state: Vec<PathBuf>,
    /// What the operator named, and where it stands inside a root.
    pub(crate) named: Vec<OperatorFile>,
    pub(crate) inside: Vec<(RootId, OperatorFile)>,
    home: Option<PathBuf>,
    modes: NewModes,
    data: Option<PrivateDir>,
    /// Who was given what a kind gives unasked, so that it is given once: a
    /// grant that was revoked does not come back.
    given: Mutex<HashSet<(Principal, RootId)>>,
}

impl Authority {
    /// An authority over no root yet. `own_state` is where Portcullis keeps its
    /// own files: never reachable, whatever root it lies in. `home` is what a
    /// caller's `~` means.
    pub fn new(gate: Arc<Gate>, own_state: Vec<PathBuf>, home: Option<PathBuf>) -> Self {
        Self {
            gate,
            roots: BTreeMap::new(),
            default: None,
            own_state,
            named: Vec::new(),
            inside: Vec::new(),
            home,
            modes: NewModes::default(),
            data: None,
            given: Mutex::default(),
        }
    }

    /// Keeps what changes displace, so that they can be undone: in `data` where
    /// that is on a root's mount, for roots declared from here on. Private
    /// workspaces are made there too.
    #[must_use]
    pub fn keeping_undo_in(mut self, data: PrivateDir) -> Self {
        self.data = Some(data);
        self
    }

    /// Whether `path`, every link in it resolved, is Portcullis's own.
    pub(crate) fn is_own_state(&self, path: &str) -> bool {
        let data = self.data.as_ref().map(PrivateDir::path);
        let keys = self
            .named
            .iter()
            .filter(|file| file.role == OperatorRole::Key)
            .map(|file| file.path.as_path());
        let own = self.own_state.iter().map(PathBuf::as_path).chain(data);
        own.chain(keys)
            .any(|own| Path::new(path).starts_with(real_path(own)))
    }

    /// Our own state, where there is one.
    pub(crate) fn data(&self) -> Option<&PrivateDir> {
        self.data.as_ref()
    }

    /// The modes of new files and directories, in roots declared from here on.
    #[must_use]
    pub fn with_new_modes(mut self, modes: NewModes) -> Self {
        self.modes = modes;
        self
    }

    /// The gate every deed goes through.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Declares the directory at `path` as a root. The first one is what a call
    /// that names none means.
    pub fn declare(
        &mut self,
        mut spec: RootSpec,
        path: &Path,
        resolver: Resolver,
    ) -> Result<Arc<Declared>, Failure> {
        if self.roots.contains_key(&spec.id) {
            return Err(Failure::new(
                Reason::BadArguments,
                format!("Two roots are called {:?}.", spec.id.as_str()),
            ));
        }
        let root = Root::adopt(path, &spec.policy, resolver)?;
        for own in &self.own_state {
            let own = real_path(own);
            let places = root.places_of(&own)?;
            if root.host_path().starts_with(&own) || places.contains(&RelPath::root()) {
                return Err(Failure::new(
                    Reason::ProtectedState,
                    "The directory to serve is Portcullis's own state.",
                ));
            }
            spec.policy.own_state.extend(places);
        }
        // The settings may be reached by a link: it leads elsewhere for nobody.
        for link in self.own_state.iter().flat_map(|own| Way::to(own).links) {
            let places = root.places_of(&link)?;
            let below = places.into_iter().filter(|at| *at != RelPath::root());
            spec.policy.fixed.extend(below);
        }
        self.protect_named(&root, &mut spec)?;
        let id = spec.id.clone();
        let declared = Declared::over(root, spec, self.modes, self.data.clone());
        self.default.get_or_insert_with(|| id.clone());
        self.roots.insert(id, Arc::clone(&declared));
        Ok(declared)
    }

    /// An authority over `roots` alone, behind the same gate.
    pub(crate) fn over(
        &self,
        roots: BTreeMap<RootId, Arc<Declared>>,
        default: Option<RootId>,
    ) -> Self {
        Self {
            gate: Arc::clone(&self.gate),
            roots,
            default,
            own_state: self.own_state.clone(),
            named: self.named.clone(),
            inside: self.inside.clone(),
            home: self.home.clone(),
            modes: self.modes,
            data: self.data.clone(),
            given: Mutex::default(),
        }
    }

    /// Every root, by name.
    pub fn roots(&self) -> impl Iterator<Item = &Arc<Declared>> {
        self.roots.values()
    }

    /// The root called `id`; the first declared where none is named.
    pub fn root(&self, id: Option<&RootId>) -> Option<&Arc<Declared>> {
        id.or(self.default.as_ref())
            .and_then(|id| self.roots.get(id))
    }

    /// A scope for `caller` in the root called `id`. Grants are looked at deed
    /// by deed; what the root's kind gives this caller unasked is granted here.
    pub fn scope(&self, caller: &Caller, id: Option<&RootId>) -> Result<ScopedFs, Failure> {
        let declared = self.root(id).ok_or_else(|| {
            Failure::from(Reason::UnknownRoot).hint(
                match self
                    .roots
                    .keys()
                    .map(RootId::as_str)
                    .collect::<Vec<_>>()
                    .join(", ")
                {
                    names if names.is_empty() => "No root is served here.".to_owned(),
                    names => format!("The roots served here are: {names}."),
                },
            )
        })?;
        if !caller.by_grant_alone {
            self.give_ambient(&caller.subject.principal, &declared.entry);
        }
        Ok(ScopedFs::new(
            Arc::clone(&self.gate),
            caller.clone(),
            Arc::clone(declared),
        ))
    }

    /// The seed's `requestRoot`: a scope only if every access asked for is
    /// covered now. A refusal is in the audit.
    pub fn request_root(
        &self,
        caller: &Caller,
        id: &RootId,
        access: AccessSet,
        reason: &str,
    ) -> Result<ScopedFs, Failure> {
        let scope = self
            .scope(caller, Some(id))
            .map_err(|failure| self.gate.refuse(caller, Verb::Stat, reason, failure))?;
        let now = self.gate.clock().now_ms();
        let principal = &caller.subject.principal;
        let grantable = |access| {
            self.root(Some(id))
                .is_some_and(|d| d.entry.grantable(access))
        };
        let missing = access.iter().find(|access| {
            !grantable(*access)
                || matches!(
                    self.gate.grants().find(principal, id, *access, now),
                    portcullis_gate::Granted::No
                )
        });
        match missing {
            None => Ok(scope),
            Some(access) => Err(self.gate.refuse(
                caller,
                Verb::Stat,
                reason,
                Failure::new(
                    Reason::NoGrant,
                    format!("No grant covers {} on the root {id}.", access.as_str()),
                ),
            )),
        }
    }

    fn give_ambient(&self, principal: &Principal, entry: &RootEntry) {
        let access = entry.ambient(principal);
        if access == AccessSet::NONE {
            return;
        }
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if given.insert((principal.clone(), entry.id().clone())) {
            self.gate.grants().issue(Grant::new(
                principal.clone(),
                entry.id().clone(),
                access,
                None,
                GrantSource::Core,
            ));
        }
    }

    /// Finds the root a caller's path belongs to: `~/…` and absolute paths
    /// under a root's spelled or canonical name, by string work alone; anything
    /// relative belongs to `named`, or to the default root.
    pub fn locate(&self, named: Option<&RootId>, alleged: &str) -> Result<Located, Failure> {
        let outside = || {
            Failure::from(Reason::OutsideRoots)
                .hint("Use a path relative to the root; `.` is the root itself.")
        };
        let home = alleged
            .strip_prefix("~/")
            .or((alleged == "~").then_some(""));
        let absolute = match (home, &self.home) {
            (Some(rest), Some(home)) => Some(home.join(rest.trim_start_matches('/'))),
            (Some(_), None) => return Err(outside()),
            (None, _) => alleged.starts_with('/').then(|| PathBuf::from(alleged)),
        };
        let Some(absolute) = absolute else {
            let root = self.root(named).ok_or(Reason::UnknownRoot)?;
            return Ok(Located {
                root: root.entry.id().clone(),
                alleged: alleged.to_owned(),
            });
        };
        // The longest match wins, so that a root inside a root gets its own.
        self.roots
            .values()
            .filter(|declared| named.is_none_or(|named| named == declared.entry.id()))
            .filter_map(|declared| Some((declared, declared.root.strip(&absolute)?.to_str()?)))
            .min_by_key(|(_, rest)| rest.len())
            .map(|(declared, rest)| Located {
                root: declared.entry.id().clone(),
                alleged: rest.to_owned(),
            })
            .ok_or_else(outside)
    }
}

/// `path` with every link on the way resolved, as far as it exists. For telling
/// places apart; what is opened is pinned.
pub(crate) fn real_path(path: &Path) -> PathBuf {
    let mut rest = Vec::new();
    for above in path.ancestors() {
        if let Ok(mut real) = above.canonicalize() {
            real.extend(rest.into_iter().rev());
            return real;
        }
        rest.extend(above.file_name());
    }
    path.to_owned()
}
