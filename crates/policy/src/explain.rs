//! The same judgement, told step by step for a person.

use portcullis_proto::Facts;

use crate::judge::{Ruling, Standing, judge, rule_on};
use crate::{Denial, Verdict};

/// Hears each step of a judgement. The silent one costs nothing.
pub(crate) trait Trace {
    fn step(&mut self, stage: &'static str, said: impl FnOnce() -> String);
}

/// Hears nothing: the hot path.
pub(crate) struct Silent;

impl Trace for Silent {
    fn step(&mut self, _: &'static str, _: impl FnOnce() -> String) {}
}

/// One step of a judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which decision.
    pub stage: &'static str,
    /// What it said.
    pub said: String,
}

impl Trace for Vec<Step> {
    fn step(&mut self, stage: &'static str, said: impl FnOnce() -> String) {
        self.push(Step {
            stage,
            said: said(),
        });
    }
}

/// A verdict and how it came about.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// What [`judge`] says.
    pub verdict: Verdict,
    /// The steps, resource by resource.
    pub steps: Vec<Vec<Step>>,
    /// What would change it.
    pub change: String,
}

/// Judges and tells how.
pub fn explain(facts: &Facts, standing: &[Standing<'_>]) -> Explanation {
    let mut steps = Vec::new();
    let mut change = String::from("no resource was named");
    let mut heaviest = 0;
    for (resource, standing) in facts.resources.iter().zip(standing) {
        let mut trace: Vec<Step> = Vec::new();
        let ruling = rule_on(facts.verb, resource, standing, &mut trace);
        steps.push(trace);
        let what = facts.group();
        let (weight, said) = match ruling {
            Ruling::Allow(source) => (
                1,
                format!("decided by {source}; a stored deny for this path would refuse it"),
            ),
            Ruling::Ask(asking) => (
                2,
                format!(
                    "raised by {}; an answer, or {}, would settle it",
                    asking.source,
                    match asking.class {
                        Some(_) =>
                            "an allow rule for this exact path that says \"coversProtected\": true"
                                .to_owned(),
                        None => format!("an allow rule for this path, or {what} at allow"),
                    }
                ),
            ),
            Ruling::Deny(denial) => (3, what_would_lift(&denial)),
        };
        // The strictest ruling is the verdict, so it is the one to change.
        if weight > heaviest {
            (heaviest, change) = (weight, said);
        }
    }
    Explanation {
        verdict: judge(facts, standing),
        steps,
        change,
    }
}

/// What would turn a no into something else.
fn what_would_lift(denial: &Denial) -> String {
    let source = &denial.source;
    if source.as_str() == "grant:none" {
        return "nobody granted it; a grant for this subject on this root would".to_owned();
    }
    if source.as_str() == "trust" {
        return "nobody trusts this root; `portcullis trust add` would".to_owned();
    }
    if source.as_str() == "own-state" {
        return "decided by own-state; nothing would change it".to_owned();
    }
    format!("decided by {source}; removing that, and nothing less, would change it")
}
