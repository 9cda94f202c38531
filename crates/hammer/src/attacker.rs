//! The thread that swaps inside for outside and back, as fast and as unevenly as it can.
//!
//! Invariants:
//! - it starts and ends with the inside in place;
//! - both states are dwelt in for equally long on average, so an honest server can succeed;
//! - an attack is begun only after one full swap worked in calm; else the reason is reported.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Gid, RenameFlags, Uid, chownat, linkat, renameat_with, unlinkat};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use rustix::process::geteuid;

use crate::Attack;
use crate::dice::Dice;
use crate::scratch::Scratch;
use crate::verb::{LEAF, PACKED, SIZED, SUB};

/// Whom the outside file belongs to in the hard-link attack: nobody in particular.
const SOMEBODY_ELSE: u32 = 65_534;

/// How long one tempo is kept before the next is drawn.
const TEMPO_LASTS: Duration = Duration::from_millis(4);

/// An attack under way.
#[derive(Debug)]
pub(crate) struct Attacker {
    stop: Arc<AtomicBool>,
    swaps: Arc<AtomicU64>,
    thread: Option<JoinHandle<Result<(), Errno>>>,
}

/// Why an attack was not run, in words for the report.
#[derive(Debug)]
pub(crate) struct NotRun(pub(crate) String);

impl Attacker {
    /// Whether this attack can run here: one full swap of a tree nobody serves.
    pub(crate) fn rehearse(attack: Attack, scratch: &Scratch) -> Result<(), NotRun> {
        let lever = Lever::new(attack, scratch)?;
        lever
            .probe()
            .map_err(|errno| NotRun(why_not(attack, errno)))
    }

    /// Tries one swap in calm, then keeps swapping until stopped.
    pub(crate) fn start(attack: Attack, scratch: &Scratch, seed: u64) -> Result<Self, NotRun> {
        let lever = Lever::new(attack, scratch)?;
        lever
            .probe()
            .map_err(|errno| NotRun(why_not(attack, errno)))?;
        let stop = Arc::new(AtomicBool::new(false));
        let swaps = Arc::new(AtomicU64::new(0));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&swaps));
        let thread = std::thread::spawn(move || {
            let mut dice = Dice::new(seed);
            let fate = swing(&lever, &mut dice, &stopped, &counted);
            lever.settle();
            fate
        });
        Ok(Self {
            stop,
            swaps,
            thread: Some(thread),
        })
    }

    /// Puts the inside back for good, and says how many swaps were made.
    pub(crate) fn finish(mut self) -> Result<u64, String> {
        let fate = self.halt();
        let swaps = self.swaps.load(Ordering::Relaxed);
        match fate {
            Some(Ok(Ok(()))) | None => Ok(swaps),
            Some(Ok(Err(errno))) => Err(format!("stopped after {swaps} swaps: {errno}")),
            Some(Err(_panic)) => Err(format!("panicked after {swaps} swaps")),
        }
    }

    fn halt(&mut self) -> Option<std::thread::Result<Result<(), Errno>>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join)
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let _already_told = self.halt();
    }
}

