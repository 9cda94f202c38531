//! What the gate itself adds to a read, and what hooks add to the gate.
//!
//! The deed here is this bench's own: one strict `openat2`, `fstat`, one read.
//! Raw, it is done as it stands; gated, the same calls run inside attempt,
//! enter and spend, with a ledger that keeps nothing. The difference is the
//! gate. Its hook machinery cannot be taken out to be measured alone, so the
//! promise about absent hooks is held against the whole difference.

use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;

use portcullis_gate::{Deed, Hook, HookCall, HookSay, RootEntry, Settled};
use portcullis_proto::{Entity, Facts, Failure, Identity, Reason, RelPath, Resource, Verb};
use rustix::fs::{Mode, OFlags, ResolveFlags, Stat, fstat, openat2};

use crate::Outcome;
use crate::cpu;
use crate::rounds::{micros, timed};
use crate::scratch::{SMALL, Scratch};
use crate::setup::Setup;
use crate::table::{Figure, Limit, Row, Unit};
use crate::world::{Audit, World};

pub(crate) fn run(setup: &Setup) -> Outcome<Vec<Row>> {
    let scratch = Scratch::new()?.with_small_file()?;
    let root = rustix::fs::open(
        scratch.root(),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let without = World::new(&scratch, Audit::Null, Vec::new())?;
    let with_one = World::new(&scratch, Audit::Null, vec![Arc::new(Passing)])?;
    let times = setup.effort.operations(20_000);
    let (none, raw) = setup.effort.duel(
        || many(&without, &root, times),
        || timed(cpu::thread, times, || raw(&root)),
    )?;
    let (one, none_again) = setup.effort.duel(
        || many(&with_one, &root, times),
        || many(&without, &root, times),
    )?;
    let added = Figure(none - raw, Unit::Micros);
    Ok(vec![
        Row {
            what: "gate-overhead",
            ours: Some(Figure(none, Unit::Micros)),
            peer: Some(Figure(raw, Unit::Micros)),
            ratio: Some(added),
            limit: Limit::None,
            note: "attempt, two judgements, permit and spend around openat2 + fstat + read, \
                   minus the same three calls raw; the ledger keeps nothing"
                .into(),
        },
        Row::at_most(
            "hooks-none",
            added,
            2.0,
            "with no hook installed, hooks cost one look at an empty list; it cannot be measured \
             apart, so the whole of gate-overhead stands for it",
        ),
        Row {
            what: "hooks-one",
            ours: Some(Figure(one, Unit::Micros)),
            peer: Some(Figure(none_again, Unit::Micros)),
            ratio: Some(Figure(one - none_again, Unit::Micros)),
            limit: Limit::None,
            note: "one hook in this process that passes everything, minus the same gate without"
                .into(),
        },
    ])
}

/// The key to this bench's own deeds.
struct Key;

struct Reading {
    entry: Arc<RootEntry>,
    path: RelPath,
    handle: OwnedFd,
    stat: Stat,
}

impl Deed for Reading {
    type Key = Key;

    fn facts(&self) -> Facts {
        Facts {
            verb: Verb::Read,
            resources: vec![Resource {
                root: self.entry.id().clone(),
                kind: self.entry.kind(),
                path: self.path.clone(),
                access: Verb::Read.access(),
                identity: Some(Identity {
                    dev: self.stat.st_dev,
                    ino: self.stat.st_ino,
                    entity: Entity::File,
                    owner: self.stat.st_uid,
                    links: 1,
                }),
                above: None,
            }],
            shown: None,
            shrinks: false,
            below: Vec::new(),
            more_below: 0,
            unkept: false,
        }
    }
}

/// Microseconds per gated read, over `times` of them in one task.
fn many(world: &World, root: &OwnedFd, times: u32) -> Outcome<f64> {
    let began = cpu::thread()?;
    world.runtime.block_on(async {
        for _ in 0..times {
            gated(world, root).await?;
        }
        Ok::<(), Box<dyn std::error::Error>>(())
    })?;
    Ok(micros(cpu::thread()?.saturating_sub(began) / times))
}

async fn gated(world: &World, root: &OwnedFd) -> Outcome<()> {
    let entry = world.scope.declared().entry();
    let attempt = world
        .gate
        .attempt(&world.caller, Verb::Read, entry, SMALL)?;
    let path = attempt.path();
    let entering = attempt.enter(|_| {
        let (handle, stat) = open(root, path.as_str()).map_err(failed)?;
        Ok(Reading {
            entry: Arc::clone(entry),
            path: path.clone(),
            handle,
            stat,
        })
    });
    let permit = entering.await?;
    let bytes = permit.spend(Key, |reading, _, _| {
        let bytes = read(&reading.handle, &reading.stat).map_err(failed)?;
        let settled = Settled::bytes(bytes.len() as u64);
        Ok((bytes, settled))
    })?;
    check(&bytes)
}

fn raw(root: &OwnedFd) -> Outcome<()> {
    let (handle, stat) = open(root, SMALL)?;
    check(&read(&handle, &stat)?)
}

fn open(root: &OwnedFd, path: &str) -> rustix::io::Result<(OwnedFd, Stat)> {
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    let flags =
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let handle = openat2(root, path, flags, Mode::empty(), resolve)?;
    let stat = fstat(&handle)?;
    Ok((handle, stat))
}

fn read(handle: &OwnedFd, stat: &Stat) -> rustix::io::Result<Vec<u8>> {
    let size = usize::try_from(stat.st_size).unwrap_or(0);
    let mut bytes = Vec::with_capacity(size + 1);
    rustix::io::pread(handle, rustix::buffer::spare_capacity(&mut bytes), 0)?;
    Ok(bytes)
}

fn failed(errno: rustix::io::Errno) -> Failure {
    Failure::from(Reason::Io).detail(errno)
}

fn check(bytes: &[u8]) -> Outcome<()> {
    if std::hint::black_box(bytes).len() == 4096 {
        Ok(())
    } else {
        Err("the file was not read whole".into())
    }
}

/// A hook with nothing against anything.
struct Passing;

impl Hook for Passing {
    fn id(&self) -> &'static str {
        "passing"
    }

    fn before<'a>(
        &'a self,
        _call: &'a HookCall,
    ) -> Pin<Box<dyn Future<Output = HookSay> + Send + 'a>> {
        Box::pin(std::future::ready(HookSay::Pass))
    }
}
