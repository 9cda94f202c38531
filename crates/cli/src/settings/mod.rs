//! What holds: flags over environment over file, validated, with no `Option`
//! left where there is something to decide. Reading the settings changes
//! nothing on the disk; a damaged file is refused, never replaced.

mod by_path;
mod file;
mod import;
mod lent;
mod template;
mod writing;

use std::path::{Path, PathBuf};
use std::time::Duration;

use portcullis_files::{NewModes, OperatorFile, Resolver, is_own_there, read_own_text};
use portcullis_gate::{GrantSource, RootSpec};
use portcullis_policy::{Hardlinks, Modes, PatternSet, RootPolicy, Rule, Symlinks};
use portcullis_proto::{AccessSet, Group, Mode, Principal, RootId, RootKind};

use by_path::ByPath;
use file::{Glob, Permissions, Written, WrittenRoot};
pub(crate) use file::{HookEvent, WrittenHook};
pub(crate) use import::{Imported, NotImported, import};
pub(crate) use lent::Listed;
pub(crate) use template::{is_template, write_template};
pub(crate) use writing::Writing;

use crate::args::{
    ConnectArgs, Everywhere, HardlinksFlag, LogFormat, LogLevel, McpArgs, ModeFlag,
    NewFileModeFlag, PermissionFlags, ResolverFlag, RootFlag, ServeArgs, SymlinksFlag,
};
use crate::environment::{Environment, mode_variable};
use crate::named::{self, Named};
use crate::problem::Problem;

/// The largest settings file that is read.
const MAX_FILE: u64 = 4 << 20;
/// How long a question waits unless somebody says otherwise: less than the
/// minute after which common clients give a call up.
const APPROVE_TIMEOUT: Duration = Duration::from_secs(55);
/// How long a hook may think unless the settings say otherwise.
const HOOK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a hook may think at most.
const MAX_HOOK_TIMEOUT: Duration = Duration::from_mins(5);

/// What holds for every command.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) data_dir: PathBuf,
    pub(crate) file: PathBuf,
    pub(crate) file_exists: bool,
    pub(crate) modes: Modes,
    /// `filesystemWriteAccess` of the file: it offers to change files.
    pub(crate) write_access: bool,
    pub(crate) rules: Vec<Rule>,
    by_path: ByPath,
    pub(crate) roots: Vec<RootSetting>,
    /// What the file lists, where one directory is lent alone.
    pub(crate) listed: Vec<Listed>,
    pub(crate) hooks: Vec<HookSetting>,
    /// Every file that was named to be run, trusted or taken for a key.
    pub(crate) named: Vec<OperatorFile>,
    pub(crate) log_level: LogLevel,
    pub(crate) log_format: LogFormat,
    pub(crate) resolver: Resolver,
    pub(crate) writing: Writing,
    pub(crate) new_modes: NewModes,
    pub(crate) approve_timeout: Duration,
    pub(crate) client_name: String,
    pub(crate) home: Option<PathBuf>,
}

impl Settings {
    /// The rules that are written, those about whole paths as they are seen from
    /// the roots there are.
    pub(crate) fn all_rules(&self) -> Vec<Rule> {
        let name = self.file.file_name().unwrap_or_default();
        let mut rules = self.rules.clone();
        rules.extend(self.by_path.rules(&self.roots, &name.to_string_lossy()));
        rules
    }
}

/// One root to serve.
#[derive(Clone, Debug)]
pub(crate) struct RootSetting {
    pub(crate) spec: RootSpec,
    pub(crate) path: PathBuf,
    pub(crate) grants: Vec<GrantSetting>,
}

/// One grant on it.
#[derive(Clone, Debug)]
pub(crate) struct GrantSetting {
    pub(crate) to: Principal,
    pub(crate) access: AccessSet,
    pub(crate) expires_at: Option<u64>,
    pub(crate) source: GrantSource,
}

/// One hook program.
#[derive(Clone, Debug)]
pub(crate) struct HookSetting {
    pub(crate) id: String,
    pub(crate) command: Vec<String>,
    pub(crate) timeout: Duration,
    pub(crate) events: Vec<HookEvent>,
}

