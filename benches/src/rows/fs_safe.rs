//! Reading, listing and replacing, against the safe file system Node programs use.

use crate::Outcome;
use crate::cpu;
use crate::node::Driven;
use crate::rounds::{Cost, timed};
use crate::rows::list::{DIR, ENTRIES};
use crate::rows::{list, read, replace};
use crate::scratch::{SMALL, Scratch};
use crate::setup::Setup;
use crate::table::{self, Row};
use crate::world::{Audit, World};

pub(crate) fn run(setup: &Setup) -> Outcome<Vec<Row>> {
    let scratch = Scratch::new()?
        .with_small_file()?
        .with_files(DIR, ENTRIES)?;
    let world = World::new(&scratch, Audit::Real, Vec::new())?;
    let mut peer = Driven::fs_safe(setup, &scratch)?;
    let (ours, theirs) = (
        setup.effort.operations(10_000),
        setup.effort.operations(2_000),
    );
    let reads = setup.effort.duel(
        || read::read(&world, ours),
        || Ok(peer.cost("read", theirs, SMALL)?.cpu),
    )?;
    let times = setup.effort.operations(150);
    let lists = setup.effort.duel(
        || timed(cpu::own, times, || list::list(&world)),
        || Ok(peer.cost("list", times, DIR)?.cpu),
    )?;
    Ok(vec![
        Row::times_cheaper(
            "fs-safe-read",
            reads,
            10.0,
            "ScopedFs::read_bytes of 4 KiB with the audit, against @openclaw/fs-safe readBytes in \
             native mode `require`",
        ),
        Row::times_cheaper(
            "fs-safe-list",
            lists,
            2.0,
            "ScopedFs::list of 1,000 with metadata, against its list with file types",
        ),
    ])
}

/// Replacing a file durably. Both sync the file and its directory, and on a
/// disk both mostly wait for that: what they cost themselves is seen in memory.
pub(crate) fn replace(setup: &Setup) -> Outcome<Vec<Row>> {
    let (ours, theirs) = replaced(setup, Scratch::in_memory()?)?;
    let (our_disk, their_disk) = replaced(setup, Scratch::new()?)?;
    Ok(vec![Row::times_cheaper(
        "fs-safe-replace",
        (ours.cpu, theirs.cpu),
        2.0,
        format!(
            "CPU of ScopedFs::write_bytes of 4 KiB, audited, locked, compared and kept for undo, \
             against its durable write, in memory; on the wall there {}, and on the disk, where \
             both wait for the same two syncs, {}",
            table::wall(ours, theirs),
            table::wall(our_disk, their_disk)
        ),
    )])
}

fn replaced(setup: &Setup, scratch: Scratch) -> Outcome<(Cost, Cost)> {
    let scratch = scratch.with_small_file()?;
    let world = World::writable(&scratch)?;
    let mut peer = Driven::fs_safe(setup, &scratch)?;
    let times = setup.effort.operations(100);
    setup.effort.duel(
        || replace::replace(&world, SMALL, times),
        || peer.cost("replace", times, "theirs.txt"),
    )
}
