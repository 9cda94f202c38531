//! Searching files: what is found, what is shown of it, and what never is.

use std::sync::Arc;

use portcullis_files::{Case, FoundLines, Hidden, SearchRequest};
use portcullis_policy::{Effect, PatternSet, Rule};
use portcullis_proto::{Access, AccessSet, Counts, Group, Outcome, Reason, Verb};
use portcullis_testkit::{Scratch, World, agent, is_superuser};

use crate::attempts::{block_on, search_all, workspace};

/// `path:line:column:text` of every match, `path:line-text` of what is beside one.
pub(crate) fn shown(found: &FoundLines) -> Vec<String> {
    let lines = found.files.iter().flat_map(|file| {
        let line = |line: &portcullis_files::FoundLine| match line.column {
            Some(column) => format!("{}:{}:{column}:{}", file.path, line.number, line.text),
            None => format!("{}:{}-{}", file.path, line.number, line.text),
        };
        file.lines.iter().map(line).collect::<Vec<_>>()
    });
    lines.collect()
}

#[track_caller]
fn check(tree: &str, request: SearchRequest, want: &[&str]) {
    let world = workspace(tree);
    let found = block_on(world.fs().search(".", request)).unwrap();
    assert_eq!(shown(&found), want);
    assert!(found.complete && !found.truncated, "{found:?}");
}

const TREE: &str = "
    a.txt = one Needle two
    b/c.ts = needle
    b/d.js = a.b needle
    z.ts = axb
";

#[test]
fn lines_are_found_by_expression_and_by_text_in_every_case() {
    check(
        TREE,
        search_all("needle"),
        &["b/c.ts:1:1:needle", "b/d.js:1:5:a.b needle"],
    );
    let insensitive = SearchRequest {
        case: Case::Insensitive,
        ..search_all("NEEDLE|axb")
    };
    let all = [
        "a.txt:1:5:one Needle two",
        "z.ts:1:1:axb",
        "b/c.ts:1:1:needle",
        "b/d.js:1:5:a.b needle",
    ];
    check(TREE, insensitive, &all);
    let smart = |query| SearchRequest {
        case: Case::Smart,
        ..search_all(query)
    };
    check(TREE, smart("Needle"), &all[..1]);
    check(TREE, smart("needle"), &[all[0], all[2], all[3]]);
    check(TREE, search_all("a.b"), &[all[1], "b/d.js:1:1:a.b needle"]);
    let literal = SearchRequest {
        literal: true,
        ..search_all("a.b")
    };
    check(TREE, literal, &["b/d.js:1:1:a.b needle"]);
}

#[test]
fn a_glob_says_which_files_and_one_file_can_be_searched() {
    let only = |files: &str| SearchRequest {
        files: Some(files.to_owned()),
        ..search_all("e|x")
    };
    check(TREE, only("*.ts"), &["z.ts:1:2:axb", "b/c.ts:1:2:needle"]);
    check(
        TREE,
        only("*.{js,txt}"),
        &["a.txt:1:3:one Needle two", "b/d.js:1:6:a.b needle"],
    );
    check(TREE, only("b/*.ts"), &["b/c.ts:1:2:needle"]);
    check(TREE, only("./*.ts"), &["z.ts:1:2:axb"]);
    let world = workspace(TREE);
    let found = block_on(world.fs().search("b/c.ts", search_all("dle"))).unwrap();
    assert_eq!(shown(&found), ["b/c.ts:1:4:needle"]);
    assert!(found.complete);
    let below = block_on(world.fs().search("b", only("c.*"))).unwrap();
    assert_eq!(shown(&below), ["b/c.ts:1:2:needle"]);
}

#[test]
fn lines_around_a_match_are_shown_once_and_matches_can_go_over_lines() {
    let scratch = Scratch::of("");
    scratch.file("f", "1\n2 x\n3\n4\n5 x\r\n6 x\n7\n8\n");
    let world = World::workspace().over(scratch);
    let around = SearchRequest {
        before: 1,
        after: 1,
        ..search_all("x")
    };
    let found = block_on(world.fs().search(".", around)).unwrap();
    assert_eq!(
        shown(&found),
        [
            "f:1-1",
            "f:2:3:2 x",
            "f:3-3",
            "f:4-4",
            "f:5:3:5 x",
            "f:6:3:6 x",
            "f:7-7"
        ]
    );
    let over = SearchRequest {
        multiline: true,
        ..search_all(r"x\n3\n4")
    };
    let found = block_on(world.fs().search(".", over)).unwrap();
    assert_eq!(shown(&found), ["f:2:3:2 x", "f:3:1:3", "f:4:1:4"]);
    // Off unless asked for: a line break is then no part of a query.
    let plain = block_on(world.fs().search(".", search_all(r"x\n3"))).unwrap_err();
    assert_eq!(plain.reason(), Reason::BadArguments);
}

