//! What was typed. Parsing does nothing: no file is opened, no environment
//! read, and every value that may be left out is an `Option`.

mod accounts;
mod connect;
mod gateway;
mod oauth;
mod operating;
mod undo;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use accounts::{
    ExtensionCommand, LinkCommand, SwitchFlag, TokenCommand, TokenCreateArgs, UserCommand,
};
pub(crate) use connect::{ConfirmationFlag, ConnectArgs, DialectFlag, SettingsCommand, StatusArgs};
pub(crate) use gateway::GatewayArgs;
pub(crate) use oauth::OAuthArgs;
pub(crate) use operating::{LogFormat, OperatingArgs};
pub(crate) use undo::{
    RecoverArgs, UndoApplyArgs, UndoCommand, UndoListArgs, UndoOneArgs, UndoPlaceArgs,
    UndoPruneArgs,
};

/// One guarded gate between AI agents and machines.
#[derive(Debug, Parser)]
#[command(
    name = "portcullis",
    version,
    about,
    long_about = "One guarded gate between AI agents and machines.\n\n\
        Every file an agent reads or changes passes one gate: resolved first, judged second, recorded always.",
    after_help = "Start here:\n  \
        portcullis demo --dir .      see what an agent sees, and what it is refused\n  \
        portcullis mcp --dir .       serve a directory to an agent (put this into its MCP settings)\n  \
        portcullis mcp --dir . --write    and let it change files; portcullis undo takes changes back\n  \
        portcullis connect URL TOKEN lend a directory of this machine to an agent elsewhere\n  \
        portcullis doctor            what this machine can promise, and the fix for what it cannot",
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub(crate) struct Typed {
    #[command(flatten)]
    pub(crate) everywhere: Everywhere,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags every command takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Everywhere {
    /// Where Portcullis keeps its own files: settings, audit, questions
    /// [default: ~/.portcullis, or PORTCULLIS_DATA_DIR]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The settings file [default: settings.json in the data directory]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) settings: Option<PathBuf>,
    /// Colours: auto leaves them out where NO_COLOR is set or nobody watches
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: When,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a directory to an agent: MCP on standard input and output
    Mcp(McpArgs),
    /// Serve a machine to agents over HTTP: REST and MCP, with tokens, questions and an audit
    Serve(Box<ServeArgs>),
    /// Lend this machine to a server, under your rules: files below one directory, asked about here
    Connect(Box<ConnectArgs>),
    /// Say how this machine is lent at the moment
    Status(StatusArgs),
    /// End the lending of this machine
    Disconnect,
    /// Show what an agent sees of a directory, and what it is refused
    Demo(DirArgs),
    /// Ask the rules: which one decides, and what would change it
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Read the record of everything that was tried
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Answer what agents may not do without you
    Approve(ApproveArgs),
    /// Answers you gave for good: look at them, take them back
    #[command(subcommand)]
    Rules(RulesCommand),
    /// Directories you trust to be changed
    #[command(subcommand)]
    Trust(TrustCommand),
    /// The settings file
    #[command(subcommand)]
    Settings(SettingsCommand),
    /// People who may sign in, and what their credentials may be used for
    #[command(subcommand)]
    User(UserCommand),
    /// Tokens for agents and programs
    #[command(subcommand)]
    Token(TokenCommand),
    /// Machines that are lent to agents over a link
    #[command(subcommand)]
    Link(LinkCommand),
    /// Extensions that registered themselves, and what they ask for
    #[command(subcommand)]
    Extension(ExtensionCommand),
    /// Put back what agents changed
    #[command(subcommand)]
    Undo(UndoCommand),
    /// Put right what a crash left behind in the middle of a change
    Recover(RecoverArgs),
    /// Say what this machine can promise, and the fix for what it cannot
    Doctor(DoctorArgs),
    /// Race a file server on standard input and output until it leaks
    Hammer(HammerArgs),
}

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// The directory to serve [default: PORTCULLIS_FILESYSTEM_PATH, then filesystemDir of the settings]
    #[arg(long, value_name = "PATH")]
    pub(crate) dir: Option<PathBuf>,
    /// Let the agent change files: the write group is allowed and the workspaces served are
    /// trusted, for this run. Credentials and what runs later by itself still ask
    #[arg(long, conflicts_with_all = ["filesystem_write", "filesystem_write_access"])]
    pub(crate) write: bool,
    /// Offer the tools that change files, at the write group's stored mode and at least ask; the
    /// directory has to be trusted (portcullis trust add) [or PORTCULLIS_FILESYSTEM_WRITE_ACCESS]
    #[arg(long)]
    pub(crate) filesystem_write_access: bool,
    /// Modes of new files and directories: 0600 and 0700, or what your umask leaves
    #[arg(long, value_name = "HOW", default_value = "private")]
    pub(crate) new_file_mode: NewFileModeFlag,
    #[command(flatten)]
    pub(crate) permissions: PermissionFlags,
    /// Serve another root as well: its kind (workspace, artifact, temp, knowledge, downloads,
    /// secret, extension-storage), a name for it and its directory. Can be repeated
    #[arg(long = "root", value_name = "KIND:NAME=PATH", value_parser = parse_root)]
    pub(crate) roots: Vec<RootFlag>,
    /// Symbolic links inside the directory
    #[arg(long, value_name = "POLICY")]
    pub(crate) symlinks: Option<SymlinksFlag>,
    /// Files that have another name: refuse them, read those that are your own, or read all
    #[arg(long, value_name = "POLICY")]
    pub(crate) hardlinks: Option<HardlinksFlag>,
    /// How paths are resolved: the best the kernel offers, or the component walk, for testing it or where a filter forbids openat2
    #[arg(long, value_name = "HOW", default_value = "best")]
    pub(crate) resolver: ResolverFlag,
    /// How long a question waits for an answer before it counts as no
    #[arg(long, value_name = "SECS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) approve_timeout: Option<u64>,
    /// What to call the agent's client in the audit and in questions
    #[arg(long, value_name = "NAME")]
    pub(crate) client_name: Option<String>,
    /// How much to say on standard error
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<LogLevel>,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The directory to serve [default: PORTCULLIS_FILESYSTEM_PATH, then filesystemDir of the
    /// settings; then, outside a container, the working directory]
    #[arg(long, value_name = "PATH")]
    pub(crate) dir: Option<PathBuf>,
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) host: std::net::IpAddr,
    /// The port to listen on; 0 takes one that is free
    #[arg(long, value_name = "PORT", default_value_t = 7654)]
    pub(crate) port: u16,
    /// Another name clients may call this server by, with its port where that differs. Can be
    /// repeated
    #[arg(long = "allow-host", value_name = "HOST[:PORT]")]
    pub(crate) allow_hosts: Vec<String>,
    /// Pages of this origin may talk to this server. Can be repeated
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    pub(crate) allow_origins: Vec<String>,
    /// How people and agents reach this server from elsewhere, for links and OAuth metadata
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    #[command(flatten)]
    pub(crate) oauth: OAuthArgs,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
    /// Encrypt, with this certificate and those that lead to it (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Requests a second that one credential may make, and as many again at once; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = portcullis_server::REQUESTS_PER_SECOND)]
    pub(crate) max_requests: u32,
    /// Changing files is allowed unasked, for credentials with the scope fs:write. Credentials and
    /// what runs later by itself still ask
    #[arg(long, conflicts_with = "filesystem_write")]
    pub(crate) write: bool,
    /// Modes of new files and directories: 0600 and 0700, or what your umask leaves
    #[arg(long, value_name = "HOW", default_value = "private")]
    pub(crate) new_file_mode: NewFileModeFlag,
    #[command(flatten)]
    pub(crate) permissions: PermissionFlags,
    /// Serve another root as well: its kind, a name for it and its directory. Can be repeated
    #[arg(long = "root", value_name = "KIND:NAME=PATH", value_parser = parse_root)]
    pub(crate) roots: Vec<RootFlag>,
    /// Symbolic links inside the directory
    #[arg(long, value_name = "POLICY")]
    pub(crate) symlinks: Option<SymlinksFlag>,
    /// Files that have another name: refuse them, read those that are your own, or read all
    #[arg(long, value_name = "POLICY")]
    pub(crate) hardlinks: Option<HardlinksFlag>,
    /// How much to say on standard error
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<LogLevel>,
    #[command(flatten)]
    pub(crate) operating: OperatingArgs,
}

