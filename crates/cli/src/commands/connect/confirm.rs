//! The one confirmation before a machine is lent: what, to whom, under which
//! modes. What is edited here holds for this session and is written nowhere.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use portcullis_proto::{Group, Mode};

use super::plan::{Plan, is_available, lends_anything, mode_of, nothing_lent};
use crate::environment::Environment;
use crate::out::{BOLD, Mark, Out, YELLOW, aside, paint, shown, tell};
use crate::problem::Problem;
use crate::prompt::{Chosen, List, edit_line};
use crate::settings::absolute;

/// What a person decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confirmed {
    Yes,
    No,
}

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Yes,
    Edit,
    No,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Yes => "Yes, connect",
            Self::Edit => "Edit permissions or directory, for this session",
            Self::No => "No",
        })
    }
}

/// What can be said of a page that looks for a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admitted {
    Yes,
    No,
}

impl fmt::Display for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Yes => "Yes, it may ask; you confirm what is lent",
            Self::No => "No, it learns nothing",
        })
    }
}

/// A group's mode as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// Nobody has offered to change files: not denied, but not lent either.
    Off,
    Mode(Mode),
}

impl Shown {
    fn of(plan: &Plan, group: Group) -> Self {
        match (group, plan.settings.modes.of(group)) {
            (Group::FilesystemWrite, Mode::Deny) if !plan.offers_writing => Self::Off,
            (_, mode) => Self::Mode(mode),
        }
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Mode(mode) => mode.fmt(f),
        }
    }
}

/// What can be edited.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Mode(Group, Shown),
    Directory(PathBuf),
    Done,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mode(group, mode) => write!(f, "{group}: {mode}"),
            Self::Directory(path) => write!(f, "directory: {}", shown(&path.to_string_lossy())),
            Self::Done => f.write_str("Done"),
        }
    }
}

/// Asks, and lets what is shown be edited, until there is a yes or a no. All that
/// is no answer is a no.
pub(super) fn confirm(plan: &mut Plan, env: &Environment) -> Result<Confirmed, Problem> {
    loop {
        show(plan)?;
        let choices = [Choice::Yes, Choice::Edit, Choice::No];
        // Enter pressed by habit must not let anything through.
        match select("Lend this machine?", &choices, 2, "Esc is a no") {
            Some(Choice::Yes) if lends_anything(plan.settings.modes) => return Ok(Confirmed::Yes),
            Some(Choice::Yes) => aside(Mark::Warn.with(nothing_lent().what)),
            Some(Choice::Edit) => edit(plan, env)?,
            Some(Choice::No) | None => return Ok(Confirmed::No),
        }
    }
}

/// Asks whether pages of an origin may know that somebody waits here, and ask. All
/// that is no answer is a no.
pub(super) fn admit(origin: &str) -> Result<Confirmed, Problem> {
    let mut out = Out::stderr();
    out.blank()?;
    let origin = paint(BOLD, shown(origin));
    out.line(format_args!("  A page of {origin} looks for a machine."))?;
    out.blank()?;
    out.flush()?;
    let choices = [Admitted::Yes, Admitted::No];
    Ok(match select("May it ask?", &choices, 1, "Esc is a no") {
        Some(Admitted::Yes) => Confirmed::Yes,
        Some(Admitted::No) | None => Confirmed::No,
    })
}

/// Has one of `choices` chosen. All that is no answer, a terminal that is gone
/// included, chooses none.
fn select<T: fmt::Display + Clone>(
    asked: &str,
    choices: &[T],
    start: usize,
    escape: &str,
) -> Option<T> {
    let list = List {
        asked: Some(asked),
        choices,
        start,
        escape,
        pause: Duration::ZERO,
    };
    match list.put(|| false) {
        Ok(Chosen::This(choice)) => Some(choice.clone()),
        Ok(Chosen::Left | Chosen::Interrupted | Chosen::TooLate) | Err(_) => None,
    }
}

