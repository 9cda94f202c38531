//! Lists, trees and searches: sorted, paged, counted, and honest about what is missing.

use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use portcullis_files::{Entry, ListRequest, Order, TreeNode, TreeRequest, Want};
use portcullis_gate::CancelFlag;
use portcullis_proto::{Entity, Failure, Reason};
use portcullis_testkit::{FakeClock, Scratch, World, agent, is_superuser};

use crate::attempts::{
    Reading, block_on, glob_all, list_all, not_tried, refused, tree_all, workspace,
};

fn names(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.name.as_str()).collect()
}

#[test]
fn entries_come_sorted_and_directories_first_where_asked() {
    let world = workspace("b.txt = x\n a.txt = x\n z/x\n B.txt = x\n m/x\n .dot = x\n ä = x");
    let by_name = block_on(world.fs().list(".", list_all())).unwrap();
    assert_eq!(
        names(&by_name.entries),
        [".dot", "B.txt", "a.txt", "b.txt", "m", "z", "ä"]
    );
    let request = ListRequest {
        order: Order::DirectoriesFirst,
        ..list_all()
    };
    let grouped = block_on(world.fs().list(".", request)).unwrap();
    assert_eq!(
        names(&grouped.entries),
        ["m", "z", ".dot", "B.txt", "a.txt", "b.txt", "ä"]
    );
    assert!(grouped.complete && grouped.next.is_none());
}

#[test]
fn only_what_is_wanted_is_listed() {
    let world = workspace("d/x\n f = x\n l -> f\n p |");
    for (want, names_want) in [
        (Want::All, vec!["d", "f", "l", "p"]),
        (Want::Files, vec!["f"]),
        (Want::Directories, vec!["d"]),
    ] {
        let request = ListRequest { want, ..list_all() };
        let listed = block_on(world.fs().list(".", request)).unwrap();
        assert_eq!(names(&listed.entries), names_want);
        assert_eq!(listed.counts.entries, names_want.len() as u64);
    }
}

#[test]
fn metadata_is_what_the_kernel_says_and_absent_where_not_asked_for() {
    let world = workspace("f = 12345 [640]\n d/x\n l -> f");
    let listed = block_on(world.fs().list(".", list_all())).unwrap();
    for entry in &listed.entries {
        use std::os::unix::fs::MetadataExt as _;
        let disk = std::fs::symlink_metadata(world.scratch.at(&entry.name)).unwrap();
        let meta = entry.meta.unwrap();
        assert_eq!(
            (meta.dev, meta.ino, meta.size, meta.mode, meta.uid, meta.gid),
            (
                disk.dev(),
                disk.ino(),
                disk.len(),
                disk.mode() & 0o7777,
                disk.uid(),
                disk.gid()
            )
        );
        assert_eq!(u64::from(meta.links), disk.nlink());
        let mtime = i128::from(disk.mtime()) * 1_000_000_000 + i128::from(disk.mtime_nsec());
        assert_eq!(meta.mtime_ns, mtime);
    }
    let stat = block_on(world.fs().stat("f")).unwrap();
    let entry = listed.entries.iter().find(|e| e.name == "f").unwrap();
    assert_eq!(Some(stat.meta), entry.meta, "a list and a stat agree");
    let request = ListRequest {
        metadata: false,
        ..list_all()
    };
    let bare = block_on(world.fs().list(".", request)).unwrap();
    assert!(bare.entries.iter().all(|entry| entry.meta.is_none()));
}

fn wide(count: usize) -> World {
    let scratch = Scratch::in_memory("");
    for n in 0..count {
        if n % 97 == 0 {
            std::fs::create_dir(scratch.at(&format!("d{n:05}"))).unwrap();
        } else {
            std::fs::File::create(scratch.at(&format!("f{n:05}"))).unwrap();
        }
    }
    World::workspace().over(scratch)
}

async fn pages(world: &World, max: usize, order: Order) -> (Vec<String>, usize) {
    let fs = world.fs();
    let (mut all, mut after, mut count) = (Vec::new(), None, 0);
    loop {
        let request = ListRequest {
            max,
            order,
            after: after.take(),
            metadata: false,
            ..list_all()
        };
        let page = fs.list(".", request).await.unwrap();
        assert!(page.entries.len() <= max.max(1));
        assert!(page.complete);
        all.extend(page.entries.into_iter().map(|entry| entry.name));
        count += 1;
        match page.next {
            Some(next) => after = Some(next),
            None => return (all, count),
        }
    }
}