fn swing(
    lever: &Lever,
    dice: &mut Dice,
    stop: &AtomicBool,
    swaps: &AtomicU64,
) -> Result<(), Errno> {
    while !stop.load(Ordering::Relaxed) {
        let tempo = Tempo::draw(dice);
        let until = Instant::now() + TEMPO_LASTS;
        while Instant::now() < until && !stop.load(Ordering::Relaxed) {
            lever.show_outside()?;
            tempo.dwell(dice);
            lever.show_inside()?;
            tempo.dwell(dice);
            swaps.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// How long a state is held. No single tempo suits every victim: a check and a use may be two
/// system calls apart, or two turns of an event loop.
#[derive(Debug, Clone, Copy)]
enum Tempo {
    Storm,
    Brisk,
    Slow,
}

impl Tempo {
    const fn draw(dice: &mut Dice) -> Self {
        match dice.below(4) {
            0 | 1 => Self::Storm,
            2 => Self::Brisk,
            _ => Self::Slow,
        }
    }

    fn dwell(self, dice: &mut Dice) {
        match self {
            Self::Storm => spin(dice.below(64)),
            Self::Brisk => {
                let reach = 64 << dice.below(8);
                spin(dice.below(reach));
            }
            // Asleep, so that on a small machine the victim gets the core as well.
            Self::Slow => std::thread::sleep(Duration::from_micros(dice.below(1_500))),
        }
    }
}

fn spin(turns: u64) {
    for _ in 0..turns {
        std::hint::spin_loop();
    }
}

/// The system calls of one attack. All names are relative to the base, which is held open.
#[derive(Debug)]
struct Lever {
    attack: Attack,
    base: File,
    mount_source: PathBuf,
    mount_target: PathBuf,
}

impl Lever {
    fn new(attack: Attack, scratch: &Scratch) -> Result<Self, NotRun> {
        let cannot = |error: std::io::Error| NotRun(format!("cannot prepare: {error}"));
        if attack == Attack::Hardlink && !geteuid().is_root() {
            let why = "needs root: the outside file must belong to another user than the server";
            return Err(NotRun(why.to_owned()));
        }
        Ok(Self {
            attack,
            base: File::open(scratch.base()).map_err(cannot)?,
            mount_source: scratch.base().join("out").join(SUB),
            mount_target: scratch.root().join(SUB),
        })
    }

    fn probe(&self) -> Result<(), Errno> {
        if self.attack == Attack::Hardlink {
            let (owner, group) = (Uid::from_raw(SOMEBODY_ELSE), Gid::from_raw(SOMEBODY_ELSE));
            for (path, _) in HARD_LINKED {
                let outside = format!("out/{path}");
                chownat(
                    &self.base,
                    outside,
                    Some(owner),
                    Some(group),
                    AtFlags::SYMLINK_NOFOLLOW,
                )?;
            }
        }
        let shown = self.show_outside();
        let hidden = if shown.is_ok() {
            self.show_inside()
        } else {
            Ok(())
        };
        if shown.is_err() || hidden.is_err() {
            self.settle();
        }
        shown.and(hidden)
    }

    fn show_outside(&self) -> Result<(), Errno> {
        match self.attack {
            Attack::Parent | Attack::Grandparent | Attack::Leaf | Attack::RootRenamed => {
                self.exchange_all()
            }
            Attack::BindMount => mount_bind(&self.mount_source, &self.mount_target),
            Attack::Hardlink => {
                for (path, staged) in HARD_LINKED {
                    let outside = format!("out/{path}");
                    linkat(&self.base, outside, &self.base, staged, AtFlags::empty())?;
                }
                self.exchange_all()
            }
        }
    }

    fn show_inside(&self) -> Result<(), Errno> {
        match self.attack {
            Attack::Parent | Attack::Grandparent | Attack::Leaf | Attack::RootRenamed => {
                self.exchange_all()
            }
            Attack::BindMount => unmount(
                &self.mount_target,
                UnmountFlags::DETACH | UnmountFlags::NOFOLLOW,
            ),
            Attack::Hardlink => {
                self.exchange_all()?;
                // Gone at once: a server that opened the link and only then counts links must
                // find a single one, which is the harder case for it.
                HARD_LINKED
                    .iter()
                    .try_for_each(|(_, staged)| unlinkat(&self.base, *staged, AtFlags::empty()))
            }
        }
    }

    fn exchange_all(&self) -> Result<(), Errno> {
        pairs(self.attack).iter().try_for_each(|(inside, staged)| {
            renameat_with(
                &self.base,
                *inside,
                &self.base,
                *staged,
                RenameFlags::EXCHANGE,
            )
        })
    }

    /// Nothing to do after a clean swing; after a failed one, the next attack finds out by itself.
    fn settle(&self) {
        if self.attack == Attack::BindMount {
            let _unmounted = unmount(
                &self.mount_target,
                UnmountFlags::DETACH | UnmountFlags::NOFOLLOW,
            );
        }
    }
}

const HARD_LINKED: [(&str, &str); 3] = [
    (LEAF, "stage/linked.txt"),
    (SIZED, "stage/linked.bin"),
    (PACKED, "stage/linked.tar"),
];

/// What is exchanged with what.
const fn pairs(attack: Attack) -> &'static [(&'static str, &'static str)] {
    match attack {
        Attack::Parent => &[("root/grand/sub", "stage/sub")],
        Attack::Grandparent => &[("root/grand", "stage/grand")],
        Attack::Leaf => &[
            ("root/grand/sub/leaf.txt", "stage/leaf.txt"),
            ("root/grand/sub/sized.bin", "stage/sized.bin"),
            ("root/grand/sub/packed.tar", "stage/packed.tar"),
        ],
        Attack::RootRenamed => &[("root", "stage/root")],
        Attack::BindMount => &[],
        Attack::Hardlink => &[
            ("root/grand/sub/leaf.txt", "stage/linked.txt"),
            ("root/grand/sub/sized.bin", "stage/linked.bin"),
            ("root/grand/sub/packed.tar", "stage/linked.tar"),
        ],
    }
}

fn why_not(attack: Attack, errno: Errno) -> String {
    if attack == Attack::BindMount && matches!(errno, Errno::PERM | Errno::ACCESS) {
        "needs CAP_SYS_ADMIN".to_owned()
    } else {
        format!("the swap itself fails here: {errno}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScratchPlace;
    use crate::marks::Marks;

    #[test]
    fn every_attack_swaps_and_leaves_the_inside_in_place() {
        let marks = Marks::fresh().unwrap();
        for attack in Attack::ALL {
            let place = ScratchPlace::SharedMemoryElse(std::env::temp_dir());
            let scratch = Scratch::build(&place, &marks).unwrap();
            let leaf = scratch.root().join(LEAF);
            let attacker = match Attacker::start(attack, &scratch, 7) {
                Ok(attacker) => attacker,
                Err(NotRun(why)) => {
                    assert!(why.starts_with("needs "), "{attack}: {why}");
                    continue;
                }
            };
            let patience = Instant::now() + Duration::from_secs(20);
            let mut outside_was_seen = false;
            while !outside_was_seen && Instant::now() < patience {
                let text = std::fs::read_to_string(&leaf).unwrap_or_default();
                outside_was_seen = text.contains(&marks.outside);
            }
            assert!(outside_was_seen, "{attack}: the outside never showed");
            assert!(attacker.finish().unwrap() > 0, "{attack}");
            let text = std::fs::read_to_string(&leaf).unwrap();
            assert!(
                text.contains(&marks.inside),
                "{attack}: the inside is not back"
            );
        }
    }
}
