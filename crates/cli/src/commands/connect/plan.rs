//! What was typed, set and written about lending this machine, as one plan:
//! flags over environment over file, with nothing left to decide but by a person.

use std::io::{BufRead as _, Read as _};
use std::path::{Path, PathBuf};

use portcullis_daemon::{Address, Proxies, Speaking, Trust};
use portcullis_files::read_own_text;
use portcullis_link::Dialect;
use portcullis_link::bounds::{MAX_KEY, MAX_NAME};
use portcullis_policy::Modes;
use portcullis_proto::{Group, Mode, Secret};

use super::origins::is_allowed;
use crate::args::{ConfirmationFlag, ConnectArgs, DialectFlag, Everywhere, LogLevel, ModeFlag};
use crate::environment::{Environment, Said};
use crate::problem::Problem;
use crate::prompt::is_there;
use crate::settings::{self, Overrides, Settings, bad_variable};

/// How a pairing token begins. It counts once and for five minutes, so it may
/// stand where others can see it.
const PAIRING: &str = "gw_";
/// The largest file of certificates: a system's own has some 250 KiB.
const MAX_PEM: u64 = 4 << 20;
/// Where systems keep the certificates they came with: Debian, Fedora, SUSE, Alpine.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Who confirms the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deciding {
    /// The person at the terminal.
    Person,
    /// `--auto-confirm`, for a server of `--allowed-origins`. It answers no question.
    Flag,
}

/// Who is asked where a person has to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The person at this terminal, or at another with `portcullis approve`.
    Terminal,
    /// There is no terminal here: a person at another with `portcullis approve`.
    Elsewhere,
    /// Whoever the server asks.
    Server,
    /// Nobody: every question is a no.
    Nobody,
}

impl Asked {
    /// For people.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Terminal => "you, in this terminal",
            Self::Elsewhere => {
                "whoever runs portcullis approve --watch on this machine; while nobody does, each is a no"
            }
            Self::Server => "whoever the server asks",
            Self::Nobody => "nobody, so each is a no",
        }
    }
}

/// What is to be lent, and to whom.
pub(super) struct Plan {
    pub(super) address: Address,
    pub(super) token: Secret,
    pub(super) settings: Settings,
    /// Whether anybody offered to change files before the confirmation. Where nobody
    /// did, that group's mode is deny, and the person who confirms may raise it.
    pub(super) offers_writing: bool,
    pub(super) deciding: Deciding,
    pub(super) asked: Asked,
    pub(super) speaking: Speaking,
    pub(super) machine: String,
    /// `user@host`.
    pub(super) host: String,
    pub(super) proxies: Proxies,
    pub(super) trust: Trust,
    /// What has no effect here, each in words.
    pub(super) told: Vec<String>,
}

/// Whether a group has tools here.
pub(super) const fn is_available(group: Group) -> bool {
    match group {
        Group::FilesystemRead | Group::FilesystemWrite => true,
        Group::Shell | Group::Computer | Group::Browser => false,
    }
}

/// The mode that counts: a group without tools here is off, and so is changing
/// files where looking at them is.
pub(super) fn mode_of(modes: Modes, group: Group) -> Mode {
    let needs_reading = group == Group::FilesystemWrite;
    if !is_available(group) || (needs_reading && modes.of(Group::FilesystemRead) == Mode::Deny) {
        return Mode::Deny;
    }
    modes.of(group)
}

/// Whether anything is lent at all.
pub(super) fn lends_anything(modes: Modes) -> bool {
    Group::ALL
        .into_iter()
        .any(|group| mode_of(modes, group) != Mode::Deny)
}

pub(super) fn nothing_lent() -> Problem {
    Problem::usage(
        "Every tool group that is available here is denied, so there is nothing to lend.",
    )
    .hint("Switch one on: --permission-filesystem-read allow")
}

