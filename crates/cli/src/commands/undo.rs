//! `portcullis undo`: a person puts back what was changed, at their own
//! terminal. Each one passes the gate and is in the record like any change;
//! what is undone can be undone again.

mod prune;

use std::cmp::Reverse;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use portcullis_files::text::unified;
use portcullis_files::{ByteWindow, ScopedFs, UndoEntry, UndoState};
use portcullis_gate::{Answer, Approver, Caller, Decision, Question, Reply, Surface};
use portcullis_policy::Class;
use portcullis_proto::{Access, Entity, Failure, Principal, Reason, Subject, Verb};

use crate::args::{
    Everywhere, UndoApplyArgs, UndoCommand, UndoListArgs, UndoOneArgs, UndoPlaceArgs,
};
use crate::environment::Environment;
use crate::out::{BOLD, FAINT, GREEN, Mark, Out, RED, bytes, moment, paint, shown};
use crate::problem::{Ending, Problem};
use crate::settings::{self, DefaultDir, Overrides, Writing};
use crate::times;
use crate::wiring::{Purpose, World};

/// The largest file that a diff is shown of.
const MAX_SHOWN: u64 = 16 * 1024 * 1024;
/// The longest diff that is shown.
const MAX_DIFF: usize = 1024 * 1024;

pub(crate) fn run(
    everywhere: &Everywhere,
    env: &Environment,
    command: &UndoCommand,
) -> Result<Ending, Problem> {
    let (place, purpose) = match command {
        UndoCommand::List(args) => (&args.place, Purpose::Look),
        UndoCommand::Show(args) => (&args.place, Purpose::Look),
        UndoCommand::Diff(args) => (&args.place, Purpose::Serve),
        UndoCommand::Apply(args) => (&args.place, Purpose::Serve),
        UndoCommand::Prune(args) => (&args.place, Purpose::Serve),
    };
    let desk = Desk::open(everywhere, env, place, purpose)?;
    let ended = match command {
        UndoCommand::List(args) => desk.list(args),
        UndoCommand::Show(args) => desk.show(args),
        UndoCommand::Diff(args) => desk.diff(args),
        UndoCommand::Apply(args) => desk.apply(args),
        UndoCommand::Prune(args) => desk.prune(args),
    };
    desk.world.end();
    ended
}

/// One operation, and the scope it was done in.
struct Kept {
    scope: ScopedFs,
    entry: UndoEntry,
}

struct Desk {
    world: World,
    caller: Caller,
}

impl Desk {
    fn open(
        everywhere: &Everywhere,
        env: &Environment,
        place: &UndoPlaceArgs,
        purpose: Purpose,
    ) -> Result<Self, Problem> {
        let overrides = Overrides {
            dir: place.dir.clone(),
            default_dir: DefaultDir::Working,
            writing: Writing::ByPerson,
            ..Overrides::default()
        };
        let settings = settings::resolve(everywhere, env, &overrides)?;
        let world = World::open(&settings, purpose)?;
        let subject = Subject::of(Principal::User { id: "me".into() });
        let caller = Caller::new(subject, "cli/undo").asking(Arc::new(Typed {
            user: env.user.clone(),
        }));
        Ok(Self { world, caller })
    }

    /// What can be undone, the newest first.
    fn kept(&self) -> Result<Vec<Kept>, Problem> {
        let mut kept = Vec::new();
        for declared in self.world.authority.roots() {
            let id = declared.entry().id();
            let scope = self.world.authority.scope(&self.caller, Some(id))?;
            let mut entries = scope.undo_entries()?;
            entries.retain(|entry| entry.root_identity == declared.root().identity());
            entries.reverse();
            kept.extend(entries.into_iter().map(|entry| Kept {
                scope: scope.clone(),
                entry,
            }));
        }
        kept.sort_by_key(|kept| Reverse(kept.entry.at));
        Ok(kept)
    }

    fn one(&self, id: &str) -> Result<Kept, Problem> {
        self.kept()?
            .into_iter()
            .find(|kept| kept.entry.id == id)
            .ok_or_else(|| {
                Problem::new(format!("Nothing is kept of {}.", shown(id)))
                    .hint("portcullis undo list --dir DIR, with the directory it was done in")
            })
    }

    fn since(&self, typed: Option<&str>) -> Result<Option<u64>, Problem> {
        let now = self.world.clock.now_ms();
        typed.map(|typed| times::moment(typed, now)).transpose()
    }

