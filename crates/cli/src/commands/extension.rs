//! `portcullis extension`: what extensions ask for, and what their owner says.

use portcullis_files::remove_extension_storage;
use portcullis_proto::{Failure, Reason};
use portcullis_store::{ExtensionState, Store};

use crate::args::{Everywhere, ExtensionCommand};
use crate::environment::Environment;
use crate::out::{Mark, Out, moment};
use crate::problem::{Ending, Problem};
use crate::recorded::Recorded;
use crate::settings;
use crate::wiring::open_data;

pub(crate) fn run(
    everywhere: &Everywhere,
    env: &Environment,
    command: &ExtensionCommand,
) -> Result<Ending, Problem> {
    let data = open_data(&settings::data_dir(everywhere, env)?)?;
    let store = Store::new(data.path());
    let record = Recorded::by("cli/extension", &data);
    match command {
        ExtensionCommand::List => list(&store),
        ExtensionCommand::Approve { id } => approve(&store, &record, id),
        ExtensionCommand::Revoke { id } => {
            record.change(&format!("extension revoke {id}"), || {
                found(store.revoke_extension(id, None)?)
            })?;
            told(format_args!(
                "{id} is revoked with its tokens; running servers refuse them within 100 ms"
            ))
        }
        ExtensionCommand::Remove { id } => {
            record.change(&format!("extension remove {id}"), || {
                let storage = store.remove_extension(id, None)?.ok_or_else(nothing)?;
                remove_extension_storage(&data, &storage)
            })?;
            told(format_args!(
                "{id} is forgotten with its tokens and all it had stored"
            ))
        }
    }
}

fn list(store: &Store) -> Result<Ending, Problem> {
    let mut out = Out::stdout();
    let extensions = store.extensions(None)?;
    if extensions.is_empty() {
        out.line("No extension has registered.")?;
        return Ok(Ending::Fine);
    }
    let rows: Vec<Vec<String>> = extensions
        .iter()
        .map(|one| {
            vec![
                one.id.clone(),
                one.owner.clone().unwrap_or_else(|| "(gone)".to_owned()),
                match one.state {
                    ExtensionState::Pending => "? pending",
                    ExtensionState::Approved => "✓ approved",
                    ExtensionState::Revoked => "✗ revoked",
                }
                .to_owned(),
                moment(one.created_at),
                one.permissions.join(" "),
            ]
        })
        .collect();
    out.table(&["ID", "OWNER", "STATE", "SINCE", "PERMISSIONS"], &rows)?;
    Ok(Ending::Fine)
}

fn approve(store: &Store, record: &Recorded, id: &str) -> Result<Ending, Problem> {
    let known = store.extensions(None)?.into_iter().find(|one| one.id == id);
    let Some(known) = known else {
        return Err(nothing().into());
    };
    let Some(owner) = &known.owner else {
        return Err(
            Problem::new("The user it belonged to is gone, so nobody can approve it.").hint(
                format!("Forget it, and let it register again: portcullis extension remove {id}"),
            ),
        );
    };
    let asked = known.permissions.join(",");
    record.change(
        &format!("extension approve {id} for {owner} {asked}"),
        || found(store.approve_extension(id, owner, &known.permissions)?),
    )?;
    told(format_args!(
        "{id} may do this on behalf of {owner}: {}",
        if known.permissions.is_empty() {
            "nothing".to_owned()
        } else {
            known.permissions.join(", ")
        }
    ))
}

fn found(there: bool) -> Result<(), Failure> {
    there.then_some(()).ok_or_else(nothing)
}

fn nothing() -> Failure {
    Failure::new(Reason::NotFound, "There is no such extension.").hint("portcullis extension list")
}

fn told(what: std::fmt::Arguments<'_>) -> Result<Ending, Problem> {
    Out::stdout().line(Mark::Yes.with(what))?;
    Ok(Ending::Fine)
}
