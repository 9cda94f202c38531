//! What the kernel says about a handle, and whether that will do.

use std::fmt::Write as _;
use std::sync::OnceLock;

use portcullis_policy::{Hardlinks, RootPolicy};
use portcullis_proto::{Digest, Entity, Failure, Identity, Reason};
use rustix::fs::{FileType, Stat, Statx};

use crate::errno::hinted;

/// What stands at a path, taken from a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The device.
    pub dev: u64,
    /// The inode.
    pub ino: u64,
    /// What it is.
    pub entity: Entity,
    /// Permission bits.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// How many names it has.
    pub links: u32,
    /// Bytes.
    pub size: u64,
    /// Last change of content, in nanoseconds since 1970.
    pub mtime_ns: i128,
    /// Last change of anything, in nanoseconds since 1970.
    pub ctime_ns: i128,
    /// The first eight bytes of its SHA-256, where its times are so fresh that
    /// the next change may leave them as they are.
    pub content: Option<u64>,
}

/// Times are this coarse at worst: two changes within it may share a stamp.
const TICKS_NS: i128 = 20_000_000;

impl Meta {
    pub(crate) fn of_stat(stat: &Stat) -> Self {
        Self {
            dev: stat.st_dev,
            ino: stat.st_ino,
            entity: entity(FileType::from_raw_mode(stat.st_mode)),
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            links: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mtime_ns: nanos(stat.st_mtime, stat.st_mtime_nsec.cast_signed()),
            ctime_ns: nanos(stat.st_ctime, stat.st_ctime_nsec.cast_signed()),
            content: None,
        }
    }

    pub(crate) fn of_statx(stat: &Statx) -> Self {
        Self {
            dev: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
            ino: stat.stx_ino,
            entity: entity(FileType::from_raw_mode(stat.stx_mode.into())),
            mode: u32::from(stat.stx_mode) & 0o7777,
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            links: stat.stx_nlink,
            size: stat.stx_size,
            mtime_ns: nanos(stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec.into()),
            ctime_ns: nanos(stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec.into()),
            content: None,
        }
    }

    /// Which very thing it is.
    pub fn identity(&self) -> Identity {
        Identity {
            dev: self.dev,
            ino: self.ino,
            entity: self.entity,
            owner: self.uid,
            links: self.links,
        }
    }

    /// The version a read returns: changes when the file does.
    pub fn version(&self) -> String {
        let mut text = String::with_capacity(56);
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "v1-{:x}-{:x}-{:x}-{:x}",
            self.ino, self.size, self.mtime_ns, self.ctime_ns
        );
        if let Some(content) = self.content {
            let _ = write!(text, "-{content:016x}");
        }
        text
    }

    /// Whether its times are too fresh to tell the next change from this one.
    pub(crate) fn is_racy(&self, now_ms: u64) -> bool {
        i128::from(now_ms) * 1_000_000 - self.ctime_ns < TICKS_NS
    }

    /// With its content told too.
    #[must_use]
    pub(crate) fn with_content(mut self, hash: &Digest) -> Self {
        self.content = hash.0.first_chunk().copied().map(u64::from_be_bytes);
        self
    }

    /// Whether a read that returned `version` saw this, whose content hashes to
    /// `hash` where that is known.
    pub(crate) fn is_version(&self, version: &str, hash: Option<&Digest>) -> bool {
        let bare = Self {
            content: None,
            ..*self
        };
        let told = match hash {
            Some(hash) => bare.with_content(hash).version(),
            None => String::new(),
        };
        let bare = bare.version();
        version == bare || version == told || version == without_content(&bare)
    }

    /// Modified when, in milliseconds since 1970.
    pub fn modified_ms(&self) -> i64 {
        i64::try_from(self.mtime_ns / 1_000_000).unwrap_or_default()
    }

    /// Whether its bytes may be handed out: a regular file, with no name
    /// elsewhere that the policy minds, and closed to others where it must be.
    ///
    /// `still_named` tells, when asked, whether the name the handle was opened
    /// by still stands.
    pub(crate) fn admit_file(
        &self,
        policy: &RootPolicy,
        still_named: impl FnOnce() -> bool,
    ) -> Result<(), Failure> {
        match self.entity {
            Entity::File => {}
            Entity::Directory => return Err(hinted(Reason::IsDirectory)),
            Entity::Symlink => return Err(hinted(Reason::Symlink)),
            Entity::Mount => return Err(hinted(Reason::MountBoundary)),
            Entity::Special => return Err(hinted(Reason::SpecialFile)),
        }
        // Another name of a key file. One that has a single name is known by it:
        // the inode of one that is gone may be any file's by now.
        if self.links > 1 && policy.own_inodes.contains(&(self.dev, self.ino)) {
            return Err(Reason::ProtectedState.into());
        }
        if !self.admits_links(policy.hardlinks, still_named) {
            return Err(hinted(Reason::Hardlink));
        }
        self.admit_private(policy)
    }

    /// Whether the policy minds none of its other names.
    pub(crate) fn admits_links(
        &self,
        hardlinks: Hardlinks,
        still_named: impl FnOnce() -> bool,
    ) -> bool {
        match hardlinks {
            Hardlinks::Allow => true,
            Hardlinks::AllowOwn if self.is_ours() => true,
            // A count of one proves nothing by itself: a foreign file linked in,
            // opened, and unlinked again before we looked has one name too. It
            // is the name we opened only while that one still stands.
            Hardlinks::AllowOwn | Hardlinks::Reject => self.links == 1 && still_named(),
        }
    }

    /// Whether a private root accepts whose it is and who else can see it.
    pub(crate) fn admit_private(&self, policy: &RootPolicy) -> Result<(), Failure> {
        if !policy.private {
            return Ok(());
        }
        if !self.is_ours() {
            return Err(Reason::NotOwned.into());
        }
        if self.mode & 0o077 != 0 {
            return Err(Failure::from(Reason::InsecurePermissions)
                .hint("Close it to others: `chmod go= <file>`."));
        }
        Ok(())
    }

    fn is_ours(&self) -> bool {
        self.uid == ourselves()
    }
}

/// Who we run as. Asked once: it never changes here, and a listing would ask it
/// for every entry.
fn ourselves() -> u32 {
    static OURSELVES: OnceLock<u32> = OnceLock::new();
    *OURSELVES.get_or_init(|| rustix::process::geteuid().as_raw())
}

/// A version without what it tells of the content, its size included: it still
/// fits the same file, and no longer tells two saves within one tick apart.
pub(crate) fn without_content(version: &str) -> String {
    // `v1`, inode, size and two times; then the content.
    match *version.split('-').collect::<Vec<_>>() {
        [v1, ino, _, modified, changed] | [v1, ino, _, modified, changed, _] => {
            [v1, ino, "", modified, changed].join("-")
        }
        _ => version.to_owned(),
    }
}

pub(crate) fn entity(kind: FileType) -> Entity {
    match kind {
        FileType::RegularFile => Entity::File,
        FileType::Directory => Entity::Directory,
        FileType::Symlink => Entity::Symlink,
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => Entity::Special,
    }
}

fn nanos(seconds: i64, nanos: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(nanos)
}
