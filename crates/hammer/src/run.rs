//! One run from plan to report: for each attack a fresh tree, a fresh server, and a race.
//!
//! Invariants:
//! - no state is carried from one attack to the next, so a server broken by one is judged anew;
//! - the server is gone before its tree is removed.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::attacker::{Attacker, NotRun};
use crate::calibrate::{Binding, bind};
use crate::dice::Dice;
use crate::marks::{Eye, Marks};
use crate::race::{Ending, Limits, race};
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
    /// So many of the attack's requests are answered, with so many escapes. Called a few times a
    /// second; `Break` ends the run in good order, with everything cleaned up.
    fn raced(
        &mut self,
        attack: Attack,
        answered: u64,
        budget: u64,
        escapes: u64,
    ) -> ControlFlow<()>;
}

/// Hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl Progress for Quiet {
    fn began(&mut self, _attack: Attack) {}
    fn raced(&mut self, _: Attack, _: u64, _: u64, _: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Carries out a plan. An error means that the race never began.
pub fn run(plan: &Plan, progress: &mut dyn Progress) -> Result<Report, Error> {
    let started = Instant::now();
    let mut run = Run {
        plan,
        marks: Marks::fresh().map_err(Error::NoRandomness)?,
        report: empty_report(plan),
        bound: None,
        stopped: false,
    };
    let attacks = run.rehearse()?;
    for (index, attack) in attacks.iter().copied().enumerate() {
        let shares = u32::try_from(attacks.len() - index).unwrap_or(u32::MAX);
        let ops_left = plan.ops.saturating_sub(run.report.attempts());
        let time_left = plan.time_limit.saturating_sub(started.elapsed());
        let share = Share {
            ops: ops_left.div_ceil(u64::from(shares)),
            time: time_left / shares,
        };
        progress.began(attack);
        let state = match run.one_attack(attack, share, progress) {
            Ok(state) => state,
            // The first calibration decides whether there is a race at all; a later one that
            // fails is a finding about its attack.
            Err(error) if run.bound.is_none() => return Err(error),
            Err(error) => AttackState::Failed {
                why: error.to_string(),
            },
        };
        run.report.attacks.push(AttackOutcome { attack, state });
    }
    let mut report = run.report;
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

/// A run under way.
struct Run<'a> {
    plan: &'a Plan,
    marks: Marks,
    report: Report,
    /// What the first calibration found; every later one must find the same.
    bound: Option<Vec<(Verb, String)>>,
    stopped: bool,
}

impl Run<'_> {
    /// Which attacks of the plan can run here. Those that cannot are reported at once, so that the
    /// others share the whole budget.
    fn rehearse(&mut self) -> Result<Vec<Attack>, Error> {
        let mut possible = Vec::new();
        for attack in Attack::ALL
            .into_iter()
            .filter(|one| self.plan.attacks.contains(one))
        {
            let scratch = self.scratch()?;
            match Attacker::rehearse(attack, &scratch) {
                Ok(()) => possible.push(attack),
                Err(NotRun(why)) => {
                    let state = AttackState::NotRun { why };
                    self.report.attacks.push(AttackOutcome { attack, state });
                }
            }
        }
        Ok(possible)
    }

    fn one_attack(
        &mut self,
        attack: Attack,
        share: Share,
        progress: &mut dyn Progress,
    ) -> Result<AttackState, Error> {
        if self.stopped {
            return Ok(failed("the run was stopped before it"));
        }
        let deadline = Instant::now() + share.time;
        let scratch = self.scratch()?;
        let eye = Eye::new(
            &self.marks,
            scratch.outside_inodes().map_err(Error::Scratch)?,
        );
        let mut session = Session::open(self.plan, &argv_for(self.plan, &scratch))?;
        let bindings = bind(&mut session, &eye, &scratch.root())?;
        if !self.binds_as_before(&bindings) {
            return Ok(failed(
                "in calm, other tools worked than before the first attack",
            ));
        }
        // The attackers of different attacks must not dwell in step.
        let seed = self
            .plan
            .seed
            .wrapping_add(Dice::new(attack as u64).below(u64::MAX));
        let attacker = match Attacker::start(attack, &scratch, seed) {
            Ok(attacker) => attacker,
            Err(NotRun(why)) => return Ok(AttackState::Failed { why }),
        };
        let limits = Limits {
            ops: share.ops,
            deadline,
            depth: self.plan.depth,
            reply_timeout: self.plan.reply_timeout,
        };
        let outcome = race(&mut session, &eye, &bindings, attack, limits, progress);
        let swung = attacker.finish();
        let made: u64 = outcome.cells.iter().map(|cell| cell.attempts).sum();
        self.report.cells.extend(outcome.cells);
        self.report.evidence.extend(outcome.escapes);
        match outcome.ending {
            Ending::Complete => self.report.out_of_time |= made < share.ops,
            Ending::Stopped => self.stopped = true,
            Ending::Trouble(kind) => {
                let stderr = last_part(&session.stderr_text());
                self.report.troubles.push(Trouble {
                    attack,
                    kind,
                    stderr,
                });
            }
        }
        // In this order: the server must be gone before its tree is.
        drop(session);
        drop(scratch);
        Ok(match swung {
            _ if self.stopped => failed("the run was stopped during it"),
            Ok(0) => failed("no swap was made in the time given"),
            Ok(swaps) => AttackState::Ran { swaps },
            Err(why) => AttackState::Failed { why },
        })
    }

    fn scratch(&self) -> Result<Scratch, Error> {
        Scratch::build(&self.plan.scratch, &self.marks).map_err(Error::Scratch)
    }

    fn binds_as_before(&mut self, bindings: &[Binding]) -> bool {
        let found: Vec<(Verb, String)> = bindings
            .iter()
            .map(|binding| (binding.verb, binding.tool.clone()))
            .collect();
        if let Some(before) = &self.bound {
            return *before == found;
        }
        let offered = |verb: &Verb| found.iter().any(|(one, _)| one == verb);
        self.report.not_offered = Verb::ALL
            .into_iter()
            .filter(|verb| !offered(verb))
            .collect();
        self.bound = Some(found);
        true
    }
}

fn failed(why: &str) -> AttackState {
    AttackState::Failed {
        why: why.to_owned(),
    }
}

fn empty_report(plan: &Plan) -> Report {
    Report {
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
    }
}

fn argv_for(plan: &Plan, scratch: &Scratch) -> Vec<String> {
    let root = scratch.root().to_string_lossy().into_owned();
    plan.target
        .iter()
        .map(|word| word.replace("{root}", &root))
        .collect()
}

fn last_part(text: &str) -> String {
    let skipped = text.chars().count().saturating_sub(STDERR_QUOTED);
    text.chars().skip(skipped).collect()
}
