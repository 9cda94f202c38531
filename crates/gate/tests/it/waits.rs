//! The judgement that counts is made after the wait: what denies the deed by
//! then wins over any yes.

use std::sync::{Arc, OnceLock};

use portcullis_gate::{Decision, HookSay, Reply, Surface};
use portcullis_policy::{Effect, Modes, Rule, RuleSet, Rules};
use portcullis_proto::{Group, Mode, Outcome, Reason, SessionId, Verb};

use crate::rig::{
    People, Rig, Says, alone, answer, asking_rig, block, open_rig, rig, terminal, with,
};

fn deny_everything(rig: &Rig) {
    let modes = rig.gate.rules().modes;
    let deny = Rule {
        effect: Effect::Deny,
        group: Group::FilesystemRead,
        root: None,
        pattern: "/".into(),
        covers_protected: false,
        exact_path: false,
        source: "settings.json:1".into(),
    };
    rig.gate.replace_rules(Rules {
        modes,
        stored: RuleSet::compile(vec![deny]).unwrap(),
    });
}

fn revoke_everything(rig: &Rig) {
    assert_eq!(rig.gate.grants().revoke(|_| true), 1);
}

fn distrust(rig: &Rig) {
    rig.root.set_trusted(false);
}

/// Somebody who says yes, after something else has happened.
fn yes_but_first(rig: &Arc<Rig>, happens: fn(&Rig)) -> Arc<People> {
    let rig = Arc::clone(rig);
    People::on(Surface::Terminal)
        .then(move |_| {
            happens(&rig);
            let yes = answer(Decision::AllowOnce, Surface::Terminal);
            Box::pin(std::future::ready(Reply::Answered(yes)))
        })
        .shared()
}

#[test]
fn what_denies_it_while_the_question_is_open_wins_and_the_path_is_not_touched_again() {
    for (happens, want) in [
        (deny_everything as fn(&Rig), Reason::DeniedByRule),
        (revoke_everything, Reason::NoGrant),
        (distrust, Reason::Untrusted),
    ] {
        // A secret is asked about before it is resolved, the rest after.
        for (path, resolved) in [(".env", 0), ("a", 1)] {
            let rig = asking_rig();
            let people = yes_but_first(&rig, happens);
            assert_eq!(
                rig.reason(&with(&people), Verb::Write, path),
                Some(want),
                "{path}"
            );
            rig.ended(Outcome::Denied, Some(want));
            assert_eq!((rig.resolved(), rig.acted()), (resolved, 0), "{path}");
        }
    }
}

#[test]
fn what_denies_it_while_it_is_resolved_again_after_the_yes_wins_too() {
    for (happens, want) in [
        (deny_everything as fn(&Rig), Reason::DeniedByRule),
        (revoke_everything, Reason::NoGrant),
        (distrust, Reason::Untrusted),
    ] {
        let rig = asking_rig();
        let people = yes_but_first(&rig, |_| {});
        let attempt = rig.attempt(&with(&people), Verb::Write, "a").unwrap();
        let (path, slow) = (attempt.path(), Arc::clone(&rig));
        // The second time it waits for something, and that happens meanwhile.
        let entered = block(attempt.enter(move |_| {
            let found = slow.resolve(Verb::Write, &path);
            if slow.resolved() == 2 {
                happens(&slow);
            }
            found
        }));
        assert_eq!(entered.unwrap_err().reason(), want);
        rig.ended(Outcome::Denied, Some(want));
    }
}

#[test]
fn what_denies_it_while_it_is_resolved_wins_where_nobody_is_asked() {
    fn end_the_session(rig: &Rig) {
        rig.gate.end_session(&SessionId::new("s"));
    }
    for (happens, want) in [
        (deny_everything as fn(&Rig), Reason::DeniedByRule),
        (revoke_everything, Reason::NoGrant),
        (distrust, Reason::Untrusted),
        (end_the_session, Reason::ApprovalDenied),
    ] {
        let rig = asking_rig();
        // Allowed for a session, so that the first judgement is a plain yes.
        let people = terminal(&[Decision::AllowSession, Decision::DenyOnce]);
        let caller = with(&people).in_session(SessionId::new("s"));
        block(rig.run(&caller, Verb::Write, "a")).unwrap();
        let attempt = rig.attempt(&caller, Verb::Write, "a").unwrap();
        let (path, slow) = (attempt.path(), Arc::clone(&rig));
        let entered = block(attempt.enter(move |_| {
            happens(&slow);
            slow.resolve(Verb::Write, &path)
        }));
        assert_eq!(entered.unwrap_err().reason(), want);
        assert_eq!(rig.acted(), 1);
    }
}

