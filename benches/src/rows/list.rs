//! Listing 1,000 entries with metadata through the gate, against `std::fs`.

use std::path::Path;

use portcullis_files::{ListRequest, Order, Want};

use crate::Outcome;
use crate::cpu;
use crate::rounds::timed;
use crate::scratch::Scratch;
use crate::setup::Setup;
use crate::table::{Row, Unit};
use crate::world::{Audit, World};

/// The directory listed, and how many files are in it.
pub(super) const DIR: &str = "src/components";
pub(super) const ENTRIES: u32 = 1000;

pub(crate) fn run(setup: &Setup) -> Outcome<Vec<Row>> {
    let scratch = Scratch::new()?.with_files(DIR, ENTRIES)?;
    let world = World::new(&scratch, Audit::Real, Vec::new())?;
    let dir = scratch.root().join(DIR);
    let times = setup.effort.operations(150);
    let costs = setup.effort.duel(
        || timed(cpu::own, times, || list(&world)),
        || timed(cpu::thread, times, || list_raw(&dir)),
    )?;
    Ok(vec![Row::at_most_times(
        "list-1000",
        Unit::Micros,
        costs,
        1.5,
        "ScopedFs::list with size, times and mode, ignore rules and the audit line, against \
         std::fs::read_dir and metadata into a sorted Vec",
    )])
}

/// One listing through the gate.
pub(super) fn list(world: &World) -> Outcome<()> {
    let request = ListRequest {
        want: Want::All,
        order: Order::DirectoriesFirst,
        max: ENTRIES as usize,
        after: None,
        metadata: true,
        include_ignored: false,
        mark_ignored: false,
    };
    let listed = world.runtime.block_on(world.scope.list(DIR, request))?;
    check(listed.entries.iter().filter(|e| e.meta.is_some()).count())
}

fn list_raw(dir: &Path) -> Outcome<()> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        entries.push((entry.file_name(), entry.metadata()?));
    }
    entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    check(std::hint::black_box(entries).len())
}

fn check(count: usize) -> Outcome<()> {
    if count == ENTRIES as usize {
        Ok(())
    } else {
        Err(format!("{count} entries were listed, not {ENTRIES}").into())
    }
}