/// One mode per tool group.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PermissionFlags {
    /// Reading and listing files [recommended: allow]
    #[arg(long = "permission-filesystem-read", value_name = "MODE")]
    pub(crate) filesystem_read: Option<ModeFlag>,
    /// Changing files, where --filesystem-write-access offers it; alone it offers nothing
    /// [recommended: ask]
    #[arg(long = "permission-filesystem-write", value_name = "MODE")]
    pub(crate) filesystem_write: Option<ModeFlag>,
    /// Running commands (not available here yet)
    #[arg(long = "permission-shell", value_name = "MODE")]
    pub(crate) shell: Option<ModeFlag>,
    /// Screen, pointer and keys (not available here yet)
    #[arg(long = "permission-computer", value_name = "MODE")]
    pub(crate) computer: Option<ModeFlag>,
    /// Web pages (not available here yet)
    #[arg(long = "permission-browser", value_name = "MODE")]
    pub(crate) browser: Option<ModeFlag>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeFlag {
    /// The group does not exist for the agent
    Deny,
    /// A person decides
    Ask,
    /// It goes ahead
    Allow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SymlinksFlag {
    /// Refuse them
    Reject,
    /// Follow them while they stay inside, and judge where they lead
    AllowInRoot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HardlinksFlag {
    /// Refuse them
    Reject,
    /// Read them when they belong to you
    AllowOwn,
    /// Read them whoever they belong to
    Allow,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum NewFileModeFlag {
    /// Closed to everybody else: 0600 and 0700
    #[default]
    Private,
    /// What the umask of this process leaves of 0666 and 0777
    Umask,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResolverFlag {
    /// The best the kernel offers
    Best,
    /// The component walk, whatever the kernel offers
    BestEffort,
}

#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    /// Nothing
    #[value(alias = "silent")]
    #[serde(alias = "silent")]
    Off,
    /// What went wrong
    Error,
    /// And what looks wrong
    #[default]
    Warn,
    /// And what was begun and ended
    Info,
    /// And everything else, never contents
    Debug,
}

/// `--root kind:name=path`, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RootFlag {
    pub(crate) kind: String,
    pub(crate) id: String,
    pub(crate) path: PathBuf,
}

fn parse_root(typed: &str) -> Result<RootFlag, String> {
    let parts = typed
        .split_once(':')
        .and_then(|(kind, rest)| rest.split_once('=').map(|(id, path)| (kind, id, path)))
        .filter(|(kind, id, path)| !kind.is_empty() && !id.is_empty() && !path.is_empty());
    match parts {
        Some((kind, id, path)) => Ok(RootFlag {
            kind: kind.to_owned(),
            id: id.to_owned(),
            path: path.into(),
        }),
        None => Err("write it as kind:name=path, as in knowledge:notes=/srv/notes".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct DirArgs {
    /// The directory to show
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Say which rule decides about a path, where it stands, and what would change it
    Explain(ExplainArgs),
    /// Check every rule against its own examples, and show them as a table
    Test,
    /// List every class of thing an agent can be made to ask about
    Asks,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The path, relative to the root (or absolute, or ~/…, where a root holds it)
    pub(crate) path: String,
    /// What would be done to it
    #[arg(long, value_name = "VERB", default_value = "read")]
    pub(crate) verb: VerbFlag,
    /// The directory that is served [default: as for `mcp`, then the working directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// In which root, by name, where several are served
    #[arg(long, value_name = "NAME")]
    pub(crate) root: Option<String>,
    /// Who would do it: user:NAME, extension:NAME, automation:NAME, core:NAME or token:USER/NAME
    #[arg(long = "as", value_name = "WHO", default_value = "user:me")]
    pub(crate) subject: String,
    /// As `mcp --write` would have it
    #[arg(long, conflicts_with = "filesystem_write")]
    pub(crate) write: bool,
    #[command(flatten)]
    pub(crate) permissions: PermissionFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VerbFlag {
    Read,
    Stat,
    List,
    Tree,
    Glob,
    Search,
    Inspect,
    Watch,
    Write,
    Edit,
    Append,
    Mkdir,
    Move,
    Copy,
    Remove,
    Chmod,
    Extract,
    Archive,
    Undo,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Show the last lines
    Tail(TailArgs),
    /// Find lines
    Query(QueryArgs),
    /// Check every chain: has anybody changed, dropped or reordered a line?
    Verify,
    /// Write the record out, for other tools
    Export(ExportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// How many
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 20)]
    pub(crate) lines: usize,
    /// Go on showing lines as they are written
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// One JSON object a line, for programs
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct QueryArgs {
    #[command(flatten)]
    pub(crate) filter: FilterFlags,
    /// One JSON object a line, for programs
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Default, Args)]
pub(crate) struct FilterFlags {
    /// Not before: a time (2026-11-15T08:00:00Z), or so long ago (90s, 10m, 2h, 7d)
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// Not after
    #[arg(long, value_name = "WHEN")]
    pub(crate) until: Option<String>,
    /// Whose: user:me, extension:notes
    #[arg(long, value_name = "WHO")]
    pub(crate) subject: Option<String>,
    /// In which root
    #[arg(long, value_name = "NAME")]
    pub(crate) root: Option<String>,
    /// At or below which path
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// How it ended: success, denied, failed, parked, abandoned
    #[arg(long, value_name = "OUTCOME")]
    pub(crate) outcome: Option<String>,
    /// What was tried: read, stat, list, tree, glob, …
    #[arg(long, value_name = "VERB")]
    pub(crate) operation: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// In which form
    #[arg(long, value_name = "FORMAT", default_value = "jsonl")]
    pub(crate) format: ExportFormat,
    #[command(flatten)]
    pub(crate) filter: FilterFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One JSON object a line
    Jsonl,
    /// A table for spreadsheets
    Csv,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ApproveArgs {
    /// Stay, and answer questions as they come; agents then wait for you
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(subcommand)]
    pub(crate) command: Option<ApproveCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApproveCommand {
    /// List what waits for an answer
    List,
    /// Answer one question, for scripts
    Answer {
        /// The question: q_…
        id: String,
        /// What to say: allow_once, allow_session, always_allow, deny_once or always_deny
        decision: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// List the answers you gave for good, exactly as they are stored
    List,
    /// Take one back
    Remove {
        /// Its number in the list
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TrustCommand {
    /// Trust a directory to be changed
    Add {
        /// Which
        dir: PathBuf,
    },
    /// Take the trust back
    Remove {
        /// Which
        dir: PathBuf,
    },
    /// List the directories you trust
    List,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The directory you mean to serve [default: as for `mcp`, then the working directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct HammerArgs {
    /// How many requests to race
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) ops: u64,
    /// The longest the run may take
    #[arg(long, value_name = "S", default_value_t = 600)]
    pub(crate) seconds: u64,
    /// Which attack: parent, grandparent, leaf, root-renamed, bind-mount or hardlink. Can be
    /// repeated [default: all]
    #[arg(long = "attack", value_name = "ATTACK")]
    pub(crate) attacks: Vec<String>,
    /// Succeed only if the server leaks: proves that the hammer bites
    #[arg(long)]
    pub(crate) expect_escapes: bool,
    /// The report for programs
    #[arg(long)]
    pub(crate) json: bool,
    /// The server's command line, with {root} where its directory stands
    /// [default: this program, `mcp --dir {root}`]
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) target: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory;
        Typed::command().debug_assert();
    }

    #[test]
    fn a_root_is_taken_apart() {
        assert_eq!(
            parse_root("knowledge:notes=/srv/a=b:c"),
            Ok(RootFlag {
                kind: "knowledge".into(),
                id: "notes".into(),
                path: "/srv/a=b:c".into()
            })
        );
        for bad in ["", "notes", "knowledge:notes", ":x=/y", "k:=/y", "k:x="] {
            assert!(parse_root(bad).is_err(), "{bad}");
        }
    }
}
