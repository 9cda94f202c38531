//! What is never told.

use std::fs;
use std::sync::Arc;

use portcullis_files::WatchRequest;
use portcullis_policy::{Effect, PatternSet, Rule, RuleSet, Rules};
use portcullis_proto::{Access, AccessSet, Group, Mode, Outcome, Reason};
use portcullis_testkit::{Scratch, World};

use crate::{Watched, runtime};

fn denying(pattern: &str) -> Rule {
    Rule {
        effect: Effect::Deny,
        group: Group::FilesystemRead,
        root: None,
        pattern: pattern.into(),
        source: Arc::from("test"),
        covers_protected: false,
        exact_path: false,
    }
}

#[test]
fn secrets_and_what_rules_deny_are_counted_and_never_named() {
    let world = World::workspace()
        .rules(vec![denying("/private/**"), denying("*.canary")])
        .over(Scratch::of(
            "a = 1\n private/x = 1\n .env = 1\n .ssh/id_rsa = 1",
        ));
    let mut watched = Watched::in_world(world, ".");
    let told = watched.told_of(|w| {
        w.write("private/canary", "canary-content");
        w.write("x.canary", "canary-content");
        w.write(".env", "KEY=canary");
        w.write(".ssh/id_rsa", "canary");
        w.write(".ssh/canary", "canary");
        w.write("server.pem", "canary");
        fs::create_dir(w.at("new")).unwrap();
        w.write("new/.env.local", "canary");
        w.write("a", "2");
    });
    assert_eq!(told, ["modified a", "created new/"]);
    let Watched {
        world,
        watch,
        runtime,
    } = watched;
    runtime.block_on(watch.end());
    for line in world.lines.all() {
        assert!(!line.json.contains("canary"), "{}", line.json);
    }
    let counts = world.lines.closing().last().unwrap().counts.unwrap();
    assert!(counts.denied >= 1 && counts.secret >= 2, "{counts:?}");
}

#[test]
fn what_is_secret_or_denied_cannot_be_watched_by_name() {
    let world = World::workspace()
        .rules(vec![denying("/private/**")])
        .over(Scratch::of("private/x = 1\n .env = 1\n pipe | fifo"));
    let refused = |path: &str| {
        let watch = runtime().block_on(world.fs().watch(path, WatchRequest::default()));
        watch.unwrap_err().reason()
    };
    assert_eq!(refused("private/x"), Reason::DeniedByRule);
    assert_eq!(refused(".env"), Reason::ApprovalUnavailable);
    assert_eq!(refused("absent"), Reason::NotFound);
    assert_eq!(refused("../x"), Reason::Escape);
}

#[test]
fn what_ignore_files_name_is_left_out_as_they_stand_now() {
    let mut watched = Watched::of(
        ".gitignore = *.log\n logs/a.log = 1\n node_modules/m/i.js = 1",
        ".",
    );
    let told = watched.told_of(|w| {
        w.write("x.log", "1");
        w.write("logs/a.log", "2");
        w.write("node_modules/m/i.js", "2");
        w.write("x.txt", "1");
    });
    assert_eq!(told, ["created x.txt"]);
    // Other names are ignored from now on, directories among them.
    watched.write(".gitignore", "logs/\n");
    watched.until("modified .gitignore");
    let told = watched.told_of(|w| {
        w.write("x.log", "2");
        w.write("logs/a.log", "3");
        w.write("logs/b", "1");
    });
    assert_eq!(told, ["modified x.log"]);
    fs::remove_file(watched.at(".gitignore")).unwrap();
    watched.until("removed .gitignore");
    let told = watched.told_of(|w| w.write("logs/b", "2"));
    assert_eq!(told, ["modified logs/b"]);
}

#[test]
fn nothing_is_told_of_a_directory_that_was_moved_out_whatever_happens_in_it() {
    let mut watched = Watched::of("d/e/f = 1\n d/mine = 1", ".");
    let away = watched.world.scratch.base().join("away");
    // Into the queue before anything is read: the directory is out by the time
    // it is told.
    fs::rename(watched.at("d"), &away).unwrap();
    for n in 0..100 {
        fs::write(away.join(format!("e/canary{n}")), "x").unwrap();
        fs::write(away.join(format!("canary{n}")), "x").unwrap();
    }
    let told = watched.told_of(|_| {});
    assert_eq!(told, ["removed d/"]);
    fs::write(away.join("e/canary"), "x").unwrap();
    // A link to it in its place does not bring it back either.
    std::os::unix::fs::symlink(&away, watched.at("d")).unwrap();
    fs::write(away.join("e/canary2"), "x").unwrap();
    let told = watched.told_of(|_| {});
    assert_eq!(told, ["created d"]);
}

#[test]
fn what_was_away_for_a_moment_is_not_watched_any_more() {
    // One level up and two: the notices of the way to it say so.
    for moved in ["d", "d/e"] {
        let mut watched = Watched::of("d/e/f = 1", "d/e");
        let away = watched.world.scratch.base().join("away");
        fs::rename(watched.at(moved), &away).unwrap();
        let inside = if moved == "d" {
            away.join("e")
        } else {
            away.clone()
        };
        fs::write(inside.join("canary"), "x").unwrap();
        fs::remove_file(inside.join("canary")).unwrap();
        fs::rename(&away, watched.at(moved)).unwrap();
        assert_eq!(watched.next().unwrap_err().reason(), Reason::NotFound);
    }
}