pub(super) fn no_terminal() -> Problem {
    Problem::usage("There is no terminal to confirm on. Nothing was connected.").hint(
        "Run it in a terminal, or name the server and confirm beforehand: portcullis connect URL TOKEN --auto-confirm --allowed-origins ORIGIN",
    )
}

fn show(plan: &Plan) -> Result<(), Problem> {
    let mut out = Out::stderr();
    out.blank()?;
    // The origin alone: a path can be made to read like another server.
    let server = shown(plan.address.origin());
    out.line(format_args!("  server     {}", paint(BOLD, server)))?;
    if plan.address.can_be_overheard() {
        let warning = Mark::Warn.with("not encrypted: what is read here can be read on the way");
        out.line(format_args!("             {warning}"))?;
    }
    let machine = format!("{} ({})", shown(&plan.machine), shown(&plan.host));
    out.line(format_args!("  machine    {machine}"))?;
    let path = directory(plan);
    let path = path.to_string_lossy();
    out.line(format_args!("  directory  {}", paint(BOLD, shown(&path))))?;
    let asked = plan.asked.words();
    out.line(format_args!("  asked      {asked}"))?;
    out.blank()?;
    let modes = plan.settings.modes;
    let rows: Vec<Vec<String>> = Group::ALL
        .into_iter()
        .map(|group| {
            let word = if !is_available(group) {
                "not available here".to_owned()
            } else if mode_of(modes, group) != modes.of(group) {
                format!("deny ({} is denied)", Group::FilesystemRead)
            } else {
                match Shown::of(plan, group) {
                    Shown::Off => {
                        "off (offered with --filesystem-write-access, or by Edit)".to_owned()
                    }
                    mode @ Shown::Mode(_) => mode.to_string(),
                }
            };
            vec![format!("  {group}"), word]
        })
        .collect();
    out.table(&["  GROUP", "MODE"], &rows)?;
    for what in &plan.told {
        out.line(format_args!("  {}", paint(YELLOW, shown(what))))?;
    }
    out.blank()?;
    out.flush()
}

fn directory(plan: &Plan) -> PathBuf {
    let root = plan.settings.roots.first();
    root.map(|root| root.path.clone()).unwrap_or_default()
}

fn edit(plan: &mut Plan, env: &Environment) -> Result<(), Problem> {
    let mut at = 0;
    loop {
        let mut items: Vec<Item> = Group::ALL
            .into_iter()
            .filter(|group| is_available(*group))
            .map(|group| Item::Mode(group, Shown::of(plan, group)))
            .collect();
        items.push(Item::Directory(directory(plan)));
        items.push(Item::Done);
        let Some(item) = select("Change", &items, at, "Esc ends") else {
            return Ok(());
        };
        at = items.iter().position(|one| *one == item).unwrap_or(0);
        match item {
            Item::Done => return Ok(()),
            Item::Mode(group, now) => {
                let modes = [Mode::Deny, Mode::Ask, Mode::Allow];
                let cursor = modes.iter().position(|mode| Shown::Mode(*mode) == now);
                let cursor = cursor.unwrap_or(0);
                if let Some(mode) = select(group.as_str(), &modes, cursor, "Esc keeps it") {
                    plan.settings.modes = plan.settings.modes.with(group, mode);
                }
            }
            Item::Directory(now) => {
                let now = now.to_string_lossy().into_owned();
                // A terminal that is gone has written nothing.
                let Ok(Some(typed)) = edit_line("Directory", &now) else {
                    continue;
                };
                let path = match (typed.strip_prefix("~/"), &env.home) {
                    (Some(rest), Some(home)) => home.join(rest),
                    (Some(_) | None, _) => absolute(env, typed.trim().as_ref())?,
                };
                if let Err(problem) = plan.settings.lend(path) {
                    tell(&problem);
                }
            }
        }
    }
}