/// What a command says beyond the flags every command takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides {
    pub(crate) dir: Option<PathBuf>,
    pub(crate) permissions: PermissionFlags,
    pub(crate) roots: Vec<RootFlag>,
    pub(crate) symlinks: Option<SymlinksFlag>,
    pub(crate) hardlinks: Option<HardlinksFlag>,
    pub(crate) resolver: Option<ResolverFlag>,
    pub(crate) approve_timeout: Option<u64>,
    pub(crate) client_name: Option<String>,
    pub(crate) log_level: Option<LogLevel>,
    pub(crate) log_format: Option<LogFormat>,
    pub(crate) writing: Writing,
    pub(crate) new_file_mode: NewFileModeFlag,
    /// Whether the working directory stands in where nobody names one.
    pub(crate) default_dir: DefaultDir,
    /// The files that flags name.
    pub(crate) named: Vec<Named>,
}

/// What to serve where nobody names a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DefaultDir {
    /// Nothing: an agent's client starts us wherever it likes.
    #[default]
    Nothing,
    /// The working directory: a person stands in it.
    Working,
    /// The same, and nothing beside the one directory, whatever the settings list.
    Alone,
}

impl From<&McpArgs> for Overrides {
    fn from(typed: &McpArgs) -> Self {
        Self {
            dir: typed.dir.clone(),
            permissions: typed.permissions.clone(),
            roots: typed.roots.clone(),
            symlinks: typed.symlinks,
            hardlinks: typed.hardlinks,
            resolver: Some(typed.resolver),
            approve_timeout: typed.approve_timeout,
            client_name: typed.client_name.clone(),
            log_level: typed.log_level,
            log_format: None,
            writing: match (typed.write, typed.filesystem_write_access) {
                (true, _) => Writing::Allowed,
                (false, true) => Writing::AsStored,
                (false, false) => Writing::Unsaid,
            },
            new_file_mode: typed.new_file_mode,
            default_dir: DefaultDir::Nothing,
            named: Vec::new(),
        }
    }
}

impl From<&ServeArgs> for Overrides {
    fn from(typed: &ServeArgs) -> Self {
        Self {
            dir: typed.dir.clone(),
            permissions: typed.permissions.clone(),
            roots: typed.roots.clone(),
            symlinks: typed.symlinks,
            hardlinks: typed.hardlinks,
            log_level: typed.log_level,
            log_format: typed.operating.log_format,
            writing: Writing::Served,
            named: named::by_serve(typed),
            new_file_mode: typed.new_file_mode,
            ..Self::default()
        }
    }
}

impl From<&ConnectArgs> for Overrides {
    fn from(typed: &ConnectArgs) -> Self {
        Self {
            dir: typed.dir.clone(),
            permissions: typed.permissions.clone(),
            log_level: typed.log_level,
            writing: Writing::Lent,
            named: named::by_connect(typed),
            default_dir: DefaultDir::Alone,
            ..Self::default()
        }
    }
}

/// Where Portcullis keeps its own files; no file is read to know it.
pub(crate) fn data_dir(typed: &Everywhere, env: &Environment) -> Result<PathBuf, Problem> {
    let named = typed.data_dir.clone().or_else(|| env.data_dir.clone());
    let dir = match (named, &env.home) {
        (Some(dir), _) => dir,
        (None, Some(home)) => home.join(".portcullis"),
        (None, None) => {
            return Err(Problem::usage(
                "There is no home directory to keep Portcullis's files in.",
            )
            .hint("Name a directory: portcullis --data-dir DIR …"));
        }
    };
    absolute(env, &dir)
}