impl Plan {
    /// What holds, for the server that was named or whose page `asked`.
    pub(super) fn of(
        everywhere: &Everywhere,
        env: &Environment,
        args: &ConnectArgs,
        asked: Option<(&str, Secret)>,
    ) -> Result<Self, Problem> {
        let is_at_door = asked.is_some();
        let (address, (token, dir)) = match asked {
            Some((url, token)) => (parsed(url)?, (token, args.dir.clone())),
            None => (address(env, args)?, token_and_dir(env, args)?),
        };
        let mut overrides = Overrides::from(args);
        overrides.dir = dir;
        let mut settings = settings::resolve(everywhere, &heard(env)?, &overrides)?;
        if settings.roots.is_empty() {
            return Err(Problem::usage(
                "There is no directory to lend: the working directory is gone.",
            )
            .hint("Name one: portcullis connect URL TOKEN DIR"));
        }
        let offers_writing = offers_writing(env, args, &settings)?;
        settings.modes = with_write_access(settings.modes, args, offers_writing);
        address.origin().clone_into(&mut settings.client_name);
        let deciding = if is_at_door {
            Deciding::Person
        } else {
            deciding(env, args, &address)?
        };
        let mut told = told(env, args, settings.modes)?;
        if !offers_writing
            && args
                .permissions
                .filesystem_write
                .is_some_and(|mode| mode != ModeFlag::Deny)
        {
            told.push(format!(
                "{}: off, whatever its mode; --filesystem-write-access offers it",
                Group::FilesystemWrite
            ));
        }
        if is_at_door && flags(env, args)?.0 {
            told.push("--auto-confirm does not count for what a page asks: you decide".to_owned());
        }
        let asked = asked_of(env, args)?;
        if deciding == Deciding::Flag {
            told.push(unanswered(asked, settings.modes));
        }
        let host_name = host_name();
        let machine = args.machine.clone().or_else(|| env.gateway.machine.clone());
        let machine = machine.unwrap_or_else(|| host_name.clone());
        let is_plain = !machine.is_empty() && !machine.chars().any(char::is_control);
        if machine.len() > MAX_NAME || !is_plain {
            return Err(Problem::usage("The machine cannot be called that.")
                .hint(format!("Use 1 to {MAX_NAME} printable characters.")));
        }
        let gateway = &env.gateway;
        Ok(Self {
            trust: trust(env, args, &address)?,
            address,
            token,
            deciding,
            asked,
            speaking: speaking(env, args)?,
            machine,
            host: format!("{}@{host_name}", env.user),
            proxies: Proxies {
                https: gateway.https_proxy.clone(),
                http: gateway.http_proxy.clone(),
                none_for: gateway.no_proxy.clone(),
            },
            told,
            settings,
            offers_writing,
        })
    }
}

/// Whether pages ask for this machine: nothing lets us in at a server that was
/// named, if one was, and nobody confirmed beforehand.
pub(super) fn is_for_pages(env: &Environment, args: &ConnectArgs) -> Result<bool, Problem> {
    let has_token = args.token.is_some() || args.api_key.is_some() || set_token(env).is_some();
    let is_for_one = !has_token && flags(env, args)? == (false, false);
    Ok(named(env, args).is_none() || is_for_one)
}

/// What lets us in by the environment: the token, then the fixed key.
fn set_token(env: &Environment) -> Option<&Secret> {
    env.gateway.token.as_ref().or(env.gateway_key.as_ref())
}

/// The server that was named, if one was.
fn named<'a>(env: &'a Environment, args: &'a ConnectArgs) -> Option<&'a str> {
    let said = env.gateway.url.as_ref().map(|said| &said.value);
    let url = args.to.as_ref().or(args.url.as_ref()).or(said);
    url.map(String::as_str)
}

fn address(env: &Environment, args: &ConnectArgs) -> Result<Address, Problem> {
    let url = named(env, args).ok_or_else(|| {
        Problem::usage("No server to lend this machine to is named.")
            .hint("The server shows the whole command: portcullis connect URL TOKEN")
    })?;
    parsed(url)
}

fn parsed(url: &str) -> Result<Address, Problem> {
    Address::parse(url).map_err(|bad| {
        Problem::usage(format!("The server's address cannot be used: {bad}."))
            .hint("Write it as https://HOST or http://HOST:PORT.")
    })
}

