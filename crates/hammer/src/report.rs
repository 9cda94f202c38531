//! What a run found, and what that amounts to.
//!
//! Invariants:
//! - the verdict is computed from the counts, never stored beside them;
//! - held means: no escape, no trouble, every attack that could run did run, and every verb still
//!   answered from the inside often enough that refusing everything is no way to pass.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

use crate::{Attack, Expectation, Verb};

/// A verb must succeed inside in at least one of this many attempts.
const INSIDE_ONE_IN: u64 = 100;

/// One verb, through one tool, under one attack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// What was asked.
    pub verb: Verb,
    /// The tool it was asked through.
    pub tool: String,
    /// What was done to the tree meanwhile.
    pub attack: Attack,
    /// How many requests were sent.
    pub attempts: u64,
    /// How many replies showed the inside and nothing of the outside.
    pub inside: u64,
    /// How many replies were errors that showed nothing of the outside.
    pub refused: u64,
    /// How many replies were successes that showed neither side, such as an empty listing.
    pub neither: u64,
    /// How many replies showed something of the outside.
    pub escapes: u64,
}

impl Cell {
    pub(crate) const fn new(verb: Verb, tool: String, attack: Attack) -> Self {
        Self {
            verb,
            tool,
            attack,
            attempts: 0,
            inside: 0,
            refused: 0,
            neither: 0,
            escapes: 0,
        }
    }
}

/// One leak, kept as evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Escape {
    /// What was asked.
    pub verb: Verb,
    /// The tool it was asked through.
    pub tool: String,
    /// What was done to the tree meanwhile.
    pub attack: Attack,
    /// The reply around what it should not have shown.
    pub excerpt: String,
}

impl Escape {
    /// How many escapes are kept as evidence; all are counted.
    pub(crate) const KEPT: usize = 5;
}

/// Whether an attack took place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum AttackState {
    /// It ran, with this many swaps there and back.
    Ran {
        /// How often the outside was shown and hidden again.
        swaps: u64,
    },
    /// It cannot run here, for a reason that is no fault of the server. Not counted as passed.
    NotRun {
        /// Why not.
        why: String,
    },
    /// It should have run to its end and did not. The server is not cleared.
    Failed {
        /// What went wrong.
        why: String,
    },
}

/// What became of one attack of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttackOutcome {
    /// Which attack.
    pub attack: Attack,
    /// What became of it.
    #[serde(flatten)]
    pub state: AttackState,
}

/// How a server failed to keep up the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TroubleKind {
    /// A reply did not come in time.
    Hung,
    /// The server closed its output or died.
    Exited,
    /// A reply went over the limit.
    ReplyTooLong,
    /// A line was not a JSON-RPC message.
    NotJson,
}

impl fmt::Display for TroubleKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Hung => "hung: no reply in time",
            Self::Exited => "exited: the server closed its output",
            Self::ReplyTooLong => "a reply went over the size limit",
            Self::NotJson => "a line was not a JSON-RPC message",
        })
    }
}

/// Trouble with the server during an attack; a finding of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trouble {
    /// The attack under which it happened.
    pub attack: Attack,
    /// What happened.
    pub kind: TroubleKind,
    /// The end of what the server wrote to standard error.
    pub stderr: String,
}

/// What the counts amount to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Verdict {
    /// Nothing leaked, and the server kept working.
    Held,
    /// Something leaked.
    Leaked {
        /// How many replies showed something of the outside.
        escapes: u64,
    },
    /// Nothing leaked, but these verbs refused nearly everything, which proves nothing.
    TooTimid {
        /// The verbs, with the tools they were asked through.
        verbs: Vec<(Verb, String)>,
    },
    /// Nothing leaked, but the server or an attack did not last to the end.
    Inconclusive,
}

/// Everything a run found. `Display` prints it as a table for people.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The server's command line, with `{root}` as it was typed.
    pub target: Vec<String>,
    /// The seed of the dwell times.
    pub seed: u64,
    /// How many requests the plan allowed.
    pub budget: u64,
    /// How long the run took.
    pub seconds: f64,
    /// Whether the run ended because its time was up.
    pub out_of_time: bool,
    /// What the caller wanted to be true.
    pub expectation: Expectation,
    /// The counts, in order of attack, then verb.
    pub cells: Vec<Cell>,
    /// What became of each attack.
    pub attacks: Vec<AttackOutcome>,
    /// The verbs no tool of the server answers in calm. Not counted as passed.
    pub not_offered: Vec<Verb>,
    /// The first few escapes.
    pub evidence: Vec<Escape>,
    /// Trouble with the server.
    pub troubles: Vec<Trouble>,
}

impl Report {
    /// What the counts amount to.
    pub fn verdict(&self) -> Verdict {
        let escapes = self.escapes();
        if escapes > 0 {
            return Verdict::Leaked { escapes };
        }
        let failed = |outcome: &AttackOutcome| matches!(outcome.state, AttackState::Failed { .. });
        if !self.troubles.is_empty() || self.attempts() == 0 || self.attacks.iter().any(failed) {
            return Verdict::Inconclusive;
        }
        let verbs = self.timid_verbs();
        if verbs.is_empty() {
            Verdict::Held
        } else {
            Verdict::TooTimid { verbs }
        }
    }

