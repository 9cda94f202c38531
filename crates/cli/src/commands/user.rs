//! `portcullis user`: people who may sign in.

use portcullis_gate::Clock as _;
use portcullis_proto::{Scope, ScopeSet};
use portcullis_store::{Store, sign_in_url};

use crate::args::{Everywhere, UserCommand};
use crate::clock::SystemClock;
use crate::environment::Environment;
use crate::out::{Mark, Out, aside, moment, shown};
use crate::problem::{Ending, Problem};
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
    match command {
        UserCommand::Add { name, scope } => add(&store, name, scope.unwrap_or(DEFAULT_SCOPES)),
        UserCommand::List => list(&store),
        UserCommand::Remove { name } => remove(&store, name),
        UserCommand::Scope { name, scopes } => scope(&store, name, *scopes),
        UserCommand::Link { name, url } => link(&store, name, url),
    }
}

fn add(store: &Store, name: &str, scopes: ScopeSet) -> Result<Ending, Problem> {
    let user = store.add_user(name, scopes, SystemClock::new().now_ms())?;
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
    let rows: Vec<Vec<String>> = users
        .iter()
        .map(|user| {
            let held = tokens.iter().filter(|token| token.user == user.name);
            vec![
                user.name.clone(),
                moment(user.created_at),
                held.count().to_string(),
                user.scopes.to_string(),
            ]
        })
        .collect();
    out.table(&["NAME", "SINCE", "TOKENS", "SCOPES"], &rows)?;
    Ok(Ending::Fine)
}

fn remove(store: &Store, name: &str) -> Result<Ending, Problem> {
    if !store.remove_user(name)? {
        return Err(missing(name));
    }
    Out::stdout().line(Mark::Yes.with(format_args!(
        "{name} is gone; running servers refuse their tokens and sign-ins within 100 ms"
    )))?;
    Ok(Ending::Fine)
}

fn scope(store: &Store, name: &str, scopes: ScopeSet) -> Result<Ending, Problem> {
    if !store.set_user_scopes(name, scopes)? {
        return Err(missing(name));
    }
    Out::stdout().line(Mark::Yes.with(format_args!("{name} is now for {scopes}")))?;
    Ok(Ending::Fine)
}

fn link(store: &Store, name: &str, url: &str) -> Result<Ending, Problem> {
    let link = store.create_sign_in_link(name, SystemClock::new().now_ms())?;
    // Alone on its stream, so that a script can hand it on.
    Out::stdout().line(sign_in_url(url, &link))?;
    aside(format_args!(
        "Signs {name} in, once and within 5 minutes. Whoever opens it first is {name}."
    ));
    Ok(Ending::Fine)
}

fn missing(name: &str) -> Problem {
    Problem::new(format!("There is no user {}.", shown(name))).hint("portcullis user list")
}
