//! One scenario per temperament of `victims/server.py`.

use std::time::Duration;

use portcullis_hammer::{
    Attack, AttackState, Expectation, Plan, Quiet, Report, TroubleKind, Verb, Verdict, run,
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

#[test]
fn a_server_that_checks_and_then_opens_is_caught_by_every_swap() {
    let attacks = [
        Attack::Parent,
        Attack::Grandparent,
        Attack::Leaf,
        Attack::RootRenamed,
    ];
    let mut plan = plan("naive", 40_000, &attacks);
    plan.expectation = Expectation::Escapes;
    let report = race(&plan);
    assert!(report.passed(), "{report}");
    assert!(matches!(report.verdict(), Verdict::Leaked { .. }));
    for attack in attacks {
        let escapes: u64 = report
            .cells
            .iter()
            .filter(|cell| cell.attack == attack)
            .map(|cell| cell.escapes)
            .sum();
        assert!(escapes > 0, "{attack} never bit\n{report}");
    }
    assert_eq!(report.evidence.len(), 5);
    assert!(
        report
            .evidence
            .iter()
            .any(|escape| !escape.excerpt.is_empty())
    );
    assert_eq!(report.attempts(), 40_000);
}

#[test]
fn a_server_that_refuses_everything_does_not_pass() {
    let report = race(&plan("refusing", 6_000, &[Attack::Parent]));
    let Verdict::TooTimid { verbs } = report.verdict() else {
        panic!("{report}")
    };
    assert_eq!(verbs.len(), 3, "{report}");
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
    plan.reply_timeout = Duration::from_secs(1);
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