#[test]
fn limits_hold_and_what_comes_first_in_the_tree_is_what_is_shown() {
    let scratch = Scratch::of("");
    for dir in 0..40 {
        for file in 0..20 {
            let text = "hit\n".repeat(1 + (dir + file) % 3);
            scratch.file(&format!("d{dir:02}/e/f{file:02}"), text);
        }
    }
    let world = World::workspace().over(scratch);
    let all = block_on(world.fs().search(".", search_all("hit"))).unwrap();
    assert!(all.complete && all.files.len() == 800);
    for max in [1, 7, 50, 799, all.matches - 1, all.matches] {
        // Workers race; what is shown does not depend on who wins.
        for _ in 0..5 {
            let request = SearchRequest {
                max_matches: max,
                ..search_all("hit")
            };
            let found = block_on(world.fs().search(".", request)).unwrap();
            assert_eq!(found.matches, max);
            assert_eq!(shown(&found), shown(&all)[..max]);
            assert_eq!(found.truncated, max < all.matches, "{max}");
            assert_eq!(found.complete, max == all.matches);
        }
    }
    let per_file = SearchRequest {
        max_per_file: 1,
        ..search_all("hit")
    };
    let found = block_on(world.fs().search(".", per_file)).unwrap();
    assert_eq!((found.matches, found.truncated), (800, true));
    let bytes = SearchRequest {
        max_bytes: 100,
        ..search_all("hit")
    };
    let found = block_on(world.fs().search(".", bytes)).unwrap();
    assert_eq!((found.matches, found.truncated), (33, true));
}

#[test]
fn a_long_line_is_shown_around_its_match() {
    let scratch = Scratch::of("");
    scratch.file(
        "min.js",
        format!("{}needle{}", "x".repeat(5000), "y".repeat(5000)),
    );
    let world = World::workspace().over(scratch);
    let request = SearchRequest {
        max_line_bytes: 40,
        ..search_all("needle")
    };
    let found = block_on(world.fs().search(".", request)).unwrap();
    let line = &found.files[0].lines[0];
    assert!(line.cut && line.column == Some(5001), "{line:?}");
    assert_eq!(
        line.text,
        format!("{}needle{}", "x".repeat(10), "y".repeat(24))
    );
}

#[test]
fn binary_files_are_passed_over_and_other_encodings_are_read_by_their_mark() {
    let scratch = Scratch::of("plain = needle");
    scratch.file("binary", b"needle\0needle");
    let utf16 =
        |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    scratch.file("wide", [vec![0xff, 0xfe], utf16("ä needle\n")].concat());
    let swapped: Vec<u8> = "needle\n"
        .encode_utf16()
        .flat_map(u16::to_be_bytes)
        .collect();
    scratch.file("wider", [vec![0xfe, 0xff], swapped].concat());
    scratch.file("marked", "\u{feff}needle");
    // Too large to be read in one go.
    let far = "x".repeat(99);
    scratch.file(
        "large",
        format!("{}needle\n", format!("{far}\n").repeat(5000)),
    );
    let large = format!("{}needle\n", format!("{far}\n").repeat(2000));
    scratch.file("large-wide", [vec![0xff, 0xfe], utf16(&large)].concat());
    let world = World::workspace().over(scratch);
    let found = block_on(world.fs().search(".", search_all("needle"))).unwrap();
    assert_eq!(
        shown(&found),
        [
            "large:5001:1:needle",
            "large-wide:2001:1:needle",
            "marked:1:1:needle",
            "plain:1:1:needle",
            "wide:1:3:ä needle",
            "wider:1:1:needle",
        ]
    );
    assert_eq!((found.counts.binary, found.counts.searched), (1, 7));
    assert!(found.complete);
}

