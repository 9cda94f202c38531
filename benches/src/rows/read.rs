//! Reading 4 KiB through the gate, with permit and audit, against `std::fs`.

use portcullis_files::ByteWindow;

use crate::Outcome;
use crate::cpu;
use crate::rounds::{micros, timed};
use crate::scratch::{SMALL, Scratch};
use crate::setup::Setup;
use crate::table::{Row, Unit};
use crate::world::{Audit, World};

pub(crate) fn run(setup: &Setup) -> Outcome<Vec<Row>> {
    let scratch = Scratch::new()?.with_small_file()?;
    let world = World::new(&scratch, Audit::Real, Vec::new())?;
    let file = scratch.root().join(SMALL);
    let times = setup.effort.operations(10_000);
    let costs = setup.effort.duel(
        || read(&world, times),
        || {
            timed(cpu::thread, times, || {
                check(std::hint::black_box(std::fs::read(&file)?).len())
            })
        },
    )?;
    Ok(vec![Row::at_most_times(
        "read-4k",
        Unit::Micros,
        costs,
        2.0,
        "ScopedFs::read_bytes five components down, with verdict, permit and a line in the audit \
         on the same disk, against std::fs::read",
    )])
}

/// Microseconds per read through the gate, over `times` of them in one task.
pub(super) fn read(world: &World, times: u32) -> Outcome<f64> {
    let began = cpu::own()?;
    world.runtime.block_on(async {
        for _ in 0..times {
            let page = world.scope.read_bytes(SMALL, ByteWindow::Whole).await?;
            check(page.bytes.len())?;
        }
        Ok::<(), Box<dyn std::error::Error>>(())
    })?;
    Ok(micros(cpu::own()?.saturating_sub(began) / times))
}

fn check(length: usize) -> Outcome<()> {
    if length == 4096 {
        Ok(())
    } else {
        Err(format!("{length} bytes were read, not 4096").into())
    }
}