/// What lets us in, and the directory. Where the token comes from elsewhere, the
/// second word is the directory.
fn token_and_dir(
    env: &Environment,
    args: &ConnectArgs,
) -> Result<(Secret, Option<PathBuf>), Problem> {
    let elsewhere = args.api_key.is_some() || set_token(env).is_some();
    let (typed, dir) = match (&args.token, &args.lent) {
        (Some(word), None) if elsewhere && word != "-" && !word.starts_with(PAIRING) => {
            (None, Some(PathBuf::from(word)))
        }
        (word, dir) => (word.clone(), dir.clone()),
    };
    let dir = match (args.dir.clone(), dir) {
        (Some(_), Some(_)) => {
            return Err(Problem::usage("Two directories are named.").hint("Name one."));
        }
        (one, other) => one.or(other),
    };
    let token = match (typed.or_else(|| args.api_key.clone()), set_token(env)) {
        (Some(word), _) if word == "-" => from_stdin()?,
        (Some(word), _) if word.starts_with(PAIRING) => Secret::new(word.into_bytes()),
        (Some(_), _) => {
            return Err(Problem::usage(
                "Only a pairing token (gw_…) may be typed: others last, and everybody on this machine can see what is typed.",
            )
            .hint("Set PORTCULLIS_GATEWAY_TOKEN, or pass - and the token on standard input."));
        }
        (None, Some(token)) => token.clone(),
        (None, None) => {
            return Err(Problem::usage("No token is given.")
                .hint("The server shows one beside its address: portcullis connect URL TOKEN"));
        }
    };
    if token.expose().is_empty() || token.expose().len() > MAX_KEY {
        return Err(Problem::usage(format!(
            "A token has 1 to {MAX_KEY} characters."
        )));
    }
    Ok((token, dir))
}

fn from_stdin() -> Result<Secret, Problem> {
    let mut line = String::new();
    let most = u64::try_from(MAX_KEY + 2).unwrap_or(u64::MAX);
    std::io::stdin().lock().take(most).read_line(&mut line)?;
    Ok(Secret::new(line.trim().as_bytes()))
}

/// The environment as `connect` hears it: with the shipped daemon's variables
/// where ours say nothing.
fn heard(env: &Environment) -> Result<Environment, Problem> {
    let mut heard = env.clone();
    let gateway = &env.gateway;
    // What a server is to serve says nothing of what is to be lent.
    heard.filesystem_path.clone_from(&gateway.filesystem_dir);
    if let (None, Some(said)) = (&env.log_level, &gateway.log_level) {
        let known = "silent, error, warn, info or debug";
        <LogLevel as clap::ValueEnum>::from_str(&said.value, true)
            .map_err(|_| bad_variable(&said.name, &said.value, known))?;
        heard.log_level = Some(said.value.clone());
    }
    for (group, said) in &gateway.modes {
        if env.modes.iter().any(|(named, _)| named == group) {
            continue;
        }
        if !matches!(said.value.as_str(), "deny" | "ask" | "allow") {
            return Err(bad_variable(&said.name, &said.value, "deny, ask or allow"));
        }
        heard.modes.push((*group, said.value.clone()));
    }
    Ok(heard)
}

/// Whether anybody offers to change files: read-only is the default.
fn offers_writing(
    env: &Environment,
    args: &ConnectArgs,
    settings: &Settings,
) -> Result<bool, Problem> {
    let said = env.gateway.filesystem_write_access.as_ref();
    let by_environment = said.map(|said| is_set(Some(said))).transpose()?;
    Ok(args.filesystem_write_access || by_environment.unwrap_or(settings.write_access))
}

/// The modes with changing files off where nobody offers it. Only what is typed
/// raises a denied group: a variable that somebody set once does not overrule a deny
/// of the file or the environment.
fn with_write_access(modes: Modes, args: &ConnectArgs, offers_writing: bool) -> Modes {
    let group = Group::FilesystemWrite;
    let is_denied = args.permissions.filesystem_write == Some(ModeFlag::Deny);
    if !offers_writing {
        return modes.with(group, Mode::Deny);
    }
    if args.filesystem_write_access && !is_denied && modes.of(group) == Mode::Deny {
        return modes.with(group, Mode::Ask);
    }
    modes
}

fn is_set(said: Option<&Said>) -> Result<bool, Problem> {
    match said {
        None => Ok(false),
        Some(said) => match said.value.as_str() {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            value => Err(bad_variable(&said.name, value, "true or false")),
        },
    }
}

