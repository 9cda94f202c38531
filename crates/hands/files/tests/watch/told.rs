//! What is told.

use std::fs;

use portcullis_files::{ByteWindow, WatchRequest, WriteOptions};
use portcullis_proto::{Outcome, Phase, Reason, Verb};
use portcullis_testkit::{Scratch, World};

use crate::{Watched, runtime};

#[test]
fn what_comes_changes_and_goes_is_told_by_name() {
    let mut watched = Watched::of("old = 1\n dir/a = 1\n gone = 1", ".");
    assert_eq!(
        (watched.watch.directories, watched.watch.complete),
        (2, true)
    );
    let told = watched.told_of(|w| {
        w.write("new", "1");
        w.write("old", "2");
        w.write("dir/a", "2");
        fs::remove_file(w.at("gone")).unwrap();
    });
    assert_eq!(
        told,
        [
            "modified dir/a",
            "removed gone",
            "created new",
            "modified old"
        ]
    );
    let told = watched.told_of(|w| {
        fs::rename(w.at("new"), w.at("dir/new")).unwrap();
        w.world.scratch.chmod("old", 0o600);
    });
    assert_eq!(told, ["created dir/new", "removed new", "modified old"]);
}

#[test]
fn a_file_put_in_the_place_of_another_is_told_as_changed_whichever_way() {
    let mut watched = Watched::of("f = 1\n g = 1", ".");
    let told = watched.told_of(|w| {
        w.write("tmp", "2");
        fs::rename(w.at("tmp"), w.at("f")).unwrap();
    });
    // `f` came under its name: whether something stood there is not told.
    assert_eq!(told, ["created f", "removed tmp"]);
    let told = watched.told_of(|w| {
        rustix::fs::renameat_with(
            rustix::fs::CWD,
            w.at("f"),
            rustix::fs::CWD,
            w.at("g"),
            rustix::fs::RenameFlags::EXCHANGE,
        )
        .unwrap();
    });
    assert_eq!(told, ["modified f", "modified g"]);
}

#[test]
fn our_own_change_is_told_and_the_draft_it_was_made_of_is_not() {
    let scratch = Scratch::of("f = 1");
    let world = World::workspace().writable().over(scratch);
    let mut watched = Watched::in_world(world, ".");
    let told = watched.told_of(|w| {
        let fs = w.world.fs();
        let done = runtime().block_on(async {
            fs.read_bytes("f", ByteWindow::Whole).await?;
            fs.write_bytes("f", b"2".to_vec(), &WriteOptions::default())
                .await
        });
        done.unwrap();
    });
    assert_eq!(told, ["modified f"]);
}

#[test]
fn a_directory_that_comes_brings_what_is_in_it_and_one_that_goes_takes_it() {
    let mut watched = Watched::of("a/b/c = 1", ".");
    // Deep, and all at once: most of it stands before it can be watched.
    let told = watched.told_of(|w| {
        fs::create_dir_all(w.at("x/y/z")).unwrap();
        w.write("x/y/z/f", "1");
        w.write("x/g", "1");
    });
    assert_eq!(
        told,
        [
            "created x/",
            "created x/g",
            "created x/y/",
            "created x/y/z/",
            "created x/y/z/f"
        ]
    );
    let told = watched.told_of(|w| w.write("x/y/z/f", "2"));
    assert_eq!(told, ["modified x/y/z/f"]);
    let told = watched.told_of(|w| fs::rename(w.at("x/y"), w.at("a/y")).unwrap());
    assert_eq!(
        told,
        [
            "created a/y/",
            "created a/y/z/",
            "created a/y/z/f",
            "removed x/y/"
        ]
    );
    // Told under its new path, and under no other.
    let told = watched.told_of(|w| w.write("a/y/z/f", "3"));
    assert_eq!(told, ["modified a/y/z/f"]);
    let told = watched.told_of(|w| fs::remove_dir_all(w.at("a")).unwrap());
    assert_eq!(told, ["removed a/"]);
    let told = watched.told_of(|w| {
        fs::create_dir(w.at("a")).unwrap();
        w.write("a/new", "1");
    });
    assert_eq!(told, ["created a/", "created a/new"]);
}

#[test]
fn one_file_can_be_watched_through_every_save_and_nothing_beside_it_is_told() {
    let mut watched = Watched::of("d/f = 1\n d/g = 1", "d/f");
    watched.write("d/g", "2");
    watched.write("d/f", "2");
    assert_eq!(watched.until("modified d/f"), ["modified d/f"]);
    watched.write("d/tmp", "3");
    fs::rename(watched.at("d/tmp"), watched.at("d/f")).unwrap();
    assert_eq!(watched.until("created d/f"), ["created d/f"]);
    fs::remove_file(watched.at("d/f")).unwrap();
    assert_eq!(watched.until("removed d/f"), ["removed d/f"]);
    watched.write("d/f", "4");
    assert_eq!(watched.until("created d/f"), ["created d/f"]);
    fs::remove_dir_all(watched.at("d")).unwrap();
    assert_eq!(watched.until("removed d/f"), ["removed d/f"]);
    let ended = watched.next().unwrap_err();
    assert_eq!(ended.reason(), Reason::NotFound);
    assert_eq!(watched.next(), Ok(None), "told once");
}

#[test]
fn a_watch_ends_when_what_it_watches_is_gone_or_another() {
    for replaced in [false, true] {
        let mut watched = Watched::of("d/e/f = 1", "d/e");
        fs::rename(watched.at("d"), watched.world.scratch.base().join("away")).unwrap();
        if replaced {
            fs::create_dir_all(watched.at("d/e")).unwrap();
        }
        assert_eq!(watched.next().unwrap_err().reason(), Reason::NotFound);
        let lines = watched.world.lines.all();
        let last = lines.last().unwrap();
        assert_eq!((last.verb, last.outcome), (Verb::Watch, Outcome::Failed));
    }
}

