//! Every attempt ends in exactly one closing line.

use std::panic::{AssertUnwindSafe, catch_unwind};

use portcullis_gate::{Decision, Reply, Settled, Surface};
use portcullis_policy::Modes;
use portcullis_proto::{AccessSet, Failure, Mode, Outcome, Reason, Verb};

use crate::rig::{People, alone, asking_rig, block, open_rig, rig, spend, terminal, with};

#[test]
fn when_it_is_done_the_line_says_so_with_its_bytes() {
    let rig = open_rig();
    assert_eq!(block(rig.run(&alone(), Verb::Read, "a")), Ok("bytes"));
    let line = rig.ended(Outcome::Success, None);
    assert_eq!(line.bytes, Some(5));
    assert_eq!(line.source, "mode:filesystemRead=allow");
    assert_eq!(line.paths, ["a"]);
}

#[test]
fn when_the_act_fails_the_line_says_why() {
    let rig = open_rig();
    let permit = block(rig.permit(&alone(), Verb::Read, "a")).unwrap();
    let failed: Result<(), Failure> = spend(permit, |_| Err(Reason::Binary.into()));
    assert_eq!(failed.unwrap_err().reason(), Reason::Binary);
    rig.ended(Outcome::Failed, Some(Reason::Binary));
}

#[test]
fn when_resolving_fails_the_line_says_why() {
    let rig = open_rig();
    rig.found.lock().unwrap().fails = Some(Reason::NotFound);
    assert_eq!(
        rig.reason(&alone(), Verb::Read, "a"),
        Some(Reason::NotFound)
    );
    rig.ended(Outcome::Failed, Some(Reason::NotFound));
}

#[test]
fn what_never_became_a_path_is_recorded_as_it_was_written() {
    for (alleged, outcome, reason) in [
        ("../x", Outcome::Denied, Reason::Escape),
        ("/etc/passwd", Outcome::Denied, Reason::Escape),
        ("a\0b", Outcome::Denied, Reason::BadName),
        ("a\u{202e}b", Outcome::Denied, Reason::BadName),
        (&*"x".repeat(300), Outcome::Failed, Reason::NameTooLong),
    ] {
        let rig = open_rig();
        assert_eq!(rig.reason(&alone(), Verb::Read, alleged), Some(reason));
        let line = rig.ended(outcome, Some(reason));
        assert_eq!(line.alleged.as_deref(), Some(alleged));
        assert_eq!(rig.resolved(), 0);
    }
}

#[test]
fn what_was_alleged_is_repeated_only_so_far() {
    let rig = open_rig();
    let long = "é/../".repeat(600);
    rig.reason(&alone(), Verb::Read, &long);
    let alleged = rig.only_closing().alleged.unwrap();
    assert!(alleged.len() <= 512 && long.starts_with(&alleged));

    let rig = open_rig();
    let attempt = rig.attempt(&alone(), Verb::Move, "a").unwrap();
    let long = format!("../{long}");
    let access = portcullis_proto::Access::Write;
    assert_eq!(
        attempt.and(&rig.root, &long, access).unwrap_err().reason(),
        Reason::Escape
    );
    let line = rig.ended(Outcome::Denied, Some(Reason::Escape));
    assert!(line.alleged.unwrap().len() <= 512);
}

#[test]
fn what_a_rule_a_mode_or_a_missing_grant_denies_is_recorded_with_its_source() {
    #[track_caller]
    fn check(
        rig: &std::sync::Arc<crate::rig::Rig>,
        verb: Verb,
        path: &str,
        want: Reason,
        source: &str,
    ) {
        assert_eq!(rig.reason(&alone(), verb, path), Some(want));
        let line = rig.ended(Outcome::Denied, Some(want));
        assert_eq!(line.source, source);
        assert_eq!((rig.resolved(), rig.acted()), (0, 0));
    }
    check(
        &open_rig(),
        Verb::Read,
        "denied/x",
        Reason::DeniedByRule,
        "root:deniedGlobs",
    );
    check(
        &open_rig(),
        Verb::Read,
        ".portcullis/audit",
        Reason::ProtectedState,
        "own-state",
    );
    let off = rig(|setup| setup.modes = Modes::all(Mode::Deny));
    check(
        &off,
        Verb::Read,
        "a",
        Reason::DeniedByMode,
        "mode:filesystemRead=deny",
    );
    let bare = rig(|setup| setup.granted = AccessSet::NONE);
    check(&bare, Verb::Read, "a", Reason::NoGrant, "grant:none");
    let over = rig(|setup| setup.expires_at = Some(1_000));
    check(&over, Verb::Read, "a", Reason::NoGrant, "grant:none");
    let strange = rig(|setup| setup.trusted = false);
    check(&strange, Verb::Write, "a", Reason::Untrusted, "trust");
}

