//! `portcullis approve`: a person answers, at their own terminal.
//!
//! Whatever is not an answer (Ctrl-C, Esc, the end of input, no terminal)
//! answers nothing: the question stays, and its deadline turns silence into no.

use std::collections::HashSet;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use portcullis_gate::{Answer, Clock as _, Decision, Question, Surface};
use portcullis_proto::{Failure, QuestionId, Reason};
use portcullis_store::{Said, Store};

use crate::args::{ApproveArgs, ApproveCommand, Everywhere};
use crate::clock::SystemClock;
use crate::environment::Environment;
use crate::out::{BOLD, CYAN, FAINT, Mark, Out, named, paint, shown};
use crate::problem::{Ending, Problem};
use crate::prompt::{Chosen, List, PAUSE, is_there};
use crate::recorded::Recorded;
use crate::settings;
use crate::wiring::open_data;

/// How many questions are shown at once: as many as one person's agents may have
/// waiting, so that none is hidden behind others.
const SHOWN: usize = 1_000;
/// How often a watcher says that it is there; it counts for five seconds.
const BEAT: Duration = Duration::from_millis(1500);
/// How often a watcher looks for questions.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) fn run(
    everywhere: &Everywhere,
    env: &Environment,
    args: &ApproveArgs,
) -> Result<Ending, Problem> {
    let data = open_data(&settings::data_dir(everywhere, env)?)?;
    let desk = Desk {
        store: Store::new(data.path()),
        clock: SystemClock::new(),
        user: env.user.clone(),
        record: Recorded::by("cli/approve", &data),
    };
    match &args.command {
        Some(ApproveCommand::List) => desk.list(),
        Some(ApproveCommand::Answer { id, decision }) => desk.answer(id, decision),
        None if args.watch => desk.watch(),
        None => desk.ask_all(),
    }
}

/// What a person said when they were shown a question.
enum Heard {
    Said(Decision),
    /// Not now; it stays as it is.
    Skipped,
    /// They want to leave.
    Left,
}

struct Desk {
    store: Store,
    clock: SystemClock,
    user: String,
    record: Recorded,
}

impl Desk {
    /// The oldest that wait for an answer.
    fn pending(&self, most: usize) -> Result<Vec<Question>, Problem> {
        Ok(self.store.pending(most, self.clock.now_ms())?)
    }

    fn list(&self) -> Result<Ending, Problem> {
        let mut out = Out::stdout();
        let questions = self.pending(SHOWN)?;
        if questions.is_empty() {
            out.line("Nothing waits for an answer.")?;
        }
        for question in &questions {
            card(&mut out, question, self.clock.now_ms())?;
            how_to_answer(&mut out, question)?;
        }
        Ok(Ending::Fine)
    }

    fn answer(&self, id: &str, typed: &str) -> Result<Ending, Problem> {
        let decision = Decision::parse(typed).ok_or_else(|| {
            Problem::usage(format!("{typed:?} is not an answer.")).hint(format!(
                "Write one of {}.",
                Decision::ALL.map(Decision::as_str).join(", ")
            ))
        })?;
        let mut out = Out::stdout();
        self.say(&mut out, &QuestionId::new(id), decision)
    }

    /// Records an answer, and tells what became of it.
    fn say(&self, out: &mut Out, id: &QuestionId, decision: Decision) -> Result<Ending, Problem> {
        let answer = Answer {
            decision,
            surface: Surface::Terminal,
            by: self.user.clone(),
        };
        self.record
            .change(&format!("{id} {}", decision.as_str()), || {
                let said = self.store.answer(id, &answer, self.clock.now_ms())?;
                counted(said)
            })?;
        let mark = if decision.allows() {
            Mark::Yes
        } else {
            Mark::No
        };
        out.line(mark.with(format_args!("{}: {id}", title(decision))))?;
        Ok(Ending::Fine)
    }

    /// Puts what waits now, one after the other.
    fn ask_all(&self) -> Result<Ending, Problem> {
        let mut out = Out::stdout();
        let questions = self.pending(SHOWN)?;
        if questions.is_empty() {
            out.line("Nothing waits for an answer. To be there when something does: portcullis approve --watch")?;
        }
        for question in &questions {
            match self.put(&mut out, question)? {
                Heard::Said(decision) => self.say_or_tell(&mut out, question, decision)?,
                Heard::Skipped => {}
                Heard::Left => break,
            }
        }
        Ok(Ending::Fine)
    }

