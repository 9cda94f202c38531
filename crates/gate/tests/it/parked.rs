//! Parked: no handle is held while a person thinks, and what is done is what
//! they said yes to.

use std::sync::Arc;

use portcullis_gate::{Decision, Reply, Surface};
use portcullis_proto::{Digest, Entity, Outcome, Reason, SessionId, Verb};

use crate::rig::{Found, People, answer, asking_rig, block, open_rig, rig, with};

#[test]
fn whatever_changes_while_the_question_is_open_nothing_is_done() {
    type Change = fn(&mut Found);
    let changes: [(&str, Change); 8] = [
        ("inode", |found| found.identity.as_mut().unwrap().ino += 1),
        ("device", |found| found.identity.as_mut().unwrap().dev += 1),
        ("owner", |found| found.identity.as_mut().unwrap().owner += 1),
        ("links", |found| found.identity.as_mut().unwrap().links += 1),
        ("entity", |found| {
            found.identity.as_mut().unwrap().entity = Entity::Directory;
        }),
        ("gone", |found| found.identity = None),
        ("path", |found| found.leads_to = Some("elsewhere".into())),
        ("shown", |found| found.shown = Some(Digest::ZERO)),
    ];
    for (what, change) in changes {
        let rig = asking_rig();
        let changing = Arc::clone(&rig);
        let people = People::on(Surface::Terminal)
            .then(move |_| {
                change(&mut changing.found.lock().unwrap());
                let yes = answer(Decision::AllowOnce, Surface::Terminal);
                Box::pin(std::future::ready(Reply::Answered(yes)))
            })
            .shared();
        let reason = rig.reason(&with(&people), Verb::Write, "a");
        assert_eq!(reason, Some(Reason::Changed), "{what}");
        rig.ended(Outcome::Failed, Some(Reason::Changed));
        assert_eq!((rig.resolved(), rig.acted()), (2, 0), "{what}");
    }
}

#[test]
fn what_fails_to_resolve_after_the_yes_leaves_one_line_and_so_does_a_panic_there() {
    let rig = asking_rig();
    let gone = Arc::clone(&rig);
    let people = People::on(Surface::Terminal).then(move |_| {
        gone.found.lock().unwrap().fails = Some(Reason::NotFound);
        let yes = answer(Decision::AllowOnce, Surface::Terminal);
        Box::pin(std::future::ready(Reply::Answered(yes)))
    });
    assert_eq!(
        rig.reason(&with(&people.shared()), Verb::Read, "a"),
        Some(Reason::NotFound)
    );
    rig.ended(Outcome::Failed, Some(Reason::NotFound));

    let rig = asking_rig();
    let broken = Arc::clone(&rig);
    let people = People::on(Surface::Terminal).then(move |_| {
        broken.found.lock().unwrap().panics = true;
        let yes = answer(Decision::AllowOnce, Surface::Terminal);
        Box::pin(std::future::ready(Reply::Answered(yes)))
    });
    let caller = with(&people.shared());
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        block(rig.run(&caller, Verb::Read, "a"))
    }));
    assert!(unwound.is_err());
    rig.ended(Outcome::Abandoned, None);
}

/// Somebody who answers as many questions as are asked, yes and no in turn,
/// once `all` of them are open.
struct Crowd {
    all: usize,
    asked: std::sync::atomic::AtomicUsize,
    gate: tokio::sync::watch::Sender<bool>,
}

impl portcullis_gate::Approver for Crowd {
    fn surface(&self) -> Surface {
        Surface::Script
    }

    fn ask<'a>(&'a self, _: &'a portcullis_gate::Question) -> crate::rig::Boxed<'a, Reply> {
        let n = self.asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
        if n == self.all {
            self.gate.send_replace(true);
        }
        let mut open = self.gate.subscribe();
        Box::pin(async move {
            open.wait_for(|open| *open).await.unwrap();
            let decision = if n.is_multiple_of(2) {
                Decision::AllowOnce
            } else {
                Decision::DenyOnce
            };
            Reply::Answered(answer(decision, Surface::Script))
        })
    }
}

fn crowd(all: usize) -> Arc<Crowd> {
    Arc::new(Crowd {
        all,
        asked: 0.into(),
        gate: tokio::sync::watch::Sender::new(false),
    })
}