/// Resolves everything that holds.
pub(crate) fn resolve(
    typed: &Everywhere,
    env: &Environment,
    overrides: &Overrides,
) -> Result<Settings, Problem> {
    let data_dir = data_dir(typed, env)?;
    let named = typed.settings.clone().or_else(|| env.settings.clone());
    let file = match &named {
        Some(file) => absolute(env, file)?,
        None => data_dir.join("settings.json"),
    };
    let text = text_at(&file)?;
    if text.is_none() && named.is_some() {
        return Err(
            Problem::usage(format!("There is no settings file at {}.", file.display()))
                .hint("Leave --settings out to use the recommended settings."),
        );
    }
    let written = match &text {
        Some(text) => parse(&file, text)?,
        None => Written::default(),
    };
    let log_level = match (overrides.log_level, &env.log_level) {
        (Some(level), _) => level,
        (None, Some(word)) => {
            <LogLevel as clap::ValueEnum>::from_str(word, true).map_err(|_| {
                bad_variable(
                    "PORTCULLIS_LOG_LEVEL",
                    word,
                    "off, error, warn, info or debug",
                )
            })?
        }
        (None, None) => written.log_level.unwrap_or_default(),
    };
    let log_format = match (overrides.log_format, &env.log_format) {
        (Some(format), _) => format,
        (None, Some(word)) => <LogFormat as clap::ValueEnum>::from_str(word, true)
            .map_err(|_| bad_variable("PORTCULLIS_LOG_FORMAT", word, "text or json"))?,
        (None, None) => LogFormat::default(),
    };
    let listed = match overrides.default_dir {
        DefaultDir::Alone => lent::listed(env, &written)?,
        DefaultDir::Nothing | DefaultDir::Working => Vec::new(),
    };
    let mut roots = roots(env, overrides, &written, &listed)?;
    let write_access = written.filesystem_write_access == Some(true);
    let writing = overrides.writing.resolved(env, write_access)?;
    let denied = overrides.permissions.filesystem_write == Some(ModeFlag::Deny);
    let modes = modes(env, &overrides.permissions, written.permissions)?;
    let modes = if denied { modes } else { writing.modes(modes) };
    writing.open(&mut roots);
    let hooks: Vec<HookSetting> = written.hooks.iter().map(hook).collect();
    Ok(Settings {
        modes,
        write_access,
        writing,
        new_modes: writing::new_modes(overrides.new_file_mode)?,
        rules: written.rules,
        by_path: written.by_path,
        roots,
        listed,
        named: named::all(env, &overrides.named, &hooks)?,
        hooks,
        log_level,
        log_format,
        resolver: match overrides.resolver {
            None | Some(ResolverFlag::Best) => Resolver::Best,
            Some(ResolverFlag::BestEffort) => Resolver::BestEffort,
        },
        approve_timeout: overrides
            .approve_timeout
            .map_or(APPROVE_TIMEOUT, Duration::from_secs),
        client_name: overrides
            .client_name
            .clone()
            .unwrap_or_else(|| "mcp".to_owned()),
        home: env.home.clone(),
        data_dir,
        file,
        file_exists: text.is_some(),
    })
}

/// The text of the settings at `file`, or nothing where nothing stands there. A link
/// that leads nowhere is something: what it led to may have denied what nothing else does.
pub(crate) fn text_at(file: &Path) -> Result<Option<String>, Problem> {
    let text = read_own_text(file, MAX_FILE)?;
    if text.is_some() || !is_own_there(file)? {
        return Ok(text);
    }
    // Once more: another start may have written them in between.
    let text = read_own_text(file, MAX_FILE)?.ok_or_else(|| {
        let at = file.display();
        Problem::new(format!(
            "The settings cannot be read: {at} is a link that leads to nothing. Nothing was changed."
        ))
        .hint(format!(
            "Put back what it leads to, or start from the recommended settings: rm {at}"
        ))
    })?;
    Ok(Some(text))
}

fn parse(file: &Path, text: &str) -> Result<Written, Problem> {
    let name = file
        .file_name()
        .map_or("settings.json".into(), |name| name.to_string_lossy());
    file::parse(&name, text).map_err(|wrong| {
        Problem::new(format!(
            "The settings cannot be used: {}:{}:{}: {}.",
            file.display(),
            wrong.line,
            wrong.column,
            wrong.what.trim_end_matches('.')
        ))
        .hint(format!(
            "Mend line {}, or move the file away to start from the recommended settings. Nothing was changed.",
            wrong.line
        ))
    })
}

