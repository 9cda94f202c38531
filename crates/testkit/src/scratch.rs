//! A tree from a literal, gone when it is dropped.
//!
//! ```text
//! Scratch::of("
//!     src/                       a directory
//!     src/main.rs = fn main() {} a file and its content
//!     .env = KEY=1 [600]         its mode, in brackets at the end
//!     latest -> src/main.rs      a symbolic link
//!     twin <=> src/main.rs       a hard link
//!     pipe |                     a FIFO
//! ")
//! ```
//!
//! The root is `root` in the scratch directory; paths may begin with `../` to
//! plant something beside it, outside.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::mount::{MountFlags, UnmountFlags, mount_bind, mount_remount, unmount};

/// A directory of its own, and in it the root.
#[derive(Debug)]
pub struct Scratch {
    base: PathBuf,
    mounted: std::sync::Mutex<Vec<PathBuf>>,
}

/// Whether the tests run as the superuser, and so can mount and change owners.
pub fn is_superuser() -> bool {
    rustix::process::geteuid().is_root()
}

impl Scratch {
    /// Builds what `literal` describes.
    #[track_caller]
    pub fn of(literal: &str) -> Self {
        Self::in_dir(&std::env::temp_dir(), literal)
    }

    /// Builds it in memory where there is room for that: for many operations.
    #[track_caller]
    pub fn in_memory(literal: &str) -> Self {
        let shared = Path::new("/dev/shm");
        if shared.is_dir() {
            return Self::in_dir(shared, literal);
        }
        Self::of(literal)
    }

    #[track_caller]
    fn in_dir(dir: &Path, literal: &str) -> Self {
        let mut chance = [0u8; 8];
        getrandom::fill(&mut chance).expect("random bytes");
        let dir = dir.canonicalize().expect("a directory for scratch trees");
        let base = dir.join(format!(
            "portcullis-scratch-{:016x}",
            u64::from_le_bytes(chance)
        ));
        let scratch = Self {
            base,
            mounted: std::sync::Mutex::default(),
        };
        fs::create_dir_all(scratch.root()).expect("the scratch directory");
        // Private kinds of roots want this; others do not mind.
        scratch.chmod(".", 0o700);
        scratch.add(literal);
        scratch
    }

    /// The directory that is served.
    pub fn root(&self) -> PathBuf {
        self.base.join("root")
    }

    /// The directory around it, which is not.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Where `path` stands on the machine.
    pub fn at(&self, path: &str) -> PathBuf {
        match path.strip_prefix("../") {
            Some(beside) => self.base.join(beside),
            None => self.root().join(path),
        }
    }

    /// Adds what `literal` describes.
    #[track_caller]
    pub fn add(&self, literal: &str) {
        for line in literal.lines().map(str::trim).filter(|l| !l.is_empty()) {
            if let Some((path, content)) = line.split_once(" = ") {
                let (content, mode) = with_mode(content);
                self.file(path, content);
                if let Some(mode) = mode {
                    self.chmod(path, mode);
                }
            } else if let Some((path, target)) = line.split_once(" -> ") {
                self.parent(path);
                std::os::unix::fs::symlink(target, self.at(path)).expect(line);
            } else if let Some((path, target)) = line.split_once(" <=> ") {
                self.parent(path);
                fs::hard_link(self.at(target), self.at(path)).expect(line);
            } else if let Some(path) = line.strip_suffix(" |") {
                self.parent(path);
                let mode = Mode::from_raw_mode(0o600);
                mknodat(CWD, self.at(path), FileType::Fifo, mode, 0).expect(line);
            } else {
                let (path, mode) = with_mode(line);
                match path.strip_suffix('/') {
                    Some(path) => fs::create_dir_all(self.at(path)).expect(line),
                    None => self.file(path, ""),
                }
                if let Some(mode) = mode {
                    self.chmod(path, mode);
                }
            }
        }
    }

    /// Writes a file, and the directories above it.
    #[track_caller]
    pub fn file(&self, path: &str, content: impl AsRef<[u8]>) {
        self.parent(path);
        fs::write(self.at(path), content).expect(path);
    }

