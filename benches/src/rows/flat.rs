//! What one entry costs in small trees and in large ones.

use std::time::SystemTime;

use portcullis_files::{GlobRequest, ListRequest, Order, Want};

use crate::Outcome;
use crate::cpu;
use crate::rounds::timed;
use crate::scratch::{Scratch, fill};
use crate::setup::Setup;
use crate::table::{Figure, Limit, Row, Unit};
use crate::world::{Audit, World};

/// Files of one directory in a tree.
const FANOUT: u32 = 1000;
/// Entries of one page, and results of one search.
const PAGE: usize = 200;

/// A page of one directory, whatever it holds.
pub(crate) fn list(setup: &Setup) -> Outcome<Vec<Row>> {
    curve(
        setup,
        "flat-list",
        "CPU per name of ScopedFs::list, a page of 200, in one directory of",
        |scratch, size| fill(&scratch.root(), size, b""),
        |world, scratch, _| {
            // Names that are read again, not names that are kept (decision 018).
            std::fs::File::open(scratch.root())?.set_modified(SystemTime::now())?;
            let request = ListRequest {
                want: Want::All,
                order: Order::Name,
                max: PAGE,
                after: None,
                metadata: false,
                include_ignored: false,
                mark_ignored: false,
            };
            let listed = world.runtime.block_on(world.scope.list("", request))?;
            if listed.entries.len() == PAGE {
                Ok(())
            } else {
                Err("not a full page".into())
            }
        },
    )
}

/// A walk over everything.
pub(crate) fn glob(setup: &Setup) -> Outcome<Vec<Row>> {
    curve(
        setup,
        "flat-glob",
        "CPU per file of ScopedFs::glob over all of a tree, 1,000 files a directory, of",
        |scratch, size| {
            (0..size / FANOUT)
                .try_for_each(|n| fill(&scratch.root().join(format!("part-{n:04}")), FANOUT, b""))
        },
        |world, _, size| {
            let request = GlobRequest {
                pattern: Some("**/*7.ts".to_owned()),
                want: Want::Files,
                max: usize::try_from(size)?,
                include_ignored: false,
                patience_us: u64::MAX / 2,
            };
            let found = world.runtime.block_on(world.scope.glob("", request))?;
            if found.complete && found.entries.len() == usize::try_from(size / 10)? {
                Ok(())
            } else {
                Err("not all of it was found".into())
            }
        },
    )
}

fn curve(
    setup: &Setup,
    what: &'static str,
    note: &str,
    make: impl Fn(&Scratch, u32) -> Outcome<()>,
    act: impl Fn(&World, &Scratch, u32) -> Outcome<()>,
) -> Outcome<Vec<Row>> {
    let all = [1_000, 10_000, 100_000, 1_000_000];
    let sizes = if setup.smoke { &all[..3] } else { &all[..] };
    let mut worlds = Vec::new();
    for &size in sizes {
        let scratch = Scratch::new()?;
        make(&scratch, size)?;
        let world = World::new(&scratch, Audit::Real, Vec::new())?;
        act(&world, &scratch, size)?;
        worlds.push((size, world, scratch, f64::INFINITY));
    }
    // All sizes in turn, so that whatever else runs here meets all of them.
    for _ in 0..setup.effort.rounds {
        for (size, world, scratch, best) in &mut worlds {
            let times = (100_000 / *size).clamp(1, 20);
            let cost = timed(cpu::own, times, || act(world, scratch, *size))?;
            *best = best.min(cost * 1e3 / f64::from(*size));
        }
    }
    let costs: Vec<f64> = worlds.iter().map(|(_, _, _, best)| *best).collect();
    let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let most = costs.iter().copied().fold(0.0, f64::max);
    let curve: Vec<String> = worlds
        .iter()
        .map(|(size, _, _, best)| format!("{size}: {best:.0} ns"))
        .collect();
    Ok(vec![Row {
        what,
        ours: Some(Figure(most, Unit::Nanos)),
        peer: Some(Figure(least, Unit::Nanos)),
        ratio: Some(Figure(most / least, Unit::Times)),
        limit: Limit::AtMost(1.5),
        note: format!(
            "{note} {} (dearest size against cheapest)",
            curve.join(", ")
        ),
    }])
}