#[test]
fn a_secret_is_in_no_result_and_in_no_line_of_the_audit() {
    const CANARY: &str = "canary-7f3a";
    let scratch = Scratch::of("");
    let secret = [
        ".env",
        ".env.local",
        ".ssh/config",
        "keys/server.pem",
        "x/id_rsa",
        "x/.env~",
        ".aws/credentials",
        "app/prod.env",
    ];
    for path in secret {
        scratch.file(path, CANARY);
    }
    scratch.file("denied/a", CANARY);
    scratch.file("ruled.txt", CANARY);
    scratch.file("open.txt", "canary of another kind");
    // The same inode, under the name of a secret and under a plain one: by its
    // plain name anybody may read it, and so may a search.
    scratch.file("ignored.log", CANARY);
    scratch.file(".gitignore", "*.log");
    let world = World::workspace()
        .policy(|policy| policy.denied = PatternSet::compile(&["/denied"]).unwrap())
        .rules(vec![Rule {
            effect: Effect::Deny,
            group: Group::FilesystemRead,
            root: None,
            pattern: "ruled.txt".into(),
            covers_protected: false,
            exact_path: false,
            source: Arc::from("settings.json:3"),
        }])
        .over(scratch);
    let found = block_on(world.fs().search(".", search_all("canary.*"))).unwrap();
    assert_eq!(shown(&found), ["open.txt:1:1:canary of another kind"]);
    assert!(!format!("{found:?}").contains(CANARY));
    let want = Counts {
        entries: 1,
        denied: 2,
        // A secret directory counts as one.
        secret: 8,
        ignored: 1,
        searched: 2,
        ..Counts::default()
    };
    assert_eq!(found.counts, want);
    for line in world.lines.all() {
        assert!(!line.json.contains("canary"), "{}", line.json);
    }
    // Asked for by name, a secret is asked about, and here nobody can be.
    for path in secret {
        let refused = block_on(world.fs().search(path, search_all("canary"))).unwrap_err();
        assert_eq!(refused.reason(), Reason::ApprovalUnavailable, "{path}");
    }
}

#[test]
fn the_audit_has_one_line_with_counts_and_a_digest_of_the_query() {
    let world = workspace("a = needle\n b = x");
    let line = |query: &str| {
        world.lines.take();
        let found = block_on(world.fs().search(".", search_all(query))).unwrap();
        let lines = world.lines.all();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!(
            (lines[0].verb, lines[0].outcome),
            (Verb::Search, Outcome::Success)
        );
        assert_eq!(lines[0].counts, Some(found.counts));
        assert!(!lines[0].json.contains("needle"), "{}", lines[0].json);
        let json: serde_json::Value = serde_json::from_str(&lines[0].json).unwrap();
        json["facts"]["shown"].clone()
    };
    let digest = line("needle");
    assert!(!digest.is_null());
    assert_eq!(line("needle"), digest);
    assert_ne!(line("nee"), digest);
}

#[test]
fn a_search_needs_both_to_read_and_to_list() {
    for (missing, allowed) in [
        (Access::Read, false),
        (Access::List, false),
        (Access::Watch, true),
    ] {
        let world = World::workspace()
            .policy(|policy| policy.ambient = AccessSet::ALL.without(AccessSet::of(&[missing])))
            .over(Scratch::of("a = x"));
        let found = block_on(world.fs().search(".", search_all("x")));
        match found {
            Ok(found) => assert!(allowed && found.matches == 1, "without {missing:?}"),
            Err(failure) => {
                assert!(!allowed, "without {missing:?}: {failure:?}");
                assert_eq!(failure.reason(), Reason::NoGrant);
            }
        }
    }
}

#[test]
fn where_globs_allow_little_a_search_finds_that_and_no_more() {
    let world = World::workspace()
        .policy(|policy| policy.allowed = PatternSet::compile(&["/src/**/*.rs"]).unwrap())
        .over(Scratch::of(
            "src/a/b.rs = x\n src/a/c.txt = x\n top.rs = x\n other/d.rs = x",
        ));
    let found = block_on(world.fs().search(".", search_all("x"))).unwrap();
    assert_eq!(shown(&found), ["src/a/b.rs:1:1:x"]);
    for path in ["top.rs", "other", "src/a/c.txt", "src/absent.txt"] {
        let failure = block_on(world.fs().search(path, search_all("x"))).unwrap_err();
        assert_eq!(failure.reason(), Reason::DeniedByRule, "{path}");
    }
}

