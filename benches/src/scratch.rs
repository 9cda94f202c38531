//! A directory of files to measure on, gone at the end.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::IFlags;

use crate::Outcome;

/// Where the 4 KiB file stands: five components down.
pub(crate) const SMALL: &str = "one/two/three/four/small.txt";

/// A scratch directory.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Outcome<Self> {
        Self::below(&std::env::temp_dir())
    }

    /// One that is in memory, where waiting for the disk takes no time and
    /// making a file does not depend on what was deleted on it before.
    pub(crate) fn in_memory() -> Outcome<Self> {
        Self::below(Path::new("/dev/shm"))
    }

    fn below(dir: &Path) -> Outcome<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("portcullis-bench-{}-{n}", std::process::id());
        let path = dir.canonicalize()?.join(name);
        std::fs::create_dir(&path)?;
        keep_apart(&path);
        std::fs::create_dir(path.join("root"))?;
        Ok(Self(path))
    }

    /// The directory to serve.
    pub(crate) fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    /// A directory on the same file system, beside the one to serve.
    pub(crate) fn state(&self) -> PathBuf {
        self.0.join("state")
    }

    /// Puts the 4 KiB file in place: 64 lines of 64 bytes.
    pub(crate) fn with_small_file(self) -> Outcome<Self> {
        let file = self.root().join(SMALL);
        std::fs::create_dir_all(file.parent().unwrap_or(Path::new("")))?;
        let line = format!(
            "{}\n",
            "portcullis ".repeat(6).get(..63).unwrap_or_default()
        );
        std::fs::write(file, line.repeat(64))?;
        Ok(self)
    }

    /// Puts `count` small files into the directory `dir`.
    pub(crate) fn with_files(self, dir: &str, count: u32) -> Outcome<Self> {
        fill(&self.root().join(dir), count, b"a line\n")?;
        Ok(self)
    }

    /// Puts a sparse file in place: lines, a hole, lines.
    pub(crate) fn with_sparse_file(self, name: &str, bytes: u64, lines: u32) -> Outcome<Self> {
        use std::io::{Seek as _, SeekFrom};
        let mut file = std::fs::File::create(self.root().join(name))?;
        let text = |at: &str| -> String {
            (1..=lines).fold(String::new(), |text, n| text + &format!("{at} line {n}\n"))
        };
        file.write_all(text("first").as_bytes())?;
        let tail = format!("\n{}", text("last"));
        file.seek(SeekFrom::Start(bytes - tail.len() as u64))?;
        file.write_all(tail.as_bytes())?;
        Ok(self)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left behind, it is in the directory for temporary files.
        let _left_behind = std::fs::remove_dir_all(&self.0);
    }
}

/// Makes `dir` with `count` files in it, named as people name files.
pub(crate) fn fill(dir: &Path, count: u32, content: &[u8]) -> Outcome<()> {
    std::fs::create_dir_all(dir)?;
    for n in 0..count {
        let name = format!("component-{n:07}.ts");
        std::fs::File::create(dir.join(name))?.write_all(content)?;
    }
    Ok(())
}

/// Has the directories made in `dir` placed far from what stands around it, where
/// the file system knows how (ext4 does).
///
/// Before ext4 gives an inode out it looks at every one near it that was freed in
/// the last minutes. After a hundred thousand deletions that makes a file ten times
/// as dear, once for each file made: who makes two pays double for what somebody
/// else deleted.
fn keep_apart(dir: &Path) {
    let flagged = std::fs::File::open(dir).and_then(|dir| {
        let flags = rustix::fs::ioctl_getflags(&dir)?;
        rustix::fs::ioctl_setflags(&dir, flags | IFlags::TOPDIR)?;
        Ok(())
    });
    // Where it cannot be said, it is as it was.
    drop(flagged);
}
