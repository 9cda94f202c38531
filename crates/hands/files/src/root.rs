//! A root: a directory handle taken once, and never a path again.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use portcullis_policy::{Containment, RootPolicy, Symlinks};
use portcullis_proto::{Entity, Failure, Reason, RelPath};
use rustix::fs::{Mode, OFlags, fstat, fstatfs};
use rustix::io::Errno;

use crate::errno::{failure, hinted};
use crate::kept::Kept;
use crate::meta::Meta;
use crate::survey::stamps_every_change;
use crate::sys;
use crate::sys::probe::{Probe, probe};

/// How paths are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolver {
    /// The best the kernel offers. A kernel that has no `openat2` is served by
    /// the walk; one that has it, behind a filter, is not served at all.
    Best,
    /// The component walk, whatever the kernel offers: for testing it, and for
    /// an operator who says so.
    BestEffort,
}

/// A directory, pinned. Renaming or replacing what its path names changes
/// nothing here.
#[derive(Debug)]
pub struct Root {
    handle: OwnedFd,
    dev: u64,
    ino: u64,
    mount: u64,
    containment: Containment,
    /// On a file system that is local and keeps to POSIX.
    local: bool,
    /// Mounts inside the root that may be entered.
    mounts: Vec<Listed>,
    /// The spellings of the root's path that callers may use as a prefix.
    names: Vec<PathBuf>,
    /// What ignore files said, where stamps can be believed.
    pub(crate) kept: Option<Kept>,
}

/// A mount inside a root that the policy lists.
#[derive(Debug)]
struct Listed {
    place: RelPath,
    mount: u64,
    /// Device and inode of what is mounted there.
    identity: (u64, u64),
}

/// A handle, and where it really stands in the root.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) handle: OwnedFd,
    pub(crate) path: RelPath,
    pub(crate) meta: Meta,
}

/// File systems that are windows into the kernel: their files can block, stream
/// or act on being read, so none of them can be a root.
const PSEUDO: &[(u64, &str)] = &[
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x1cd1, "devpts"),
    (0x7363_6673, "securityfs"),
    (0xcafe_4a11, "bpf"),
    (0x6165_676c, "pstore"),
    (0x6265_6570, "configfs"),
    (0x6e73_6673, "nsfs"),
    (0x1980_0202, "mqueue"),
    (0xde5e_81e4, "efivarfs"),
    (0xf97c_ff8c, "selinuxfs"),
    (0x4341_5d53, "smackfs"),
    (0x5a3c_69f0, "apparmorfs"),
    (0x4249_4e4d, "binfmt_misc"),
    (0x6573_5543, "fusectl"),
    (0x6759_6969, "rpc_pipefs"),
    (0x6c6f_6f70, "binderfs"),
    (0x0765_5821, "resctrl"),
];

/// Whether what `handle` is open on is a window into the kernel.
pub(crate) fn is_pseudo(handle: &OwnedFd) -> Result<bool, Failure> {
    let magic = fstatfs(handle).map_err(failure)?.f_type.cast_unsigned();
    Ok(PSEUDO.iter().any(|(known, _)| *known == magic))
}

