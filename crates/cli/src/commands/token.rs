//! `portcullis token`: what agents and programs present.

use portcullis_gate::Clock as _;
use portcullis_proto::{Failure, Reason, Scope};
use portcullis_store::{Store, Token};

use crate::args::{Everywhere, TokenCommand, TokenCreateArgs};
use crate::clock::SystemClock;
use crate::environment::Environment;
use crate::out::{Mark, Out, aside, moment, shown};
use crate::problem::{Ending, Problem};
use crate::recorded::Recorded;
use crate::settings;
use crate::times;
use crate::wiring::open_data;

pub(crate) fn run(
    everywhere: &Everywhere,
    env: &Environment,
    command: &TokenCommand,
) -> Result<Ending, Problem> {
    let data = open_data(&settings::data_dir(everywhere, env)?)?;
    let store = Store::new(data.path());
    let record = Recorded::by("cli/token", &data);
    match command {
        TokenCommand::Create(args) => create(&store, &record, args),
        TokenCommand::List { user } => list(&store, user.as_deref()),
        TokenCommand::Revoke { id } => revoke(&store, &record, id),
    }
}

fn create(store: &Store, record: &Recorded, args: &TokenCreateArgs) -> Result<Ending, Problem> {
    let now = SystemClock::new().now_ms();
    let expires_at = times::end(&args.expires, now)?;
    let user = match &args.user {
        Some(user) => user.clone(),
        None => first_admin(store)?,
    };
    let until = expires_at.map_or_else(|| "revoked".to_owned(), moment);
    let what = format!("token create for {user} {} until {until}", args.scope);
    let made = record.change(&what, || {
        Ok(store.create_token(&user, &args.name, args.scope, expires_at, now)?)
    })?;
    // Only now it has the id that lines of its deeds name it by.
    let named = record.change(&format!("token {} made for {user}", made.id), || Ok(()));
    if let Err(problem) = named {
        store.revoke_token(&made.id, None)?;
        return Err(problem);
    }
    // Alone on its stream: TOKEN=$(portcullis token create …).
    let mut out = Out::stdout();
    let told = out.line(made.secret.expose()).and_then(|()| out.flush());
    if let Err(problem) = told {
        // Nobody has it, so nobody would miss it, and it would only lie about.
        let what = format!("token revoke {}", made.id);
        record.change(&what, || Ok(store.revoke_token(&made.id, None)?))?;
        return Err(problem);
    }
    aside(Mark::Yes.with(format_args!(
        "token {} of {user} for {}, {}",
        made.id,
        args.scope,
        expires_at.map_or_else(
            || "until it is revoked".to_owned(),
            |end| format!("until {}", moment(end))
        )
    )));
    aside("  It is shown this once. Present it as: Authorization: Bearer TOKEN");
    Ok(Ending::Fine)
}

pub(crate) fn first_admin(store: &Store) -> Result<String, Problem> {
    let users = store.users()?;
    let admin = users.into_iter().find(|user| user.scopes.has(Scope::Admin));
    admin.map(|user| user.name).ok_or_else(|| {
        Problem::new("There is no user yet, and this is somebody's.")
            .hint("Add the first, who may do everything: portcullis user add NAME; then try again.")
    })
}

fn list(store: &Store, user: Option<&str>) -> Result<Ending, Problem> {
    let mut out = Out::stdout();
    let tokens = store.tokens(user)?;
    if tokens.is_empty() {
        out.line("There is no token. Make one: portcullis token create --scope fs:read")?;
        return Ok(Ending::Fine);
    }
    let now = SystemClock::new().now_ms();
    let rows: Vec<Vec<String>> = tokens
        .iter()
        .map(|token| {
            vec![
                token.id.clone(),
                holder(token),
                moment(token.created_at),
                state(token, now),
                token.scopes.to_string(),
                shown(&token.label).into_owned(),
            ]
        })
        .collect();
    out.table(&["ID", "OF", "SINCE", "STATE", "SCOPES", "NAME"], &rows)?;
    out.blank()?;
    out.line("Revoke one: portcullis token revoke ID")?;
    Ok(Ending::Fine)
}

fn holder(token: &Token) -> String {
    match &token.extension {
        Some(extension) => format!("extension:{extension} ({})", token.user),
        None => token.user.clone(),
    }
}

fn state(token: &Token, now: u64) -> String {
    match token.expires_at {
        Some(end) if token.is_expired(now) => format!("✗ expired {}", moment(end)),
        Some(end) => format!("✓ until {}", moment(end)),
        None => "✓ until revoked".to_owned(),
    }
}

fn revoke(store: &Store, record: &Recorded, typed: &str) -> Result<Ending, Problem> {
    if typed.starts_with("pcl_") {
        // Not repeated: whatever reads what we print would then have it too.
        return Err(Problem::usage(
            "That is a whole token; its ID is what stands between the first two underscores.",
        )
        .hint("portcullis token list"));
    }
    record.change(&format!("token revoke {typed}"), || {
        if store.revoke_token(typed, None)? {
            return Ok(());
        }
        let what = format!("There is no token {}.", shown(typed));
        Err(Failure::new(Reason::NotFound, what).hint("portcullis token list"))
    })?;
    Out::stdout().line(Mark::Yes.with(format_args!(
        "token {typed} is revoked; running servers refuse it within 100 ms"
    )))?;
    Ok(Ending::Fine)
}
