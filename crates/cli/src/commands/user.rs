//! `portcullis user`: people who may sign in.

use portcullis_gate::Clock as _;
use portcullis_proto::{Failure, Reason, Scope, ScopeSet};
use portcullis_store::{Store, Switch, sign_in_url};

use crate::args::{Everywhere, SwitchFlag, UserCommand};
use crate::clock::SystemClock;
use crate::environment::Environment;
use crate::out::{Mark, Out, aside, moment, shown};
use crate::problem::{Ending, Problem};
use crate::recorded::Recorded;
use crate::settings;
use crate::wiring::open_data;

/// What a user's credentials may be used for where nobody says.
const DEFAULT_SCOPES: ScopeSet = ScopeSet::of(&[Scope::FsRead, Scope::Approve, Scope::Audit]);

pub(crate) fn run(
    everywhere: &Everywhere,
    env: &Environment,
    command: &UserCommand,
) -> Result<Ending, Problem> {
    let data = open_data(&settings::data_dir(everywhere, env)?)?;
    let store = Store::new(data.path());
    let record = Recorded::by("cli/user", &data);
    match command {
        UserCommand::Add { name, scope } => {
            add(&store, &record, name, scope.unwrap_or(DEFAULT_SCOPES))
        }
        UserCommand::List => list(&store),
        UserCommand::Remove { name } => remove(&store, &record, name),
        UserCommand::Scope { name, scopes } => scope(&store, &record, name, *scopes),
        UserCommand::Files { name, switch } => files(&store, &record, name, *switch),
        UserCommand::Link { name, url } => link(&store, &record, name, url),
    }
}

fn add(store: &Store, record: &Recorded, name: &str, scopes: ScopeSet) -> Result<Ending, Problem> {
    let user = record.change(&format!("user add {name} {scopes}"), || {
        Ok(store.add_user(name, scopes, SystemClock::new().now_ms())?)
    })?;
    if user.scopes != scopes {
        // The line says what was asked for; the first user has more.
        let what = format!("user {name} is the first, for {}", user.scopes);
        record.change(&what, || Ok(()))?;
    }
    let mut out = Out::stdout();
    out.line(Mark::Yes.with(format_args!("added: {name}, for {}", user.scopes)))?;
    if user.scopes != scopes {
        out.line("  The first user may do everything; portcullis user scope changes it once there is another admin.")?;
    }
    out.line(format_args!("  Sign in: portcullis user link {name}"))?;
    out.line(format_args!(
        "  A token for an agent: portcullis token create --user {name} --scope fs:read"
    ))?;
    Ok(Ending::Fine)
}

fn list(store: &Store) -> Result<Ending, Problem> {
    let mut out = Out::stdout();
    let users = store.users()?;
    if users.is_empty() {
        out.line(
            "There is no user yet. Add the first, who may do everything: portcullis user add NAME",
        )?;
        return Ok(Ending::Fine);
    }
    let tokens = store.tokens(None)?;
    let off = store.users_without_files()?;
    let rows: Vec<Vec<String>> = users
        .iter()
        .map(|user| {
            let held = tokens.iter().filter(|token| token.user == user.name);
            vec![
                user.name.clone(),
                moment(user.created_at),
                held.count().to_string(),
                if off.contains(&user.name) {
                    "off"
                } else {
                    "on"
                }
                .to_owned(),
                user.scopes.to_string(),
            ]
        })
        .collect();
    out.table(&["NAME", "SINCE", "TOKENS", "FILES", "SCOPES"], &rows)?;
    Ok(Ending::Fine)
}

fn remove(store: &Store, record: &Recorded, name: &str) -> Result<Ending, Problem> {
    record.change(&format!("user remove {name}"), || {
        found(name, store.remove_user(name)?)
    })?;
    Out::stdout().line(Mark::Yes.with(format_args!(
        "{name} is gone; running servers refuse their tokens and sign-ins within 100 ms"
    )))?;
    Ok(Ending::Fine)
}

fn scope(
    store: &Store,
    record: &Recorded,
    name: &str,
    scopes: ScopeSet,
) -> Result<Ending, Problem> {
    record.change(&format!("user scope {name} {scopes}"), || {
        found(name, store.set_user_scopes(name, scopes)?)
    })?;
    Out::stdout().line(Mark::Yes.with(format_args!("{name} is now for {scopes}")))?;
    Ok(Ending::Fine)
}

fn files(
    store: &Store,
    record: &Recorded,
    name: &str,
    switch: SwitchFlag,
) -> Result<Ending, Problem> {
    let switch = match switch {
        SwitchFlag::On => Switch::On,
        SwitchFlag::Off => Switch::Off,
    };
    let now = record.change(&format!("user files {name} {}", switch.as_str()), || {
        Ok(store.switch_files(name, switch)?)
    })?;
    let mut out = Out::stdout();
    out.line(Mark::Yes.with(format_args!(
        "the files of {name} are {}, in running servers within 100 ms",
        now.as_str()
    )))?;
    if now == Switch::Off {
        out.line(format_args!(
            "  Back again: portcullis user files {name} on"
        ))?;
    }
    Ok(Ending::Fine)
}

fn link(store: &Store, record: &Recorded, name: &str, url: &str) -> Result<Ending, Problem> {
    let link = record.change(&format!("user link {name}"), || {
        Ok(store.create_sign_in_link(name, SystemClock::new().now_ms())?)
    })?;
    // Alone on its stream, so that a script can hand it on.
    Out::stdout().line(sign_in_url(url, &link))?;
    aside(format_args!(
        "Signs {name} in, once and within 5 minutes. Whoever opens it first is {name}."
    ));
    Ok(Ending::Fine)
}

fn found(name: &str, there: bool) -> Result<(), Failure> {
    if there {
        return Ok(());
    }
    let what = format!("There is no user {}.", shown(name));
    Err(Failure::new(Reason::NotFound, what).hint("portcullis user list"))
}
