//! Asks the server, with many requests in flight, while somebody else swaps the tree under it.
//!
//! Invariants:
//! - every request that was sent is counted as an attempt, and every line is judged once;
//! - a line that answers nothing, such as a log notification, can leak as well as any reply can;
//! - the race ends by its budget, its deadline or the first trouble, whichever comes first.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::calibrate::Binding;
use crate::marks::{Eye, Sight};
use crate::report::{Cell, Escape, TroubleKind};
use crate::session::{Batch, Heard, Reply, Session};
use crate::{Attack, Progress};

/// How often the caller hears of progress, and may stop the run.
const TICK: Duration = Duration::from_millis(200);

/// The limits of one race.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) ops: u64,
    pub(crate) deadline: Instant,
    pub(crate) depth: usize,
    pub(crate) reply_timeout: Duration,
}

/// What one race found.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) cells: Vec<Cell>,
    pub(crate) escapes: Vec<Escape>,
    pub(crate) ending: Ending,
}

/// Why a race ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its budget or its time was used up.
    Complete,
    /// The caller wanted no more.
    Stopped,
    /// The server failed.
    Trouble(TroubleKind),
}

/// Runs one race to its end.
pub(crate) fn race(
    session: &mut Session,
    eye: &Eye,
    bindings: &[Binding],
    attack: Attack,
    limits: Limits,
    progress: &mut dyn Progress,
) -> Outcome {
    let cells = bindings
        .iter()
        .map(|binding| Cell::new(binding.verb, binding.tool.clone(), attack))
        .collect();
    let mut race = Race {
        eye,
        bindings,
        attack,
        limits,
        sent: 0,
        answered: 0,
        in_flight: BTreeMap::new(),
        outcome: Outcome {
            cells,
            escapes: Vec::new(),
            ending: Ending::Complete,
        },
    };
    let mut next_tick = Instant::now() + TICK;
    while race.goes_on() {
        race.refill(session);
        if let Err(trouble) = race.drain(session) {
            race.outcome.ending = Ending::Trouble(trouble);
            break;
        }
        if Instant::now() >= next_tick {
            next_tick = Instant::now() + TICK;
            if race.tell(progress).is_break() {
                race.outcome.ending = Ending::Stopped;
                break;
            }
        }
    }
    // The last word; the race is over whatever the listener wants.
    let _over_anyway = race.tell(progress);
    race.outcome
}

struct Race<'a> {
    eye: &'a Eye,
    bindings: &'a [Binding],
    attack: Attack,
    limits: Limits,
    sent: u64,
    answered: u64,
    /// By id, so the first entry is the one that has waited longest.
    in_flight: BTreeMap<u64, (usize, Instant)>,
    outcome: Outcome,
}

impl Race<'_> {
    /// Whether there is more to send, or something sent is still unanswered.
    fn goes_on(&self) -> bool {
        self.may_send() || !self.in_flight.is_empty()
    }

    fn may_send(&self) -> bool {
        self.sent < self.limits.ops && Instant::now() < self.limits.deadline
    }

    /// Fills the pipeline. Verbs take turns, so each gets its share of every tempo.
    fn refill(&mut self, session: &mut Session) {
        if !self.may_send() {
            return;
        }
        let now = Instant::now();
        let mut batch = Batch::default();
        let turns = self.bindings.iter().enumerate().cycle().skip(self.turn());
        for (index, binding) in turns {
            if self.in_flight.len() >= self.limits.depth.max(1) || self.sent >= self.limits.ops {
                break;
            }
            let id = session.add(&mut batch, &binding.tail);
            self.in_flight.insert(id, (index, now));
            self.sent += 1;
            if let Some(cell) = self.outcome.cells.get_mut(index) {
                cell.attempts += 1;
            }
        }
        session.send(batch);
    }

    fn turn(&self) -> usize {
        let verbs = u64::try_from(self.bindings.len()).unwrap_or(u64::MAX);
        usize::try_from(self.sent.checked_rem(verbs).unwrap_or(0)).unwrap_or(0)
    }

    /// Judges replies until about half of the pipeline is free again: fewer and larger writes.
    fn drain(&mut self, session: &Session) -> Result<(), TroubleKind> {
        let leave = if self.may_send() {
            self.in_flight.len() / 2
        } else {
            0
        };
        while self.in_flight.len() > leave {
            let Some((_, (_, oldest))) = self.in_flight.first_key_value() else {
                break;
            };
            let deadline = *oldest + self.limits.reply_timeout;
            match session.receive(deadline)? {
                Heard::Reply(reply) => self.judge(&reply),
                Heard::Aside(line) => {
                    self.overhear(&line);
                    // Notifications must not keep a hung server alive.
                    if Instant::now() > deadline {
                        return Err(TroubleKind::Hung);
                    }
                }
            }
        }
        Ok(())
    }

    fn judge(&mut self, reply: &Reply) {
        let Some((index, _)) = self.in_flight.remove(&reply.id) else {
            return self.overhear(&reply.line);
        };
        let (Some(binding), Some(cell)) =
            (self.bindings.get(index), self.outcome.cells.get_mut(index))
        else {
            return;
        };
        self.answered += 1;
        match self.eye.look(&reply.line, binding.verb, Some(self.attack)) {
            Sight::Outside(excerpt) => self.escaped(index, excerpt),
            Sight::Inside if !reply.refused => cell.inside += 1,
            Sight::Inside | Sight::Nothing if reply.refused => cell.refused += 1,
            Sight::Inside | Sight::Nothing => cell.neither += 1,
        }
    }

    /// Judges a line that answers nothing we asked. A leak in it is laid at the door of the request
    /// that has waited longest, the likeliest to have caused it.
    fn overhear(&mut self, line: &[u8]) {
        let Some((_, (index, _))) = self.in_flight.first_key_value() else {
            return;
        };
        let index = *index;
        let Some(binding) = self.bindings.get(index) else {
            return;
        };
        if let Sight::Outside(excerpt) = self.eye.look(line, binding.verb, Some(self.attack)) {
            self.escaped(index, excerpt);
        }
    }

    fn escaped(&mut self, index: usize, excerpt: String) {
        let Some(cell) = self.outcome.cells.get_mut(index) else {
            return;
        };
        cell.escapes += 1;
        if self.outcome.escapes.len() < Escape::KEPT {
            self.outcome.escapes.push(Escape {
                verb: cell.verb,
                tool: cell.tool.clone(),
                attack: self.attack,
                excerpt,
            });
        }
    }

    fn tell(&self, progress: &mut dyn Progress) -> ControlFlow<()> {
        progress.raced(self.attack, self.answered, self.limits.ops, self.escapes())
    }

    fn escapes(&self) -> u64 {
        self.outcome.cells.iter().map(|cell| cell.escapes).sum()
    }
}