/// The servers `--auto-confirm` counts for, and whose pages may ask.
fn origins(env: &Environment, args: &ConnectArgs) -> Vec<String> {
    match &env.gateway.allowed_origins {
        Some(list) if args.allowed_origins.is_empty() => {
            list.split(',').map(str::to_owned).collect()
        }
        Some(_) | None => args.allowed_origins.clone(),
    }
}

/// Whose pages may ask at the door: those of the server that was named alone.
pub(super) fn door_origins(env: &Environment, args: &ConnectArgs) -> Result<Vec<String>, Problem> {
    match named(env, args) {
        Some(url) => Ok(vec![parsed(url)?.origin().to_owned()]),
        None => Ok(origins(env, args)),
    }
}

/// Whether a flag confirms, and whether nobody is ever asked.
fn flags(env: &Environment, args: &ConnectArgs) -> Result<(bool, bool), Problem> {
    Ok((
        args.auto_confirm || is_set(env.gateway.auto_confirm.as_ref())?,
        args.non_interactive || is_set(env.gateway.non_interactive.as_ref())?,
    ))
}

/// Refuses to wait at the door where nobody may be asked: what a page asks for,
/// a person confirms, whatever was confirmed beforehand.
pub(super) fn may_wait(env: &Environment, args: &ConnectArgs) -> Result<(), Problem> {
    let (_, asks_nobody) = flags(env, args)?;
    if asks_nobody {
        return Err(Problem::usage(
            "--non-interactive asks nobody, and only a person can confirm what a page asks for. Nothing was connected.",
        )
        .hint("Name the server: portcullis connect URL TOKEN --auto-confirm --allowed-origins ORIGIN"));
    }
    Ok(())
}

fn nobody_confirms(origin: &str) -> Problem {
    Problem::usage("--non-interactive asks nobody, so nobody can confirm. Nothing was connected.")
        .hint(format!(
            "Confirm beforehand: --auto-confirm --allowed-origins {origin}"
        ))
}

fn deciding(env: &Environment, args: &ConnectArgs, address: &Address) -> Result<Deciding, Problem> {
    match flags(env, args)? {
        (false, false) => Ok(Deciding::Person),
        (false, true) => Err(nobody_confirms(address.origin())),
        (true, _) if !is_allowed(&origins(env, args), address) => Err(Problem::usage(format!(
            "--auto-confirm counts only for servers of --allowed-origins, and {} is none. Nothing was connected.",
            address.origin()
        ))
        .hint(format!("Name it: --allowed-origins {}", address.origin()))),
        (true, _) => Ok(Deciding::Flag),
    }
}

/// Who is asked: `--auto-confirm` changes nothing about it.
fn asked_of(env: &Environment, args: &ConnectArgs) -> Result<Asked, Problem> {
    let (_, asks_nobody) = flags(env, args)?;
    Ok(match confirmation(env, args)? {
        _ if asks_nobody => Asked::Nobody,
        ConfirmationFlag::Instance => Asked::Server,
        ConfirmationFlag::Client if is_there() => Asked::Terminal,
        ConfirmationFlag::Client => Asked::Elsewhere,
    })
}

/// What `--auto-confirm` does not do, and which flags do.
fn unanswered(asked: Asked, modes: Modes) -> String {
    let mut said = format!(
        "--auto-confirm confirms the connection and answers no question. Asked is {}.",
        asked.words()
    );
    let group = Group::FilesystemWrite;
    if mode_of(modes, group) == Mode::Ask {
        said.push_str(" Files are changed unasked with --permission-filesystem-write allow.");
    }
    match asked {
        Asked::Terminal | Asked::Elsewhere => {
            said.push_str(" The server asks with --permission-confirmation instance.");
        }
        Asked::Server | Asked::Nobody => {}
    }
    said
}

fn confirmation(env: &Environment, args: &ConnectArgs) -> Result<ConfirmationFlag, Problem> {
    match (
        args.permission_confirmation,
        &env.gateway.permission_confirmation,
    ) {
        (Some(flag), _) => Ok(flag),
        (None, Some(said)) => <ConfirmationFlag as clap::ValueEnum>::from_str(&said.value, true)
            .map_err(|_| bad_variable(&said.name, &said.value, "client or instance")),
        (None, None) => Ok(ConfirmationFlag::default()),
    }
}