#[test]
fn a_yes_to_a_secret_path_is_none_to_losing_most_of_it() {
    let rig = open_rig();
    rig.found.lock().unwrap().shrinks = true;
    let people = People::on(Surface::Terminal)
        .say(Decision::AllowOnce)
        .say(Decision::DenyOnce)
        .shared();
    let refused = rig.reason(&with(&people), Verb::Write, ".env");
    assert_eq!(refused, Some(Reason::ApprovalDenied));
    assert_eq!((people.questions().len(), rig.acted()), (2, 0));
}

#[test]
fn what_denies_it_or_asks_while_a_hook_thinks_wins_too() {
    fn ask_everything(rig: &Rig) {
        rig.gate.replace_rules(Rules::new(Modes::all(Mode::Ask)));
    }
    for (happens, want) in [
        (deny_everything as fn(&Rig), Reason::DeniedByRule),
        (ask_everything, Reason::ApprovalUnavailable),
    ] {
        let cell: Arc<OnceLock<Arc<Rig>>> = Arc::default();
        let seen = Arc::clone(&cell);
        let rig = rig(|setup| {
            setup.hooks.push(Arc::new(Says::new("slow", move |_| {
                happens(seen.get().unwrap());
                Box::pin(std::future::ready(HookSay::Pass))
            })));
        });
        assert!(cell.set(Arc::clone(&rig)).is_ok());
        assert_eq!(rig.reason(&alone(), Verb::Read, "a"), Some(want));
        rig.ended(Outcome::Denied, Some(want));
        assert_eq!(rig.acted(), 0);
    }
}

#[test]
fn the_terms_of_a_bulk_deed_are_those_of_after_the_answer() {
    fn deny_one(rig: &Rig) {
        let deny = Rule {
            effect: Effect::Deny,
            group: Group::FilesystemRead,
            root: None,
            pattern: "/private".into(),
            covers_protected: false,
            exact_path: false,
            source: "settings.json:1".into(),
        };
        rig.gate.replace_rules(Rules {
            modes: rig.gate.rules().modes,
            stored: RuleSet::compile(vec![deny]).unwrap(),
        });
    }
    let rig = asking_rig();
    let people = yes_but_first(&rig, deny_one);
    let permit = block(rig.permit(&with(&people), Verb::Tree, "")).unwrap();
    let private = portcullis_proto::RelPath::parse("private/x").unwrap();
    assert_eq!(
        permit
            .terms()
            .admits(&private, portcullis_proto::Entity::File),
        portcullis_policy::Admit::Denied
    );
    rig.act(permit).unwrap();
}

#[test]
fn an_answer_that_comes_after_the_deadline_is_none() {
    let rig = asking_rig();
    let people = yes_but_first(&rig, |rig| rig.clock.set(10_000_000));
    assert_eq!(
        rig.reason(&with(&people), Verb::Read, "a"),
        Some(Reason::ApprovalTimeout)
    );
    rig.ended(Outcome::Denied, Some(Reason::ApprovalTimeout));
    assert_eq!(rig.acted(), 0);
}

#[test]
fn a_grant_revoked_or_expired_after_the_permit_stops_the_act_with_one_line() {
    let rig = open_rig();
    let permit = block(rig.permit(&alone(), Verb::Write, "a")).unwrap();
    revoke_everything(&rig);
    assert_eq!(rig.act(permit).unwrap_err().reason(), Reason::Revoked);
    rig.ended(Outcome::Denied, Some(Reason::Revoked));
    assert_eq!(rig.lines.all().len(), 1, "it never began");

    let rig = crate::rig::rig(|setup| setup.expires_at = Some(2_000));
    let permit = block(rig.permit(&alone(), Verb::Read, "a")).unwrap();
    rig.clock.set(2_000);
    assert_eq!(rig.act(permit).unwrap_err().reason(), Reason::Expired);
    rig.ended(Outcome::Denied, Some(Reason::Expired));
    assert_eq!(rig.acted(), 0);
}