    /// Stays, and puts questions as they come. Agents wait only while somebody
    /// watches, so a thread says so for as long as this lasts, prompt or not.
    fn watch(&self) -> Result<Ending, Problem> {
        let mut out = Out::stdout();
        let heart = Heart::start(self.store.clone())?;
        // Without a terminal questions are shown, and answered from elsewhere.
        let prompts = std::io::stdin().is_terminal();
        let how = if prompts {
            "Esc leaves a question unanswered; Ctrl-C ends the watch."
        } else {
            "There is no terminal here: answer from another one."
        };
        out.line(format_args!(
            "{} {how}",
            paint(CYAN, "Watching for questions.")
        ))?;
        out.flush()?;
        let mut skipped: HashSet<QuestionId> = HashSet::new();
        loop {
            // However many were skipped, the next one is among these.
            let pending = self.pending(SHOWN + skipped.len())?;
            let ids: HashSet<&QuestionId> = pending.iter().map(|question| &question.id).collect();
            skipped.retain(|id| ids.contains(id));
            let mut fresh = pending;
            fresh.retain(|question| !skipped.contains(&question.id));
            if !prompts {
                for question in fresh.drain(..) {
                    card(&mut out, &question, self.clock.now_ms())?;
                    how_to_answer(&mut out, &question)?;
                    skipped.insert(question.id);
                }
                out.flush()?;
            }
            let Some(question) = fresh.into_iter().next() else {
                thread::sleep(LOOK);
                continue;
            };
            match self.put(&mut out, &question)? {
                Heard::Said(decision) => self.say_or_tell(&mut out, &question, decision)?,
                Heard::Skipped => {
                    skipped.insert(question.id);
                }
                Heard::Left => break,
            }
        }
        drop(heart);
        Ok(Ending::Fine)
    }

    /// In a conversation, an answer that came too late is told and life goes on.
    fn say_or_tell(
        &self,
        out: &mut Out,
        question: &Question,
        decision: Decision,
    ) -> Result<(), Problem> {
        if let Err(problem) = self.say(out, &question.id, decision) {
            out.line(Mark::Warn.with(problem.what))?;
        }
        out.blank()
    }

    fn put(&self, out: &mut Out, question: &Question) -> Result<Heard, Problem> {
        card(out, question, self.clock.now_ms())?;
        out.flush()?;
        if !is_there() {
            let once = Decision::AllowOnce.as_str();
            return Err(Problem::new(
                "There is no terminal to ask on; the question stays as it is.",
            )
            .hint(format!("portcullis approve answer {} {once}", question.id)));
        }
        let (choices, start) = choices(question);
        let list = List {
            asked: Some("Your answer"),
            choices: &choices,
            start,
            escape: "Esc leaves it unanswered",
            pause: PAUSE,
        };
        match list.put(|| self.clock.now_ms() >= question.deadline) {
            Ok(Chosen::This(choice)) => Ok(Heard::Said(choice.decision)),
            Ok(Chosen::Left) => Ok(Heard::Skipped),
            Ok(Chosen::Interrupted) => Ok(Heard::Left),
            Ok(Chosen::TooLate) => {
                out.line(Mark::Warn.with("Nobody waits for it any more: nothing was done."))?;
                Ok(Heard::Skipped)
            }
            // The end of input, and whatever else is not an answer.
            Err(other) => Err(Problem::new(format!(
                "The prompt ended ({other}); the question stays as it is."
            ))
            .hint("portcullis approve list")),
        }
    }
}

/// What is asked, by whom, why, and for how long yet.
pub(crate) fn card(out: &mut Out, question: &Question, now: u64) -> Result<(), Problem> {
    let left = question.deadline.saturating_sub(now).div_ceil(1000);
    let verb = question.facts.verb;
    let title = Mark::Ask.with(format_args!("An agent wants to {verb}"));
    out.line(format_args!("{title}  {}", paint(FAINT, &question.id)))?;
    for resource in &question.facts.resources {
        out.line(format_args!(
            "  path     {}  {}",
            paint(BOLD, named(resource.path.shown())),
            paint(FAINT, format!("root {} ({})", resource.root, resource.kind))
        ))?;
    }
    match &question.about {
        Some(about) => out.line(format_args!("  about    {}", paint(BOLD, named(about))))?,
        None => out.line(format_args!("  group    {}", question.facts.group()))?,
    }
    if let Some(class) = &question.class {
        let about = match class.as_str() {
            "secret" => "it holds credentials",
            "auto-exec" => "whoever writes it decides what runs later",
            _ => "a protected class",
        };
        out.line(format_args!("  class    {}: {about}", shown(class)))?;
    }
    for (path, runs) in question.runs() {
        out.line(format_args!("  runs     {}: {runs}", named(path.shown())))?;
    }
    if question.facts.unkept {
        out.line("  undo     the store is full of what was displaced within 24 hours; portcullis undo prune frees it")?;
    }
    if question.facts.more_below > 0 {
        let more = question.facts.more_below;
        out.line(format_args!(
            "  runs     and {more} more below it that are protected"
        ))?;
    }
    let client = question
        .subject
        .conversation_id
        .as_ref()
        .map(|id| format!(" through {}", shown(id.as_str())))
        .unwrap_or_default();
    out.line(format_args!(
        "  who      {}{client}",
        shown(&question.subject.label())
    ))?;
    out.line(format_args!("  why      {}", shown(&question.source)))?;
    out.line(format_args!(
        "  deadline {left} s from now, then it counts as no"
    ))
}

