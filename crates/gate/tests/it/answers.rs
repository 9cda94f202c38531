//! Which answers count, how far they reach, and that each counts once.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

use portcullis_gate::{Answered, Caller, Claim, Decision, Reply, Surface};
use portcullis_policy::{Effect, Rule};
use portcullis_proto::{
    Access, Digest, Failure, Group, Outcome, Principal, QuestionId, Reason, RelPath, Resource,
    SessionId, Subject, Verb,
};

use crate::rig::{People, Rig, alone, answer, asking_rig, block, open_rig, terminal, with};

fn session(id: &str) -> SessionId {
    SessionId::new(id)
}

/// Whether `caller`, whom nobody can be asked about, may read `path`.
fn reads(rig: &Arc<Rig>, mut caller: Caller, path: &str) -> bool {
    caller.approver = None;
    block(rig.run(&caller, Verb::Read, path)).is_ok()
}

#[test]
fn lasting_answers_are_offered_only_where_they_would_count() {
    #[track_caller]
    fn check(people: People, caller: impl Fn(Caller) -> Caller, want: &[Decision]) {
        let people = people.say(Decision::DenyOnce).shared();
        asking_rig().reason(&caller(with(&people)), Verb::Read, "a");
        assert_eq!(people.questions()[0].offered, want);
    }
    use Decision::{AllowOnce, AllowSession, AlwaysAllow, AlwaysDeny, DenyOnce};
    let here = |caller: Caller| caller.in_session(session("s"));
    let none = |caller| caller;
    check(People::on(Surface::Mcp), none, &[AllowOnce, DenyOnce]);
    check(
        People::on(Surface::Mcp),
        here,
        &[AllowOnce, AllowSession, DenyOnce],
    );
    check(
        People::on(Surface::Terminal),
        none,
        &[AllowOnce, AlwaysAllow, DenyOnce, AlwaysDeny],
    );
    check(People::on(Surface::Console), here, &Decision::ALL);
    // Asked by way of the agent's client, answerable at the terminal too.
    let mut durable = People::on(Surface::Mcp);
    durable.always = Some(true);
    check(
        durable,
        none,
        &[AllowOnce, AlwaysAllow, DenyOnce, AlwaysDeny],
    );
}

#[test]
fn an_answer_that_was_not_offered_is_a_no_and_is_not_kept() {
    for (surface, decision) in [
        (Surface::Mcp, Decision::AlwaysAllow),
        (Surface::Mcp, Decision::AlwaysDeny),
        (Surface::Script, Decision::AlwaysAllow),
        (Surface::Terminal, Decision::AllowSession),
    ] {
        let rig = asking_rig();
        let people = People::on(surface).say(decision).shared();
        let reason = rig.reason(&with(&people), Verb::Read, "a");
        assert_eq!(
            reason,
            Some(Reason::ApprovalDenied),
            "{surface:?} {decision:?}"
        );
        rig.ended(Outcome::Denied, Some(Reason::ApprovalDenied));
        assert_eq!(rig.acted(), 0);
        assert!(rig.kept.rules.lock().unwrap().is_empty());
        assert!(rig.gate.rules().stored.rules().is_empty());
    }
}

#[test]
fn a_lasting_answer_counts_by_the_surface_it_came_from_not_by_who_asked() {
    for (from, counts) in [(Surface::Terminal, true), (Surface::Mcp, false)] {
        let rig = asking_rig();
        let mut durable = People::on(Surface::Mcp);
        durable.always = Some(true);
        let people = durable
            .reply(Reply::Answered(answer(Decision::AlwaysAllow, from)))
            .shared();
        assert_eq!(
            block(rig.run(&with(&people), Verb::Read, "a")).is_ok(),
            counts
        );
        assert_eq!(rig.kept.rules.lock().unwrap().len(), usize::from(counts));
    }
    // The terminal's word does not make up for its not being offered.
    let rig = asking_rig();
    let people = People::on(Surface::Mcp)
        .reply(Reply::Answered(answer(
            Decision::AlwaysAllow,
            Surface::Terminal,
        )))
        .shared();
    assert_eq!(
        rig.reason(&with(&people), Verb::Read, "a"),
        Some(Reason::ApprovalDenied)
    );
}

