//! One run from plan to report: for each attack a fresh tree, a fresh server, and a race.
//!
//! Invariants:
//! - no state is carried from one attack to the next, so a server broken by one is judged anew;
//! - the server is gone before its tree is removed.

use std::time::{Duration, Instant};

use crate::attacker::{Attacker, NotRun};
use crate::calibrate::{Binding, bind};
use crate::dice::Dice;
use crate::marks::{Eye, Marks};
use crate::race::{Limits, Outcome, race};
use crate::report::{AttackOutcome, AttackState, Escape, Report, Trouble};
use crate::scratch::Scratch;
use crate::session::Session;
use crate::{Attack, Error, Plan, Verb};

/// How much of the server's standard error a report quotes.
const STDERR_QUOTED: usize = 2_000;

/// Somebody who wants to hear how a run goes.
pub trait Progress {
    /// An attack begins.
    fn began(&mut self, attack: Attack);
    /// So many of the attack's requests are answered, with so many escapes.
    fn raced(&mut self, attack: Attack, answered: u64, budget: u64, escapes: u64);
}

/// Hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl Progress for Quiet {
    fn began(&mut self, _attack: Attack) {}
    fn raced(&mut self, _attack: Attack, _answered: u64, _budget: u64, _escapes: u64) {}
}

/// Carries out a plan. An error means that the race never began.
pub fn run(plan: &Plan, progress: &mut dyn Progress) -> Result<Report, Error> {
    let started = Instant::now();
    let marks = Marks::fresh().map_err(Error::NoRandomness)?;
    let attacks: Vec<Attack> = Attack::ALL
        .into_iter()
        .filter(|attack| plan.attacks.contains(attack))
        .collect();
    let mut report = Report {
        target: plan.target.clone(),
        seed: plan.seed,
        budget: plan.ops,
        seconds: 0.0,
        out_of_time: false,
        expectation: plan.expectation,
        cells: Vec::new(),
        attacks: Vec::new(),
        not_offered: Vec::new(),
        evidence: Vec::new(),
        troubles: Vec::new(),
    };
    for (index, attack) in attacks.iter().copied().enumerate() {
        let shares = u32::try_from(attacks.len() - index).unwrap_or(u32::MAX);
        let left = plan.time_limit.saturating_sub(started.elapsed());
        let ops_left = plan.ops.saturating_sub(report.attempts());
        progress.began(attack);
        let share = Share {
            ops: ops_left.div_ceil(u64::from(shares)),
            time: left / shares,
        };
        match one_attack(plan, attack, &marks, share, &mut report, progress) {
            Ok(()) => {}
            // The first calibration decides whether there is a race at all; a later one that
            // fails is a finding about this attack.
            Err(error) if report.attacks.is_empty() => return Err(error),
            Err(error) => report.attacks.push(AttackOutcome {
                attack,
                state: AttackState::Failed {
                    why: error.to_string(),
                },
            }),
        }
    }
    report.evidence.truncate(Escape::KEPT);
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// What one attack may use up.
#[derive(Debug, Clone, Copy)]
struct Share {
    ops: u64,
    time: Duration,
}

fn one_attack(
    plan: &Plan,
    attack: Attack,
    marks: &Marks,
    share: Share,
    report: &mut Report,
    progress: &mut dyn Progress,
) -> Result<(), Error> {
    let deadline = Instant::now() + share.time;
    let scratch = Scratch::build(&plan.scratch, marks).map_err(Error::Scratch)?;
    let eye = Eye::new(marks, scratch.outside_inodes().map_err(Error::Scratch)?);
    let mut session = Session::open(plan, &argv_for(plan, &scratch))?;
    let bindings = bind(&mut session, &eye, &scratch.root())?;
    if report.attacks.is_empty() {
        report.not_offered = verbs_without(&bindings);
    }
    // The attackers of different runs and attacks must not dwell in step.
    let seed = plan
        .seed
        .wrapping_add(Dice::new(attack as u64).below(u64::MAX));
    let attacker = match Attacker::start(attack, &scratch, seed) {
        Ok(attacker) => attacker,
        Err(NotRun(why)) => {
            report.attacks.push(AttackOutcome {
                attack,
                state: AttackState::NotRun { why },
            });
            return Ok(());
        }
    };
    let limits = Limits {
        ops: share.ops,
        deadline,
        depth: plan.depth,
        reply_timeout: plan.reply_timeout,
    };
    let outcome = race(&mut session, &eye, &bindings, attack, limits, progress);
    let state = match attacker.finish() {
        Ok(0) => AttackState::Failed {
            why: "no swap was made in the time given".into(),
        },
        Ok(swaps) => AttackState::Ran { swaps },
        Err(why) => AttackState::Failed { why },
    };
    report.attacks.push(AttackOutcome { attack, state });
    let Outcome {
        cells,
        escapes,
        trouble,
    } = outcome;
    let made: u64 = cells.iter().map(|cell| cell.attempts).sum();
    report.out_of_time |= trouble.is_none() && made < share.ops;
    report.cells.extend(cells);
    report.evidence.extend(escapes);
    report.troubles.extend(trouble.map(|kind| Trouble {
        attack,
        kind,
        stderr: last_part(&session.stderr_text()),
    }));
    drop(session);
    drop(scratch);
    Ok(())
}

fn argv_for(plan: &Plan, scratch: &Scratch) -> Vec<String> {
    let root = scratch.root().to_string_lossy().into_owned();
    plan.target
        .iter()
        .map(|word| word.replace("{root}", &root))
        .collect()
}

fn verbs_without(bindings: &[Binding]) -> Vec<Verb> {
    let bound = |verb: &Verb| bindings.iter().any(|binding| binding.verb == *verb);
    Verb::ALL.into_iter().filter(|verb| !bound(verb)).collect()
}

fn last_part(text: &str) -> String {
    let skipped = text.chars().count().saturating_sub(STDERR_QUOTED);
    text.chars().skip(skipped).collect()
}
