//! How much is seen, and what is told where it is too much.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use portcullis_files::{Change, WatchRequest};
use portcullis_testkit::{Scratch, World};

use crate::{PATIENCE, Watched};

/// Names told so far, and whether some were lost.
#[derive(Debug, Default)]
struct Heard {
    names: BTreeSet<String>,
    overflows: usize,
    batches: usize,
}

impl Watched {
    /// Listens until all of `wanted` are told or an overflow is.
    fn hear(&mut self, wanted: usize, heard: &mut Heard) {
        while heard.names.len() < wanted && heard.overflows == 0 {
            let batch = self.next().unwrap().expect("the watch goes on");
            heard.batches += 1;
            heard.overflows += usize::from(batch.overflow);
            let told = batch.names.iter().filter(|change| !change.directory);
            heard
                .names
                .extend(told.map(|change| change.path.to_string()));
        }
    }
}

#[test]
fn each_of_ten_thousand_changes_is_seen_or_an_overflow_is_told() {
    let mut watched = Watched::of("", ".");
    for dir in 0..100 {
        fs::create_dir(watched.at(&format!("d{dir}"))).unwrap();
    }
    let mut heard = Heard::default();
    for n in 0..10_000 {
        watched.write(&format!("d{}/f{n}", n % 100), "x");
    }
    watched.hear(10_000, &mut heard);
    eprintln!(
        "10,000 at once: {} seen in {} batches, {} overflows",
        heard.names.len(),
        heard.batches,
        heard.overflows
    );
    assert!(heard.names.len() == 10_000 || heard.overflows > 0);
}

#[test]
fn a_thousand_changes_a_second_overflow_nothing() {
    const CHANGES: usize = 5_000;
    let mut watched = Watched::of("", ".");
    let root = watched.world.scratch.root();
    let writer = std::thread::spawn(move || {
        let began = Instant::now();
        for n in 0..CHANGES {
            let due = Duration::from_millis(n as u64);
            std::thread::sleep(due.saturating_sub(began.elapsed()));
            let dir = root.join(format!("d{}", n % 50));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(format!("f{n}")), "x").unwrap();
        }
        began.elapsed()
    });
    let mut heard = Heard::default();
    watched.hear(CHANGES, &mut heard);
    let took = writer.join().unwrap();
    eprintln!("{CHANGES} changes in {took:?}, {} batches", heard.batches);
    assert_eq!((heard.names.len(), heard.overflows), (CHANGES, 0));
}

#[test]
fn whoever_listens_too_slowly_is_told_that_something_was_lost() {
    let request = WatchRequest {
        gather: Duration::from_millis(1),
        ..WatchRequest::default()
    };
    let world = World::workspace().over(Scratch::of("d/f = 1"));
    let mut watched = Watched::begun(world, ".", request);
    for n in 0..40_000 {
        watched.write(&format!("d/f{n}"), "");
    }
    let mut heard = Heard::default();
    watched.hear(40_000, &mut heard);
    assert!(heard.overflows > 0, "{} seen", heard.names.len());
    // Afterwards it goes on as before, in directories that came meanwhile too.
    fs::create_dir(watched.at("late")).unwrap();
    let until = Instant::now() + PATIENCE;
    loop {
        watched.write("late/f", "x");
        let batch = watched.next().unwrap().expect("the watch goes on");
        if batch
            .names
            .iter()
            .any(|change| change.path.as_str() == "late/f")
        {
            break;
        }
        assert!(Instant::now() < until);
    }
}

#[test]
fn what_the_kernel_lost_is_told_and_what_came_meanwhile_is_watched() {
    let world = World::workspace().over(Scratch::in_memory(""));
    let mut watched = Watched::in_world(world, ".");
    let (root, base) = (
        watched.world.scratch.root(),
        watched.world.scratch.base().to_owned(),
    );
    // While a large tree that came is looked at nobody takes notices, of which
    // the kernel keeps 16,384.
    let large = base.join("large");
    for n in 0..20_000 {
        fs::create_dir_all(large.join(format!("{}/{n}", n % 60))).unwrap();
    }
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (stop, root) = (Arc::clone(&stop), root.clone());
        std::thread::spawn(move || {
            let mut n = 0u64;
            while !stop.load(Ordering::Relaxed) {
                let dir = root.join(format!("d{}", n % 7));
                let _there = fs::create_dir(&dir);
                fs::write(dir.join(format!("f{}", n % 1000)), "x").unwrap();
                fs::remove_file(dir.join(format!("f{}", n % 1000))).unwrap();
                n += 1;
            }
        })
    };
    let until = Instant::now() + PATIENCE;
    let mut lost = false;
    while !lost {
        assert!(Instant::now() < until, "nothing was lost in a minute");
        let (from, to) = (&large, root.join("large"));
        let (from, to) = if from.exists() {
            (from, &to)
        } else {
            (&to, from)
        };
        fs::rename(from, to).unwrap();
        let batch = watched.next().unwrap().expect("the watch goes on");
        lost = batch.overflow;
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    let until = Instant::now() + PATIENCE;
    loop {
        watched.write("d6/last", "x");
        let batch = watched.next().unwrap().expect("the watch goes on");
        let is_last = |change: &Change| change.path.as_str() == "d6/last";
        if batch.names.iter().any(is_last) {
            break;
        }
        assert!(Instant::now() < until, "the directory is not watched");
    }
}

#[test]
fn changes_are_gathered_and_each_name_is_told_once_in_a_batch() {
    let request = WatchRequest {
        gather: Duration::from_millis(300),
        ..WatchRequest::default()
    };
    let world = World::workspace().over(Scratch::of("f = 1"));
    let mut watched = Watched::begun(world, ".", request);
    for n in 0..50 {
        watched.write("f", &n.to_string());
        watched.write("g", &n.to_string());
    }
    let batch = watched.next().unwrap().unwrap();
    let told: Vec<_> = batch.names.iter().map(crate::shown).collect();
    assert_eq!(told, ["modified f", "created g"]);
}

#[test]
fn whoever_listens_is_told_when_not_everything_can_be_watched() {
    let deep = |levels: usize| vec!["d"; levels].join("/");
    let world = World::workspace().over(Scratch::of(""));
    let mut watched = Watched::in_world(world, ".");
    assert!(watched.watch.complete);
    fs::create_dir_all(watched.at(&deep(100))).unwrap();
    let last = format!("created {}/", deep(100));
    watched.until(&last);
    fs::create_dir_all(watched.at(&deep(130))).unwrap();
    let until = Instant::now() + PATIENCE;
    while watched.next().unwrap().expect("the watch goes on").complete {
        assert!(Instant::now() < until);
    }
    // It says so from the start to whoever comes later.
    let again = Watched::in_world(watched.world, ".");
    assert!(!again.watch.complete);
}