#[test]
fn pages_joined_are_the_whole_directory() {
    let world = wide(10_000);
    for order in [Order::Name, Order::DirectoriesFirst] {
        let (whole, one) = block_on(pages(&world, 100_000, order));
        assert_eq!((whole.len(), one), (10_000, 1));
        for max in [4_999, 1_000, 333] {
            let (paged, count) = block_on(pages(&world, max, order));
            assert_eq!(paged, whole);
            assert_eq!(count, 10_000_usize.div_ceil(max));
        }
    }
}

#[test]
fn r004_names_that_look_alike_are_all_on_some_page() {
    let world = workspace("plain = x");
    for byte in 0x80..=0x9f_u8 {
        let name = [b'n', byte];
        let name = std::ffi::OsStr::from_bytes(&name);
        std::fs::write(world.scratch.root().join(name), "x").unwrap();
    }
    for max in [1, 2, 5, 100] {
        let (all, _) = block_on(pages(&world, max, Order::Name));
        assert_eq!(all.len(), 33, "{max} at a time");
    }
}

#[test]
fn r005_a_page_of_nothing_still_gets_somewhere() {
    let world = workspace("a = x\n b = x");
    let (all, count) = block_on(pages(&world, 0, Order::Name));
    assert_eq!((all.len(), count), (2, 2));
}

#[test]
fn a_forged_cursor_is_refused() {
    let world = workspace("a = x\n b = x");
    for forged in [
        "",
        "a",
        "2:a",
        "/etc/passwd",
        "0",
        "00:a",
        "0x:a",
        "0x:zz",
        "x:a",
        ":",
    ] {
        let request = ListRequest {
            after: Some(forged.to_owned()),
            ..list_all()
        };
        let failure = block_on(world.fs().list(".", request)).unwrap_err();
        assert_eq!(failure.reason(), Reason::BadCursor, "{forged:?}");
    }
    // One that names what is not there, or is no name at all, only says where to go on.
    for (odd, left) in [
        ("0:aa", 1),
        ("0:../../etc", 2),
        ("0:\0", 2),
        ("1:", 0),
        ("0:", 2),
    ] {
        let request = ListRequest {
            after: Some(odd.to_owned()),
            ..list_all()
        };
        let page = block_on(world.fs().list(".", request)).unwrap();
        assert_eq!(page.entries.len(), left, "{odd:?}");
    }
}

fn flat(nodes: &[TreeNode], into: &mut Vec<String>) {
    for node in nodes {
        into.push(
            node.path
                .as_ref()
                .map_or_else(String::new, ToString::to_string),
        );
        flat(&node.children, into);
    }
}

#[test]
fn a_tree_has_each_child_under_its_own_parent() {
    let world = workspace("a/x/1\n a/x/2\n a/y/3\n b/x/4\n b/5\n c\n z/deep/er/6");
    let tree = block_on(world.fs().tree(".", tree_all())).unwrap();
    let mut paths = Vec::new();
    flat(&tree.children, &mut paths);
    assert_eq!(
        paths,
        [
            "a",
            "a/x",
            "a/x/1",
            "a/x/2",
            "a/y",
            "a/y/3",
            "b",
            "b/x",
            "b/x/4",
            "b/5",
            "z",
            "z/deep",
            "z/deep/er",
            "z/deep/er/6",
            "c"
        ]
    );
    assert!(tree.complete);
    assert_eq!(tree.counts.entries, 15);
    let below = block_on(world.fs().tree("z", tree_all())).unwrap();
    let mut paths = Vec::new();
    flat(&below.children, &mut paths);
    assert_eq!(paths, ["z/deep", "z/deep/er", "z/deep/er/6"]);
}

