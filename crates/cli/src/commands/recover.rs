//! `portcullis recover`: puts right what a crash left in the middle of a change.

use portcullis_files::{Interrupted, Leftover};

use crate::args::{Everywhere, RecoverArgs};
use crate::environment::Environment;
use crate::out::{FAINT, Mark, Out, paint, shown};
use crate::problem::{Ending, Problem};
use crate::settings::{self, DefaultDir, Overrides};
use crate::wiring::{Purpose, World};

/// Whether it was done, or would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tense {
    Done,
    WouldBe,
}

pub(crate) fn run(
    everywhere: &Everywhere,
    env: &Environment,
    args: &RecoverArgs,
) -> Result<Ending, Problem> {
    let overrides = Overrides {
        dir: args.dir.clone(),
        default_dir: DefaultDir::Working,
        ..Overrides::default()
    };
    let settings = settings::resolve(everywhere, env, &overrides)?;
    // What is put right gets its closing line: the audit is opened for it.
    let purpose = if args.dry_run {
        Purpose::Look
    } else {
        Purpose::Serve
    };
    let world = World::open(&settings, purpose)?;
    let found = world.authority.recover(&world.data, args.dry_run)?;
    let mut out = Out::stdout();
    if found.is_empty() {
        out.line(Mark::Yes.with("nothing to do: no change was interrupted here"))?;
        return Ok(Ending::Fine);
    }
    let tense = if args.dry_run {
        Tense::WouldBe
    } else {
        Tense::Done
    };
    for one in &found {
        let (mark, word) = match (one.found, tense) {
            (Leftover::Nothing, _) => (Mark::Yes, "nothing left"),
            (Leftover::Stuck, _) => (Mark::Warn, "not possible"),
            (_, Tense::WouldBe) => (Mark::Ask, "to be done"),
            (Leftover::Conflict, Tense::Done) => (Mark::Warn, "kept beside"),
            (
                Leftover::Unpublished
                | Leftover::Displaced
                | Leftover::PutBack
                | Leftover::Abandoned,
                Tense::Done,
            ) => (Mark::Yes, "put right"),
        };
        out.line(format_args!(
            "{}  {} {}:{}  {}",
            mark.with(format_args!("{word:<12}")),
            one.verb,
            shown(&one.root),
            shown(one.path.shown()),
            paint(FAINT, shown(&one.request))
        ))?;
        out.line(format_args!("  {}", shown(&sentence(one, tense))))?;
    }
    let last = match tense {
        Tense::WouldBe => "Nothing was done. To do it: portcullis recover",
        Tense::Done if found.iter().any(|one| one.found == Leftover::Displaced) => {
            "What was displaced can be looked at and put back: portcullis undo list"
        }
        Tense::Done => return Ok(Ending::Fine),
    };
    out.blank()?;
    out.line(last)?;
    Ok(Ending::Fine)
}

/// One operation on one line.
pub(crate) fn told(one: &Interrupted, tense: Tense) -> String {
    let place = format!("{} {}:{}", one.verb, one.root, one.path.shown());
    shown(&format!("{place}: {}", sentence(one, tense))).into_owned()
}

/// What was found of it, and what came of that.
fn sentence(one: &Interrupted, tense: Tense) -> String {
    let did = match tense {
        Tense::Done => "",
        Tense::WouldBe => "to be ",
    };
    let told = match one.found {
        Leftover::Stuck => "it is tried again at the next start".to_owned(),
        Leftover::Nothing if one.done => "it was complete".to_owned(),
        Leftover::Nothing => "nothing came of it".to_owned(),
        Leftover::Unpublished => format!("something new that was never put in place: {did}removed"),
        Leftover::Displaced => format!("what it had displaced: {did}kept for undo"),
        Leftover::PutBack => format!("what it was about to take away: {did}put back"),
        Leftover::Abandoned => {
            format!("a private workspace whose owner is gone: {did}removed")
        }
        Leftover::Conflict => match &one.kept_as {
            Some(name) => format!("a save of somebody else: {did}kept beside it as {name}"),
            None => format!("a save of somebody else: {did}kept beside it"),
        },
    };
    match &one.why {
        Some(why) => format!("{told}: {why}"),
        None => told,
    }
}
