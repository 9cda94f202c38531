//! What this kernel and these directories offer, asked for `portcullis doctor`.
//!
//! Nothing is written into a directory that is to be served; only our own is
//! tried by doing.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use portcullis_proto::{Failure, Reason};
use rustix::fs::{
    AtFlags, IFlags, Mode, OFlags, RenameFlags, fstatfs, ioctl_getflags, openat, renameat_with,
    unlinkat,
};
use rustix::io::Errno;

use crate::private_dir::PrivateDir;
use crate::sys;
use crate::sys::probe::{Probe, probe};

/// What the kernel offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSurvey {
    /// Its release, as it calls itself.
    pub release: String,
    /// Strict resolution in one system call.
    pub openat2: Probe,
    /// Whether Landlock is switched on; `None` where the kernel does not say.
    pub landlock: Option<bool>,
}

/// What a directory offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// The file system it is on, by name or magic number.
    pub file_system: String,
    /// Whether that reaches over a network.
    pub network: bool,
    /// Whether `A` and `a` are one name there.
    pub folds_case: bool,
    /// Whether two files can change places atomically; `None` where only
    /// trying would tell, and nothing is tried in a directory that is served.
    pub exchanges: Option<bool>,
    /// Files looked at for other names.
    pub looked_at: usize,
    /// Those that have one.
    pub hardlinked: usize,
}

/// How many entries are looked at for hard links.
const MAX_LOOKED_AT: usize = 20_000;
/// How deep the look goes.
const MAX_DEPTH: usize = 6;

/// `FS_CASEFOLD_FL`: the directory was made to take `A` and `a` for one name.
const CASEFOLD: IFlags = IFlags::from_bits_retain(0x4000_0000);

/// One file system we know something of.
struct Known {
    magic: u64,
    name: &'static str,
    network: bool,
    folds_case: bool,
    exchanges: Option<bool>,
}

const fn known(magic: u64, name: &'static str) -> Known {
    Known {
        magic,
        name,
        network: false,
        folds_case: false,
        exchanges: Some(true),
    }
}

const fn remote(magic: u64, name: &'static str) -> Known {
    Known {
        network: true,
        exchanges: Some(false),
        ..known(magic, name)
    }
}

const fn folding(magic: u64, name: &'static str) -> Known {
    Known {
        folds_case: true,
        exchanges: Some(false),
        ..known(magic, name)
    }
}

const KNOWN: &[Known] = &[
    known(0xef53, "ext4"),
    known(0x5846_5342, "xfs"),
    known(0x9123_683e, "btrfs"),
    known(0x0102_1994, "tmpfs"),
    known(0xf2f5_2010, "f2fs"),
    known(0x2fc1_2fc1, "zfs"),
    known(0xca45_1a4e, "bcachefs"),
    Known {
        exchanges: None,
        ..known(0x794c_7630, "overlay")
    },
    Known {
        exchanges: None,
        ..known(0x6573_5546, "fuse")
    },
    remote(0x6969, "nfs"),
    remote(0xff53_4d42, "cifs"),
    remote(0xfe53_4d42, "smb2"),
    remote(0x0102_1997, "9p"),
    remote(0x00c3_6400, "ceph"),
    folding(0x4d44, "vfat"),
    folding(0x2011_bab0, "exfat"),
    folding(0x7366_746e, "ntfs3"),
];

/// Whether a directory on the file system of this magic number has a new stamp
/// whenever a name in it changes: what is local and keeps to POSIX. A server
/// far away, or a program behind FUSE, may do as it likes.
pub(crate) fn stamps_every_change(magic: u64) -> bool {
    KNOWN.iter().any(|known| {
        known.magic == magic && !known.network && !known.folds_case && known.name != "fuse"
    })
}

/// Asks the kernel.
pub fn survey_kernel() -> KernelSurvey {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    KernelSurvey {
        release,
        openat2: probe(),
        landlock: crate::read_own_text(Path::new("/sys/kernel/security/lsm"), 4096)
            .ok()
            .flatten()
            .map(|modules| modules.split(',').any(|name| name.trim() == "landlock")),
    }
}

/// Looks at a directory that is to be served. Writes nothing.
pub fn survey(dir: &Path) -> Result<Survey, Failure> {
    let handle = open(dir)?;
    let mut survey = of_handle(&handle)?;
    look_for_links(dir, &mut survey);
    Ok(survey)
}

