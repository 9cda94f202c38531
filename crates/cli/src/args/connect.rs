//! What was typed about lending this machine.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::accounts::url;
use super::{LogLevel, PermissionFlags};

#[derive(Debug, Args)]
pub(crate) struct ConnectArgs {
    /// Where the server is: https://HOST [or PORTCULLIS_GATEWAY_URL]. Without a token its pages
    /// alone may ask for this machine, at 127.0.0.1:7655; left out, any page you let; you confirm
    #[arg(value_name = "URL", value_parser = url)]
    pub(crate) to: Option<String>,
    /// The pairing token the server shows, or - to read one from standard input
    /// [or PORTCULLIS_GATEWAY_TOKEN, then the fixed key of PORTCULLIS_GATEWAY_API_KEY]
    #[arg(value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// The directory to lend [default: PORTCULLIS_FILESYSTEM_DIR, then filesystemDir of the
    /// settings, then the working directory]
    #[arg(value_name = "DIR")]
    pub(crate) lent: Option<PathBuf>,
    /// The same as URL
    #[arg(long, value_name = "URL", conflicts_with = "to", value_parser = url)]
    pub(crate) url: Option<String>,
    /// The same as TOKEN
    #[arg(long, value_name = "TOKEN")]
    pub(crate) api_key: Option<String>,
    /// The same as DIR
    #[arg(long, short, visible_alias = "filesystem-dir", value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Lend the tools that change files too, at the mode of their group; where that is deny, at
    /// ask. Without it files are lent read-only [or PORTCULLIS_FILESYSTEM_WRITE_ACCESS, then
    /// filesystemWriteAccess of the settings; these overrule no deny]
    #[arg(long)]
    pub(crate) filesystem_write_access: bool,
    #[command(flatten)]
    pub(crate) permissions: PermissionFlags,
    /// Who is asked where a person has to decide: client is you, at this terminal; instance is
    /// whoever the server asks [default: PORTCULLIS_PERMISSION_CONFIRMATION, then client]
    #[arg(long, value_name = "WHO")]
    pub(crate) permission_confirmation: Option<ConfirmationFlag>,
    /// Connect without asking. It answers no question after that: --permission-confirmation says
    /// who is asked, --permission-filesystem-write allow what is not. Counts only for servers of
    /// --allowed-origins, and never for what a page asks at --port: there you decide
    /// [or PORTCULLIS_AUTO_CONFIRM]
    #[arg(long)]
    pub(crate) auto_confirm: bool,
    /// Never prompt: without --auto-confirm nothing is connected, and every question is a no
    /// [or PORTCULLIS_NON_INTERACTIVE]
    #[arg(long)]
    pub(crate) non_interactive: bool,
    /// The servers --auto-confirm counts for, and whose pages may ask, with commas:
    /// https://*.example.com, http://HOST:PORT. A * spans dots, a port has to be the same [or PORTCULLIS_ALLOWED_ORIGINS]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) allowed_origins: Vec<String>,
    /// Where pages may ask while there is no token
    #[arg(long, value_name = "PORT", default_value_t = 7655, conflicts_with_all = ["token", "api_key"])]
    pub(crate) port: u16,
    /// What this machine is called there [default: its host name]
    #[arg(long, value_name = "NAME")]
    pub(crate) machine: Option<String>,
    /// How to speak to the server: auto is n8n's dialect with ours offered, and the seed's where
    /// there is no such route [default: PORTCULLIS_DIALECT, then auto]
    #[arg(long, value_name = "WHICH")]
    pub(crate) dialect: Option<DialectFlag>,
    /// Trust this certificate authority as well as the system's (PEM). Can be repeated
    /// [or PORTCULLIS_CA]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Vec<PathBuf>,
    /// How much to say on standard error
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<LogLevel>,
    /// Known, and without effect: there is no shell here yet
    #[arg(long, value_name = "MS", hide = true)]
    pub(crate) computer_shell_timeout: Option<String>,
    /// Known, and without effect: there is no shell here yet
    #[arg(long, hide = true)]
    pub(crate) dangerously_disable_shell_sandbox: bool,
    /// Known, and without effect: there is no browser here yet
    #[arg(long, value_name = "NAME", hide = true)]
    pub(crate) browser_default: Option<String>,
}

/// Who is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfirmationFlag {
    /// The person at this terminal
    #[default]
    Client,
    /// Whoever the server asks
    Instance,
}

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DialectFlag {
    /// As it understands
    #[default]
    Auto,
    /// As n8n ships it
    N8n,
    /// As the seed describes it: files are looked at, and nothing else
    Seed,
    /// Our own
    Portcullis,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// One JSON object, for programs
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SettingsCommand {
    /// Take over the settings of n8n's daemon. What cannot be taken over is said; a denial that
    /// cannot be is a reason to change nothing
    Import {
        /// Its settings [default: ~/.n8n-gateway/settings.json]
        file: Option<PathBuf>,
        /// Replace the settings there are; they are kept as settings.json.before-import
        #[arg(long)]
        replace: bool,
    },
}
