//! `portcullis undo prune`: a person frees what undo keeps. It is shown first,
//! and forgotten with a yes only.

use std::fmt;
use std::time::Duration;

use portcullis_files::ScopedFs;

use super::Desk;
use crate::args::UndoPruneArgs;
use crate::out::{FAINT, Mark, Out, bytes, moment, paint, shown};
use crate::problem::{Ending, Problem};
use crate::prompt::{Chosen, List, is_there};

/// What would be forgotten in one root.
struct Chaff {
    scope: ScopedFs,
    ids: Vec<String>,
    bytes: u64,
    oldest: u64,
    newest: u64,
}

/// What can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Say {
    Keep,
    Forget,
}

impl fmt::Display for Say {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keep => "Keep it",
            Self::Forget => "Forget it for good",
        })
    }
}

impl Desk {
    pub(super) fn prune(&self, args: &UndoPruneArgs) -> Result<Ending, Problem> {
        let before = self.since(args.older_than.as_deref())?;
        let chaff = self.chaff(before)?;
        let mut out = Out::stdout();
        if chaff.is_empty() {
            out.line("Nothing is kept here that could be freed.")?;
            return Ok(Ending::Fine);
        }
        for one in &chaff {
            out.line(format_args!(
                "root {}: {}, {}, from {} to {}",
                shown(one.scope.declared().entry().id().as_str()),
                counted(one.ids.len()),
                bytes(one.bytes),
                moment(one.oldest),
                moment(one.newest),
            ))?;
        }
        out.line(paint(
            FAINT,
            "They could not be undone any more. What they are: portcullis undo list",
        ))?;
        if !args.yes && !confirmed()? {
            out.line("Nothing was forgotten.")?;
            return Ok(Ending::Found);
        }
        for one in chaff {
            let forgotten = one.scope.prune_undo(&one.ids)?;
            out.line(format_args!(
                "{}  {}, {}",
                Mark::Yes.with("freed"),
                counted(forgotten),
                bytes(one.bytes)
            ))?;
        }
        Ok(Ending::Fine)
    }

    /// What is kept from before `before`, or all of it, root by root.
    fn chaff(&self, before: Option<u64>) -> Result<Vec<Chaff>, Problem> {
        let mut chaff = Vec::new();
        for declared in self.world.authority.roots() {
            let id = declared.entry().id();
            let scope = self.world.authority.scope(&self.caller, Some(id))?;
            let mut held = scope.undo_held()?;
            held.retain(|held| before.is_none_or(|before| held.at < before));
            let (Some(first), Some(last)) = (held.first(), held.last()) else {
                continue;
            };
            chaff.push(Chaff {
                bytes: held.iter().map(|held| held.bytes).sum(),
                oldest: first.at,
                newest: last.at,
                ids: held.iter().map(|held| held.id.clone()).collect(),
                scope,
            });
        }
        Ok(chaff)
    }
}

fn counted(operations: usize) -> String {
    match operations {
        1 => "1 operation".to_owned(),
        more => format!("{more} operations"),
    }
}

/// Asks at the terminal; where there is none, `--yes` has to say it.
fn confirmed() -> Result<bool, Problem> {
    if !is_there() {
        return Err(
            Problem::usage("There is no terminal to ask on, so nothing was forgotten.")
                .hint("portcullis undo prune --yes"),
        );
    }
    let list = List {
        asked: Some("Forget all of that?"),
        choices: &[Say::Keep, Say::Forget],
        start: 0,
        escape: "keeps it",
        pause: Duration::ZERO,
    };
    let chosen = list.put(|| false)?;
    Ok(matches!(chosen, Chosen::This(Say::Forget)))
}