#[test]
fn a_watch_has_a_line_when_it_begins_and_one_when_it_ends() {
    let mut watched = Watched::of("f = 1\n .env = 1", ".");
    let phases = |watched: &Watched| {
        let lines = watched.world.lines.all();
        lines
            .iter()
            .map(|line| (line.phase, line.outcome))
            .collect::<Vec<_>>()
    };
    assert_eq!(phases(&watched), [(Phase::Opening, Outcome::Begun)]);
    watched.write(".env", "2");
    watched.write("f", "2");
    assert_eq!(watched.until("modified f"), ["modified f"]);
    let Watched {
        world,
        watch,
        runtime,
    } = watched;
    runtime.block_on(watch.end());
    let lines = world.lines.all();
    let closing = lines.last().unwrap();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(
        (closing.phase, closing.outcome),
        (Phase::Closing, Outcome::Success)
    );
    let counts = closing.counts.unwrap();
    assert_eq!((counts.entries, counts.secret), (1, 1));
    assert_eq!(world.gate.under_way(), 0);
}

#[test]
fn what_is_not_listened_to_any_more_ends_and_so_does_everything_with_the_gate() {
    let watched = Watched::of("f = 1", ".");
    let Watched {
        world,
        watch,
        runtime,
    } = watched;
    drop(watch);
    let until = std::time::Instant::now() + crate::PATIENCE;
    while world.gate.under_way() > 0 {
        assert!(std::time::Instant::now() < until, "it goes on");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let mut watch = runtime
        .block_on(world.fs().watch(".", WatchRequest::default()))
        .unwrap();
    world.gate.end();
    assert_eq!(runtime.block_on(watch.next()), Ok(None));
    let outcomes: Vec<_> = world
        .lines
        .closing()
        .iter()
        .map(|line| line.outcome)
        .collect();
    assert_eq!(outcomes, [Outcome::Success, Outcome::Success]);
}

#[test]
fn directories_that_are_exchanged_are_watched_where_they_stand() {
    let exchange = |from: &std::path::Path, to: &std::path::Path| {
        let (here, flags) = (rustix::fs::CWD, rustix::fs::RenameFlags::EXCHANGE);
        rustix::fs::renameat_with(here, from, here, to, flags).unwrap();
    };
    let mut watched = Watched::of("a/of_a = 1\n b/of_b = 1", ".");
    let told = watched.told_of(|w| exchange(&w.at("a"), &w.at("b")));
    assert_eq!(
        told,
        [
            "modified a/",
            "created a/of_b",
            "modified b/",
            "created b/of_a"
        ]
    );
    let told = watched.told_of(|w| {
        w.write("a/of_b", "2");
        w.write("b/of_a", "2");
    });
    assert_eq!(told, ["modified a/of_b", "modified b/of_a"]);
    // With one from outside, named first and named last.
    let away = watched.world.scratch.base().join("away");
    fs::create_dir(&away).unwrap();
    fs::write(away.join("of_away"), "1").unwrap();
    for outside_first in [true, false] {
        watched.told_of(|w| {
            let a = w.at("a");
            let (from, to) = if outside_first {
                (&away, &a)
            } else {
                (&a, &away)
            };
            exchange(from, to);
        });
        let told = watched.told_of(|w| w.write("a/new", "1"));
        assert_eq!(told.last().unwrap(), "created a/new");
        assert_eq!(told.len(), 1, "{told:?}");
        watched.told_of(|w| fs::remove_file(w.at("a/new")).unwrap());
    }
}

#[test]
fn names_that_no_path_can_ask_for_are_told_as_a_change_of_their_directory() {
    use std::os::unix::ffi::OsStrExt as _;
    let mut watched = Watched::of("d/f = 1", ".");
    let told = watched.told_of(|w| {
        let odd = std::ffi::OsStr::from_bytes(b"\xff\xfe");
        fs::write(w.at("d").join(odd), "").unwrap();
    });
    assert_eq!(told, ["modified d/"]);
}

#[test]
fn a_directory_closed_to_us_is_watched_once_it_is_open() {
    // Nothing is closed to whoever may do everything, but a root that wants its
    // directories private looks into no other.
    let scratch = Scratch::of("f = 1");
    scratch.chmod(".", 0o700);
    let world = World::workspace()
        .policy(|policy| policy.private = true)
        .over(scratch);
    let mut watched = Watched::in_world(world, ".");
    watched.told_of(|w| {
        fs::create_dir(w.at("d")).unwrap();
        w.world.scratch.chmod("d", 0o755);
        w.write("d/f", "1");
    });
    let told = watched.told_of(|w| w.world.scratch.chmod("d", 0o700));
    assert!(told.contains(&"created d/f".to_owned()), "{told:?}");
}

#[test]
fn a_directory_put_in_the_place_of_an_empty_one_is_watched() {
    let mut watched = Watched::of("target/", ".");
    fs::create_dir(watched.at("target")).unwrap_or(());
    let away = watched.world.scratch.base().join("away");
    fs::create_dir_all(away.join("deep")).unwrap();
    fs::write(away.join("deep/f"), "1").unwrap();
    watched.told_of(|_| {});
    let told = watched.told_of(|w| fs::rename(&away, w.at("target")).unwrap());
    assert!(
        told.contains(&"created target/deep/f".to_owned()),
        "{told:?}"
    );
    let told = watched.told_of(|w| w.write("target/deep/f", "2"));
    assert_eq!(told, ["modified target/deep/f"]);
}
