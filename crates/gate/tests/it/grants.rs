//! Grants: bounded, taken back for deeds under way, and looked at again.

use portcullis_gate::{Grant, GrantSource, Granted, Settled};
use portcullis_proto::{Access, AccessSet, Outcome, Principal, Reason, RootId, Verb};

use crate::rig::{ada, alone, block, open_rig, rig, spend};

fn grant(n: usize, expires_at: Option<u64>) -> Grant {
    let root = RootId::parse(&format!("r{n}")).unwrap();
    Grant::new(
        ada(),
        root,
        AccessSet::LOOK,
        expires_at,
        GrantSource::Conversation,
    )
}

#[test]
fn a_full_book_takes_no_more_until_something_no_longer_holds() {
    let rig = open_rig();
    let book = rig.gate.grants();
    // One is the rig's own.
    for n in 1..4096 {
        assert!(book.issue(grant(n, Some(2_000))).is_some(), "{n}");
    }
    assert!(book.issue(grant(0, None)).is_none());
    assert_eq!(book.revoke(|grant| grant.root.as_str() == "r7"), 1);
    assert_eq!(book.revoke(|grant| grant.root.as_str() == "r7"), 0, "once");
    assert!(book.issue(grant(0, None)).is_some());
    assert!(book.issue(grant(0, None)).is_none());
    rig.clock.set(2_000);
    assert!(
        book.issue(grant(1, None)).is_some(),
        "what expired makes room"
    );
    assert_eq!(book.list().len(), 3);
}

#[test]
fn a_grant_is_for_one_principal_one_root_and_its_accesses() {
    let rig = open_rig();
    let book = rig.gate.grants();
    book.issue(grant(1, Some(2_000)));
    let root = RootId::parse("r1").unwrap();
    let eve = Principal::User { id: "eve".into() };
    let found = |principal: &Principal, root: &RootId, access, now| {
        matches!(book.find(principal, root, access, now), Granted::By(_))
    };
    assert!(found(&ada(), &root, Access::Read, 1_999));
    assert!(!found(&ada(), &root, Access::Read, 2_000));
    assert!(!found(&ada(), &root, Access::Write, 1_999));
    assert!(!found(&eve, &root, Access::Read, 1_999));
    assert!(!found(
        &ada(),
        &RootId::parse("r2").unwrap(),
        Access::Read,
        1_999
    ));
}

#[test]
fn a_long_act_learns_that_its_grant_was_revoked_or_ran_out() {
    let rig = open_rig();
    let permit = block(rig.permit(&alone(), Verb::Tree, "")).unwrap();
    let failed = spend(permit, |live| {
        live.still()?;
        rig.gate.grants().revoke(|_| true);
        live.still().map(|()| ((), Settled::default()))
    });
    assert_eq!(failed.unwrap_err().reason(), Reason::Revoked);
    rig.ended(Outcome::Denied, Some(Reason::Revoked));

    let rig = crate::rig::rig(|setup| setup.expires_at = Some(5_000));
    let permit = block(rig.permit(&alone(), Verb::Tree, "")).unwrap();
    let failed = spend(permit, |live| {
        live.still()?;
        rig.clock.set(5_000);
        live.still().map(|()| ((), Settled::default()))
    });
    assert_eq!(failed.unwrap_err().reason(), Reason::Expired);
    rig.ended(Outcome::Denied, Some(Reason::Expired));
}

#[test]
fn two_resources_rest_on_two_grants() {
    let rig = rig(|setup| setup.granted = AccessSet::of(&[Access::Move]));
    let attempt = rig.attempt(&alone(), Verb::Move, "a").unwrap();
    let attempt = attempt.and(&rig.root, "b", Access::Write).unwrap();
    let resolve = rig.resolver(Verb::Move, &attempt);
    assert_eq!(
        block(attempt.enter(resolve)).unwrap_err().reason(),
        Reason::NoGrant
    );
    rig.ended(Outcome::Denied, Some(Reason::NoGrant));
    assert_eq!(rig.resolved(), 0);
}
