//! What is kept of a directory's names never outlives a change.

use std::fs;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use portcullis_policy::{RootPolicy, Symlinks};
use portcullis_proto::RootKind;
use rustix::fs::OFlags;

use super::*;
use crate::{Resolver, ScratchDir};

/// A clock by which whatever was stamped just now is old.
fn later() -> i128 {
    sys::stamping_clock() + 4_000_000_000
}

/// Much later.
fn too_late() -> i128 {
    later() + 60_000_000_000
}

/// `d` with a hundred files, in a root that keeps what it looked at.
struct World {
    scratch: ScratchDir,
    root: Root,
}

impl World {
    fn new(now: fn() -> i128) -> Self {
        let scratch = ScratchDir::new(&std::env::temp_dir()).unwrap();
        let policy = RootPolicy::of(RootKind::Workspace);
        let mut root = Root::adopt(scratch.path(), &policy, Resolver::Best).unwrap();
        root.kept = Some(crate::kept::Kept::new(now));
        let world = Self { scratch, root };
        world.fill("d", 100);
        world
    }

    fn fill(&self, dir: &str, count: usize) {
        fs::create_dir(self.at(dir)).unwrap();
        for n in 0..count {
            fs::write(self.at(&format!("{dir}/f{n:04}")), "").unwrap();
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.scratch.path().join(path)
    }

    /// The names in `dir`, sorted.
    fn names(&self, dir: &str) -> Vec<(String, String)> {
        let path = RelPath::parse(dir).unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let opened = self.root.open(&path, flags, Symlinks::Reject).unwrap();
        let mut names = Vec::new();
        each_kept_name(&self.root, opened.handle.as_fd(), &path, |name| {
            names.push((name.path.unwrap().to_string(), format!("{:?}", name.entity)));
            Ok(())
        })
        .unwrap();
        names.sort();
        names
    }

    fn on_disk(&self, dir: &str) -> Vec<(String, String)> {
        let mut names: Vec<_> = fs::read_dir(self.at(dir))
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                let kind = entry.file_type().unwrap();
                let entity = if kind.is_dir() { "Directory" } else { "File" };
                (format!("{dir}/{name}"), entity.to_owned())
            })
            .collect();
        names.sort();
        names
    }

    /// Whether the next listing of `dir` reads none of it.
    fn is_kept(&self, dir: &str) -> bool {
        let kept = self.root.kept.as_ref().unwrap();
        let path = RelPath::parse(dir).unwrap();
        let seen = sys::child_meta(self.root.top(), dir).unwrap();
        let known = kept.names.known(&path, Stamp::of(&seen), (kept.now)());
        matches!(known, Known::Names(_))
    }

    /// Makes a change that the next listing has to show, whatever was kept.
    #[track_caller]
    fn check(&self, change: impl FnOnce(&Self)) {
        // Once to be noticed, once to be kept.
        self.names("d");
        self.names("d");
        assert!(self.is_kept("d"), "not kept before the change");
        assert_eq!(self.names("d"), self.on_disk("d"));
        // Stamps count as old here the moment they are made, so let a tick pass.
        let tick = sys::stamping_clock();
        while sys::stamping_clock() <= tick {
            std::thread::yield_now();
        }
        change(self);
        for _ in 0..3 {
            assert_eq!(self.names("d"), self.on_disk("d"));
        }
    }
}

#[test]
fn a_name_added_removed_renamed_or_of_another_kind_shows_at_the_next_listing() {
    let world = World::new(later);
    world.check(|w| fs::write(w.at("d/new"), "").unwrap());
    world.check(|w| fs::remove_file(w.at("d/f0003")).unwrap());
    world.check(|w| fs::rename(w.at("d/f0004"), w.at("d/g")).unwrap());
    world.check(|w| fs::rename(w.at("d/f0005"), w.at("d/f0006")).unwrap());
    world.check(|w| {
        fs::remove_file(w.at("d/f0007")).unwrap();
        fs::create_dir(w.at("d/f0007")).unwrap();
    });
    // Another directory at the same place, and the same at another.
    world.check(|w| {
        w.fill("e", 90);
        fs::rename(w.at("d"), w.at("old")).unwrap();
        fs::rename(w.at("e"), w.at("d")).unwrap();
    });
    assert_eq!(world.names("old"), world.on_disk("old"));
}

#[test]
fn a_time_set_back_hides_no_name() {
    let world = World::new(later);
    let before = fs::metadata(world.at("d")).unwrap().modified().unwrap();
    world.check(|w| {
        fs::write(w.at("d/new"), "").unwrap();
        let dir = fs::File::open(w.at("d")).unwrap();
        dir.set_modified(before).unwrap();
    });
}

#[test]
fn a_stamp_that_is_young_or_a_look_that_is_old_is_not_believed() {
    let mut world = World::new(sys::stamping_clock);
    world.names("d");
    world.names("d");
    assert!(!world.is_kept("d"), "the directory was made just now");
    world.root.kept = Some(crate::kept::Kept::new(later));
    world.names("d");
    assert!(!world.is_kept("d"), "it may change every time");
    world.names("d");
    assert!(world.is_kept("d"));
    let kept = world.root.kept.take().unwrap();
    world.root.kept = Some(kept.by(too_late));
    assert!(!world.is_kept("d"), "nothing is believed for ever");
    world.names("d");
    assert!(world.is_kept("d"));
}

#[test]
fn what_is_kept_is_bounded_and_worth_it() {
    let world = World::new(later);
    world.fill("small", LEAST - 1);
    for _ in 0..3 {
        world.names("small");
    }
    assert!(!world.is_kept("small"));
    let kept = world.root.kept.as_ref().unwrap();
    let stamp = Stamp::of(&sys::child_meta(world.root.top(), "d").unwrap());
    for n in 0..MAX_DIRS * 3 {
        let path = RelPath::parse(&format!("x{n}")).unwrap();
        kept.names.keep(
            &path,
            Dir {
                stamp,
                since: 0,
                names: None,
                bytes: MAX_BYTES / 100,
            },
        );
        let inside = kept.names.lock();
        assert!(inside.by_path.len() <= MAX_DIRS && inside.bytes <= MAX_BYTES);
    }
    let mut gathered = Gathered::default();
    let mut name = None;
    let path = RelPath::parse("d").unwrap();
    let opened = fs::File::open(world.at("d")).unwrap();
    each_name(opened.as_fd(), &path, |one| {
        name.get_or_insert(one);
        Ok(())
    })
    .unwrap();
    let name = name.unwrap();
    for _ in 0..MAX_BYTES / size_of::<Name>() {
        gathered.add(&name);
        assert!(gathered.names.len() * size_of::<Name>() <= MAX_BYTES);
    }
    assert!(gathered.bytes > MAX_BYTES && gathered.names.is_empty());
}