#[test]
fn names_that_begin_with_a_dot_can_be_left_out() {
    let tree = "a = x\n .h = x\n .d/b = x";
    let found = |hidden| SearchRequest {
        hidden,
        ..search_all("x")
    };
    check(
        tree,
        found(Hidden::Shown),
        &[".h:1:1:x", "a:1:1:x", ".d/b:1:1:x"],
    );
    check(tree, found(Hidden::LeftOut), &["a:1:1:x"]);
}

#[test]
fn what_is_no_regular_file_is_neither_waited_for_nor_read() {
    let scratch = Scratch::of("a = x\n p |\n l -> a\n out -> ../out\n loop -> .\n ../out = x");
    let _socket = std::os::unix::net::UnixListener::bind(scratch.at("s")).unwrap();
    if is_superuser() {
        scratch.device("zero");
    }
    let world = World::workspace().over(scratch);
    let found = block_on(world.fs().search(".", search_all(""))).unwrap_err();
    assert_eq!(found.reason(), Reason::BadArguments);
    let found = block_on(world.fs().search(".", search_all("^"))).unwrap();
    assert_eq!(shown(&found), ["a:1:1:x"]);
    assert!(found.complete);
    for path in ["p", "s"] {
        let failure = block_on(world.fs().search(path, search_all("x"))).unwrap_err();
        assert_eq!(failure.reason(), Reason::SpecialFile, "{path}");
    }
}

#[test]
fn what_cannot_be_entered_is_counted_and_the_reply_is_not_complete() {
    let scratch = Scratch::of("a = x\n d/b = x\n ../other/c = x\n m/");
    if !is_superuser() || !scratch.bind("../other", "m") {
        return;
    }
    let world = World::workspace().over(scratch);
    let found = block_on(world.fs().search(".", search_all("x"))).unwrap();
    assert_eq!(shown(&found), ["a:1:1:x", "d/b:1:1:x"]);
    assert_eq!((found.counts.unread, found.complete), (1, false));
}

#[test]
fn a_file_of_somebody_else_that_is_linked_in_is_not_shown() {
    let scratch = Scratch::of("a = x\n ../foreign = x");
    if !is_superuser() {
        return;
    }
    scratch.chown("../foreign", 12345);
    scratch.add("twin <=> ../foreign");
    let world = World::workspace().over(scratch);
    let found = block_on(world.fs().search(".", search_all("x"))).unwrap();
    assert_eq!(shown(&found), ["a:1:1:x"]);
    assert_eq!(found.counts.denied, 1);
}

#[test]
fn a_query_that_cannot_be_used_is_refused_with_a_next_step() {
    let world = workspace("a = x");
    let long = "x".repeat(5000);
    for query in [
        "(",
        "[z-a]",
        r"(\w{1000}){100}",
        "",
        long.as_str(),
        "(?<n>a)\\k<n>",
    ] {
        let failure = block_on(world.fs().search(".", search_all(query))).unwrap_err();
        assert_eq!(failure.reason(), Reason::BadArguments, "{query:?}");
        assert!(failure.next_step().is_some(), "{failure:?}");
        assert!(!failure.to_string().contains('\n'), "{failure}");
    }
    let request = SearchRequest {
        files: Some("../x".into()),
        ..search_all("x")
    };
    let failure = block_on(world.fs().search(".", request)).unwrap_err();
    assert_eq!(failure.reason(), Reason::BadGlob);
}

#[test]
fn a_search_that_is_cancelled_ends_with_one_line() {
    let scratch = Scratch::of("");
    for n in 0..600 {
        scratch.file(&format!("d{}/f{n}", n % 30), "x");
    }
    let world = World::workspace().over(scratch);
    let caller = agent();
    let cancel = caller.cancel.clone();
    let caller = caller.reporting(Arc::new(move |_| cancel.cancel()));
    let failure = block_on(world.fs_for(&caller).search(".", search_all("x"))).unwrap_err();
    assert_eq!(failure.reason(), Reason::Cancelled);
    assert_eq!(world.lines.one_each(), 1);
}