fn modes(env: &Environment, typed: &PermissionFlags, file: Permissions) -> Result<Modes, Problem> {
    let mut modes = Modes::recommended();
    for group in Group::ALL {
        let (flag, written) = match group {
            Group::FilesystemRead => (typed.filesystem_read, file.filesystem_read),
            Group::FilesystemWrite => (typed.filesystem_write, file.filesystem_write),
            Group::Shell => (typed.shell, file.shell),
            Group::Computer => (typed.computer, file.computer),
            Group::Browser => (typed.browser, file.browser),
        };
        let variable = env.modes.iter().find(|(named, _)| *named == group);
        let mode = match (flag, variable, written) {
            (Some(flag), _, _) => Some(mode(flag)),
            (None, Some((_, word)), _) => {
                let parsed = [Mode::Deny, Mode::Ask, Mode::Allow]
                    .into_iter()
                    .find(|mode| mode.as_str() == word);
                Some(parsed.ok_or_else(|| {
                    bad_variable(&mode_variable(group), word, "deny, ask or allow")
                })?)
            }
            (None, None, written) => written,
        };
        if let Some(mode) = mode {
            modes = modes.with(group, mode);
        }
    }
    Ok(modes)
}

pub(crate) fn bad_variable(name: &str, value: &str, known: &str) -> Problem {
    Problem::usage(format!("{name} is {value:?}, which says nothing known."))
        .hint(format!("Set it to {known}, or unset it."))
}

const fn mode(flag: ModeFlag) -> Mode {
    match flag {
        ModeFlag::Deny => Mode::Deny,
        ModeFlag::Ask => Mode::Ask,
        ModeFlag::Allow => Mode::Allow,
    }
}

/// The roots to serve. The directory that was named comes first, so that it is
/// what a call that names no root means.
fn roots(
    env: &Environment,
    overrides: &Overrides,
    written: &Written,
    listed: &[Listed],
) -> Result<Vec<RootSetting>, Problem> {
    let mut roots = Vec::new();
    let dir = match (
        &overrides.dir,
        &env.filesystem_path,
        &written.filesystem_dir,
    ) {
        (Some(dir), _, _) | (None, Some(dir), _) => Some(absolute(env, dir)?),
        (None, None, Some(dir)) if dir.is_empty() => env.working_dir.clone(),
        (None, None, Some(dir)) => Some(settings_path(env, dir)?),
        (None, None, None) => match overrides.default_dir {
            DefaultDir::Working if written.roots.is_empty() => env.working_dir.clone(),
            DefaultDir::Alone => env.working_dir.clone(),
            DefaultDir::Working | DefaultDir::Nothing => None,
        },
    };
    if let (DefaultDir::Alone, Some(path)) = (overrides.default_dir, &dir) {
        roots.push(lent::lent(path.clone(), listed, &written.rules)?);
    } else if let Some(path) = dir {
        let taken = |name: &str| written.roots.iter().any(|root| root.id.as_str() == name);
        let name = if taken("workspace") {
            "dir"
        } else {
            "workspace"
        };
        roots.push(plain_root(RootKind::Workspace, name, path)?);
    }
    for flag in &overrides.roots {
        let kind = RootKind::parse(&flag.kind).ok_or_else(|| {
            Problem::usage(format!("{:?} is not a kind of root.", flag.kind)).hint(format!(
                "The kinds are {}.",
                RootKind::ALL.map(RootKind::as_str).join(", ")
            ))
        })?;
        roots.push(plain_root(kind, &flag.id, absolute(env, &flag.path)?)?);
    }
    if overrides.default_dir != DefaultDir::Alone {
        for root in &written.roots {
            roots.push(written_root(env, root)?);
        }
    }
    for root in &mut roots {
        if let Some(flag) = overrides.symlinks {
            root.spec.policy.symlinks = match flag {
                SymlinksFlag::Reject => Symlinks::Reject,
                SymlinksFlag::AllowInRoot => Symlinks::AllowInRoot,
            };
        }
        if let Some(flag) = overrides.hardlinks {
            root.spec.policy.hardlinks = match flag {
                HardlinksFlag::Reject => Hardlinks::Reject,
                HardlinksFlag::AllowOwn => Hardlinks::AllowOwn,
                HardlinksFlag::Allow => Hardlinks::Allow,
            };
        }
    }
    Ok(roots)
}