    fn list(&self, args: &UndoListArgs) -> Result<Ending, Problem> {
        let since = self.since(args.since.as_deref())?;
        let mut out = Out::stdout();
        let rows: Vec<Vec<String>> = self
            .kept()?
            .iter()
            .filter(|kept| wanted(&kept.entry, args.run.as_deref(), since))
            .map(|kept| row(&kept.entry))
            .collect();
        if rows.is_empty() {
            out.line("Nothing can be undone here.")?;
            return Ok(Ending::Fine);
        }
        out.table(&["ID", "WHEN", "WHAT", "BY", "KEPT", "PATH"], &rows)?;
        out.blank()?;
        out.line("Look at one: portcullis undo diff ID    Put it back: portcullis undo apply ID")?;
        Ok(Ending::Fine)
    }

    fn show(&self, args: &UndoOneArgs) -> Result<Ending, Problem> {
        let Kept { scope, entry } = self.one(&args.id)?;
        let mut out = Out::stdout();
        out.line(format_args!(
            "{} {}  {}",
            paint(BOLD, entry.verb),
            paint(BOLD, place(&entry)),
            paint(FAINT, format!("root {}", shown(&entry.root)))
        ))?;
        out.line(format_args!("  id       {}", shown(&entry.id)))?;
        out.line(format_args!("  when     {}", moment(entry.at)))?;
        let run = entry.run.as_deref().map(|run| format!(" in run {run}"));
        let who = format!("{}{}", entry.subject, run.unwrap_or_default());
        out.line(format_args!("  who      {}", shown(&who)))?;
        out.line(format_args!("  before   {}", state(entry.before.as_ref())))?;
        out.line(format_args!("  after    {}", state(entry.after.as_ref())))?;
        for made in &entry.made {
            out.line(format_args!("  made     {}/", shown(made.shown())))?;
        }
        if let Some(place) = scope.undo_place()? {
            out.line(format_args!("  kept     {}", place.as_str()))?;
        }
        if entry.recovered {
            out.line("  note     a crash interrupted it; recovery wrote this")?;
        }
        Ok(Ending::Fine)
    }

    /// What stands there now against what undoing would put back.
    fn diff(&self, args: &UndoOneArgs) -> Result<Ending, Problem> {
        let Kept { scope, entry } = self.one(&args.id)?;
        let mut out = Out::stdout();
        let mut places = [Some(&entry.path), entry.to.as_ref()].into_iter().flatten();
        if places.any(|path| Class::of(path, Access::Read) == Some(Class::Secret)) {
            out.line("It is a secret file: what it holds and held is not shown. What it did: portcullis undo show ID")?;
            return Ok(Ending::Fine);
        }
        let is_file =
            |state: Option<&UndoState>| state.is_none_or(|state| state.entity == Entity::File);
        let kept = scope.undo_content(&entry.id, MAX_SHOWN)?;
        let has_content = kept.is_some() || entry.before.is_none();
        if entry.verb == Verb::Move
            || !is_file(entry.before.as_ref())
            || !is_file(entry.after.as_ref())
            || !has_content
        {
            out.line("There is no text to compare. What it did: portcullis undo show ID")?;
            return Ok(Ending::Fine);
        }
        let path = entry.path.as_str();
        let now = match wait(scope.read_bytes(path, ByteWindow::Whole))? {
            Ok(page) => page.bytes,
            Err(failure) if failure.reason() == Reason::NotFound => Vec::new(),
            Err(failure) => return Err(failure.into()),
        };
        let back = kept.unwrap_or_default();
        let diff = unified(entry.path.shown(), &now, &back, MAX_DIFF);
        if diff.text.is_empty() {
            out.line("No difference: what is there is what would be put back.")?;
        }
        for line in diff.text.lines() {
            let text = shown(line);
            match line.as_bytes().first() {
                Some(b'+') => out.line(paint(GREEN, text))?,
                Some(b'-') => out.line(paint(RED, text))?,
                _ => out.line(text)?,
            }
        }
        if diff.truncated {
            out.line(paint(FAINT, "(the diff goes on)"))?;
        }
        Ok(Ending::Fine)
    }