    /// Whether the run ended as the plan expected; the exit status of a command should say this.
    pub fn passed(&self) -> bool {
        match self.expectation {
            Expectation::NoEscapes => self.verdict() == Verdict::Held,
            Expectation::Escapes => self.escapes() > 0,
        }
    }

    /// All requests sent.
    pub fn attempts(&self) -> u64 {
        self.cells.iter().map(|cell| cell.attempts).sum()
    }

    /// All escapes found.
    pub fn escapes(&self) -> u64 {
        self.cells.iter().map(|cell| cell.escapes).sum()
    }

    /// Requests per second over the whole run.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a rate for people; 52 bits are plenty"
    )]
    pub fn ops_per_second(&self) -> f64 {
        if self.seconds > 0.0 {
            self.attempts() as f64 / self.seconds
        } else {
            0.0
        }
    }

    /// The report for programs: every field, the verdict, and whether it passed.
    pub fn to_json(&self) -> Value {
        let mut whole = serde_json::to_value(self).unwrap_or_default();
        if let Value::Object(fields) = &mut whole {
            fields.insert("attempts".into(), json!(self.attempts()));
            fields.insert("escapes".into(), json!(self.escapes()));
            fields.insert("opsPerSecond".into(), json!(self.ops_per_second()));
            fields.insert("verdict".into(), json!(self.verdict()));
            fields.insert("passed".into(), json!(self.passed()));
        }
        whole
    }

    /// Verbs that succeeded inside in less than one attempt of a hundred, over all attacks.
    fn timid_verbs(&self) -> Vec<(Verb, String)> {
        let mut sums: Vec<(Verb, &str, u64, u64)> = Vec::new();
        for cell in &self.cells {
            let known = sums
                .iter_mut()
                .find(|sum| (sum.0, sum.1) == (cell.verb, &cell.tool));
            if let Some((_, _, attempts, inside)) = known {
                *attempts += cell.attempts;
                *inside += cell.inside;
            } else {
                sums.push((cell.verb, &cell.tool, cell.attempts, cell.inside));
            }
        }
        sums.into_iter()
            .filter(|(_, _, attempts, inside)| inside.saturating_mul(INSIDE_ONE_IN) < *attempts)
            .map(|(verb, tool, _, _)| (verb, tool.to_owned()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(inside: u64, escapes: u64) -> Report {
        let mut cell = Cell::new(Verb::Read, "read_file".into(), Attack::Parent);
        cell.attempts = 1000;
        cell.inside = inside;
        cell.escapes = escapes;
        cell.refused = 1000 - inside - escapes;
        Report {
            target: vec!["server".into()],
            seed: 1,
            budget: 1000,
            seconds: 2.0,
            out_of_time: false,
            expectation: Expectation::NoEscapes,
            cells: vec![cell],
            attacks: vec![AttackOutcome {
                attack: Attack::Parent,
                state: AttackState::Ran { swaps: 9 },
            }],
            not_offered: vec![],
            evidence: vec![],
            troubles: vec![],
        }
    }

    #[test]
    fn one_percent_inside_is_enough_and_less_is_timid() {
        assert_eq!(report(10, 0).verdict(), Verdict::Held);
        assert!(report(10, 0).passed());
        assert!(matches!(report(9, 0).verdict(), Verdict::TooTimid { .. }));
        assert!(!report(9, 0).passed());
    }

    #[test]
    fn one_escape_is_a_leak_and_the_expectation_turns_it_round() {
        let mut leaky = report(500, 1);
        assert_eq!(leaky.verdict(), Verdict::Leaked { escapes: 1 });
        assert!(!leaky.passed());
        leaky.expectation = Expectation::Escapes;
        assert!(leaky.passed());
        let mut tight = report(500, 0);
        tight.expectation = Expectation::Escapes;
        assert!(!tight.passed());
    }

    #[test]
    fn trouble_or_a_failed_attack_is_never_held() {
        let mut hung = report(500, 0);
        hung.troubles.push(Trouble {
            attack: Attack::Parent,
            kind: TroubleKind::Hung,
            stderr: String::new(),
        });
        assert_eq!(hung.verdict(), Verdict::Inconclusive);
        let mut failed = report(500, 0);
        failed.attacks.push(AttackOutcome {
            attack: Attack::Leaf,
            state: AttackState::Failed { why: "x".into() },
        });
        assert_eq!(failed.verdict(), Verdict::Inconclusive);
        let mut empty = report(500, 0);
        empty.cells.clear();
        assert_eq!(empty.verdict(), Verdict::Inconclusive);
    }

    #[test]
    fn json_says_what_the_table_says() {
        let value = report(500, 0).to_json();
        assert_eq!(value["verdict"]["verdict"], "held");
        assert_eq!(value["passed"], true);
        assert_eq!(value["attempts"], 1000);
        assert_eq!(value["cells"][0]["verb"], "read");
        assert_eq!(value["attacks"][0]["state"], "ran");
    }
}
