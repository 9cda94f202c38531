//! A tree that is pulled away under a watch, again and again.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use portcullis_testkit::{Scratch, World};

use crate::Watched;

/// How long the race goes on: PORTCULLIS_WATCH_RACE in seconds for longer.
fn seconds() -> u64 {
    std::env::var("PORTCULLIS_WATCH_RACE")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(3)
}

/// Makes, writes and removes files of `names` in `dir`, whatever stands there.
fn stir(dir: &Path, names: &str, stop: &AtomicBool, count: &AtomicU64) {
    let mut n = 0u64;
    while !stop.load(Ordering::Relaxed) {
        let file = dir.join(format!("{names}{}", n % 64));
        let _swapped = fs::write(&file, "x");
        if n.is_multiple_of(3) {
            let _swapped = fs::remove_file(&file);
        }
        n += 1;
        count.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn no_name_of_a_directory_outside_is_told_while_directories_are_swapped() {
    race("a");
}

#[test]
fn nor_while_a_directory_is_swapped_that_is_called_as_ignore_files_are() {
    race(".gitignore");
}

fn race(swapped: &str) {
    // Inside everything is called `in…`. What happens outside, in directories
    // that stand in the root for moments, is called `canary…`: told once, it
    // came from outside, except where its directory stood in the root when it
    // was looked at, which the attacker rules out by making them only while it
    // is out.
    let scratch = Scratch::of("keep/in0 = 1");
    scratch.file(&format!("{swapped}/b/in0"), "1");
    let base = scratch.base().to_owned();
    fs::create_dir_all(base.join("out/b")).unwrap();
    let world = World::workspace().over(scratch);
    world.lines.forget();
    let mut watched = Watched::in_world(world, ".");
    let stop = Arc::new(AtomicBool::new(false));
    let (swaps, made) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut threads = Vec::new();
    {
        let (stop, made) = (Arc::clone(&stop), Arc::clone(&made));
        let inside = watched.at(&format!("{swapped}/b"));
        threads.push(std::thread::spawn(move || {
            stir(&inside, "in", &stop, &made);
        }));
    }
    {
        let (stop, swaps) = (Arc::clone(&stop), Arc::clone(&swaps));
        let (a, away, link) = (watched.at(swapped), base.join("away"), base.join("out"));
        threads.push(std::thread::spawn(move || {
            let mut canaries = 0u64;
            while !stop.load(Ordering::Relaxed) {
                // Out, stirred there, cleaned, and back; in its place a link.
                fs::rename(&a, &away).unwrap();
                std::os::unix::fs::symlink(&link, &a).unwrap();
                for dir in [&away, &link] {
                    for _ in 0..4 {
                        canaries += 1;
                        let canary = dir.join(format!("b/canary{canaries}"));
                        fs::write(&canary, "x").unwrap();
                        let moved = dir.join(format!("canary{canaries}"));
                        fs::rename(&canary, &moved).unwrap();
                        fs::remove_file(&moved).unwrap();
                    }
                }
                fs::remove_file(&a).unwrap();
                // Back by way of a directory made a moment before: under a path
                // that nobody has heard of.
                let fresh = a.with_file_name(format!("fresh{}", canaries % 1000));
                fs::create_dir(&fresh).unwrap();
                fs::rename(&away, fresh.join("a")).unwrap();
                std::thread::sleep(Duration::from_micros(canaries % 7 * 50));
                fs::rename(fresh.join("a"), &a).unwrap();
                fs::remove_dir(&fresh).unwrap();
                swaps.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(200));
            }
        }));
    }
    let until = Instant::now() + Duration::from_secs(seconds());
    // Longer where the machine is too busy for a race.
    let latest = until + Duration::from_mins(1);
    let (mut told, mut overflows) = (0u64, 0u64);
    let mut leaked = Vec::new();
    let is_raced = |told: u64| told > 100 && swaps.load(Ordering::Relaxed) > 100;
    while Instant::now() < until || (!is_raced(told) && Instant::now() < latest) {
        watched.write("keep/in0", "x");
        let batch = watched.next().unwrap().expect("the watch goes on");
        overflows += u64::from(batch.overflow);
        told += batch.names.len() as u64;
        let outside = batch
            .names
            .iter()
            .filter(|c| c.path.as_str().contains("canary"));
        leaked.extend(outside.map(crate::shown));
    }
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
    eprintln!(
        "{told} changes told, {overflows} overflows, {} swaps, {} writes, {} from outside",
        swaps.load(Ordering::Relaxed),
        made.load(Ordering::Relaxed),
        leaked.len()
    );
    assert!(leaked.is_empty(), "{leaked:?}");
    assert!(is_raced(told));
}
