//! A writable world, and ways to look at all of a tree.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::OnceLock;

use portcullis_files::text::{Edit, EncodingChoice};
use portcullis_files::{
    ByteWindow, Changed, Expect, MoveOptions, Receipt, Removed, ScopedFs, WriteMode, WriteOptions,
};
use portcullis_gate::Caller;
use portcullis_proto::{Failure, SessionId};
use portcullis_testkit::{Scratch, World, agent};
use tokio::runtime::Runtime;

/// Small, repeatable chance.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// A runtime whose one blocking thread is the same for every call, where a test
/// asks for it: for whoever traces that thread.
pub(crate) static ONE_RUNTIME: OnceLock<Runtime> = OnceLock::new();

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .max_blocking_threads(1)
        .thread_keep_alive(std::time::Duration::from_mins(5))
        .build()
        .unwrap()
}

/// Runs a call to its end.
pub(crate) fn block_on<T>(call: impl Future<Output = T>) -> T {
    match ONE_RUNTIME.get() {
        Some(one) => one.block_on(call),
        None => runtime().block_on(call),
    }
}

/// A world where an agent may change everything.
pub(crate) fn world(literal: &str) -> World {
    World::workspace().writable().over(Scratch::of(literal))
}

/// An agent in a session of its own.
pub(crate) fn in_session(name: &str) -> Caller {
    agent().in_session(SessionId::new(name))
}

pub(crate) fn anyway() -> WriteOptions {
    WriteOptions {
        expect: Expect::Anything,
        ..WriteOptions::default()
    }
}

pub(crate) fn create() -> WriteOptions {
    WriteOptions {
        mode: WriteMode::Create,
        ..WriteOptions::default()
    }
}

/// Moves over nothing.
pub(crate) fn stays() -> MoveOptions {
    MoveOptions {
        overwrite: false,
        ..MoveOptions::default()
    }
}

/// The calls, each to its end.
pub(crate) struct Calls(pub(crate) ScopedFs);

impl Calls {
    pub(crate) fn of(world: &World) -> Self {
        Self(world.fs_for(&in_session("s")))
    }

    pub(crate) fn write(&self, path: &str, text: &str) -> Result<Changed, Failure> {
        self.write_with(path, text, &WriteOptions::default())
    }

    pub(crate) fn write_with(
        &self,
        path: &str,
        text: &str,
        options: &WriteOptions,
    ) -> Result<Changed, Failure> {
        block_on(self.0.write_bytes(path, Vec::from(text), options))
    }

    pub(crate) fn append(&self, path: &str, text: &str) -> Result<Changed, Failure> {
        block_on(self.0.append(path, text.into(), &WriteOptions::default()))
    }

    pub(crate) fn edit(&self, path: &str, old: &str, new: &str) -> Result<Changed, Failure> {
        self.edit_with(path, old, new, &WriteOptions::default())
    }

    pub(crate) fn edit_with(
        &self,
        path: &str,
        old: &str,
        new: &str,
        options: &WriteOptions,
    ) -> Result<Changed, Failure> {
        let edits = vec![Edit {
            old: old.into(),
            new: new.into(),
            all: false,
        }];
        block_on(self.0.edit(path, edits, EncodingChoice::Detect, options))
    }

    pub(crate) fn read(&self, path: &str) -> String {
        let page = block_on(self.0.read_bytes(path, ByteWindow::Whole)).unwrap();
        String::from_utf8(page.bytes).unwrap()
    }

    pub(crate) fn mkdir(&self, path: &str) -> Result<Receipt, Failure> {
        block_on(self.0.mkdir(path))
    }

    pub(crate) fn rename(&self, path: &str, to: &str) -> Result<Receipt, Failure> {
        let moved = block_on(self.0.move_to(path, &self.0, to, &MoveOptions::default()));
        moved.map(|changed| changed.receipt)
    }

    pub(crate) fn copy(&self, path: &str, to: &str) -> Result<Changed, Failure> {
        block_on(self.0.copy_to(
            path,
            &Expect::Anything,
            &self.0,
            to,
            &WriteOptions::default(),
        ))
    }

    pub(crate) fn remove(&self, path: &str) -> Result<Removed, Failure> {
        block_on(self.0.remove(path, &Expect::LastSeen))
    }

    pub(crate) fn chmod(&self, path: &str, mode: u32) -> Result<Receipt, Failure> {
        block_on(self.0.chmod(path, mode))
    }

    /// Undoes everything, newest first; those that were left, and why.
    pub(crate) fn undo_all(&self) -> Vec<(String, Failure)> {
        let entries = self.0.undo_entries().unwrap();
        entries
            .iter()
            .rev()
            .filter_map(|entry| {
                let undone = block_on(self.0.undo_one(&entry.id));
                undone
                    .err()
                    .map(|why| (entry.path.as_str().to_owned(), why))
            })
            .collect()
    }
}

/// Everything below a directory: path to mode, links and content.
pub(crate) fn snapshot(top: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    fn go(dir: &Path, prefix: &str, out: &mut BTreeMap<String, (u32, Vec<u8>)>) {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let meta = entry.path().symlink_metadata().unwrap();
            let mode = meta.permissions().mode();
            if meta.is_dir() {
                out.insert(path.clone(), (mode, Vec::new()));
                go(&entry.path(), &format!("{path}/"), out);
            } else if meta.is_symlink() {
                let to = fs::read_link(entry.path()).unwrap();
                out.insert(path, (mode, to.to_string_lossy().into_owned().into_bytes()));
            } else {
                out.insert(path, (mode, fs::read(entry.path()).unwrap()));
            }
        }
    }
    let mut out = BTreeMap::new();
    go(top, "", &mut out);
    out
}

/// Whether nothing of ours is left in the tree.
pub(crate) fn is_clean(top: &Path) -> bool {
    snapshot(top)
        .keys()
        .all(|path| !path.contains(".portcullis"))
}

pub(crate) fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}