fn speaking(env: &Environment, args: &ConnectArgs) -> Result<Speaking, Problem> {
    let flag = match (args.dialect, &env.gateway.dialect) {
        (Some(flag), _) => flag,
        (None, Some(said)) => <DialectFlag as clap::ValueEnum>::from_str(&said.value, true)
            .map_err(|_| bad_variable(&said.name, &said.value, "auto, n8n, seed or portcullis"))?,
        (None, None) => DialectFlag::default(),
    };
    Ok(match flag {
        DialectFlag::Auto => Speaking::Auto,
        DialectFlag::N8n => Speaking::Only(Dialect::Shipped),
        DialectFlag::Seed => Speaking::Only(Dialect::Seed),
        DialectFlag::Portcullis => Speaking::Only(Dialect::Ours),
    })
}

/// Whom to trust: the system's certificates and those that were named.
fn trust(env: &Environment, args: &ConnectArgs, address: &Address) -> Result<Trust, Problem> {
    let mut trust = Trust::nobody();
    if !address.origin().starts_with("https://") {
        return Ok(trust);
    }
    let system: Vec<PathBuf> = match &env.gateway.system_certificates {
        Some(file) => vec![file.clone()],
        None => SYSTEM.iter().map(PathBuf::from).collect(),
    };
    for file in &system {
        if let Some(pem) = read_own_text(file, MAX_PEM)?
            && trust.add_system(pem.as_bytes()) > 0
        {
            break;
        }
    }
    let named = if args.ca.is_empty() {
        env.gateway.ca.iter().collect::<Vec<_>>()
    } else {
        args.ca.iter().collect()
    };
    for file in named {
        let unusable = |why: &dyn std::fmt::Display| {
            Problem::new(format!(
                "The certificate authority {} cannot be used: {why}.",
                file.display()
            ))
            .hint("Name a file of certificates as PEM: --ca FILE")
        };
        let pem =
            read_own_text(file, MAX_PEM)?.ok_or_else(|| unusable(&"there is no such file"))?;
        trust
            .add_private(pem.as_bytes())
            .map_err(|bad| unusable(&bad))?;
    }
    Ok(trust)
}

/// What was said that has no effect here.
fn told(env: &Environment, args: &ConnectArgs, modes: Modes) -> Result<Vec<String>, Problem> {
    let mut told: Vec<String> = Group::ALL
        .into_iter()
        .filter(|group| {
            let flags = &args.permissions;
            let flag = match group {
                Group::FilesystemRead | Group::FilesystemWrite => return false,
                Group::Shell => flags.shell,
                Group::Computer => flags.computer,
                Group::Browser => flags.browser,
            };
            let ours = env.modes.iter().map(|(named, _)| named);
            let shipped = env.gateway.modes.iter().map(|(named, _)| named);
            let is_said = flag.is_some() || ours.chain(shipped).any(|named| named == group);
            is_said && modes.of(*group) != Mode::Deny
        })
        .map(|group| format!("{group}: not available here, so it stays off"))
        .collect();
    let flags = [
        (
            args.computer_shell_timeout.is_some(),
            "--computer-shell-timeout",
        ),
        (
            args.dangerously_disable_shell_sandbox,
            "--dangerously-disable-shell-sandbox",
        ),
        (args.browser_default.is_some(), "--browser-default"),
    ];
    let flags = flags.into_iter().filter(|(typed, _)| *typed);
    let names = flags.map(|(_, name)| name.to_owned());
    let without = names.chain(env.gateway.unused.iter().cloned());
    told.extend(without.map(|name| format!("{name} has no effect here")));
    let group = Group::FilesystemWrite;
    let said = env.gateway.filesystem_write_access.as_ref();
    if let (true, Some(said), Mode::Deny) = (is_set(said)?, said, modes.of(group)) {
        let name = &said.name;
        told.push(format!("{name} does not overrule that {group} is denied"));
    }
    Ok(told)
}

/// The name the kernel has for this machine.
fn host_name() -> String {
    let path = Path::new("/proc/sys/kernel/hostname");
    let name = read_own_text(path, 1024).ok().flatten().unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "machine" } else { name }.to_owned()
}
