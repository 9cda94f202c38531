//! What may not be reached is not touched, and nobody learns whether it exists.

use std::sync::Arc;

use portcullis_gate::{Caller, Decision};
use portcullis_policy::{Modes, PatternSet};
use portcullis_proto::{Access, AccessSet, Entity, Failure, Mode, Outcome, Reason, Verb};

use crate::rig::{PLAIN, Rig, alone, asking_rig, block, open_rig, rig, terminal, with};

/// The failure where the file exists, and where it does not.
fn both_ways(make: impl Fn() -> Arc<Rig>, caller: &Caller, verb: Verb, path: &str) -> [Failure; 2] {
    [None, Some(Reason::NotFound)].map(|fails| {
        let rig = make();
        rig.found.lock().unwrap().fails = fails;
        let failure = block(rig.run(caller, verb, path)).unwrap_err();
        rig.only_closing();
        assert_eq!(rig.resolved(), 0, "{path} was touched");
        failure
    })
}

#[test]
fn what_is_denied_is_never_resolved_and_the_answer_is_the_same_whether_it_exists() {
    let off = || rig(|setup| setup.modes = Modes::all(Mode::Deny));
    let bare = || rig(|setup| setup.granted = AccessSet::NONE);
    let strange = || rig(|setup| setup.trusted = false);
    for (failures, want) in [
        (
            both_ways(open_rig, &alone(), Verb::Read, "denied/a"),
            Reason::DeniedByRule,
        ),
        (
            both_ways(open_rig, &alone(), Verb::List, ".portcullis"),
            Reason::ProtectedState,
        ),
        (
            both_ways(off, &alone(), Verb::Read, "a"),
            Reason::DeniedByMode,
        ),
        (both_ways(bare, &alone(), Verb::Read, "a"), Reason::NoGrant),
        (
            both_ways(strange, &alone(), Verb::Write, "a"),
            Reason::Untrusted,
        ),
        (
            both_ways(open_rig, &alone(), Verb::Read, ".env"),
            Reason::ApprovalUnavailable,
        ),
        (
            both_ways(open_rig, &alone(), Verb::Stat, "x/id_rsa"),
            Reason::ApprovalUnavailable,
        ),
        (
            both_ways(asking_rig, &alone(), Verb::Read, "a"),
            Reason::ApprovalUnavailable,
        ),
    ] {
        assert_eq!(failures[0], failures[1]);
        assert_eq!(failures[0].reason(), want);
    }
}

#[test]
fn a_no_about_a_secret_is_the_same_whether_it_exists() {
    for decision in [Decision::DenyOnce, Decision::AlwaysDeny] {
        let failures = [None, Some(Reason::NotFound)].map(|fails| {
            let rig = open_rig();
            rig.found.lock().unwrap().fails = fails;
            let failure = block(rig.run(&with(&terminal(&[decision])), Verb::Read, ".env"));
            assert_eq!(rig.resolved(), 0);
            failure.unwrap_err()
        });
        assert_eq!(failures[0], failures[1]);
    }
}

#[test]
fn a_secret_is_asked_about_before_it_is_touched_and_only_once() {
    let rig = open_rig();
    let people = terminal(&[Decision::AllowOnce]);
    assert_eq!(
        block(rig.run(&with(&people), Verb::Read, ".env")),
        Ok("bytes")
    );
    let asked = people.questions();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].class.as_deref(), Some("secret"));
    assert_eq!(
        asked[0].facts.resources[0].identity, None,
        "asked before it was resolved"
    );
    assert_eq!(rig.resolved(), 1);
    let line = rig.ended(Outcome::Success, None);
    assert_eq!(line.source, "class:secret");
    assert_eq!(line.answered_by.as_deref(), Some("terminal:ada"));
}

#[test]
fn a_secret_that_stands_second_is_asked_about_before_anything_is_touched() {
    let rig = asking_rig();
    let people = terminal(&[Decision::DenyOnce]);
    let attempt = rig
        .attempt(&with(&people), Verb::Move, "notes.txt")
        .unwrap();
    let attempt = attempt.and(&rig.root, ".env", Access::Write).unwrap();
    let resolve = rig.resolver(Verb::Move, &attempt);
    let failure = block(attempt.enter(resolve)).unwrap_err();
    assert_eq!(failure.reason(), Reason::ApprovalDenied);
    assert_eq!(people.questions()[0].class.as_deref(), Some("secret"));
    assert_eq!(rig.resolved(), 0);
    assert_eq!(rig.only_closing().paths, ["notes.txt", ".env"]);
}