#[test]
fn a_tree_covers_the_top_before_the_depth_and_says_what_it_cut() {
    let world = workspace("a/x/1\n a/2\n b/3\n c\n d");
    let mut request = tree_all();
    request.max_entries = 5;
    let tree = block_on(world.fs().tree(".", request)).unwrap();
    let mut paths = Vec::new();
    flat(&tree.children, &mut paths);
    assert_eq!(paths, ["a", "a/x", "b", "c", "d"]);
    assert!(!tree.complete);
    let a = &tree.children[0];
    assert!(a.cut && !a.children[0].children.iter().any(|_| true));
    let mut request = tree_all();
    request.max_depth = 1;
    let tree = block_on(world.fs().tree(".", request)).unwrap();
    assert!(tree.complete, "all down to the depth is there");
    assert!(tree.children.iter().all(|n| n.children.is_empty()));
    assert!(tree.children[0].cut);
    let mut request = tree_all();
    request.exclude = vec!["a".into(), "c".into()];
    let tree = block_on(world.fs().tree(".", request)).unwrap();
    let mut paths = Vec::new();
    flat(&tree.children, &mut paths);
    assert_eq!(paths, ["b", "b/3", "d"]);
    assert_eq!(tree.counts.ignored, 2);
}

#[test]
fn patterns_are_bounded_and_must_be_patterns() {
    let world = workspace("a = x");
    let tree = |exclude: Vec<String>| {
        let mut request = tree_all();
        request.exclude = exclude;
        block_on(world.fs().tree(".", request)).map(|_| ())
    };
    let glob = |pattern: &str| {
        let mut request = glob_all();
        request.pattern = Some(pattern.to_owned());
        block_on(world.fs().glob(".", request)).map(|_| ())
    };
    let bad = |result: Result<(), Failure>| {
        assert_eq!(result.unwrap_err().reason(), Reason::BadGlob);
    };
    bad(tree(vec!["x".into(); 129]));
    bad(tree(vec!["x".repeat(1025)]));
    bad(tree(vec!["a[".into()]));
    bad(glob("a["));
    bad(glob("{a,b"));
    bad(glob(&format!("{}a{}", "{".repeat(300), "}".repeat(300))));
    bad(glob("../*"));
    bad(glob("/etc/*"));
    bad(glob(&"x".repeat(1025)));
    let nested = "{".repeat(300) + "a" + &"}".repeat(300);
    let began = std::time::Instant::now();
    drop(glob(&nested));
    drop(glob(&"{a,b}".repeat(200)));
    drop(glob(&"**/".repeat(300)));
    assert!(
        began.elapsed() < portcullis_testkit::promised(std::time::Duration::from_secs(10)),
        "a pattern took {:?}",
        began.elapsed()
    );
}

#[test]
fn a_search_finds_by_pattern_in_a_stable_order() {
    let world = workspace("src/a.rs\n src/deep/b.rs\n src/c.txt\n d.rs\n src.rs/e.rs");
    let find = |dir: &str, pattern: &str, max: usize| {
        let mut request = glob_all();
        request.pattern = Some(pattern.to_owned());
        request.max = max;
        block_on(world.fs().glob(dir, request)).unwrap()
    };
    let paths = |found: &portcullis_files::Found| -> Vec<String> {
        let path = |entry: &Entry| entry.path.as_ref().unwrap().to_string();
        found.entries.iter().map(path).collect()
    };
    let all = find(".", "**/*.rs", 100);
    assert_eq!(
        paths(&all),
        ["d.rs", "src.rs", "src/a.rs", "src/deep/b.rs", "src.rs/e.rs"]
    );
    assert!(all.complete && !all.truncated);
    assert_eq!(paths(&find(".", "*.rs", 100)), ["d.rs", "src.rs"]);
    assert_eq!(paths(&find("src", "*.rs", 100)), ["src/a.rs"]);
    assert_eq!(paths(&find("src", "./**/b.rs", 100)), ["src/deep/b.rs"]);
    let cut = find(".", "**/*.rs", 2);
    assert_eq!(paths(&cut), ["d.rs", "src.rs"]);
    assert!(cut.truncated && !cut.complete);
    let exact = find(".", "**/*.rs", 5);
    assert!(
        !exact.truncated && exact.complete,
        "as many as asked for is all"
    );
}

#[test]
fn a_directory_closed_to_us_makes_a_walk_incomplete() {
    if is_superuser() {
        return not_tried("a subdirectory closed to us: nothing is closed to the superuser");
    }
    let world = workspace("closed/x\n open/y\n closed/ [000]");
    let found = block_on(world.fs().glob(".", glob_all())).unwrap();
    assert!(!found.complete);
    let tree = block_on(world.fs().tree(".", tree_all())).unwrap();
    assert!(!tree.complete);
    refused(&world, &Reading::OF_DIRECTORIES, "closed", Reason::Os);
    world.scratch.chmod("closed", 0o700);
}