impl Root {
    /// Pins the directory at `path`, which the operator named.
    pub fn adopt(path: &Path, policy: &RootPolicy, resolver: Resolver) -> Result<Self, Failure> {
        let unusable = |reason: Reason, what: String| {
            Failure::new(reason, "The directory to serve cannot be used.").detail(what)
        };
        let canonical = path.canonicalize().map_err(|error| {
            let reason = crate::errno::from_io(&error).reason();
            unusable(reason, format!("{}: {error}", path.display()))
        })?;
        let handle = rustix::fs::open(
            &canonical,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(|errno| {
            let reason = if errno == Errno::NOTDIR {
                Reason::NotDirectory
            } else {
                failure(errno).reason()
            };
            unusable(reason, format!("{}: {errno}", path.display()))
        })?;
        let magic = fstatfs(&handle).map_err(failure)?.f_type.cast_unsigned();
        if let Some((_, name)) = PSEUDO.iter().find(|(known, _)| *known == magic) {
            return Err(unusable(
                Reason::SpecialFile,
                format!("{} is on {name}, a window into the kernel", path.display()),
            ));
        }
        let containment = match (resolver, probe()) {
            (Resolver::Best, Probe::KernelAtomic) => Containment::KernelAtomic,
            (Resolver::Best, Probe::Missing) | (Resolver::BestEffort, _) => Containment::BestEffort,
            // Whoever can put a filter around us must not choose the weaker way;
            // the operator can, by name.
            (Resolver::Best, Probe::Forbidden) => {
                return Err(Failure::new(
                    Reason::Os,
                    "A filter forbids openat2, and that is no reason to resolve paths in a weaker way.",
                )
                .hint("Run `portcullis doctor`; it names the fix."));
            }
        };
        if policy.containment == Containment::KernelAtomic && containment == Containment::BestEffort
        {
            return Err(Failure::from(Reason::BestEffortOnly)
                .hint("Run `portcullis doctor`; it names the fix."));
        }
        let seen = sys::handle_meta(handle.as_fd()).map_err(failure)?;
        let meta = Meta::of_statx(&seen);
        meta.admit_private(policy)?;
        let mut names = vec![canonical];
        if path.is_absolute() && names.first().is_none_or(|name| name != path) {
            names.push(path.to_owned());
        }
        let mut root = Self {
            handle,
            dev: meta.dev,
            ino: meta.ino,
            mount: sys::mount_of(&seen),
            containment,
            local: stamps_every_change(magic),
            mounts: Vec::new(),
            names,
            kept: None,
        };
        root.mounts = root.listed_mounts(policy)?;
        // One file system, resolved by the kernel, that stamps every change.
        if containment == Containment::KernelAtomic
            && root.mounts.is_empty()
            && stamps_every_change(magic)
        {
            root.kept = Some(Kept::new(sys::stamping_clock));
        }
        Ok(root)
    }

    /// Finds what is mounted at the places the policy lists.
    fn listed_mounts(&self, policy: &RootPolicy) -> Result<Vec<Listed>, Failure> {
        policy
            .mounts
            .iter()
            .map(|place| {
                let root = self.handle.as_fd();
                let handle = match self.containment {
                    Containment::KernelAtomic => {
                        sys::open_whole(root, place, OFlags::PATH, Symlinks::Reject, true)
                    }
                    Containment::BestEffort => sys::open_walk(root, |_| true, place, OFlags::PATH),
                }
                .map_err(failure)?;
                let magic = fstatfs(&handle).map_err(failure)?.f_type.cast_unsigned();
                if PSEUDO.iter().any(|(known, _)| *known == magic) {
                    return Err(hinted(Reason::SpecialFile));
                }
                let seen = sys::handle_meta(handle.as_fd()).map_err(failure)?;
                let meta = Meta::of_statx(&seen);
                Ok(Listed {
                    place: place.clone(),
                    mount: sys::mount_of(&seen),
                    identity: (meta.dev, meta.ino),
                })
            })
            .collect()
    }

    /// Whether somebody has a file in it open for writing, as far as that can be
    /// told: a server far away says so of every file it has not lent us.
    pub(crate) fn has_writer(&self, file: BorrowedFd<'_>) -> bool {
        self.local && sys::has_writer(file)
    }

    /// Whether it is on a file system of this machine.
    pub(crate) fn is_local(&self) -> bool {
        self.local
    }

    /// The pinned directory itself.
    pub(crate) fn top(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// How firmly paths are held inside it.
    pub fn containment(&self) -> Containment {
        self.containment
    }

    /// Device and inode, taken when it was pinned.
    pub fn identity(&self) -> (u64, u64) {
        (self.dev, self.ino)
    }

    /// The canonical path it was pinned at, for the operator's eyes and for
    /// wires that require it.
    pub fn host_path(&self) -> &Path {
        self.names.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// What is left of `absolute` below one of the root's spellings; string
    /// work alone, decided component by component.
    pub fn strip<'a>(&self, absolute: &'a Path) -> Option<&'a Path> {
        self.names
            .iter()
            .find_map(|name| absolute.strip_prefix(name).ok())
    }

    /// Where `host`, a path of our own, stands in the root, if it does. Asked of
    /// the directories above it and not of its name: a directory that is mounted
    /// twice has two.
    pub(crate) fn places_of(&self, host: &Path) -> Result<Vec<RelPath>, Failure> {
        let mut places = Vec::new();
        if let Some(rest) = self.strip(host) {
            places.push(RelPath::parse(rest.to_str().ok_or(Reason::BadName)?)?);
        }
        for above in host.ancestors() {
            let Ok(seen) = rustix::fs::stat(above) else {
                continue;
            };
            let seen = Meta::of_stat(&seen);
            let root = (RelPath::root(), self.identity());
            let listed = self.mounts.iter().map(|l| (l.place.clone(), l.identity));
            for (top, identity) in std::iter::once(root).chain(listed) {
                if (seen.dev, seen.ino) == identity {
                    let rest = host.strip_prefix(above).unwrap_or(host);
                    let rest = rest.to_str().ok_or(Reason::BadName)?;
                    places.push(RelPath::parse(&format!("{}/{rest}", top.shown()))?);
                }
            }
        }
        places.dedup();
        Ok(places)
    }

    /// Whether `mount` is the root's own, or one the policy lists.
    pub(crate) fn has_mount(&self, mount: u64) -> bool {
        mount == self.mount || self.mounts.iter().any(|listed| listed.mount == mount)
    }

    /// Opens `path` with `flags` and looks at what it got.
    pub(crate) fn open(
        &self,
        path: &RelPath,
        flags: OFlags,
        symlinks: Symlinks,
    ) -> Result<Opened, Failure> {
        let handle = self
            .handle_at(path, flags, symlinks)
            .map_err(|errno| self.explain(errno, path, flags, symlinks))?;
        let meta = Meta::of_stat(&fstat(&handle).map_err(failure)?);
        if meta.entity == Entity::Symlink {
            return Err(hinted(Reason::Symlink));
        }
        let path = match symlinks {
            // No link was followed and no mount crossed unseen: the path that
            // was judged is the path that was opened.
            Symlinks::Reject => path.clone(),
            Symlinks::AllowInRoot => self.landed(handle.as_fd())?,
        };
        #[cfg(portcullis_oracle)]
        crate::oracle::check(self.handle.as_fd(), handle.as_fd());
        Ok(Opened { handle, path, meta })
    }

    /// The handle behind `path`. Below a mount the policy lists, resolution
    /// starts anew at its top, so that no other mount is crossed there either.
    fn handle_at(
        &self,
        path: &RelPath,
        flags: OFlags,
        symlinks: Symlinks,
    ) -> Result<OwnedFd, Errno> {
        let root = self.handle.as_fd();
        let listed = self
            .mounts
            .iter()
            .map(|listed| &listed.place)
            .filter(|place| path.is_under(place))
            .max_by_key(|place| place.as_str().len());
        let ours = |handle: OwnedFd| {
            let mount = sys::mount_of(&sys::handle_meta(handle.as_fd())?);
            self.has_mount(mount).then_some(handle).ok_or(Errno::XDEV)
        };
        match (self.containment, listed) {
            (Containment::KernelAtomic, None) => {
                sys::open_whole(root, path, flags, symlinks, false)
            }
            (Containment::KernelAtomic, Some(place)) if place == path => {
                sys::open_whole(root, path, flags, symlinks, true).and_then(ours)
            }
            (Containment::KernelAtomic, Some(place)) => {
                let above = OFlags::PATH | OFlags::DIRECTORY;
                let top =
                    sys::open_whole(root, place, above, Symlinks::Reject, true).and_then(ours)?;
                let rest = path
                    .as_str()
                    .get(place.as_str().len()..)
                    .unwrap_or_default();
                let rest = RelPath::parse(rest.trim_start_matches('/'));
                let rest = rest.map_err(|_| Errno::NOENT)?;
                sys::open_whole(top.as_fd(), &rest, flags, symlinks, false)
            }
            (Containment::BestEffort, None) => {
                sys::open_walk(root, |mount| mount == self.mount, path, flags)
            }
            (Containment::BestEffort, Some(_)) => {
                sys::open_walk(root, |mount| self.has_mount(mount), path, flags)
            }
        }
    }

    /// Opens the entry `name` of the directory behind `parent`, which stands at
    /// `dir`: one component under the handle where the kernel can check that,
    /// from the root where it cannot.
    pub(crate) fn open_child(
        &self,
        parent: BorrowedFd<'_>,
        dir: &RelPath,
        name: &str,
        flags: OFlags,
    ) -> Result<OwnedFd, Failure> {
        match self.containment {
            Containment::KernelAtomic => match sys::open_child(parent, name, flags) {
                // Perhaps a mount the policy lists; from the root that is checked.
                Err(Errno::XDEV) if !self.mounts.is_empty() => {}
                opened => return opened.map_err(failure),
            },
            Containment::BestEffort => {}
        }
        self.open(&dir.join(name)?, flags, Symlinks::Reject)
            .map(|opened| opened.handle)
    }

    /// What an error of an open means. Where one number stands for two things,
    /// a second look, which decides nothing but the name of the refusal, tells
    /// them apart.
    fn explain(&self, errno: Errno, path: &RelPath, flags: OFlags, symlinks: Symlinks) -> Failure {
        let strict = || self.handle_at(path, OFlags::PATH, Symlinks::Reject);
        match errno {
            // With links followed, EXDEV is a link that leads out as well as a mount.
            Errno::XDEV if symlinks == Symlinks::AllowInRoot => {
                let reason = match strict() {
                    Err(Errno::XDEV) => Reason::MountBoundary,
                    Ok(_) | Err(_) => Reason::Symlink,
                };
                hinted(reason).detail(errno)
            }
            // A link that is asked for as a directory is not one, to the kernel.
            Errno::NOTDIR if flags.contains(OFlags::DIRECTORY) => {
                // The walk follows none, whatever the root allows.
                let follows = symlinks == Symlinks::AllowInRoot
                    && self.containment == Containment::KernelAtomic;
                let is_link = !follows
                    && match strict() {
                        Err(errno) => errno == Errno::LOOP,
                        Ok(handle) => fstat(&handle)
                            .is_ok_and(|seen| Meta::of_stat(&seen).entity == Entity::Symlink),
                    };
                let reason = if is_link {
                    Reason::Symlink
                } else {
                    Reason::NotDirectory
                };
                hinted(reason).detail(errno)
            }
            _ => failure(errno),
        }
    }

    /// Where a handle that a link led to really stands in the root.
    fn landed(&self, handle: BorrowedFd<'_>) -> Result<RelPath, Failure> {
        // The root may be renamed while we look: read its place on both sides.
        for _ in 0..8 {
            let before = sys::where_is(self.handle.as_fd());
            let place = sys::where_is(handle);
            let after = sys::where_is(self.handle.as_fd());
            if let (Some(root), Some(place)) = (before.as_ref(), place)
                && before == after
            {
                let rest = if place == *root {
                    Some("")
                } else {
                    place
                        .strip_prefix(root.trim_end_matches('/'))
                        .and_then(|rest| rest.strip_prefix('/'))
                };
                if let Some(rest) = rest {
                    return RelPath::parse(rest).map_err(Failure::from);
                }
            }
        }
        Err(hinted(Reason::Symlink))
    }

    /// Whether the directory at `path`, resolved again, is still the one that
    /// `was`. What was read from a directory moved away meanwhile is dropped.
    ///
    /// `path` is where it was found to stand, so no link is on the way: one that
    /// is there now was put there since.
    pub(crate) fn is_still(&self, path: &RelPath, was: &Meta) -> bool {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        self.holds(path, flags, was)
    }

    /// Whether the file at `path`, resolved again, is still the one that `was`:
    /// what was read from it is then of a file in the root, whatever became of
    /// the directories above it in between.
    pub(crate) fn is_still_file(&self, path: &RelPath, was: &Meta) -> bool {
        self.holds(path, OFlags::PATH, was)
    }

    fn holds(&self, path: &RelPath, flags: OFlags, was: &Meta) -> bool {
        self.open(path, flags, Symlinks::Reject)
            .is_ok_and(|now| (now.meta.dev, now.meta.ino) == (was.dev, was.ino))
    }
}

#[cfg(test)]
mod tests {
    use portcullis_proto::RootKind;

    use super::*;

    #[test]
    fn our_own_state_is_known_by_what_it_is_under_whatever_name() {
        let scratch = crate::ScratchDir::new(&std::env::temp_dir()).unwrap();
        let policy = RootPolicy::of(RootKind::Workspace);
        let root = Root::adopt(scratch.path(), &policy, Resolver::Best).unwrap();
        // A second name for the same directory, as a bind mount gives it one.
        let top = scratch.path().canonicalize().unwrap();
        let again = Path::new("/proc/self/root").join(top.strip_prefix("/").unwrap());
        let own = RelPath::parse("deep/state").unwrap();
        assert_eq!(root.places_of(&again.join("deep/state")), Ok(vec![own]));
        assert_eq!(root.places_of(&again), Ok(vec![RelPath::root()]));
        assert_eq!(root.places_of(Path::new("/nowhere/state")), Ok(Vec::new()));
    }
}
