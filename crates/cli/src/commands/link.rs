//! `portcullis link`: machines that people lend to a server's agents.

use portcullis_gate::Clock as _;
use portcullis_proto::{Failure, Reason};
use portcullis_store::{LinkedMachine, Store};

use crate::args::{Everywhere, LinkCommand};
use crate::clock::SystemClock;
use crate::commands::token::first_admin;
use crate::environment::Environment;
use crate::out::{FAINT, Mark, Out, aside, moment, paint, shown};
use crate::problem::{Ending, Problem};
use crate::recorded::Recorded;
use crate::settings;
use crate::wiring::open_data;

pub(crate) fn run(
    everywhere: &Everywhere,
    env: &Environment,
    command: &LinkCommand,
) -> Result<Ending, Problem> {
    let data = open_data(&settings::data_dir(everywhere, env)?)?;
    let store = Store::new(data.path());
    let record = Recorded::by("cli/link", &data);
    match command {
        LinkCommand::Create { user, url } => create(&store, &record, user.as_deref(), url),
        LinkCommand::List { user } => list(&store, user.as_deref()),
        LinkCommand::Approve { machine, user } => {
            approve(&store, &record, machine, user.as_deref())
        }
        LinkCommand::Remove { machine, user } => remove(&store, &record, machine, user.as_deref()),
    }
}

fn create(
    store: &Store,
    record: &Recorded,
    user: Option<&str>,
    url: &str,
) -> Result<Ending, Problem> {
    let user = match user {
        Some(user) => user.to_owned(),
        None => first_admin(store)?,
    };
    let now = SystemClock::new().now_ms();
    let made = record.change(&format!("link create for {user}"), || {
        Ok(store.create_pairing(&user, now)?)
    })?;
    let (url, token) = (url.trim_end_matches('/'), made.token.expose());
    // Alone on its stream: $(portcullis link create).
    let mut out = Out::stdout();
    out.line(format_args!("portcullis connect {url} {token}"))?;
    out.flush()?;
    aside(Mark::Yes.with(format_args!(
        "lends a machine to agents of {user}; counts once, until {}",
        moment(made.expires_at)
    )));
    aside(format_args!(
        "  Type it on that machine, in the directory to lend. {}",
        paint(
            FAINT,
            format!("(n8n's daemon: npx @n8n/computer-use {url} {token})")
        )
    ));
    Ok(Ending::Fine)
}

fn list(store: &Store, user: Option<&str>) -> Result<Ending, Problem> {
    let mut out = Out::stdout();
    let machines = store.machines(user)?;
    if machines.is_empty() {
        out.line("No machine is lent. Lend one: portcullis link create")?;
        return Ok(Ending::Fine);
    }
    let rows: Vec<Vec<String>> = machines.iter().map(row).collect();
    out.table(&["ID", "OF", "NAME", "HOST", "DIRECTORY", "STATE"], &rows)?;
    out.blank()?;
    for machine in &machines {
        if let Some(how) = &machine.wider {
            out.line(Mark::No.with(format_args!(
                "{} was refused: it offers more than when it was paired: {}",
                machine.name,
                shown(how)
            )))?;
            out.line(format_args!(
                "  Let it: portcullis link approve {}",
                machine.id
            ))?;
        }
    }
    out.line("Remove one: portcullis link remove ID")?;
    Ok(Ending::Fine)
}

fn row(machine: &LinkedMachine) -> Vec<String> {
    let state = if machine.paired {
        format!("✓ paired, seen {}", moment(machine.seen_at))
    } else {
        format!("✗ disconnected, seen {}", moment(machine.seen_at))
    };
    vec![
        machine.id.clone(),
        machine.user.clone(),
        machine.name.clone(),
        shown(&machine.host).into_owned(),
        shown(&machine.root).into_owned(),
        state,
    ]
}

fn approve(
    store: &Store,
    record: &Recorded,
    machine: &str,
    user: Option<&str>,
) -> Result<Ending, Problem> {
    let how = record.change(&format!("link approve {machine}"), || {
        store.approve_wider(machine, user)?.ok_or_else(|| {
            let what = format!("Nothing of {} waits to be approved.", shown(machine));
            Failure::new(Reason::NotFound, what).hint("portcullis link list")
        })
    })?;
    Out::stdout().line(Mark::Yes.with(format_args!(
        "machine {} may offer more from now on: {}",
        shown(machine),
        shown(&how)
    )))?;
    Ok(Ending::Fine)
}

fn remove(
    store: &Store,
    record: &Recorded,
    machine: &str,
    user: Option<&str>,
) -> Result<Ending, Problem> {
    record.change(&format!("link remove {machine}"), || {
        if store.remove_machine(machine, user)? {
            return Ok(());
        }
        let what = format!("There is no machine {}.", shown(machine));
        Err(Failure::new(Reason::NotFound, what).hint("portcullis link list"))
    })?;
    Out::stdout().line(Mark::Yes.with(format_args!(
        "machine {} is removed; running servers let go of it within 100 ms",
        shown(machine)
    )))?;
    Ok(Ending::Fine)
}