#[test]
fn a_yes_for_the_session_reaches_below_the_path_and_ends_with_the_session() {
    let rig = asking_rig();
    let people = terminal(&[Decision::AllowSession]);
    let caller = with(&people).in_session(session("s"));
    block(rig.run(&caller, Verb::List, "src")).unwrap();
    assert!(reads(&rig, caller.clone(), "src/deep/file"));
    assert!(!reads(&rig, caller.clone(), "srcs"), "not beside it");
    assert!(!reads(&rig, alone(), "src/a"), "not without the session");
    assert!(!reads(&rig, alone().in_session(session("t")), "src/a"));
    rig.gate.end_session(&session("s"));
    assert!(!reads(&rig, caller, "src/a"));
}

#[test]
fn naming_somebody_elses_session_brings_nothing() {
    let rig = asking_rig();
    let people = terminal(&[Decision::AllowSession]);
    block(rig.run(&with(&people).in_session(session("s")), Verb::Read, "a")).unwrap();
    let eve = Principal::User { id: "eve".into() };
    rig.gate.grants().issue(portcullis_gate::Grant::new(
        eve.clone(),
        rig.root.id().clone(),
        portcullis_proto::AccessSet::ALL,
        None,
        portcullis_gate::GrantSource::Core,
    ));
    let eve = Caller::new(Subject::of(eve), "test").in_session(session("s"));
    assert!(!reads(&rig, eve, "a"));
    assert!(reads(&rig, alone().in_session(session("s")), "a"));
}

#[test]
fn a_yes_about_a_protected_path_is_remembered_for_that_very_path() {
    let rig = open_rig();
    let people = terminal(&[Decision::AllowSession]);
    let caller = with(&people).in_session(session("s"));
    block(rig.run(&caller, Verb::Read, ".ssh")).unwrap();
    assert!(people.questions()[0].exact_path);
    assert!(reads(&rig, caller.clone(), ".ssh"));
    assert!(!reads(&rig, caller, ".ssh/id_rsa"));
}

/// What a lasting yes to a deed on these leaves behind, of the question about `a`
/// that somebody was asked.
fn left_behind(verb: Verb, on: &[(&str, Access)], class: Option<&str>) -> Vec<Rule> {
    let people = terminal(&[Decision::DenyOnce]);
    asking_rig().reason(&with(&people), Verb::Read, "a");
    let mut asked = people.questions()[0].clone();
    let resource = asked.facts.resources[0].clone();
    asked.class = class.map(str::to_owned);
    asked.facts.verb = verb;
    asked.facts.resources = on
        .iter()
        .map(|(path, access)| Resource {
            path: RelPath::parse(path).unwrap(),
            access: *access,
            ..resource.clone()
        })
        .collect();
    asked.rules_of(&answer(Decision::AlwaysAllow, Surface::Terminal))
}

#[test]
fn r011_a_lasting_yes_to_a_copy_lets_nobody_change_what_was_copied() {
    let on = [("src", Access::Read), ("b.txt", Access::Write)];
    let left = left_behind(Verb::Copy, &on, None);
    let left: Vec<_> = left.iter().map(|one| (one.group, &*one.pattern)).collect();
    assert_eq!(
        left,
        [
            (Group::FilesystemRead, "/src"),
            (Group::FilesystemWrite, "/b.txt")
        ]
    );
    // What an archive is made of cannot be said to be only read.
    let people = terminal(&[Decision::DenyOnce]);
    asking_rig().reason(&with(&people), Verb::Archive, "a");
    let offered = &people.questions()[0].offered;
    assert!(!offered.contains(&Decision::AlwaysAllow), "{offered:?}");
    assert!(offered.contains(&Decision::AlwaysDeny), "{offered:?}");
}

#[test]
fn r012_a_lasting_yes_with_a_protected_path_in_it_covers_nothing_below_the_other() {
    let on = [("src", Access::Move), (".git/hooks/x", Access::Write)];
    for (class, is_exact) in [(None, false), (Some("auto-exec"), true)] {
        let left = left_behind(Verb::Move, &on, class);
        assert_eq!(left.len(), 2);
        assert!(left.iter().all(|one| one.exact_path == is_exact));
    }
}

#[test]
fn always_from_the_terminal_is_kept_and_in_force_at_once() {
    let rig = asking_rig();
    let people = terminal(&[Decision::AlwaysAllow]);
    block(rig.run(&with(&people), Verb::Read, "a")).unwrap();
    assert!(reads(&rig, alone(), "a/b"));
    let kept = rig.kept.rules.lock().unwrap().clone();
    assert_eq!(
        (kept.len(), kept[0].effect, &*kept[0].pattern),
        (1, Effect::Allow, "/a")
    );
    assert_eq!(rig.lines.closing()[1].source, "answer:q_t_1");
}