fn plain_root(kind: RootKind, name: &str, path: PathBuf) -> Result<RootSetting, Problem> {
    let id = RootId::parse(name).ok_or_else(|| {
        Problem::usage(format!("{name:?} cannot name a root."))
            .hint("Use letters, digits, `-`, `_` and `.`, at most 64.")
    })?;
    Ok(RootSetting {
        spec: RootSpec {
            id,
            kind,
            display_name: None,
            policy: RootPolicy::of(kind),
            owner: None,
            trusted: false,
        },
        path,
        grants: Vec::new(),
    })
}

fn written_root(env: &Environment, root: &WrittenRoot) -> Result<RootSetting, Problem> {
    let mut policy = RootPolicy::of(root.kind);
    policy.symlinks = root.symlinks.unwrap_or(policy.symlinks);
    policy.hardlinks = root.hardlinks.unwrap_or(policy.hardlinks);
    policy.max_file_bytes = root.max_file_bytes.unwrap_or(policy.max_file_bytes);
    policy.containment = root.containment.unwrap_or(policy.containment);
    policy.mounts.clone_from(&root.mounts);
    policy.allowed = globs(&root.allowed_globs)?;
    policy.denied = globs(&root.denied_globs)?;
    let grants = root
        .grants
        .iter()
        .map(|grant| {
            Ok(GrantSetting {
                to: grant.to.clone(),
                access: grant.access_on(root.kind).map_err(Problem::new)?,
                expires_at: grant.expires_at.map(|moment| moment.0),
                source: grant.source.unwrap_or(GrantSource::Core),
            })
        })
        .collect::<Result<_, Problem>>()?;
    Ok(RootSetting {
        spec: RootSpec {
            id: root.id.clone(),
            kind: root.kind,
            display_name: root.display_name.clone(),
            policy,
            owner: root.owner.clone(),
            trusted: root.trusted,
        },
        path: settings_path(env, &root.path)?,
        grants,
    })
}

fn globs(written: &[Glob]) -> Result<PatternSet, Problem> {
    let patterns: Vec<&str> = written.iter().map(|glob| glob.0.as_str()).collect();
    PatternSet::compile(&patterns).map_err(Problem::new)
}

fn hook(written: &WrittenHook) -> HookSetting {
    HookSetting {
        id: written.id.clone(),
        command: written.command.clone(),
        timeout: written
            .timeout_ms
            .map_or(HOOK_TIMEOUT, Duration::from_millis)
            .min(MAX_HOOK_TIMEOUT),
        events: written
            .events
            .clone()
            .unwrap_or_else(|| vec![HookEvent::Before]),
    }
}

/// A path of the settings file: absolute, or below the home directory. Relative
/// ones would mean another directory wherever a client starts us.
pub(crate) fn settings_path(env: &Environment, written: &str) -> Result<PathBuf, Problem> {
    let below_home = written
        .strip_prefix("~/")
        .or((written == "~").then_some(""));
    match (below_home, &env.home) {
        (Some(rest), Some(home)) => Ok(home.join(rest)),
        (Some(_), None) => Err(Problem::new(format!(
            "The settings name {written}, and there is no home directory."
        ))
        .hint("Write the path in full, or set HOME.")),
        (None, _) if written.starts_with('/') => Ok(written.into()),
        (None, _) => Err(Problem::new(format!(
            "The settings name {written:?}, which means another directory wherever Portcullis is started."
        ))
        .hint(format!("Write the path in full, or as ~/{written}."))),
    }
}

pub(crate) fn absolute(env: &Environment, path: &Path) -> Result<PathBuf, Problem> {
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    match &env.working_dir {
        Some(dir) => Ok(dir.join(path)),
        None => Err(Problem::new(format!(
            "{} is relative, and there is no working directory.",
            path.display()
        ))
        .hint("Write the path in full.")),
    }
}
