//! A call passed on to a linked machine: a line before, one after, and whose
//! answer counts.

use std::sync::atomic::Ordering;

use portcullis_gate::{Answered, Decision, Reply, Surface, Wanted};
use portcullis_proto::{Digest, Failure, Outcome, Phase, Reason};

use crate::rig::{People, alone, answer, block, open_rig, terminal, with};

const WANTED: Wanted<'_> = Wanted {
    about: "laptop shell_execute: rm -r build",
    pinned: Digest([7; 32]),
    for_session: true,
};

#[test]
fn there_is_a_line_before_it_is_sent_and_exactly_one_after() {
    let rig = open_rig();
    let relay = rig.gate.relay(&alone(), "laptop read_file a.txt").unwrap();
    let before = rig.lines.all();
    assert_eq!(before.len(), 1);
    assert_eq!(before[0].phase, Phase::Opening);
    assert_eq!(before[0].alleged.as_deref(), Some("laptop read_file a.txt"));
    relay.answered(12);
    let line = rig.ended(Outcome::Success, None);
    assert_eq!((line.bytes, line.source.as_str()), (Some(12), "link"));

    let rig = open_rig();
    let relay = rig.gate.relay(&alone(), "x").unwrap();
    let why = relay.failed(Failure::from(Reason::LinkLost));
    assert_eq!(why.reason(), Reason::LinkLost);
    rig.ended(Outcome::Failed, Some(Reason::LinkLost));

    let rig = open_rig();
    drop(rig.gate.relay(&alone(), "x").unwrap());
    rig.ended(Outcome::Abandoned, None);
}

#[test]
fn where_the_line_before_cannot_be_written_nothing_is_sent() {
    let rig = open_rig();
    rig.lines.opening_fails.store(true, Ordering::SeqCst);
    let refused = rig.gate.relay(&alone(), "x").unwrap_err();
    assert_eq!(refused.reason(), Reason::AuditUnavailable);
    let rig = open_rig();
    rig.gate.end();
    let refused = rig.gate.relay(&alone(), "x").unwrap_err();
    assert_eq!(refused.reason(), Reason::Cancelled);
    rig.ended(Outcome::Failed, Some(Reason::Cancelled));
}

#[test]
fn only_an_offered_yes_is_one() {
    #[track_caller]
    fn check(decision: Decision, for_session: bool, want: Result<Decision, Reason>) {
        let rig = open_rig();
        let people = terminal(&[decision]);
        let mut relay = rig.gate.relay(&with(&people), "x").unwrap();
        let wanted = Wanted {
            for_session,
            ..WANTED
        };
        let said = block(relay.ask(wanted));
        assert_eq!(said.map_err(|why| why.reason()), want, "{decision:?}");
        let asked = &people.questions()[0];
        assert_eq!(asked.sentence(), format!("relay {}", WANTED.about));
        assert_eq!(asked.offered.contains(&Decision::AllowSession), for_session);
        relay.answered(0);
        let line = rig.only_closing();
        assert_eq!(line.answered_by.as_deref(), Some("terminal:ada"));
        assert_eq!(line.question.as_deref(), Some(asked.id.as_str()));
    }
    let no = Err(Reason::ApprovalDenied);
    check(Decision::AllowOnce, true, Ok(Decision::AllowOnce));
    check(Decision::AllowSession, true, Ok(Decision::AllowSession));
    check(Decision::AllowSession, false, no);
    check(Decision::AlwaysAllow, true, no);
    check(Decision::DenyOnce, true, no);
    check(Decision::AlwaysDeny, true, no);
}

#[test]
fn where_nobody_can_be_asked_or_nobody_answers_it_is_a_no() {
    let rig = open_rig();
    let mut relay = rig.gate.relay(&alone(), "x").unwrap();
    let why = block(relay.ask(WANTED)).unwrap_err();
    assert_eq!(why.reason(), Reason::ApprovalUnavailable);
    for (reply, want) in [
        (Reply::Unavailable, Reason::ApprovalUnavailable),
        (Reply::TimedOut, Reason::ApprovalTimeout),
        (Reply::Suspended, Reason::ApprovalPending),
    ] {
        let rig = open_rig();
        let people = People::on(Surface::Api).reply(reply).shared();
        let mut relay = rig.gate.relay(&with(&people), "x").unwrap();
        let why = block(relay.ask(WANTED)).unwrap_err();
        assert_eq!(why.reason(), want);
    }
}

#[test]
fn an_answer_that_is_brought_counts_for_the_very_same_call_alone() {
    let rig = open_rig();
    let people = People::on(Surface::Api).reply(Reply::Suspended).shared();
    let mut relay = rig.gate.relay(&with(&people), "x").unwrap();
    block(relay.ask(WANTED)).unwrap_err();
    let question = people.questions().remove(0);
    let brought = || Answered {
        question: question.id.clone(),
        digest: question.digest,
        answer: answer(Decision::AllowOnce, Surface::Console),
    };
    let mut relay = rig.gate.relay(&alone().bringing(brought()), "x").unwrap();
    assert_eq!(block(relay.ask(WANTED)), Ok(Decision::AllowOnce));
    let mut relay = rig.gate.relay(&alone().bringing(brought()), "x").unwrap();
    let other = Wanted {
        pinned: Digest([8; 32]),
        ..WANTED
    };
    let why = block(relay.ask(other)).unwrap_err();
    assert_eq!(why.reason(), Reason::ChangedSince);
}
