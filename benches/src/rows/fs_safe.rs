//! Reading and listing, against the safe file system Node programs use.

use crate::Outcome;
use crate::cpu;
use crate::node::Driven;
use crate::rounds::timed;
use crate::rows::list::{DIR, ENTRIES};
use crate::rows::{list, read};
use crate::scratch::{SMALL, Scratch};
use crate::setup::Setup;
use crate::table::Row;
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
        || peer.cost("read", theirs, SMALL),
    )?;
    let times = setup.effort.operations(150);
    let lists = setup.effort.duel(
        || timed(cpu::own, times, || list::list(&world)),
        || peer.cost("list", times, DIR),
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