#[test]
fn a_link_to_another_secret_is_asked_about_again_under_a_name_of_its_own() {
    let rig = open_rig();
    rig.found.lock().unwrap().leads_to = Some("keys/id_rsa".into());
    let people = terminal(&[Decision::AllowOnce, Decision::AllowOnce]);
    assert_eq!(
        block(rig.run(&with(&people), Verb::Read, ".env")),
        Ok("bytes")
    );
    let asked = people.questions();
    assert_eq!(asked.len(), 2);
    assert_ne!(
        asked[0].id, asked[1].id,
        "the answer to one is none to the other"
    );
    assert_ne!(asked[0].digest, asked[1].digest);
    rig.ended(Outcome::Success, None);
}

#[test]
fn a_link_to_what_is_denied_is_denied_and_one_to_what_is_allowed_is_still_asked_about() {
    let rig = open_rig();
    rig.found.lock().unwrap().leads_to = Some("denied/x".into());
    assert_eq!(
        rig.reason(&alone(), Verb::Read, "a"),
        Some(Reason::DeniedByRule)
    );
    assert_eq!(rig.acted(), 0);

    let rig = open_rig();
    rig.found.lock().unwrap().leads_to = Some("plain.sh".into());
    let people = terminal(&[Decision::DenyOnce]);
    let reason = rig.reason(&with(&people), Verb::Write, ".git/hooks/pre-commit");
    assert_eq!(reason, Some(Reason::ApprovalDenied));
    assert_eq!(people.questions()[0].class.as_deref(), Some("auto-exec"));
}

#[test]
fn outside_the_allowed_globs_nobody_learns_what_exists() {
    let make = |entity, fails| {
        let rig = rig(|setup| {
            setup.policy.allowed = PatternSet::compile(&["*.rs"]).unwrap();
        });
        let mut found = rig.found.lock().unwrap();
        found.fails = fails;
        if let Some(identity) = &mut found.identity {
            identity.entity = entity;
        }
        drop(found);
        rig
    };
    let file = make(Entity::File, None);
    let nothing = make(Entity::File, Some(Reason::NotFound));
    let here = block(file.run(&alone(), Verb::Stat, "secret.txt")).unwrap_err();
    let gone = block(nothing.run(&alone(), Verb::Stat, "secret.txt")).unwrap_err();
    assert_eq!(here, gone);
    assert_eq!(here.reason(), Reason::DeniedByRule);
    let directory = make(Entity::Directory, None);
    assert_eq!(
        block(directory.run(&alone(), Verb::Stat, "src")),
        Ok("bytes")
    );
    let missing = make(Entity::File, Some(Reason::NotFound));
    assert_eq!(
        missing.reason(&alone(), Verb::Read, "a.rs"),
        Some(Reason::NotFound)
    );
}

#[test]
fn the_rule_offered_to_the_operator_names_this_path_and_no_other() {
    let rig = asking_rig();
    let failure = block(rig.run(&alone(), Verb::Read, "**/\"x")).unwrap_err();
    let hint = failure.next_step().unwrap();
    assert!(hint.contains(r#""/[*][*]/\"x""#), "{hint}");
}

#[test]
fn a_hand_that_resolves_something_else_gets_no_permit() {
    use crate::rig::Look;
    let rig = open_rig();
    let honest = portcullis_proto::Facts {
        verb: Verb::Read,
        resources: vec![portcullis_proto::Resource {
            root: rig.root.id().clone(),
            kind: rig.root.kind(),
            path: portcullis_proto::RelPath::parse("a").unwrap(),
            access: Access::Read,
            identity: Some(PLAIN),
            above: None,
        }],
        shown: None,
        shrinks: false,
        below: Vec::new(),
        more_below: 0,
        unkept: false,
    };
    let mut verb = honest.clone();
    verb.verb = Verb::Write;
    let mut access = honest.clone();
    access.resources[0].access = Access::Metadata;
    let mut root = honest.clone();
    root.resources[0].root = portcullis_proto::RootId::parse("other").unwrap();
    let mut more = honest.clone();
    more.resources.push(honest.resources[0].clone());
    let mut none = honest.clone();
    none.resources.clear();
    for facts in [verb, access, root, more, none] {
        let rig = open_rig();
        let attempt = rig.attempt(&alone(), Verb::Read, "a").unwrap();
        let entered = block(attempt.enter(|_| Ok(Look::with_facts(facts.clone()))));
        assert_eq!(entered.unwrap_err().reason(), Reason::Bug);
        rig.ended(Outcome::Failed, Some(Reason::Bug));
    }
}