#[test]
fn never_from_the_terminal_is_kept_and_wins_over_what_allows() {
    for path in ["a", "odd\\name", "tail\\"] {
        let rig = asking_rig();
        let people = terminal(&[Decision::AllowSession, Decision::AlwaysDeny]);
        let caller = with(&people).in_session(session("s"));
        block(rig.run(&caller, Verb::List, "")).unwrap();
        // Writing is asked about still; its deny holds for writing.
        assert_eq!(
            rig.reason(&caller, Verb::Write, path),
            Some(Reason::ApprovalDenied)
        );
        assert_eq!(rig.kept.rules.lock().unwrap()[0].effect, Effect::Deny);
        assert_eq!(
            rig.reason(&caller, Verb::Write, path),
            Some(Reason::DeniedByRule),
            "{path}"
        );
        assert!(
            reads(&rig, caller, path),
            "reading was allowed, and was not denied"
        );
    }
}

#[test]
fn a_rule_that_cannot_be_stored_holds_here_and_tells_no_host_path() {
    let rig = asking_rig();
    rig.kept.fails.store(true, SeqCst);
    let people = terminal(&[Decision::AlwaysDeny]);
    assert_eq!(
        rig.reason(&with(&people), Verb::Read, "a"),
        Some(Reason::ApprovalDenied)
    );
    let failure = block(rig.run(&alone(), Verb::Read, "a")).unwrap_err();
    assert_eq!(failure.reason(), Reason::DeniedByRule);
    assert!(failure.message().contains("not stored"), "{failure}");
    assert!(!failure.message().contains("/home"), "{failure}");
}

#[test]
fn lasting_answers_given_at_once_are_all_kept() {
    const ALL: usize = 64;
    let rig = asking_rig();
    std::thread::scope(|scope| {
        for n in 0..ALL {
            let rig = &rig;
            scope.spawn(move || {
                let people = terminal(&[Decision::AlwaysDeny]);
                rig.reason(&with(&people), Verb::Read, &format!("f{n}"))
            });
        }
    });
    assert_eq!(rig.gate.rules().stored.rules().len(), ALL);
}

/// Asks, and leaves the question to another call.
fn suspended(rig: &Arc<Rig>, verb: Verb, path: &str) -> Answered {
    let people = People::on(Surface::Mcp).reply(Reply::Suspended).shared();
    assert_eq!(
        rig.reason(&with(&people), verb, path),
        Some(Reason::ApprovalPending)
    );
    let question = people.questions()[0].clone();
    Answered {
        question: question.id,
        digest: question.digest,
        answer: answer(Decision::AllowOnce, Surface::Mcp),
    }
}

#[test]
fn an_answer_brought_with_the_call_goes_through_once() {
    for path in ["a", ".env"] {
        let rig = asking_rig();
        let caller = alone().bringing(suspended(&rig, Verb::Read, path));
        assert_eq!(
            block(rig.run(&caller, Verb::Read, path)),
            Ok("bytes"),
            "{path}"
        );
        let line = rig.lines.closing().pop().unwrap();
        assert_eq!(line.question.as_deref(), Some("q_t_1"));
        assert_eq!(line.answered_by.as_deref(), Some("mcp:ada"));
        // The same caller, and a copy of it: the answer is used up.
        for caller in [caller.clone(), caller] {
            let reason = rig.reason(&caller, Verb::Read, path);
            assert_eq!(reason, Some(Reason::ApprovalUnavailable));
        }
        assert_eq!(rig.acted(), 1);
    }
}

/// Answers that can be taken, each once.
struct Untaken(Mutex<Vec<QuestionId>>);

impl Claim for Untaken {
    fn take<'a>(
        &'a self,
        question: &'a QuestionId,
    ) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>> {
        let mut left = self.0.lock().unwrap();
        let at = left.iter().position(|one| one == question);
        let taken = at.map(|at| drop(left.remove(at)));
        Box::pin(std::future::ready(
            taken.ok_or_else(|| Reason::AnswerUsed.into()),
        ))
    }
}