#[test]
fn what_a_person_says_or_does_not_say_is_recorded() {
    let answered = |decision| terminal(&[decision]);
    let replied = |reply| People::on(Surface::Mcp).reply(reply).shared();
    for (people, outcome, reason, acted) in [
        (answered(Decision::AllowOnce), Outcome::Success, None, 1),
        (
            answered(Decision::DenyOnce),
            Outcome::Denied,
            Some(Reason::ApprovalDenied),
            0,
        ),
        (
            replied(Reply::TimedOut),
            Outcome::Denied,
            Some(Reason::ApprovalTimeout),
            0,
        ),
        (
            replied(Reply::Unavailable),
            Outcome::Denied,
            Some(Reason::ApprovalUnavailable),
            0,
        ),
        (
            replied(Reply::Suspended),
            Outcome::Parked,
            Some(Reason::ApprovalPending),
            0,
        ),
        (
            People::on(Surface::Mcp)
                .then(|_| Box::pin(std::future::pending()))
                .shared(),
            Outcome::Denied,
            Some(Reason::ApprovalTimeout),
            0,
        ),
    ] {
        let rig = asking_rig();
        assert_eq!(rig.reason(&with(&people), Verb::Read, "a"), reason);
        let line = rig.ended(outcome, reason);
        assert_eq!(line.question.as_deref(), Some("q_t_1"));
        assert_eq!(line.source, "mode:filesystemRead=ask");
        assert_eq!(rig.acted(), acted);
    }
}

#[test]
fn what_is_dropped_is_abandoned() {
    let rig = open_rig();
    drop(rig.attempt(&alone(), Verb::Read, "a").unwrap());
    rig.ended(Outcome::Abandoned, None);

    let rig = open_rig();
    drop(block(rig.permit(&alone(), Verb::Write, "a")).unwrap());
    rig.ended(Outcome::Abandoned, None);
    assert_eq!(rig.lines.all().len(), 1, "it never began");

    let rig = open_rig();
    let attempt = rig.attempt(&alone(), Verb::Read, "a").unwrap();
    attempt.refuse(Reason::Overload.into());
    rig.ended(Outcome::Failed, Some(Reason::Overload));
}

#[test]
fn a_panic_anywhere_still_leaves_its_line() {
    // In the act.
    let rig = open_rig();
    let permit = block(rig.permit(&alone(), Verb::Write, "a")).unwrap();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        spend(permit, |_| -> Result<((), Settled), Failure> {
            panic!("the act panics")
        })
    }));
    assert!(unwound.is_err());
    rig.ended(Outcome::Abandoned, None);
    assert_eq!(rig.lines.all().len(), 2, "it had begun");

    // While resolving, the first time and after a yes.
    let rig = open_rig();
    rig.found.lock().unwrap().panics = true;
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        block(rig.run(&alone(), Verb::Read, "a"))
    }));
    assert!(unwound.is_err());
    rig.ended(Outcome::Abandoned, None);

    // In the approver: when asked, and while it is waited for.
    for people in [
        People::on(Surface::Mcp).then(|_| panic!("asking panics")),
        People::on(Surface::Mcp).then(|_| Box::pin(async { panic!("the answer panics") })),
    ] {
        let rig = asking_rig();
        let caller = with(&people.shared());
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            block(rig.run(&caller, Verb::Read, "a"))
        }));
        assert!(unwound.is_err());
        rig.ended(Outcome::Abandoned, None);
    }
}

#[test]
fn a_call_refused_before_there_was_a_root_is_recorded_too() {
    let rig = open_rig();
    let why = rig
        .gate
        .refuse(&alone(), Verb::Read, "x:y", Reason::UnknownRoot.into());
    assert_eq!(why.reason(), Reason::UnknownRoot);
    let line = rig.ended(Outcome::Failed, Some(Reason::UnknownRoot));
    assert_eq!(line.alleged.as_deref(), Some("x:y"));
}

#[test]
fn a_gate_that_ends_stops_what_is_under_way_and_knows_whose_line_is_missing() {
    let rig = open_rig();
    let begun = block(rig.permit(&alone(), Verb::Read, "a")).unwrap();
    let running = block(rig.permit(&alone(), Verb::Read, "b")).unwrap();
    assert_eq!(rig.gate.under_way(), 2);
    let stopped: Result<(), Failure> = spend(begun, |live| {
        live.still()?;
        rig.gate.end();
        live.still()?;
        Ok(((), Settled::default()))
    });
    assert_eq!(stopped.unwrap_err().reason(), Reason::Cancelled);
    assert_eq!(rig.gate.under_way(), 1);
    drop(running);
    assert_eq!(
        rig.reason(&alone(), Verb::Read, "c"),
        Some(Reason::Cancelled)
    );
    assert_eq!(rig.gate.under_way(), 0);
    assert_eq!(rig.lines.closing().len(), 3);
}