/// Whether what changes displace in the directory at `path` can be kept in
/// `data` by a rename: whether both are on one mount.
pub fn shares_mount(data: &PrivateDir, path: &Path) -> Result<bool, Failure> {
    let served = open(path)?;
    let mount = |dir| sys::handle_meta(dir).map(|seen| sys::mount_of(&seen));
    let both = mount(data.fd()).and_then(|own| Ok((own, mount(served.as_fd())?)));
    both.map(|(own, served)| own == served)
        .map_err(crate::errno::failure)
}

/// Looks at a directory of our own, by doing: makes, exchanges and removes two
/// files in it.
pub fn survey_own(dir: &Path) -> Result<Survey, Failure> {
    let handle = open(dir)?;
    let mut survey = of_handle(&handle)?;
    survey.exchanges = Some(try_exchange(&handle).map_err(|errno| failed(dir, errno))?);
    Ok(survey)
}

fn open(dir: &Path) -> Result<OwnedFd, Failure> {
    rustix::fs::open(
        dir,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|errno| failed(dir, errno))
}

fn failed(dir: &Path, errno: Errno) -> Failure {
    let reason = match errno {
        Errno::NOENT => Reason::NotFound,
        Errno::NOTDIR => Reason::NotDirectory,
        Errno::NOSPC => Reason::NoSpace,
        _ => Reason::Os,
    };
    Failure::new(reason, reason.sentence()).detail(format_args!("{}: {errno}", dir.display()))
}

fn of_handle(handle: &OwnedFd) -> Result<Survey, Failure> {
    let magic = fstatfs(handle)
        .map_err(crate::errno::failure)?
        .f_type
        .cast_unsigned();
    let known = KNOWN.iter().find(|known| known.magic == magic);
    let folds = ioctl_getflags(handle).is_ok_and(|flags| flags.contains(CASEFOLD));
    Ok(Survey {
        file_system: known.map_or_else(|| format!("{magic:#x}"), |known| known.name.to_owned()),
        network: known.is_some_and(|known| known.network),
        folds_case: folds || known.is_some_and(|known| known.folds_case),
        exchanges: known.and_then(|known| known.exchanges),
        looked_at: 0,
        hardlinked: 0,
    })
}

fn try_exchange(dir: &OwnedFd) -> Result<bool, Errno> {
    let names = [".survey-a", ".survey-b"];
    let make = |name: &str| {
        openat(
            dir,
            name,
            OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::RUSR | Mode::WUSR,
        )
        .map(drop)
    };
    let tried = make(names[0])
        .and_then(|()| make(names[1]))
        .map(|()| renameat_with(dir, names[0], dir, names[1], RenameFlags::EXCHANGE));
    for name in names {
        // Not there when it could not be made.
        unlinkat(dir.as_fd(), name, AtFlags::empty()).ok();
    }
    match tried? {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Counts files that have another name, in the part of the tree a person would
/// look at first. A rough count for advice; nothing rests on it.
fn look_for_links(dir: &Path, survey: &mut Survey) {
    use std::os::unix::fs::MetadataExt;
    let mut waiting = vec![(dir.to_owned(), 0)];
    while let Some((dir, depth)) = waiting.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else {
            continue;
        };
        for entry in entries.flatten() {
            if survey.looked_at >= MAX_LOOKED_AT {
                return;
            }
            // Of the entry itself: links are not followed.
            let Ok(meta) = entry.metadata() else {
                continue;
            };
            if meta.is_dir() && depth < MAX_DEPTH {
                waiting.push((entry.path(), depth + 1));
            } else if meta.is_file() {
                survey.looked_at += 1;
                survey.hardlinked += usize::from(meta.nlink() > 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_looked_at_and_left_as_it_was() {
        let scratch = crate::ScratchDir::new(&std::env::temp_dir()).unwrap();
        std::fs::write(scratch.path().join("a"), "").unwrap();
        std::fs::hard_link(scratch.path().join("a"), scratch.path().join("b")).unwrap();
        let seen = survey(scratch.path()).unwrap();
        assert_eq!((seen.looked_at, seen.hardlinked), (2, 2));
        assert!(survey_own(scratch.path()).unwrap().exchanges.is_some());
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 2);
        let gone = survey(&scratch.path().join("nowhere")).unwrap_err();
        assert_eq!(gone.reason(), Reason::NotFound);
    }

    #[test]
    fn the_kernel_has_a_name() {
        assert!(!survey_kernel().release.is_empty());
    }
}