#[test]
fn an_answer_is_taken_where_it_counts_and_by_one_alone() {
    let rig = asking_rig();
    let brought = suspended(&rig, Verb::Read, "a");
    let untaken = Arc::new(Untaken(Mutex::new(vec![brought.question.clone()])));
    let bring = || alone().bringing_untaken(brought.clone(), untaken.clone());
    // A call that is refused before, or is about something else, uses nothing up.
    assert_eq!(
        rig.reason(&bring(), Verb::Read, "../a"),
        Some(Reason::Escape)
    );
    assert_eq!(
        rig.reason(&bring(), Verb::Write, "a"),
        Some(Reason::Changed)
    );
    assert_eq!(untaken.0.lock().unwrap().len(), 1);
    // Two bring it at once: both saw it untaken, and one is let through.
    let (first, second) = (bring(), bring());
    assert_eq!(block(rig.run(&first, Verb::Read, "a")), Ok("bytes"));
    assert_eq!(
        rig.reason(&second, Verb::Read, "a"),
        Some(Reason::AnswerUsed)
    );
    assert_eq!(rig.acted(), 1);
    assert!(untaken.0.lock().unwrap().is_empty());
}

#[test]
fn an_answer_to_something_else_is_changed_and_used_up() {
    let rig = asking_rig();
    let mut brought = suspended(&rig, Verb::Read, "a");
    brought.digest = Digest::ZERO;
    let caller = alone().bringing(brought);
    assert_eq!(rig.reason(&caller, Verb::Read, "a"), Some(Reason::Changed));
    assert_eq!(
        rig.reason(&caller, Verb::Read, "a"),
        Some(Reason::ApprovalUnavailable)
    );

    let caller = alone().bringing(suspended(&rig, Verb::Read, "a"));
    assert_eq!(rig.reason(&caller, Verb::Write, "a"), Some(Reason::Changed));

    let caller = alone().bringing(suspended(&rig, Verb::Read, "a"));
    rig.found.lock().unwrap().identity.as_mut().unwrap().ino += 1;
    assert_eq!(rig.reason(&caller, Verb::Read, "a"), Some(Reason::Changed));
    assert_eq!(rig.acted(), 0);
}

#[test]
fn a_no_brought_with_the_call_holds_even_where_nobody_would_ask_any_more() {
    for path in ["a", ".env"] {
        let rig = asking_rig();
        let mut brought = suspended(&rig, Verb::Read, path);
        brought.answer.decision = Decision::DenyOnce;
        let people = terminal(&[Decision::AlwaysAllow]);
        block(rig.run(&with(&people), Verb::Read, path)).unwrap();
        assert!(reads(&rig, alone(), path));
        let caller = alone().bringing(brought);
        assert_eq!(
            rig.reason(&caller, Verb::Read, path),
            Some(Reason::ApprovalDenied)
        );
        assert_eq!(rig.acted(), 2);
    }
}

#[test]
fn a_lasting_answer_brought_from_the_agents_client_is_a_no() {
    let rig = asking_rig();
    let mut brought = suspended(&rig, Verb::Read, "a");
    brought.answer.decision = Decision::AlwaysAllow;
    let caller = alone().bringing(brought.clone());
    assert_eq!(
        rig.reason(&caller, Verb::Read, "a"),
        Some(Reason::ApprovalDenied)
    );
    assert!(rig.kept.rules.lock().unwrap().is_empty());
    brought.answer.surface = Surface::Terminal;
    brought.question = QuestionId::new("q_t_1");
    let caller = alone().bringing(brought);
    assert_eq!(block(rig.run(&caller, Verb::Read, "a")), Ok("bytes"));
    // It was kept when it was said: who took it back since has taken it back.
    assert!(rig.kept.rules.lock().unwrap().is_empty());
}

#[test]
fn a_look_at_a_secret_is_allowed_once_and_no_yes_to_its_bytes_is_kept() {
    let rig = open_rig();
    let people = People::on(Surface::Console)
        .say(Decision::AllowSession)
        .shared();
    let caller = with(&people).in_session(session("s"));
    assert_eq!(
        rig.reason(&caller, Verb::Stat, ".env"),
        Some(Reason::ApprovalDenied)
    );
    assert_eq!(
        people.questions()[0].offered,
        [
            Decision::AllowOnce,
            Decision::DenyOnce,
            Decision::AlwaysDeny
        ]
    );
    assert!(!reads(&rig, caller, ".env"));
}