#[test]
fn a_rule_that_denies_it_later_counts_from_then_on() {
    let mut watched = Watched::of("a/f = 1\n b/f = 1", ".");
    let rules = |rule: Rule| {
        let now = watched.world.gate.rules();
        Rules {
            modes: now.modes,
            stored: RuleSet::compile(vec![rule]).unwrap(),
        }
    };
    watched.world.gate.replace_rules(rules(denying("/a/**")));
    let told = watched.told_of(|w| {
        w.write("a/f", "2");
        w.write("b/f", "2");
    });
    assert_eq!(told, ["modified b/f"]);
    let modes = watched
        .world
        .gate
        .rules()
        .modes
        .with(Group::FilesystemRead, Mode::Deny);
    watched.world.gate.replace_rules(Rules::new(modes));
    watched.write("b/f", "3");
    assert_eq!(watched.next().unwrap_err().reason(), Reason::DeniedByMode);
    let lines = watched.world.lines.all();
    assert_eq!(lines.last().unwrap().outcome, Outcome::Denied);
}

#[test]
fn a_watch_needs_its_grant_to_begin_and_to_go_on() {
    let world = World::workspace()
        .policy(|policy| policy.ambient = AccessSet::ALL.without(AccessSet::of(&[Access::Watch])))
        .over(Scratch::of("a = x"));
    let watch = runtime().block_on(world.fs().watch(".", WatchRequest::default()));
    assert_eq!(watch.unwrap_err().reason(), Reason::NoGrant);

    let mut watched = Watched::of("f = 1", ".");
    watched.world.gate.grants().revoke(|_| true);
    watched.write("f", "2");
    assert_eq!(watched.next().unwrap_err().reason(), Reason::Revoked);
}

#[test]
fn where_globs_allow_little_only_that_is_told() {
    let world = World::workspace()
        .policy(|policy| policy.allowed = PatternSet::compile(&["/src/**/*.rs"]).unwrap())
        .over(Scratch::of(
            "src/a/b.rs = 1\n src/a/c.txt = 1\n other/d.rs = 1",
        ));
    let mut watched = Watched::in_world(world, ".");
    watched.write("src/a/c.txt", "2");
    watched.write("other/d.rs", "2");
    watched.write("top.rs", "2");
    watched.write("src/a/b.rs", "2");
    assert_eq!(
        watched.until("modified src/a/b.rs"),
        ["modified src/a/b.rs"]
    );
}

#[test]
fn a_mount_is_not_looked_into() {
    let scratch = Scratch::of("d/f = 1");
    scratch.add("m/x = 1");
    fs::create_dir_all(scratch.base().join("away")).unwrap();
    if !scratch.bind("../away", "m") {
        eprintln!("no mounts here: not tried");
        return;
    }
    let mut watched = Watched::in_world(World::workspace().over(scratch), ".");
    let told = watched.told_of(|w| {
        fs::write(w.world.scratch.base().join("away/canary"), "x").unwrap();
        w.write("d/f", "2");
    });
    assert_eq!(told, ["modified d/f"]);
}

#[test]
fn a_mode_that_asks_from_now_on_ends_what_nobody_was_asked_about() {
    let mut watched = Watched::of("f = 1", ".");
    let gate = &watched.world.gate;
    let modes = gate.rules().modes.with(Group::FilesystemRead, Mode::Ask);
    gate.replace_rules(Rules::new(modes));
    // Also where nothing happens.
    let ended = watched.next().unwrap_err();
    assert_eq!(ended.reason(), Reason::ApprovalUnavailable);
}

#[test]
fn what_rules_allow_later_is_watched_from_then_on() {
    let world = World::workspace()
        .rules(vec![denying("/a")])
        .over(Scratch::of("a/f = 1\n b/f = 1"));
    let mut watched = Watched::in_world(world, ".");
    let modes = watched.world.gate.rules().modes;
    watched.world.gate.replace_rules(Rules::new(modes));
    // What is found there by then is told, since nobody knows when it came.
    let mut told = watched.until("created a/f");
    watched.write("a/f", "2");
    told.extend(watched.until("modified a/f"));
    assert!(told.iter().all(|one| one.contains(" a")), "{told:?}");
}

#[test]
fn ignore_files_on_the_way_count_and_what_came_before_they_were_looked_at_is_told() {
    let mut watched = Watched::of(".gitignore = x/\n d/x/f = 1\n d/g = 1", "d");
    watched.write("d/x/f", "2");
    watched.write("d/g", "2");
    assert_eq!(watched.until("modified d/g"), ["modified d/g"]);
    fs::remove_file(watched.at(".gitignore")).unwrap();
    watched.write("d/x/new", "1");
    let told = watched.until("created d/x/new");
    assert_eq!(told, ["created d/x/f", "created d/x/new"]);
    // In one go with the change of the ignore file itself.
    watched.write("d/.gitignore", "*.log\n");
    watched.until("created d/.gitignore");
    watched.write("d/g", "3");
    fs::remove_file(watched.at("d/.gitignore")).unwrap();
    watched.write("d/y.log", "1");
    assert!(
        watched
            .until("created d/y.log")
            .contains(&"modified d/g".to_owned())
    );
}

#[test]
fn a_mount_over_a_watched_directory_ends_what_is_told_of_it() {
    let scratch = Scratch::of("d/f = 1\n e/f = 1");
    let outside = scratch.base().join("away");
    fs::create_dir_all(&outside).unwrap();
    let mut watched = Watched::in_world(World::workspace().over(scratch), ".");
    if !watched.world.scratch.bind("../away", "d") {
        eprintln!("no mounts here: not tried");
        return;
    }
    let told = watched.told_of(|w| {
        fs::write(outside.join("canary"), "x").unwrap();
        w.write("d/canary2", "x");
        w.write("e/f", "2");
    });
    assert_eq!(told, ["modified e/f"]);
}
