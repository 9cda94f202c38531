//! Questions at the terminal, one after the other, on standard error.
//!
//! A question that is the same as one that waits is denied with it; one about
//! the same resource is answered with it where the answer lasts. An allow once is
//! for the one question that was shown. Esc, Ctrl-C, a
//! terminal that is gone, and everything else that is no answer deny once; what was
//! typed before a question could be read is dropped. Ctrl-C
//! twice within two seconds denies all that waits and ends the link: however fast a
//! server asks, and however soon it takes back what it asked, a person gets out.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, Write as _};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossterm::cursor::MoveUp;
use crossterm::event::{Event, KeyEventKind};
use crossterm::execute;
use crossterm::terminal::{Clear, ClearType, disable_raw_mode, enable_raw_mode};
use portcullis_gate::{Answer, Approver, Clock as _, Decision, Question, Reply, Surface};
use portcullis_proto::{Access, Facts};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::keys::{Cursor, Keys, Meant, PAUSE, Typed, is_interrupt};
use super::screen::Screen;
use crate::clock::SystemClock;
use crate::commands::approve::{Choice, card, choices};
use crate::out::{BOLD, Mark, Out, aside, paint};

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

/// Whether there is a terminal to ask on: what is asked is seen, and keys come.
pub(super) fn is_there() -> bool {
    use std::io::IsTerminal as _;
    io::stderr().is_terminal() && enable_raw_mode().and_then(|()| disable_raw_mode()).is_ok()
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
    let (choices, no) = choices(&put.question);
    let heard = Keys::take().and_then(|keys| {
        match keys.drop_until_silent(PAUSE, || put.reply.is_closed())? {
            Typed::Nothing => choose(&keys, &choices, no, put),
            Typed::Interrupt => Ok(Heard::Interrupted),
        }
    });
    match heard {
        Ok(Heard::Said(decision)) => {
            let mark = if decision.allows() {
                Mark::Yes
            } else {
                Mark::No
            };
            let said = choices.iter().find(|choice| choice.decision == decision);
            if let Some(said) = said {
                aside(mark.with(said));
            }
            Came::Said(decision)
        }
        Ok(Heard::Left) => {
            aside(Mark::No.with("Deny once"));
            Came::Said(Decision::DenyOnce)
        }
        Ok(Heard::Interrupted) => {
            aside(Mark::No.with("Deny once; Ctrl-C again ends the link"));
            Came::Interrupted
        }
        Ok(Heard::TooLate) => {
            aside(Mark::Warn.with("Nobody waits for it any more: nothing was done."));
            Came::TooLate
        }
        // The terminal is gone, or never was one.
        Err(_) => Came::Said(Decision::DenyOnce),
    }
}

enum Heard {
    Said(Decision),
    Left,
    Interrupted,
    TooLate,
}

/// Hears keys until they are an answer, or nobody waits for one any more.
fn choose(keys: &Keys, choices: &[Choice], no: usize, put: &Put) -> io::Result<Heard> {
    if put.reply.is_closed() {
        return Ok(Heard::TooLate);
    }
    let mut cursor = Cursor::new(choices.len(), no);
    draw(choices, cursor.at(), true)?;
    loop {
        let event = keys.next()?;
        // Before anything else: it is not about this question alone.
        if event.as_ref().is_some_and(is_interrupt) {
            return Ok(Heard::Interrupted);
        }
        if put.reply.is_closed() {
            return Ok(Heard::TooLate);
        }
        let Some(Event::Key(key)) = event else {
            continue;
        };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match cursor.hear(&key, Instant::now()) {
            Meant::This => {
                let choice = choices.get(cursor.at());
                return Ok(choice.map_or(Heard::Left, |choice| Heard::Said(choice.decision)));
            }
            Meant::Left => return Ok(Heard::Left),
            Meant::Nothing => draw(choices, cursor.at(), false)?,
        }
    }
}

/// Draws the answers; over the last ones, unless it is the first time.
fn draw(choices: &[Choice], at: usize, is_first: bool) -> io::Result<()> {
    let mut err = anstream::stderr();
    let lines = u16::try_from(choices.len() + 1).unwrap_or(u16::MAX);
    if !is_first {
        execute!(err, MoveUp(lines))?;
    }
    execute!(err, Clear(ClearType::FromCursorDown))?;
    for (n, choice) in choices.iter().enumerate() {
        let n_from_one = n + 1;
        if n == at {
            let line = format!("> {n_from_one}. {choice}");
            write!(err, "{}\r\n", paint(BOLD, line))?;
        } else {
            write!(err, "  {n_from_one}. {choice}\r\n")?;
        }
    }
    write!(err, "Up, Down or a number, then Enter; Esc denies once\r\n")?;
    err.flush()
}

/// Says yes to everything, once: `--auto-confirm`.
pub(super) struct AlwaysOnce;

impl Approver for AlwaysOnce {
    fn surface(&self) -> Surface {
        Surface::Terminal
    }

    fn ask<'a>(
        &'a self,
        _question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>> {
        Box::pin(std::future::ready(Reply::Answered(Answer {
            decision: Decision::AllowOnce,
            surface: Surface::Terminal,
            by: "--auto-confirm".to_owned(),
        })))
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
                }],
                shown: None,
                shrinks: false,
                below: Vec::new(),
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
