//! One scenario per temperament of `victims/server.py`.

use std::ops::ControlFlow;
use std::time::Duration;

use portcullis_hammer::{
    Attack, AttackState, Expectation, Plan, Progress, Quiet, Report, TroubleKind, Verb, Verdict,
    run,
};

const VICTIM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/victims/server.py");

fn plan(temperament: &str, ops: u64, attacks: &[Attack]) -> Plan {
    let target = ["python3", VICTIM, temperament, "{root}"]
        .map(str::to_owned)
        .to_vec();
    let mut plan = Plan::against(target, std::env::temp_dir());
    plan.ops = ops;
    plan.attacks = attacks.to_vec();
    plan.time_limit = Duration::from_mins(2);
    plan
}

fn race(plan: &Plan) -> Report {
    run(plan, &mut Quiet)
        .unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)))
}

/// Races one attack in rounds, each with its own dwell times, until something leaks. One round is
/// nearly always enough; a machine under load may give the attacker few turns.
fn escapes_within(rounds: u64, temperament: &str, ops: u64, attack: Attack) -> Report {
    let mut plan = plan(temperament, ops, &[attack]);
    plan.expectation = Expectation::Escapes;
    for round in 0..rounds {
        plan.seed = round;
        let report = race(&plan);
        assert_eq!(report.attempts(), ops, "{report}");
        if report.passed() {
            return report;
        }
    }
    panic!("{attack} never bit in {rounds} rounds of {ops} operations");
}

#[test]
fn a_server_that_checks_and_then_opens_is_caught_by_every_swap() {
    for attack in [
        Attack::Parent,
        Attack::Grandparent,
        Attack::Leaf,
        Attack::RootRenamed,
    ] {
        let report = escapes_within(10, "naive", 6_000, attack);
        assert!(
            matches!(report.verdict(), Verdict::Leaked { .. }),
            "{report}"
        );
        assert!(
            !report.evidence.is_empty() && report.evidence.len() <= 5,
            "{report}"
        );
        assert!(
            report.evidence.iter().all(|escape| escape.attack == attack),
            "{report}"
        );
        assert!(
            report.to_string().contains("PASS (escapes were expected)"),
            "{report}"
        );
    }
}

/// Resources carry file bytes as base64, where the mark does not show as itself.
#[test]
fn a_leak_inside_a_base64_blob_is_seen() {
    for _round in 0..10 {
        let report = escapes_within(10, "naive", 6_000, Attack::Parent);
        let resource = report.cells.iter().find(|cell| cell.verb == Verb::Resource);
        if resource.is_some_and(|cell| cell.escapes > 0 && cell.inside > 0) {
            return;
        }
    }
    panic!("no blob leaked");
}

/// Between opening a planted link and counting its links, the link may be gone again; a count of
/// one then says nothing about where the file was opened from.
#[test]
fn a_server_that_trusts_the_link_count_alone_is_caught() {
    if rustix::process::geteuid().is_root() {
        escapes_within(20, "counting", 30_000, Attack::Hardlink);
    }
}

#[test]
fn a_server_that_refuses_everything_does_not_pass() {
    let report = race(&plan("refusing", 6_000, &[Attack::Parent]));
    let Verdict::TooTimid { verbs } = report.verdict() else {
        panic!("{report}")
    };
    assert_eq!(verbs.len(), 4, "{report}");
    assert!(!report.passed());
    assert_eq!(report.escapes(), 0);
}

#[test]
fn a_server_that_pins_every_step_holds() {
    let attacks = [
        Attack::Parent,
        Attack::Grandparent,
        Attack::Leaf,
        Attack::RootRenamed,
    ];
    let report = race(&plan("pinned", 20_000, &attacks));
    assert_eq!(report.verdict(), Verdict::Held, "{report}");
    assert!(report.passed());
    assert!(report.not_offered.contains(&Verb::Tree));
    assert!(
        report
            .to_string()
            .contains("PASS: no escape in 20,000 raced operations"),
        "{report}"
    );
}

#[test]
fn a_server_that_hangs_is_a_finding() {
    let mut plan = plan("hanging", 1_000, &[Attack::Leaf]);
    // Long enough for a busy machine to start an interpreter.
    plan.reply_timeout = Duration::from_secs(6);
    let report = race(&plan);
    assert_eq!(
        report.troubles.first().map(|trouble| trouble.kind),
        Some(TroubleKind::Hung)
    );
    assert_eq!(report.verdict(), Verdict::Inconclusive);
}

#[test]
fn an_attack_that_cannot_run_says_why_and_one_that_can_bites() {
    let mut plan = plan("naive", 4_000, &[Attack::BindMount, Attack::Hardlink]);
    plan.expectation = Expectation::Escapes;
    let report = race(&plan);
    for outcome in &report.attacks {
        let escapes: u64 = report
            .cells
            .iter()
            .filter(|cell| cell.attack == outcome.attack)
            .map(|cell| cell.escapes)
            .sum();
        match &outcome.state {
            AttackState::Ran { swaps } => assert!(*swaps > 0 && escapes > 0, "{report}"),
            AttackState::NotRun { why } => {
                assert!(why.starts_with("needs "), "{report}");
                assert!(
                    report
                        .to_string()
                        .contains(&format!("{} was not run", outcome.attack))
                );
            }
            AttackState::Failed { why } => panic!("{why}\n{report}"),
        }
    }
}

#[test]
fn nothing_is_left_behind() {
    let scratch =
        std::env::temp_dir().join(format!("hammer-leaves-nothing-{}", std::process::id()));
    std::fs::create_dir(&scratch).unwrap();
    let mut plan = plan("naive", 500, &Attack::ALL);
    plan.scratch = portcullis_hammer::ScratchPlace::Exactly(scratch.clone());
    race(&plan);
    plan.target = vec!["false".into()];
    assert!(run(&plan, &mut Quiet).is_err());
    plan.target = vec!["a-program-that-does-not-exist".into()];
    assert!(run(&plan, &mut Quiet).is_err());
    std::fs::remove_dir(&scratch).expect("the scratch directory is empty again");
}

/// Stops a run at the first news of it.
struct Impatient;

impl Progress for Impatient {
    fn began(&mut self, _: Attack) {}
    fn raced(&mut self, _: Attack, _: u64, _: u64, _: u64) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

#[test]
fn when_the_caller_stops_a_run_then_it_proves_nothing() {
    let plan = plan("pinned", 100_000_000, &[Attack::Parent, Attack::Leaf]);
    let report = run(&plan, &mut Impatient).unwrap();
    assert_eq!(report.verdict(), Verdict::Inconclusive, "{report}");
    let stopped = |state: &AttackState| matches!(state, AttackState::Failed { why } if why.contains("stopped"));
    assert!(
        report.attacks.iter().all(|outcome| stopped(&outcome.state)),
        "{report}"
    );
    assert_eq!(report.attacks.len(), 2);
}

#[test]
fn when_time_is_up_then_the_report_says_so() {
    let mut plan = plan("pinned", 100_000_000, &[Attack::Parent]);
    plan.time_limit = Duration::from_secs(6);
    let report = race(&plan);
    assert!(report.out_of_time && report.seconds < 20.0, "{report}");
    assert_eq!(report.verdict(), Verdict::Held, "{report}");
}
