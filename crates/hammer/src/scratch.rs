//! The scratch tree: an inside, an outside that mirrors it, and a stage where decoys wait.
//!
//! ```text
//! base/root/grand/sub/{leaf.txt, other.txt, sized.bin, packed.tar, <inside mark>.txt}
//! base/out/grand/sub/{leaf.txt, other.txt, sized.bin, packed.tar, <outside mark>.txt}
//! base/stage/{grand, sub, root, leaf.txt, sized.bin, packed.tar}     symlinks into out
//! ```
//!
//! Invariants:
//! - the outside mark is in no path that is ever asked for, so a refusal that names a path it
//!   refused is not taken for a leak;
//! - dropping the tree unmounts what is mounted in it and removes it.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, unmount};

use crate::ScratchPlace;
use crate::marks::Marks;
use crate::verb::{GRAND, LEAF, LINE_WORD, OTHER, PACKED, SIZED, SUB};

/// Memory-backed on Linux: an exchange there costs well under a microsecond.
const SHARED_MEMORY: &str = "/dev/shm";

/// More mounts than this are never stacked by us; the bound keeps clean-up from looping.
const MOST_STACKED_MOUNTS: usize = 64;

/// The tree on disk, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Scratch {
    base: PathBuf,
}

impl Scratch {
    pub(crate) fn build(place: &ScratchPlace, marks: &Marks) -> io::Result<Self> {
        let mut chance = [0_u8; 8];
        getrandom::fill(&mut chance).map_err(io::Error::other)?;
        // Not derived from the marks: replies may well name this directory.
        let name = format!("portcullis-hammer-{:016x}", u64::from_le_bytes(chance));
        let base = match place {
            ScratchPlace::Exactly(parent) => make_in(parent, &name)?,
            ScratchPlace::SharedMemoryElse(parent) => {
                make_in(Path::new(SHARED_MEMORY), &name).or_else(|_| make_in(parent, &name))?
            }
        };
        // From here on a failure drops the tree, and so removes what was made of it.
        let scratch = Self { base };
        scratch.plant("root", &marks.inside, marks.inside_size)?;
        scratch.plant("out", &marks.outside, marks.outside_size)?;
        fs::create_dir(scratch.base.join("stage"))?;
        let out = scratch.base.join("out");
        symlink(&out, scratch.base.join("stage/root"))?;
        symlink(out.join(GRAND), scratch.base.join("stage/grand"))?;
        symlink(out.join(SUB), scratch.base.join("stage/sub"))?;
        symlink(out.join(LEAF), scratch.base.join("stage/leaf.txt"))?;
        symlink(out.join(SIZED), scratch.base.join("stage/sized.bin"))?;
        symlink(out.join(PACKED), scratch.base.join("stage/packed.tar"))?;
        Ok(scratch)
    }

    /// The directory that holds root, out and stage.
    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    /// The directory the server is told to serve.
    pub(crate) fn root(&self) -> PathBuf {
        self.base.join("root")
    }

    /// The inodes of everything outside.
    pub(crate) fn outside_inodes(&self) -> io::Result<Vec<u64>> {
        ["", GRAND, SUB, LEAF, OTHER, SIZED, PACKED]
            .iter()
            .map(|path| Ok(fs::metadata(self.base.join("out").join(path))?.ino()))
            .collect()
    }

    fn plant(&self, side: &str, mark: &str, size: u64) -> io::Result<()> {
        let top = self.base.join(side);
        fs::create_dir_all(top.join(SUB))?;
        let text = format!("{LINE_WORD} {mark}\n").repeat(8);
        fs::write(top.join(LEAF), &text)?;
        fs::write(top.join(OTHER), &text)?;
        fs::write(top.join(SUB).join(format!("{mark}.txt")), &text)?;
        fs::write(top.join(PACKED), tar_of(&format!("{mark}.txt"), &text))?;
        // Sparse, so its size costs nothing.
        let mut sized = fs::File::create(top.join(SIZED))?;
        sized.write_all(text.as_bytes())?;
        sized.set_len(size)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mounted_over = self.root().join(SUB);
        for _ in 0..MOST_STACKED_MOUNTS {
            if unmount(&mounted_over, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW).is_err() {
                break;
            }
        }
        // Does not follow symlinks; and if it fails there is nobody left to tell.
        let _removed = fs::remove_dir_all(&self.base);
    }
}

/// A tar of one file, so that even the name of what is in it tells a side.
fn tar_of(name: &str, text: &str) -> Vec<u8> {
    const BLOCK: usize = 512;
    let fields = [
        (0, name.to_owned()),
        (100, "0000644\0".to_owned()),
        (124, format!("{:011o}\0", text.len())),
        (148, " ".repeat(8)),
        (156, "0".to_owned()),
        (257, "ustar\x0000".to_owned()),
    ];
    let mut header = vec![0; BLOCK];
    let mut put = |at: usize, field: &str| {
        for (to, byte) in header.iter_mut().skip(at).zip(field.bytes()) {
            *to = byte;
        }
    };
    for (at, field) in &fields {
        put(*at, field);
    }
    let bytes = fields.iter().flat_map(|(_, field)| field.bytes());
    let sum: u64 = bytes.map(u64::from).sum();
    put(148, &format!("{sum:06o}\0 "));
    let mut tar = header;
    tar.extend_from_slice(text.as_bytes());
    tar.resize(tar.len().next_multiple_of(BLOCK) + 2 * BLOCK, 0);
    tar
}

/// Makes the base directory and returns its real path, for servers that compare real paths.
fn make_in(parent: &Path, name: &str) -> io::Result<PathBuf> {
    let base = fs::canonicalize(parent)?.join(name);
    fs::create_dir(&base)?;
    Ok(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_gone_when_dropped_and_its_sides_differ() {
        let marks = Marks::fresh().unwrap();
        let place = ScratchPlace::Exactly(std::env::temp_dir());
        let scratch = Scratch::build(&place, &marks).unwrap();
        let base = scratch.base().to_owned();
        let inside = fs::read_to_string(base.join("root").join(LEAF)).unwrap();
        let outside = fs::read_to_string(base.join("stage/sub/leaf.txt")).unwrap();
        assert!(inside.contains(&marks.inside) && !inside.contains(&marks.outside));
        assert!(outside.contains(&marks.outside) && !outside.contains(&marks.inside));
        assert_eq!(scratch.outside_inodes().unwrap().len(), 7);
        drop(scratch);
        assert!(!base.exists());
    }
}
