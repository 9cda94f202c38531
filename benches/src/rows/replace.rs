//! Replacing a file durably, against the same calls by hand.
//!
//! Measured on the wall: most of it is waiting for the disk.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use portcullis_files::WriteOptions;

use crate::Outcome;
use crate::clock::wall;
use crate::cpu;
use crate::rounds::{Cost, timed};
use crate::scratch::{SMALL, Scratch};
use crate::setup::Setup;
use crate::table::{Row, Unit};
use crate::world::World;

pub(crate) fn run(setup: &Setup) -> Outcome<Vec<Row>> {
    let scratch = Scratch::new()?.with_small_file()?;
    let world = World::writable(&scratch)?;
    let by_hand = scratch.root().join("by-hand.txt");
    std::fs::write(&by_hand, content(0))?;
    let times = setup.effort.operations(100);
    let costs = setup.effort.duel(
        || Ok(replace(&world, SMALL, times)?.wall),
        || timed(wall, times, || replace_by_hand(&by_hand)),
    )?;
    Ok(vec![Row::at_most_times(
        "replace",
        Unit::Micros,
        costs,
        1.5,
        "ScopedFs::write_bytes of 4 KiB, audited, locked, compared and kept for undo, against \
         write, fdatasync, rename and a sync of the directory; wall time",
    )])
}

/// What a replacement costs in a directory of many files, against one of few.
pub(crate) fn flat(setup: &Setup) -> Outcome<Vec<Row>> {
    let few = Scratch::new()?.with_files("d", 10)?;
    let many = Scratch::new()?.with_files("d", 10_000)?;
    let (few, many) = (
        World::writable(&few).map(|w| (w, few))?,
        World::writable(&many).map(|w| (w, many))?,
    );
    let times = setup.effort.operations(100);
    let costs = setup.effort.duel(
        || Ok(replace(&many.0, "d/target", times)?.wall),
        || Ok(replace(&few.0, "d/target", times)?.wall),
    )?;
    Ok(vec![Row::at_most_times(
        "replace-flat",
        Unit::Micros,
        costs,
        1.5,
        "the same in a directory of 10,000 files, against one of 10; wall time",
    )])
}

/// What a replacement of `path` takes, over `times` of them.
pub(super) fn replace(world: &World, path: &str, times: u32) -> Outcome<Cost> {
    let options = WriteOptions::default();
    Cost::of(cpu::own, times, |n| {
        let write = world.scope.write_bytes(path, content(n), &options);
        world.runtime.block_on(write)?;
        Ok(())
    })
}

fn replace_by_hand(path: &Path) -> Outcome<()> {
    let temp = path.with_extension("new");
    let mut file = File::create(&temp)?;
    file.write_all(&content(1))?;
    file.sync_data()?;
    std::fs::rename(&temp, path)?;
    File::open(path.parent().unwrap_or(path))?.sync_all()?;
    Ok(())
}

fn content(n: u32) -> Vec<u8> {
    format!("{n:04095}\n").into_bytes()
}
