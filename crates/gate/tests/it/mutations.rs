//! What changes something writes two lines, and what cannot be recorded is not
//! done, or is said to be done and is the last thing done.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;

use portcullis_gate::Settled;
use portcullis_proto::{Failure, Outcome, Phase, Reason, Verb};

use crate::rig::{alone, block, open_rig, spend};

#[test]
fn a_mutation_writes_its_opening_line_before_it_acts() {
    let rig = open_rig();
    let permit = block(rig.permit(&alone(), Verb::Write, "a")).unwrap();
    spend(permit, |_| {
        let lines = rig.lines.all();
        assert_eq!(lines.len(), 1);
        assert_eq!(
            (lines[0].phase, lines[0].outcome),
            (Phase::Opening, Outcome::Begun)
        );
        Ok(((), Settled::default()))
    })
    .unwrap();
    let lines = rig.lines.all();
    assert_eq!(
        (lines[1].phase, lines[1].outcome),
        (Phase::Closing, Outcome::Success)
    );
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0].request, lines[1].request);
}

#[test]
fn when_the_opening_line_cannot_be_written_nothing_is_done() {
    let rig = open_rig();
    rig.lines.opening_fails.store(true, SeqCst);
    assert_eq!(
        rig.reason(&alone(), Verb::Write, "a"),
        Some(Reason::AuditUnavailable)
    );
    assert_eq!(rig.acted(), 0);
    rig.ended(Outcome::Failed, Some(Reason::AuditUnavailable));
    assert!(!rig.gate.is_sealed(), "its closing line could be written");
    rig.lines.opening_fails.store(false, SeqCst);
    assert_eq!(rig.reason(&alone(), Verb::Write, "a"), None);
}

#[test]
fn when_the_closing_line_of_a_mutation_cannot_be_written_it_is_told_and_the_gate_seals() {
    let rig = open_rig();
    rig.lines.closing_fails.store(true, SeqCst);
    assert_eq!(block(rig.run(&alone(), Verb::Write, "a")), Ok("bytes"));
    assert!(rig.gate.is_sealed());
    rig.lines.closing_fails.store(false, SeqCst);
    for verb in [Verb::Read, Verb::Write] {
        assert_eq!(
            rig.reason(&alone(), verb, "a"),
            Some(Reason::AuditUnavailable)
        );
    }
    assert_eq!((rig.acted(), rig.resolved()), (1, 1), "nothing after it");
    assert_eq!(rig.lines.closing().len(), 2, "what was refused is recorded");
}

#[test]
fn when_the_closing_line_of_a_read_cannot_be_written_no_bytes_come_back() {
    let rig = open_rig();
    rig.lines.closing_fails.store(true, SeqCst);
    assert_eq!(
        rig.reason(&alone(), Verb::Read, "a"),
        Some(Reason::AuditUnavailable)
    );
    assert!(rig.gate.is_sealed());
    assert!(rig.lines.all().is_empty());
}

#[test]
fn a_permit_from_before_the_gate_was_sealed_is_not_honoured() {
    let rig = open_rig();
    let held = block(rig.permit(&alone(), Verb::Write, "b")).unwrap();
    rig.lines.closing_fails.store(true, SeqCst);
    block(rig.run(&alone(), Verb::Write, "a")).unwrap();
    rig.lines.closing_fails.store(false, SeqCst);
    assert_eq!(
        rig.act(held).unwrap_err().reason(),
        Reason::AuditUnavailable
    );
    assert_eq!(rig.acted(), 1);
    rig.ended(Outcome::Failed, Some(Reason::AuditUnavailable));
}

#[test]
fn a_refusal_that_cannot_be_recorded_seals_the_gate_too() {
    let rig = open_rig();
    rig.lines.closing_fails.store(true, SeqCst);
    assert_eq!(
        rig.reason(&alone(), Verb::Read, "../x"),
        Some(Reason::Escape)
    );
    assert!(rig.gate.is_sealed());
}

#[test]
fn a_ledger_that_panics_is_a_ledger_that_is_down() {
    let rig = open_rig();
    rig.lines.panics.store(true, SeqCst);
    assert_eq!(
        rig.reason(&alone(), Verb::Write, "a"),
        Some(Reason::AuditUnavailable)
    );
    assert!(rig.gate.is_sealed());
    assert_eq!(rig.acted(), 0);
}

#[test]
fn a_ledger_that_panics_while_a_panic_unwinds_does_not_end_the_process() {
    let rig = open_rig();
    let permit = block(rig.permit(&alone(), Verb::Read, "a")).unwrap();
    rig.lines.panics.store(true, SeqCst);
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        spend(permit, |_| -> Result<((), Settled), Failure> {
            panic!("the act panics")
        })
    }));
    assert!(unwound.is_err());
    assert!(rig.gate.is_sealed());
}
