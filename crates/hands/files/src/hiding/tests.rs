//! What is kept of ignore files never outlives a change.

use std::fs;
use std::path::PathBuf;

use portcullis_policy::{Modes, PatternSet, RootPolicy, RuleSet, Rules, View};
use portcullis_proto::{RootId, RootKind};

use super::*;
use crate::kept::Kept;
use crate::{Resolver, ScratchDir};

/// A clock by which whatever was stamped just now is old.
fn later() -> i128 {
    sys::stamping_clock() + 4_000_000_000
}

/// Much later.
fn too_late() -> i128 {
    later() + 60_000_000_000
}

fn terms(denied: &[&str]) -> Terms {
    let mut policy = RootPolicy::of(RootKind::Workspace);
    policy.denied = PatternSet::compile(denied).unwrap();
    let view = View {
        rules: Arc::new(Rules::new(Modes::recommended())),
        session: Arc::new(RuleSet::none()),
        root: RootId::parse("workspace").unwrap(),
        policy: Arc::new(policy),
        trusted: false,
    };
    Terms::under([view]).unwrap()
}

/// `a/b/x.log`, ignored by nothing, in a root that keeps what it looked at.
struct World {
    scratch: ScratchDir,
    root: Root,
    terms: Terms,
}

impl World {
    fn new(now: fn() -> i128) -> Self {
        let scratch = ScratchDir::new(&std::env::temp_dir()).unwrap();
        fs::create_dir_all(scratch.path().join("a/b")).unwrap();
        fs::write(scratch.path().join("a/b/x.log"), "x").unwrap();
        let policy = RootPolicy::of(RootKind::Workspace);
        let mut root = Root::adopt(scratch.path(), &policy, Resolver::Best).unwrap();
        root.kept = Some(Kept::new(now));
        Self {
            scratch,
            root,
            terms: terms(&[]),
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.scratch.path().join(path)
    }

    fn named_by(&self) -> Option<String> {
        let path = RelPath::parse("a/b/x.log").unwrap();
        Hiding::at(&self.root, &path.parent().unwrap(), &self.terms).named_by(&path)
    }

    /// Whether the next look opens nothing but the directory.
    fn is_kept(&self) -> bool {
        unchanged(&self.root, &RelPath::parse("a/b").unwrap(), &self.terms).is_some()
    }

    /// Makes a change that the next look has to see, whatever was kept.
    #[track_caller]
    fn check(&self, change: impl FnOnce(&Self), want: Option<&str>) {
        // Twice: what is kept by the first look is what the second goes by.
        self.named_by();
        self.named_by();
        assert!(self.is_kept(), "not kept before the change");
        // Stamps count as old here the moment they are made, so let a tick pass.
        let tick = sys::stamping_clock();
        while sys::stamping_clock() <= tick {
            std::thread::yield_now();
        }
        change(self);
        assert_eq!(self.named_by().as_deref(), want);
        assert_eq!(self.named_by().as_deref(), want);
    }

    fn write(&self, path: &str, content: &str) {
        fs::write(self.at(path), content).unwrap();
    }
}

#[test]
fn an_ignore_file_added_changed_replaced_or_removed_holds_at_the_next_look() {
    let world = World::new(later);
    world.check(
        |w| w.write("a/.gitignore", "*.log"),
        Some("a/.gitignore: *.log"),
    );
    // As long as before.
    world.check(|w| w.write("a/.gitignore", "*.lot"), None);
    world.check(
        |w| {
            w.write("a/new", "b/x.*");
            fs::rename(w.at("a/new"), w.at("a/.gitignore")).unwrap();
        },
        Some("a/.gitignore: b/x.*"),
    );
    world.check(
        |w| fs::rename(w.at("a/.gitignore"), w.at("a/b/.qwenignore")).unwrap(),
        None,
    );
    world.check(
        |w| w.write("a/b/.qwenignore", "x.log"),
        Some("a/b/.qwenignore: x.log"),
    );
    world.check(|w| fs::remove_file(w.at("a/b/.qwenignore")).unwrap(), None);
    world.check(
        |w| w.write(".portcullisignore", "a/"),
        Some(".portcullisignore: a/"),
    );
    world.check(
        |w| fs::remove_file(w.at(".portcullisignore")).unwrap(),
        None,
    );
}

#[test]
fn a_time_set_back_hides_no_change() {
    let world = World::new(later);
    world.write("a/.gitignore", "*.log");
    world.check(
        |w| {
            let place = w.at("a/.gitignore");
            let before = fs::metadata(&place).unwrap().modified().unwrap();
            fs::write(&place, "*.lot").unwrap();
            let file = fs::File::options().write(true).open(&place).unwrap();
            file.set_modified(before).unwrap();
        },
        None,
    );
}

#[test]
fn another_directory_in_the_place_of_one_brings_its_own() {
    let world = World::new(later);
    world.write("a/.gitignore", "*.log");
    // Not one stamp inside the directory that takes the place changes by it.
    fs::create_dir_all(world.at("other/b")).unwrap();
    world.write("other/.gitignore", "x.*");
    world.write("other/b/x.log", "x");
    world.check(
        |w| {
            fs::rename(w.at("a"), w.at("gone")).unwrap();
            fs::rename(w.at("other"), w.at("a")).unwrap();
        },
        Some("a/.gitignore: x.*"),
    );
    // Deeper down, where only a directory far above was exchanged.
    world.check(
        |w| {
            fs::rename(w.at("a"), w.at("other")).unwrap();
            fs::rename(w.at("gone"), w.at("a")).unwrap();
        },
        Some("a/.gitignore: *.log"),
    );
}

#[test]
fn an_ignore_file_that_becomes_a_link_is_none() {
    let world = World::new(later);
    world.write("a/.gitignore", "*.log");
    world.write("rules", "*.log");
    world.check(
        |w| {
            fs::remove_file(w.at("a/.gitignore")).unwrap();
            std::os::unix::fs::symlink("../rules", w.at("a/.gitignore")).unwrap();
        },
        None,
    );
}

#[test]
fn what_a_rule_denies_is_not_heard_though_it_was_kept_for_another() {
    let mut world = World::new(later);
    world.write("a/.gitignore", "*.log");
    world.write("a/b/.gitignore", "x.*");
    assert_eq!(world.named_by().as_deref(), Some("a/b/.gitignore: x.*"));
    assert!(world.is_kept());
    world.terms = terms(&["/a/b/.gitignore"]);
    assert_eq!(world.named_by().as_deref(), Some("a/.gitignore: *.log"));
    world.terms = terms(&[".gitignore"]);
    assert_eq!(world.named_by(), None);
    world.terms = terms(&[]);
    assert_eq!(world.named_by().as_deref(), Some("a/b/.gitignore: x.*"));
}

#[test]
fn a_stamp_that_is_young_or_a_look_that_is_old_is_not_believed() {
    let mut world = World::new(sys::stamping_clock);
    world.named_by();
    assert!(!world.is_kept(), "the directories were made just now");
    world.root.kept = Some(Kept::new(later));
    world.named_by();
    assert!(world.is_kept());
    let kept = world.root.kept.take().unwrap();
    world.root.kept = Some(kept.by(too_late));
    assert!(!world.is_kept(), "nothing is believed for ever");
    world.named_by();
    assert!(world.is_kept());
}

#[test]
fn what_is_kept_is_bounded() {
    let world = World::new(later);
    let kept = world.root.kept.as_ref().unwrap();
    let rules = "*.log\n".repeat(6_000);
    for n in 0..20 {
        let dir = format!("d{n}");
        fs::create_dir(world.at(&dir)).unwrap();
        world.write(&format!("{dir}/.gitignore"), &rules);
        let path = RelPath::parse(&dir).unwrap();
        Hiding::at(&world.root, &path, &world.terms);
        assert!(kept.is_within_bounds());
    }
    let seen = sys::child_meta(world.root.top(), ".").unwrap();
    for n in 0..3_000 {
        let path = RelPath::parse(&format!("e{n}")).unwrap();
        kept.keep(&path, kept.look(Stamp::of(&seen)));
        assert!(kept.is_within_bounds());
    }
}
