//! A world with an archive in it, and ways to look at all of a tree.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use portcullis_files::archive::Extracted;
use portcullis_proto::Failure;
use portcullis_testkit::{Scratch, World};

/// Runs a call to its end.
pub(crate) fn block_on<T>(call: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(call)
}

/// A writable world with `archive` in it, under a name that tells nothing.
pub(crate) fn world_with(archive: &[u8]) -> World {
    let scratch = Scratch::of("keep = kept\n ../out/precious = precious");
    scratch.file("a.bin", archive);
    World::workspace().writable().over(scratch)
}

/// Unpacks `a.bin` to `into`.
pub(crate) fn extract(world: &World, into: &str) -> Result<Extracted, Failure> {
    let fs = world.fs();
    block_on(fs.extract_archive("a.bin", &fs, into))
}

/// Everything below a directory: path to mode and content; `None` for a
/// directory.
pub(crate) fn snapshot(top: &Path) -> BTreeMap<String, (u32, Option<Vec<u8>>)> {
    fn go(dir: &Path, prefix: &str, out: &mut BTreeMap<String, (u32, Option<Vec<u8>>)>) {
        use std::os::unix::fs::PermissionsExt as _;
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let meta = entry.path().symlink_metadata().unwrap();
            let mode = meta.permissions().mode();
            if meta.is_dir() {
                out.insert(path.clone(), (mode, None));
                go(&entry.path(), &format!("{path}/"), out);
            } else if meta.is_file() {
                out.insert(path, (mode, Some(fs::read(entry.path()).unwrap())));
            } else {
                out.insert(path, (mode, Some(b"not a file".to_vec())));
            }
        }
    }
    let mut out = BTreeMap::new();
    go(top, "", &mut out);
    out
}