#[test]
fn a_walk_that_may_take_no_longer_returns_what_it_has() {
    let world = workspace("a/1\n b/2\n c/3");
    let mut request = glob_all();
    request.patience_us = 0;
    let found = block_on(world.fs().glob(".", request)).unwrap();
    assert!(!found.complete && !found.truncated);
    assert_eq!(names(&found.entries), ["a", "b", "c"]);
    let mut request = tree_all();
    request.patience_us = 0;
    let tree = block_on(world.fs().tree(".", request)).unwrap();
    assert!(!tree.complete);
}

#[test]
fn a_cancelled_walk_stops_in_the_middle() {
    let world = wide(20_000);
    let cancel = CancelFlag::new();
    let told = cancel.clone();
    // The first directory reports, and the caller gives up there.
    let caller = agent()
        .cancelled_by(cancel)
        .reporting(Arc::new(move |_| told.cancel()));
    let failure = block_on(world.fs_for(&caller).glob(".", glob_all())).unwrap_err();
    assert_eq!(failure.reason(), Reason::Cancelled);
    assert_eq!(world.lines.last().reason, Some(Reason::Cancelled));
}

/// Runs `read` while a thread moves `sub` out of the root and back, and counts
/// how often it was dropped and how often it was whole.
fn while_moving(read: impl Fn(&World) -> (bool, bool)) -> (usize, usize) {
    let scratch = Scratch::in_memory("");
    for n in 0..300 {
        scratch.file(&format!("sub/in{n}"), "x");
    }
    let world = World::workspace().over(scratch);
    world.lines.forget();
    let stop = Arc::new(AtomicBool::new(false));
    let (inside, outside) = (world.scratch.at("sub"), world.scratch.at("../away"));
    let mover = std::thread::spawn({
        let stop = stop.clone();
        move || {
            let mut turn = 0_u32;
            while !stop.load(Ordering::Relaxed) {
                std::fs::rename(&inside, &outside).unwrap();
                // What is made outside was never in the root.
                std::fs::write(outside.join("OUTSIDE"), "x").unwrap();
                std::thread::yield_now();
                std::fs::remove_file(outside.join("OUTSIDE")).unwrap();
                std::fs::rename(&outside, &inside).unwrap();
                // Long enough inside for a list to be whole now and then.
                (0..turn % 64).for_each(|_| std::thread::yield_now());
                turn += 7;
            }
        }
    });
    let (mut dropped, mut whole) = (0, 0);
    let began = std::time::Instant::now();
    while began.elapsed() < portcullis_testkit::PATIENCE && (dropped < 5 || whole < 5) {
        let (was_dropped, was_whole) = read(&world);
        dropped += usize::from(was_dropped);
        whole += usize::from(was_whole);
    }
    stop.store(true, Ordering::Relaxed);
    mover.join().unwrap();
    (dropped, whole)
}

#[test]
fn a_directory_moved_away_while_listed_is_dropped() {
    let (dropped, whole) = while_moving(|world| {
        let Ok(listed) = block_on(world.fs().list("sub", list_all())) else {
            return (false, false);
        };
        if listed.counts.moved > 0 {
            assert!(!listed.complete && listed.entries.is_empty() && listed.next.is_none());
            return (true, false);
        }
        assert!(listed.complete);
        (false, listed.entries.len() >= 300)
    });
    assert!(dropped > 0 && whole > 0, "dropped {dropped}, whole {whole}");
}

#[test]
fn a_directory_moved_away_during_a_search_is_dropped_from_it() {
    let (dropped, whole) = while_moving(|world| {
        let found = block_on(world.fs().glob(".", glob_all())).unwrap();
        let inside = found
            .entries
            .iter()
            .filter(|e| e.name.starts_with("in"))
            .count();
        if found.counts.moved > 0 {
            assert!(!found.complete);
            assert_eq!(inside, 0);
        }
        (found.counts.moved > 0, inside == 300)
    });
    assert!(dropped > 0 && whole > 0, "dropped {dropped}, whole {whole}");
}