    fn apply(&self, args: &UndoApplyArgs) -> Result<Ending, Problem> {
        let since = self.since(args.since.as_deref())?;
        let chosen: Vec<Kept> = if args.ids.is_empty() {
            self.kept()?
                .into_iter()
                .filter(|kept| kept.entry.verb != Verb::Undo)
                .filter(|kept| wanted(&kept.entry, args.run.as_deref(), since))
                .collect()
        } else {
            // Every name is known before the first is touched.
            let mut chosen = args
                .ids
                .iter()
                .map(|id| self.one(id))
                .collect::<Result<Vec<_>, _>>()?;
            chosen.sort_by_key(|kept| Reverse(kept.entry.at));
            chosen
        };
        let mut out = Out::stdout();
        if chosen.is_empty() {
            out.line("Nothing to undo.")?;
            return Ok(Ending::Fine);
        }
        let mut ending = Ending::Fine;
        for kept in &chosen {
            let what = format!("{} {}", kept.entry.verb, place(&kept.entry));
            match wait(kept.scope.undo_one(&kept.entry.id))? {
                Ok(undone) => {
                    let again = undone.redo.map(|id| format!("redo: {}", shown(&id)));
                    out.line(format_args!(
                        "{}  {what}  {}",
                        Mark::Yes.with(format_args!("{:<10}", "put back")),
                        paint(FAINT, again.unwrap_or_default())
                    ))?;
                }
                Err(failure) => {
                    ending = Ending::Found;
                    left(&mut out, &what, &failure)?;
                }
            }
        }
        Ok(ending)
    }
}

/// Tells what was left alone, and why.
fn left(out: &mut Out, what: &str, failure: &Failure) -> Result<(), Problem> {
    out.line(format_args!(
        "{}  {what}  {}",
        Mark::No.with(format_args!("{:<10}", "left alone")),
        paint(FAINT, failure.reason())
    ))?;
    out.line(format_args!("  {}", shown(failure.message())))?;
    if let Some(hint) = failure.next_step() {
        out.line(format_args!("  hint: {}", shown(hint)))?;
    }
    Ok(())
}

/// Runs one deed to its end.
fn wait<T>(deed: impl Future<Output = T>) -> Result<T, Problem> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(deed))
}

/// Answers for the person who typed the command: typing it was the yes. What a
/// rule denies stays denied, and what lasts is never said here.
struct Typed {
    user: String,
}

impl Approver for Typed {
    fn surface(&self) -> Surface {
        Surface::Terminal
    }

    fn ask<'a>(
        &'a self,
        _question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>> {
        Box::pin(async {
            Reply::Answered(Answer {
                decision: Decision::AllowOnce,
                surface: Surface::Terminal,
                by: self.user.clone(),
            })
        })
    }
}

fn wanted(entry: &UndoEntry, run: Option<&str>, since: Option<u64>) -> bool {
    since.is_none_or(|since| entry.at >= since) && run.is_none_or(|run| is_of(entry, run))
}

/// Whether `entry` is of `run`. A server on standard input and output is one
/// run without a name; its operations' names begin alike, up to the number.
fn is_of(entry: &UndoEntry, run: &str) -> bool {
    entry.run.as_deref() == Some(run)
        || entry.id.rsplit_once('_').is_some_and(|(process, _)| {
            process.trim_start_matches("r_") == run.trim_start_matches("r_")
        })
}

fn row(entry: &UndoEntry) -> Vec<String> {
    vec![
        entry.id.clone(),
        moment(entry.at),
        entry.verb.to_string(),
        shown(&entry.subject).into_owned(),
        match (&entry.before, &entry.after) {
            (Some(before), _) if before.entity == Entity::File => bytes(before.size),
            (Some(_), _) => "a directory".to_owned(),
            (None, _) => "-".to_owned(),
        },
        place(entry),
    ]
}

fn place(entry: &UndoEntry) -> String {
    let from = shown(entry.path.shown()).into_owned();
    match &entry.to {
        Some(to) => format!("{from} → {}", shown(to.shown())),
        None => from,
    }
}

fn state(state: Option<&UndoState>) -> String {
    let Some(state) = state else {
        return "nothing".to_owned();
    };
    let hash = state
        .hash
        .map(|hash| format!(", sha256 {}", hash.hex()))
        .unwrap_or_default();
    let what = match state.entity {
        Entity::File => format!("a file of {}", bytes(state.size)),
        Entity::Directory => "a directory".to_owned(),
        Entity::Symlink => "a link".to_owned(),
        Entity::Mount | Entity::Special => state.entity.as_str().to_owned(),
    };
    format!("{what}, mode {:04o}{hash}", state.mode)
}
