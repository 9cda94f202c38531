//! Questions at the terminal, one after the other, on standard error.
//!
//! A question that is the same as one that waits is denied with it; one about
//! the same resource is answered with it where the answer lasts. An allow once is
//! for the one question that was shown. Esc, Ctrl-C and a
//! terminal that is gone deny once; what was typed before a question could be read,
//! and a line that chooses nothing, are no answer. Ctrl-C
//! twice within two seconds denies all that waits and ends the link: however fast a
//! server asks, and however soon it takes back what it asked, a person gets out.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use portcullis_gate::{Answer, Approver, Clock as _, Decision, Question, Reply, Surface};
use portcullis_proto::{Access, Facts};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::screen::Screen;
use crate::clock::SystemClock;
use crate::commands::approve::{card, choices};
use crate::out::{Mark, Out, aside};
use crate::prompt::{Chosen, List, PAUSE};

/// Two Ctrl-C within so long of each other are meant for the link.
const TWICE: Duration = Duration::from_secs(2);

/// A question, and who waits for what is said.
struct Put {
    question: Question,
    reply: oneshot::Sender<Decision>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Put>,
    is_over: bool,
}

#[derive(Default)]
struct Desk {
    queue: Mutex<Queue>,
    came: Condvar,
}

impl Desk {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody is asked any more; all that waits is denied.
    fn close(&self) {
        let waiting = {
            let mut queue = self.queue();
            queue.is_over = true;
            std::mem::take(&mut queue.waiting)
        };
        for put in waiting {
            // Who went away meanwhile does not mind.
            put.reply.send(Decision::DenyOnce).ok();
        }
        self.came.notify_all();
    }
}

/// The person at the terminal.
pub(super) struct Terminal {
    desk: Arc<Desk>,
    user: String,
}

impl Terminal {
    /// Asks on a thread of its own, for as long as it lasts.
    pub(super) fn open(user: &str, screen: Arc<Screen>, ending: CancellationToken) -> Self {
        let desk = Arc::new(Desk::default());
        let asking = Arc::clone(&desk);
        std::thread::spawn(move || {
            let mut interrupted: Option<Instant> = None;
            while let Some(put) = next(&asking) {
                screen.begin_prompt();
                let came = put_to_person(&put);
                if matches!(came, Came::Interrupted) {
                    // Time alone makes it the first one again: a question that came and
                    // went in between was not the person's doing.
                    let before = interrupted.replace(Instant::now());
                    if before.is_some_and(|before| before.elapsed() < TWICE) {
                        ending.cancel();
                        asking.close();
                    }
                }
                settle(&asking, put, came.decision());
                screen.end_prompt();
            }
        });
        Self {
            desk,
            user: user.to_owned(),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.desk.close();
    }
}

impl Approver for Terminal {
    fn surface(&self) -> Surface {
        Surface::Terminal
    }