#[test]
fn ten_thousand_parked_questions_end_in_ten_thousand_lines() {
    const ALL: usize = 10_000;
    let rig = asking_rig();
    let caller = crate::rig::alone().asking(crowd(ALL));
    let yes = block(async {
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..ALL {
            let (rig, caller) = (Arc::clone(&rig), caller.clone());
            tasks
                .spawn(async move { rig.run(&caller, Verb::Read, &format!("f{n}")).await.is_ok() });
        }
        tasks
            .join_all()
            .await
            .into_iter()
            .filter(|yes| *yes)
            .count()
    });
    let closing = rig.lines.closing();
    assert_eq!(closing.len(), ALL);
    let with = |outcome| {
        closing
            .iter()
            .filter(|line| line.outcome == outcome)
            .count()
    };
    assert_eq!(yes, ALL / 2);
    assert_eq!(
        (with(Outcome::Success), with(Outcome::Denied)),
        (ALL / 2, ALL / 2)
    );
    assert_eq!(rig.acted(), ALL / 2);
    let requests: std::collections::HashSet<_> = closing.iter().map(|line| &line.request).collect();
    assert_eq!(requests.len(), ALL, "one each");
}

#[test]
fn more_questions_than_anybody_could_answer_are_refused_and_their_places_come_back() {
    const MOST: usize = 16_384;
    let rig = asking_rig();
    let crowd = crowd(usize::MAX);
    let nobody = crate::rig::alone().asking(crowd.clone());
    block(async {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..MOST {
            let (rig, caller) = (Arc::clone(&rig), nobody.clone());
            tasks.spawn(async move { rig.run(&caller, Verb::Read, "a").await.is_ok() });
        }
        while crowd.asked.load(std::sync::atomic::Ordering::SeqCst) < MOST {
            tokio::task::yield_now().await;
        }
        let over = rig.run(&nobody, Verb::Read, "a").await.unwrap_err();
        assert_eq!(over.reason(), Reason::Overload);
        tasks.shutdown().await;
        let yes = crate::rig::terminal(&[Decision::AllowOnce]);
        assert_eq!(rig.run(&with(&yes), Verb::Read, "a").await, Ok("bytes"));
    });
    assert_eq!(rig.lines.closing().len(), MOST + 2);
}

#[test]
fn a_question_is_pinned_to_who_asks_part_by_part() {
    use portcullis_gate::Caller;
    use portcullis_proto::{ConversationId, Principal, RunId, Subject};
    let token = |user: &str, id: &str| Principal::Token {
        user: user.into(),
        id: id.into(),
    };
    let mut subjects = vec![
        Subject::of(token("a/b", "c")),
        Subject::of(token("a", "b/c")),
        Subject::of(Principal::User { id: "x".into() }),
        Subject::of(Principal::Extension { id: "x".into() }),
    ];
    let mut empty = subjects[2].clone();
    empty.conversation_id = Some(ConversationId::new(""));
    let mut run = subjects[2].clone();
    run.run_id = Some(RunId::new(""));
    subjects.extend([empty, run]);
    let mut digests = std::collections::HashSet::new();
    let all = subjects.len();
    for subject in subjects {
        let rig = open_rig();
        let people = crate::rig::terminal(&[Decision::DenyOnce]);
        rig.gate.grants().issue(portcullis_gate::Grant::new(
            subject.principal.clone(),
            rig.root.id().clone(),
            portcullis_proto::AccessSet::ALL,
            None,
            portcullis_gate::GrantSource::Core,
        ));
        let caller = Caller::new(subject, "test").asking(people.clone());
        rig.reason(&caller, Verb::Read, ".env");
        digests.insert(people.questions()[0].digest);
    }
    assert_eq!(digests.len(), all);
}

#[test]
fn a_question_says_until_when_it_waits_and_which_answers_count() {
    let rig = rig(|setup| setup.modes = portcullis_policy::Modes::all(portcullis_proto::Mode::Ask));
    let people = crate::rig::terminal(&[Decision::AllowOnce]);
    let caller = with(&people)
        .patient_for(std::time::Duration::from_secs(25))
        .in_session(SessionId::new("s"));
    block(rig.run(&caller, Verb::Read, "a")).unwrap();
    let question = &people.questions()[0];
    assert_eq!((question.asked_at, question.deadline), (1_000, 26_000));
    assert_eq!(question.offered, Decision::ALL);
    assert!(!question.exact_path);
    assert_eq!(question.sentence(), "read a (root w)");
}
