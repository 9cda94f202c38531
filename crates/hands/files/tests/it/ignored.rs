//! Ignore files: they filter lists and classify reads, live, and deny nothing.

use portcullis_files::ListRequest;
use portcullis_testkit::World;

use crate::attempts::{Reading, attempt, block_on, list_all, text_all, tree_all, workspace};

fn names(world: &World, dir: &str, include_ignored: bool) -> Vec<String> {
    let request = ListRequest {
        include_ignored,
        mark_ignored: false,
        metadata: false,
        ..list_all()
    };
    let listed = block_on(world.fs().list(dir, request)).unwrap();
    listed.entries.into_iter().map(|entry| entry.name).collect()
}

const TREE: &str = "
    .gitignore = *.log
    .qwenignore = drafts/
    .portcullisignore = internal.txt
    a.log = x
    a.txt = x
    drafts/d.txt = x
    internal.txt = x
    sub/.gitignore = !keep.log
    sub/keep.log = x
    sub/other.log = x
    sub/deep/.gitignore = local.txt
    sub/deep/local.txt = x
    sub/deep/b.log = x
    local.txt = x
    node_modules/pkg/index.js = x
    .git/config = x
    target.txt = x
";

#[test]
fn every_ignore_file_hides_and_the_nearest_speaks_last() {
    let world = workspace(TREE);
    assert_eq!(
        names(&world, ".", false),
        [
            ".gitignore",
            ".portcullisignore",
            ".qwenignore",
            "a.txt",
            "local.txt",
            "sub",
            "target.txt"
        ]
    );
    assert_eq!(
        names(&world, "sub", false),
        [".gitignore", "deep", "keep.log"]
    );
    assert_eq!(names(&world, "sub/deep", false), [".gitignore"]);
    let all = names(&world, ".", true);
    for shown in ["a.log", "drafts", "internal.txt", "node_modules", ".git"] {
        assert!(all.iter().any(|name| name == shown), "{shown} in {all:?}");
    }
    let listed = block_on(world.fs().list(".", list_all())).unwrap();
    assert_eq!(listed.counts.ignored, 5);
    // Whoever asks for a directory by name gets what is in it.
    assert_eq!(names(&world, "node_modules", false), ["pkg"]);
    assert_eq!(names(&world, "drafts", false), ["d.txt"]);
}

#[test]
fn lists_trees_and_searches_hide_the_same() {
    let world = workspace(TREE);
    let fs = world.fs();
    for how in [Reading::Tree, Reading::Glob] {
        let got = block_on(attempt(&fs, how, ".")).unwrap();
        for hidden in [
            "a.log",
            "other.log",
            "drafts",
            "internal.txt",
            "index.js",
            "sub/deep/local.txt",
        ] {
            assert!(!got.text.contains(hidden), "{how:?} shows {hidden}");
        }
        for shown in ["sub/keep.log", "a.txt", "RelPath(\"local.txt\")"] {
            assert!(got.text.contains(shown), "{how:?} hides {shown}");
        }
    }
    let mut request = tree_all();
    request.include_ignored = true;
    let tree = block_on(fs.tree(".", request)).unwrap();
    assert!(format!("{:?}", tree.children).contains("index.js"));
    assert_eq!(tree.counts.ignored, 0);
}

#[test]
fn a_change_to_an_ignore_file_holds_for_the_next_call() {
    let world = workspace("a.log = x\n b.txt = x\n sub/c.log = x");
    assert_eq!(names(&world, ".", false), ["a.log", "b.txt", "sub"]);
    world.scratch.file(".gitignore", "*.log\n");
    assert_eq!(names(&world, ".", false), [".gitignore", "b.txt", "sub"]);
    assert_eq!(names(&world, "sub", false), [] as [&str; 0]);
    world.scratch.file(".gitignore", "b.*\n");
    assert_eq!(names(&world, ".", false), [".gitignore", "a.log", "sub"]);
    std::fs::remove_file(world.scratch.at(".gitignore")).unwrap();
    assert_eq!(names(&world, ".", false), ["a.log", "b.txt", "sub"]);
}

#[test]
fn an_ignored_file_is_read_and_the_reply_says_which_line_names_it() {
    let world = workspace(TREE);
    for (path, want) in [
        ("a.log", Some(".gitignore: *.log")),
        ("drafts/d.txt", Some(".qwenignore: drafts/")),
        ("internal.txt", Some(".portcullisignore: internal.txt")),
        ("sub/deep/local.txt", Some("sub/deep/.gitignore: local.txt")),
        ("sub/keep.log", None),
        ("a.txt", None),
    ] {
        let reply = block_on(world.fs().read_text(path, text_all())).unwrap();
        assert_eq!(reply.page.text, "x", "{path}");
        assert_eq!(reply.matched_ignore.as_deref(), want, "{path}");
    }
    let mut request = text_all();
    request.classify = false;
    let reply = block_on(world.fs().read_text("a.log", request)).unwrap();
    assert_eq!(reply.matched_ignore, None);
}

#[test]
fn an_ignore_file_that_is_a_link_or_a_directory_is_none() {
    let world = workspace(
        "../out/rules = a.txt
         .gitignore -> ../out/rules
         .qwenignore/x = a.txt
         a.txt = x",
    );
    let all = names(&world, ".", false);
    assert!(all.iter().any(|name| name == "a.txt"), "{all:?}");
}