    fn ask<'a>(
        &'a self,
        question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>> {
        let (reply, said) = oneshot::channel();
        let mut queue = self.desk.queue();
        // After the end the sender goes, which is no answer.
        if !queue.is_over {
            // Who asks and goes, again and again while one is shown, leaves nothing.
            queue.waiting.retain(|put| !put.reply.is_closed());
            queue.waiting.push_back(Put {
                question: question.clone(),
                reply,
            });
        }
        drop(queue);
        self.desk.came.notify_all();
        Box::pin(async move {
            match said.await {
                Ok(decision) => Reply::Answered(Answer {
                    decision,
                    surface: Surface::Terminal,
                    by: self.user.clone(),
                }),
                Err(_) => Reply::Unavailable,
            }
        })
    }
}

/// The next question somebody still waits for.
fn next(desk: &Desk) -> Option<Put> {
    let mut queue = desk.queue();
    loop {
        if queue.is_over {
            return None;
        }
        match queue.waiting.pop_front() {
            Some(put) if put.reply.is_closed() => {}
            Some(put) => return Some(put),
            None => {
                queue = desk
                    .came
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// Hands an answer to who waits for it, and to everybody it answers as well.
fn settle(desk: &Desk, put: Put, decision: Option<Decision>) {
    let Some(decision) = decision else {
        // Nobody waits for it any more.
        return;
    };
    let mut queue = desk.queue();
    let waiting = std::mem::take(&mut queue.waiting);
    for other in waiting {
        if is_answered_by(&other.question, &put.question, decision) {
            // Who went away meanwhile does not mind.
            other.reply.send(decision).ok();
        } else {
            queue.waiting.push_back(other);
        }
    }
    drop(queue);
    put.reply.send(decision).ok();
}

/// Whether what was said to `asked` is said to `other` as well: a no to the very
/// same deed, and what lasts to the same resources. Once is once: a second deed
/// that is allowed was shown.
fn is_answered_by(other: &Question, asked: &Question, decision: Decision) -> bool {
    if !other.offered.contains(&decision) {
        return false;
    }
    match decision {
        Decision::AllowOnce => false,
        Decision::DenyOnce => other.digest == asked.digest,
        Decision::AllowSession | Decision::AlwaysAllow | Decision::AlwaysDeny => {
            other.facts.group() == asked.facts.group()
                && other.class == asked.class
                && resources(&other.facts) == resources(&asked.facts)
        }
    }
}

/// With what is done to each: a yes to changing a file is none to taking it away, and
/// one to reading it on the way none to changing it.
fn resources(facts: &Facts) -> Vec<(&str, &str, Access)> {
    let resources = facts.resources.iter();
    resources
        .map(|one| (one.root.as_str(), one.path.as_str(), one.access))
        .collect()
}

/// What came of a question.
enum Came {
    Said(Decision),
    /// Ctrl-C, which denies once.
    Interrupted,
    /// Nobody waits for it any more.
    TooLate,
}

impl Came {
    const fn decision(&self) -> Option<Decision> {
        match self {
            Self::Said(decision) => Some(*decision),
            Self::Interrupted => Some(Decision::DenyOnce),
            Self::TooLate => None,
        }
    }
}

/// Shows a question and hears the answer.
fn put_to_person(put: &Put) -> Came {
    let clock = SystemClock::new();
    let mut out = Out::stderr();
    let shown = out
        .blank()
        .and_then(|()| card(&mut out, &put.question, clock.now_ms()))
        .and_then(|()| out.flush());
    if shown.is_err() {
        return Came::Said(Decision::DenyOnce);
    }
    let (choices, start) = choices(&put.question);
    let list = List {
        asked: None,
        choices: &choices,
        start,
        escape: "Esc denies once",
        pause: PAUSE,
    };
    match list.put(|| put.reply.is_closed()) {
        Ok(Chosen::This(choice)) => {
            let mark = if choice.decision.allows() {
                Mark::Yes
            } else {
                Mark::No
            };
            aside(mark.with(choice));
            Came::Said(choice.decision)
        }
        Ok(Chosen::Left) => {
            aside(Mark::No.with("Deny once"));
            Came::Said(Decision::DenyOnce)
        }
        Ok(Chosen::Interrupted) => {
            aside(Mark::No.with("Deny once; Ctrl-C again ends the link"));
            Came::Interrupted
        }
        Ok(Chosen::TooLate) => {
            aside(Mark::Warn.with("Nobody waits for it any more: nothing was done."));
            Came::TooLate
        }
        // The terminal is gone, or never was one.
        Err(_) => Came::Said(Decision::DenyOnce),
    }
}

#[cfg(test)]
mod tests {
    use portcullis_proto::{
        Digest, Principal, QuestionId, RelPath, Resource, RootId, RootKind, Subject, Verb,
    };

    use super::*;

    fn question(access: Access) -> Question {
        Question {
            id: QuestionId::new("q_1"),
            digest: Digest([7; 32]),
            subject: Subject::of(Principal::User { id: "me".into() }),
            facts: Facts {
                verb: Verb::Copy,
                resources: vec![Resource {
                    root: RootId::parse("workspace").unwrap(),
                    kind: RootKind::Workspace,
                    path: RelPath::parse("a.txt").unwrap(),
                    access,
                    identity: None,
                    above: None,
                }],
                shown: None,
                shrinks: false,
                below: Vec::new(),
                more_below: 0,
                unkept: false,
            },
            class: None,
            source: String::new(),
            exact_path: false,
            about: None,
            offered: Decision::ALL.to_vec(),
            asked_at: 0,
            deadline: 1,
        }
    }

    #[test]
    fn questions_nobody_waits_for_any_more_do_not_pile_up() {
        let terminal = Terminal {
            desk: Arc::default(),
            user: "me".to_owned(),
        };
        let asked = question(Access::Read);
        let waits = terminal.ask(&asked);
        for _ in 0..100 {
            drop(terminal.ask(&asked));
        }
        let left = terminal.desk.queue().waiting.len();
        // Who waits, and the last of the others.
        assert_eq!(left, 2);
        drop(waits);
    }

    #[test]
    fn an_answer_that_lasts_is_said_to_as_much_as_was_asked_for_and_no_more() {
        let (reads, deletes) = (question(Access::Read), question(Access::Delete));
        for decision in [
            Decision::AllowSession,
            Decision::AlwaysAllow,
            Decision::AlwaysDeny,
        ] {
            assert!(is_answered_by(&reads, &reads, decision));
            assert!(!is_answered_by(&deletes, &reads, decision));
        }
    }
}
