//! Unpacking 2,000 files of 4 KiB, against unzip and against the safe file
//! system Node programs use.

use std::process::{Command, Stdio};

use portcullis_files::WriteOptions;
use portcullis_files::archive::PackAs;

use crate::Outcome;
use crate::cpu;
use crate::node::Driven;
use crate::rounds::timed;
use crate::scratch::{Scratch, fill};
use crate::setup::Setup;
use crate::table::{Row, Unit};
use crate::world::World;

const FILES: u32 = 2_000;
const ARCHIVE: &str = "packed.zip";

pub(crate) fn unzip(setup: &Setup) -> Outcome<Vec<Row>> {
    let (scratch, world) = packed()?;
    let archive = scratch.root().join(ARCHIVE);
    let into = scratch.state().join("unzipped");
    let costs = setup.effort.duel(
        || extract(&scratch, &world),
        || {
            let cost = timed(cpu::ended_children, 1, || {
                let mut unzip = Command::new("unzip");
                let unzip = unzip.arg("-q").arg(&archive).arg("-d").arg(&into);
                if !unzip.stdout(Stdio::null()).status()?.success() {
                    return Err("unzip failed".into());
                }
                Ok(())
            })?;
            std::fs::remove_dir_all(&into)?;
            Ok(cost)
        },
    )?;
    Ok(vec![Row::at_most_times(
        "extract-unzip",
        Unit::Micros,
        costs,
        1.0,
        "ScopedFs::extract_archive of a zip of 2,000 files of 4 KiB, audited, synced and kept for \
         undo, against `unzip -q`, which does none of that; both in memory",
    )])
}

pub(crate) fn fs_safe(setup: &Setup) -> Outcome<Vec<Row>> {
    let (scratch, world) = packed()?;
    let mut peer = Driven::fs_safe(setup, &scratch)?;
    let costs = setup.effort.duel(
        || extract(&scratch, &world),
        || {
            let cost = peer.cost("extract", 1, ARCHIVE)?.cpu;
            std::fs::remove_dir_all(scratch.root().join("theirs"))?;
            Ok(cost)
        },
    )?;
    Ok(vec![Row::times_cheaper(
        "extract-fs-safe",
        costs,
        20.0,
        "the same, against extractArchive of @openclaw/fs-safe in native mode `require`",
    )])
}

/// A directory with the archive in it, in memory: what making 2,000 files costs
/// on a disk depends on what was deleted there before.
fn packed() -> Outcome<(Scratch, World)> {
    let scratch = Scratch::in_memory()?;
    let mut content = Vec::new();
    let mut state = 1u64;
    while content.len() < 4096 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        // Half noise, half text: packed to about half.
        content.extend_from_slice(&state.to_le_bytes()[4..]);
        content.extend_from_slice(b"text");
    }
    fill(&scratch.root().join("files"), FILES, &content)?;
    let world = World::writable(&scratch)?;
    let (fs, options) = (&world.scope, WriteOptions::default());
    let packing = fs.create_archive("files", fs, ARCHIVE, PackAs::Zip, true, &options);
    let packed = world.runtime.block_on(packing)?;
    if packed.entries != u64::from(FILES) {
        return Err("not all was packed".into());
    }
    Ok((scratch, world))
}

fn extract(scratch: &Scratch, world: &World) -> Outcome<f64> {
    let fs = &world.scope;
    let cost = timed(cpu::own, 1, || {
        let extracting = fs.extract_archive(ARCHIVE, fs, "ours");
        world.runtime.block_on(extracting)?;
        Ok(())
    })?;
    std::fs::remove_dir_all(scratch.root().join("ours"))?;
    Ok(cost)
}