#[test]
fn a_directory_removed_during_a_walk_does_not_fail_it() {
    let world = World::workspace().over(Scratch::in_memory("keep/x"));
    let stop = Arc::new(AtomicBool::new(false));
    let victim = world.scratch.at("gone");
    let remover = std::thread::spawn({
        let stop = stop.clone();
        move || {
            while !stop.load(Ordering::Relaxed) {
                std::fs::create_dir_all(victim.join("a/b/c")).unwrap();
                std::fs::remove_dir_all(&victim).unwrap();
            }
        }
    });
    for _ in 0..500 {
        let found = block_on(world.fs().glob(".", glob_all())).unwrap();
        assert!(found.entries.iter().any(|entry| entry.name == "x"));
        let tree = block_on(world.fs().tree(".", tree_all())).unwrap();
        assert!(tree.children.iter().any(|node| node.name == "keep"));
    }
    stop.store(true, Ordering::Relaxed);
    remover.join().unwrap();
}

#[test]
fn what_a_private_root_refuses_alone_it_does_not_show_in_bulk() {
    use portcullis_proto::RootKind;
    let owner = agent().subject.principal.clone();
    let world = World::of_kind(RootKind::Temp)
        .owner(owner)
        .over(Scratch::of(
            "shut/in.txt = x [600]\n shut/ [700]\n wide/out.txt = x [600]\n wide/ [755]",
        ));
    refused(
        &world,
        &Reading::OF_DIRECTORIES,
        "wide",
        Reason::InsecurePermissions,
    );
    let found = block_on(world.fs().glob(".", glob_all())).unwrap();
    assert_eq!(names(&found.entries), ["shut", "wide", "in.txt"]);
    assert!(!found.complete);
    let tree = block_on(world.fs().tree(".", tree_all())).unwrap();
    let mut paths = Vec::new();
    flat(&tree.children, &mut paths);
    assert_eq!(paths, ["shut", "shut/in.txt", "wide"]);
    assert!(!tree.complete);
}

#[test]
fn entries_say_what_they_are() {
    let world = workspace("d/x\n f = x\n l -> f\n p |");
    let listed = block_on(world.fs().list(".", list_all())).unwrap();
    let kinds: Vec<_> = listed.entries.iter().map(|entry| entry.entity).collect();
    assert_eq!(
        kinds,
        [
            Entity::Directory,
            Entity::File,
            Entity::Symlink,
            Entity::Special
        ]
    );
    // A fake clock stands still, and so no walk is ever late by it.
    let _: &FakeClock = &world.clock;
}

/// Checks every node against its place: children under their own parent,
/// directories first, each group by name; returns how many there are.
fn well_ordered(above: &str, nodes: &[TreeNode], depth: usize) -> usize {
    assert!(depth <= 8 || nodes.is_empty(), "{above} is too deep");
    let key = |node: &TreeNode| (node.entity != Entity::Directory, node.name.clone());
    assert!(nodes.is_sorted_by_key(key), "in {above}");
    let below = nodes.iter().map(|node| {
        let path = format!("{above}{}", node.name);
        assert_eq!(node.path.as_ref().unwrap().as_str(), path);
        1 + well_ordered(&format!("{path}/"), &node.children, depth + 1)
    });
    below.sum()
}

#[test]
fn a_scan_of_a_project_covers_the_top_before_the_depth() {
    let scratch = Scratch::in_memory("z.txt = x\n .git/config = x\n src/node_modules/p/i.js = x");
    scratch.file(&format!("{}/f", ["deep"; 12].join("/")), "x");
    for n in 0..9_600 {
        scratch.file(&format!("m{:02}/sub/f{n}", n % 40), "");
    }
    for n in 0..1_000 {
        scratch.file(&format!("a/b/c/d/e/f{n}"), "");
    }
    let world = World::workspace().over(scratch);
    let tree = block_on(world.fs().tree(".", TreeRequest::scan())).unwrap();
    assert_eq!(well_ordered("", &tree.children, 1), 10_000);
    assert!(!tree.complete);
    assert_eq!(tree.counts.ignored, 2);
    // All of the top, though one branch alone would fill the scan.
    let top: Vec<&str> = tree
        .children
        .iter()
        .map(|node| node.name.as_str())
        .collect();
    assert_eq!((top.len(), top[0], top[44 - 1]), (44, "a", "z.txt"));
    let sizes = tree.children.iter().map(|node| node.size.is_some());
    assert_eq!(sizes.filter(|told| *told).count(), 1, "of z.txt alone");
}