/// Whether an answer counts, and if not, why.
fn counted(said: Said) -> Result<(), Failure> {
    let (reason, problem) = match said {
        Said::Answered => return Ok(()),
        Said::AlreadyAnswered => (Reason::AnswerUsed, "Somebody has answered it already."),
        Said::Expired => (
            Reason::ApprovalTimeout,
            "It came too late: nobody waits for it any more.",
        ),
        Said::NotOffered => (Reason::BadArguments, "That answer is not offered for it."),
        Said::Unknown => (Reason::NotFound, "There is no such question."),
    };
    Err(Failure::new(reason, problem).hint("portcullis approve list"))
}

fn how_to_answer(out: &mut Out, question: &Question) -> Result<(), Problem> {
    let words: Vec<&str> = question.offered.iter().map(|one| one.as_str()).collect();
    let (id, words) = (&question.id, words.join("|"));
    out.line(format_args!(
        "  answer   portcullis approve answer {id} {words}"
    ))?;
    out.blank()
}

const fn title(decision: Decision) -> &'static str {
    match decision {
        Decision::AllowOnce => "Allow once",
        Decision::AllowSession => "Allow for this session",
        Decision::AlwaysAllow => "Always allow",
        Decision::DenyOnce => "Deny once",
        Decision::AlwaysDeny => "Always deny",
    }
}

/// An offered answer, in a list.
pub(crate) struct Choice {
    pub(crate) decision: Decision,
    exact: bool,
}

/// The answers that are offered to a question, and the one that Enter pressed by
/// habit gives: it must not let anything through.
pub(crate) fn choices(question: &Question) -> (Vec<Choice>, usize) {
    let choices: Vec<Choice> = question
        .offered
        .iter()
        .map(|decision| Choice {
            decision: *decision,
            exact: question.exact_path,
        })
        .collect();
    let no = choices
        .iter()
        .position(|choice| choice.decision == Decision::DenyOnce)
        .unwrap_or_default();
    (choices, no)
}

impl std::fmt::Display for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let reach = match (self.decision, self.exact) {
            (Decision::AllowOnce | Decision::DenyOnce, _) => "",
            (Decision::AllowSession | Decision::AlwaysAllow, true) => " (this very path)",
            (Decision::AllowSession | Decision::AlwaysAllow, false) | (Decision::AlwaysDeny, _) => {
                " (this path and all below it)"
            }
        };
        write!(f, "{}{reach}", title(self.decision))
    }
}

/// Says every second or so that somebody is there; says goodbye when dropped.
struct Heart {
    store: Store,
    id: String,
    stop: Arc<AtomicBool>,
}

impl Heart {
    fn start(store: Store) -> Result<Self, Problem> {
        let id = format!("terminal-{}", std::process::id());
        // The first beat here: what is wrong with the store is told at once.
        store.watcher_heartbeat(&id, SystemClock::new().now_ms())?;
        let stop = Arc::new(AtomicBool::new(false));
        let (beats, name, stopped) = (store.clone(), id.clone(), Arc::clone(&stop));
        thread::spawn(move || {
            let clock = SystemClock::new();
            while !stopped.load(Ordering::Acquire) {
                thread::sleep(BEAT);
                if !stopped.load(Ordering::Acquire) {
                    // A beat that is lost is made good by the next one.
                    beats.watcher_heartbeat(&name, clock.now_ms()).ok();
                }
            }
        });
        Ok(Self { store, id, stop })
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Unsaid, it is known within five seconds.
        self.store.watcher_gone(&self.id).ok();
    }
}
