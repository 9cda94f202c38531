//! Somebody else's say: in order, on record, and never a way to more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use portcullis_gate::{Decision, HookSay, Settled};
use portcullis_proto::{Failure, Mode, Outcome, Reason, Verb};

use crate::rig::{Rig, Says, alone, block, rig, spend, terminal, with};

fn hooked(hooks: &[Arc<Says>]) -> Arc<Rig> {
    rig(|setup| {
        for hook in hooks {
            setup.hooks.push(hook.clone());
        }
    })
}

#[test]
fn hooks_are_asked_in_order_and_named_on_the_line() {
    let hooks = [
        Says::at_once("zebra", HookSay::Pass),
        Says::at_once("ant", HookSay::Pass),
    ];
    let rig = hooked(&hooks);
    assert_eq!(block(rig.run(&alone(), Verb::Read, "a")), Ok("bytes"));
    assert_eq!(rig.ended(Outcome::Success, None).hooks, ["zebra", "ant"]);
    for hook in hooks {
        assert_eq!(*hook.heard.lock().unwrap(), [Outcome::Success]);
    }
}

#[test]
fn a_hook_that_denies_or_breaks_ends_it_and_the_rest_are_not_asked() {
    for (say, want) in [
        (HookSay::Deny("no".into()), Reason::DeniedByHook),
        (HookSay::Broken("garbage".into()), Reason::HookFailed),
    ] {
        let after = Says::at_once("after", HookSay::Pass);
        let rig = hooked(&[
            Says::at_once("first", HookSay::Pass),
            Says::at_once("judge", say),
            after,
        ]);
        assert_eq!(rig.reason(&alone(), Verb::Read, "a"), Some(want));
        let line = rig.ended(Outcome::Denied, Some(want));
        assert_eq!(line.hooks, ["first", "judge"]);
        assert_eq!(line.source, "hook:judge");
        assert_eq!(rig.acted(), 0);
    }
}

#[test]
fn a_hook_that_never_ends_is_broken() {
    let rig = hooked(&[Arc::new(Says::new("hang", |_| {
        Box::pin(std::future::pending())
    }))]);
    assert_eq!(
        rig.reason(&alone(), Verb::Read, "a"),
        Some(Reason::HookFailed)
    );
    rig.ended(Outcome::Denied, Some(Reason::HookFailed));
}

#[test]
fn a_hook_that_panics_leaves_one_line_and_nothing_is_done() {
    let rig = hooked(&[Arc::new(Says::new("panics", |_| {
        Box::pin(async { panic!("the hook panics") })
    }))]);
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        block(rig.run(&alone(), Verb::Read, "a"))
    }));
    assert!(unwound.is_err());
    let line = rig.ended(Outcome::Abandoned, None);
    assert_eq!(line.hooks, ["panics"]);
}

#[test]
fn a_hook_that_panics_afterwards_changes_nothing_even_while_a_panic_unwinds() {
    let mut hook = Says::new("rude", |_| Box::pin(std::future::ready(HookSay::Pass)));
    hook.after_panics = true;
    let rig = hooked(&[Arc::new(hook)]);
    assert_eq!(block(rig.run(&alone(), Verb::Write, "a")), Ok("bytes"));
    rig.ended(Outcome::Success, None);

    let permit = block(rig.permit(&alone(), Verb::Read, "b")).unwrap();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        spend(permit, |_| -> Result<((), Settled), Failure> {
            panic!("the act panics")
        })
    }));
    assert!(unwound.is_err());
    assert_eq!(rig.lines.closing().len(), 2);
}

#[test]
fn a_hook_may_raise_a_yes_to_a_question_that_no_yes_settles_for_good() {
    let asks = || hooked(&[Says::at_once("careful", HookSay::Ask("big".into()))]);
    let rig = asks();
    let people = terminal(&[Decision::AllowOnce]);
    let caller = with(&people).in_session(portcullis_proto::SessionId::new("s"));
    assert_eq!(block(rig.run(&caller, Verb::Read, "a")), Ok("bytes"));
    assert_eq!(
        people.questions()[0].offered,
        [
            Decision::AllowOnce,
            Decision::DenyOnce,
            Decision::AlwaysDeny
        ]
    );
    assert_eq!(rig.ended(Outcome::Success, None).source, "hook:careful");

    let rig = asks();
    assert_eq!(
        rig.reason(&alone(), Verb::Read, "a"),
        Some(Reason::ApprovalUnavailable)
    );
    let rig = asks();
    let always = terminal(&[Decision::AlwaysAllow]);
    assert_eq!(
        rig.reason(&with(&always), Verb::Read, "a"),
        Some(Reason::ApprovalDenied)
    );
    assert!(rig.kept.rules.lock().unwrap().is_empty());
}

#[test]
fn a_hook_cannot_turn_a_question_into_a_yes() {
    let rig = rig(|setup| {
        setup.modes = portcullis_policy::Modes::all(Mode::Ask);
        setup.hooks.push(Says::at_once("kind", HookSay::Pass));
    });
    let people = terminal(&[Decision::DenyOnce]);
    assert_eq!(
        rig.reason(&with(&people), Verb::Read, "a"),
        Some(Reason::ApprovalDenied)
    );
}