    /// Changes a mode.
    #[track_caller]
    pub fn chmod(&self, path: &str, mode: u32) {
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(mode)).expect(path);
    }

    /// Gives it to somebody else; superuser only.
    #[track_caller]
    pub fn chown(&self, path: &str, uid: u32) {
        std::os::unix::fs::lchown(self.at(path), Some(uid), Some(uid)).expect(path);
    }

    /// Renames, replacing what is there.
    #[track_caller]
    pub fn rename(&self, from: &str, to: &str) {
        fs::rename(self.at(from), self.at(to)).expect(from);
    }

    /// Makes a device like the one that reads as zeros; superuser only, and
    /// only where the kernel lets it.
    pub fn device(&self, path: &str) -> bool {
        let zero = rustix::fs::makedev(1, 5);
        let mode = Mode::from_raw_mode(0o666);
        mknodat(CWD, self.at(path), FileType::CharacterDevice, mode, zero).is_ok()
    }

    /// Binds `from` onto `to` until the tree is dropped; superuser only, and
    /// only where the kernel lets it.
    pub fn bind(&self, from: &str, to: &str) -> bool {
        let to = self.at(to);
        let done = mount_bind(self.at(from), &to).is_ok();
        if done {
            self.mounted
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .push(to);
        }
        done
    }

    /// Mounts an empty file system in memory at `to`; says whether it could.
    pub fn tmpfs(&self, to: &str) -> bool {
        self.mount_at(to, |target| {
            rustix::mount::mount("tmpfs", target, "tmpfs", MountFlags::empty(), None)
        })
    }

    /// Mounts an empty file system of `megabytes` in memory at `to`; says whether
    /// it could.
    pub fn small_tmpfs(&self, to: &str, megabytes: u32) -> bool {
        self.mount_at(to, |target| {
            let size = std::ffi::CString::new(format!("size={megabytes}m"))
                .map_err(|_| rustix::io::Errno::INVAL)?;
            let flags = MountFlags::empty();
            rustix::mount::mount("tmpfs", target, "tmpfs", flags, Some(size.as_c_str()))
        })
    }

    /// Mounts a writable layer over the directory `lower` at `to`, as
    /// containers do; says whether it could.
    pub fn overlay(&self, lower: &str, to: &str) -> bool {
        let (upper, work) = (self.base.join("upper"), self.base.join("work"));
        fs::create_dir_all(&upper).expect("the upper layer");
        fs::create_dir_all(&work).expect("the work directory");
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            self.at(lower).display(),
            upper.display(),
            work.display()
        );
        let options = std::ffi::CString::new(options).expect("options without a NUL");
        self.mount_at(to, |target| {
            rustix::mount::mount(
                "overlay",
                target,
                "overlay",
                MountFlags::empty(),
                Some(options.as_c_str()),
            )
        })
    }

    fn mount_at(
        &self,
        to: &str,
        mount: impl FnOnce(&Path) -> Result<(), rustix::io::Errno>,
    ) -> bool {
        let target = self.at(to);
        if mount(&target).is_err() {
            return false;
        }
        self.mounted
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .push(target);
        true
    }

    /// Makes what was bound onto `to` read-only, to have two mounts differ.
    pub fn remount_read_only(&self, to: &str) -> bool {
        let flags = MountFlags::BIND | MountFlags::RDONLY;
        mount_remount(self.at(to), flags, c"").is_ok()
    }

    #[track_caller]
    fn parent(&self, path: &str) {
        let place = self.at(path);
        let above = place.parent().expect("a place in the scratch tree");
        fs::create_dir_all(above).expect(path);
    }
}

impl Drop for Scratch {
    /// Unmounts first, and removes only then: never through a mount.
    fn drop(&mut self) {
        let mounted = std::mem::take(
            self.mounted
                .get_mut()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        );
        for place in mounted.iter().rev() {
            if unmount(place, UnmountFlags::DETACH).is_err() {
                return;
            }
        }
        open_up(&self.base);
        drop(fs::remove_dir_all(&self.base));
    }
}

/// Makes every directory writable, so that the tree can be removed.
fn open_up(dir: &Path) {
    drop(fs::set_permissions(dir, fs::Permissions::from_mode(0o700)));
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Splits a mode in brackets off the end.
fn with_mode(text: &str) -> (&str, Option<u32>) {
    let split = text
        .strip_suffix(']')
        .and_then(|text| text.rsplit_once(" ["))
        .and_then(|(text, mode)| Some((text, u32::from_str_radix(mode, 8).ok()?)));
    match split {
        Some((text, mode)) => (text, Some(mode)),
        None => (text, None),
    }
}
