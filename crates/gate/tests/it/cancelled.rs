//! A request dropped at every point it can wait at: one line each, nothing done
//! that was not finished.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use portcullis_gate::{CancelFlag, Decision, HookSay, Reply, Surface};
use portcullis_policy::Modes;
use portcullis_proto::{Mode, Outcome, Reason, Verb};

use crate::rig::{
    People, Rig, Says, after_polls, alone, answer, block, open_rig, rig, runtime, spend, with,
};

/// Polls the way through `path` at most `polls` times, then drops it. Says
/// whether it came to its end.
fn cut_off_after(rig: &Arc<Rig>, people: People, path: &str, polls: usize) -> bool {
    let runtime = runtime();
    let _in_runtime = runtime.enter();
    let caller = with(&people.shared());
    let attempt = rig.attempt(&caller, Verb::Write, path).unwrap();
    let resolve = rig.resolver(Verb::Write, &attempt);
    let mut entering = pin!(attempt.enter(resolve));
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..polls {
        if let Poll::Ready(permit) = entering.as_mut().poll(&mut context) {
            rig.act(permit.unwrap()).unwrap();
            return true;
        }
    }
    false
}

/// Two hooks and two questions, each of which takes its time.
fn slow_rig() -> Arc<Rig> {
    rig(|setup| {
        setup.modes = Modes::all(Mode::Allow);
        for id in ["one", "two"] {
            let hook = Says::new(id, |_| after_polls(2, HookSay::Ask("look at it".into())));
            setup.hooks.push(Arc::new(hook));
        }
    })
}

fn slow_people() -> People {
    let yes = || Reply::Answered(answer(Decision::AllowOnce, Surface::Script));
    People::on(Surface::Script)
        .then(move |_| after_polls(2, yes()))
        .then(move |_| after_polls(2, yes()))
}

#[test]
fn dropped_at_every_point_it_waits_at_it_leaves_one_line() {
    for path in ["a", ".env"] {
        let mut points = 0;
        loop {
            let rig = slow_rig();
            if cut_off_after(&rig, slow_people(), path, points) {
                rig.ended(Outcome::Success, None);
                assert_eq!(rig.acted(), 1);
                break;
            }
            rig.ended(Outcome::Abandoned, None);
            assert_eq!(rig.acted(), 0, "nothing is done after {points} polls");
            points += 1;
        }
        assert!(points >= 6, "{path}: it waited at {points} points only");
    }
}

#[test]
fn a_caller_that_gave_up_while_the_question_was_open_is_not_served() {
    let rig = rig(|setup| setup.modes = Modes::all(Mode::Ask));
    let flag = CancelFlag::new();
    let raised = flag.clone();
    let people = People::on(Surface::Terminal).then(move |_| {
        raised.cancel();
        Box::pin(std::future::ready(Reply::Answered(answer(
            Decision::AllowOnce,
            Surface::Terminal,
        ))))
    });
    let caller = with(&people.shared()).cancelled_by(flag);
    assert_eq!(
        rig.reason(&caller, Verb::Read, "a"),
        Some(Reason::Cancelled)
    );
    rig.ended(Outcome::Failed, Some(Reason::Cancelled));
    assert_eq!(rig.acted(), 0);
}

#[test]
fn a_long_act_learns_that_its_caller_gave_up() {
    let rig = open_rig();
    let flag = CancelFlag::new();
    let caller = alone().cancelled_by(flag.clone());
    let permit = block(rig.permit(&caller, Verb::Read, "a")).unwrap();
    let failed = spend(permit, |live| {
        live.still().unwrap();
        flag.cancel();
        live.still()
            .map(|()| ((), portcullis_gate::Settled::default()))
    });
    assert_eq!(failed.unwrap_err().reason(), Reason::Cancelled);
    rig.ended(Outcome::Failed, Some(Reason::Cancelled));
}
