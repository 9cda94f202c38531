//! What was typed about users, tokens and extensions.

use clap::{Args, Subcommand, ValueEnum};
use portcullis_proto::ScopeSet;

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Add a user. The first one may do everything
    Add {
        /// 1 to 64 of a-z, 0-9, `.`, `_` and `-`
        name: String,
        /// What the user's credentials may be used for: fs:read, fs:write, shell, screen, browser,
        /// sandbox, approve, audit, admin, with commas [default: fs:read,approve,audit]
        #[arg(long, value_name = "LIST", value_parser = scopes)]
        scope: Option<ScopeSet>,
    },
    /// List the users
    List,
    /// Remove a user with all tokens and sign-ins
    Remove {
        /// Who
        name: String,
    },
    /// Give a user other scopes; tokens follow
    Scope {
        /// Who
        name: String,
        /// The scopes from now on, with commas
        #[arg(value_name = "LIST", value_parser = scopes)]
        scopes: ScopeSet,
    },
    /// Switch a user's files off for a while, or on again: agents see no file tools meanwhile
    Files {
        /// Who
        name: String,
        /// Which way
        switch: SwitchFlag,
    },
    /// Print a link that signs a user in, once and within 5 minutes
    Link {
        /// Who
        name: String,
        /// Where the server is reached
        #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7654", value_parser = url)]
        url: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SwitchFlag {
    /// Files are there
    On,
    /// Files are not there
    Off,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it, this once
    Create(TokenCreateArgs),
    /// List the tokens
    List {
        /// Only of this user
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
    },
    /// Revoke a token: running servers refuse it within 100 ms
    Revoke {
        /// Its ID in the list
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TokenCreateArgs {
    /// On whose behalf [default: the first user who may administer]
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// What it may be used for, with commas: fs:read,fs:write
    #[arg(long, value_name = "LIST", value_parser = scopes)]
    pub(crate) scope: ScopeSet,
    /// What to call it in lists
    #[arg(long, value_name = "LABEL", default_value = "")]
    pub(crate) name: String,
    /// When it ends: 12h, 30d, 2027-01-31T08:00:00Z or never
    #[arg(long, value_name = "WHEN", default_value = "90d")]
    pub(crate) expires: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LinkCommand {
    /// Print what to type on a machine that is to be lent; counts once, for 5 minutes
    Create {
        /// To whose agents [default: the first user who may administer]
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
        /// Where the server is reached
        #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7654", value_parser = url)]
        url: String,
    },
    /// List the machines that are lent
    List {
        /// Only of this user
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
    },
    /// Let a machine offer what it was refused for: more than when it was paired
    Approve {
        /// Its ID in the list; with --user, its name
        machine: String,
        /// Whose it is
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
    },
    /// Remove a machine: running servers let go of it within 100 ms
    Remove {
        /// Its ID in the list; with --user, its name
        machine: String,
        /// Whose it is
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ExtensionCommand {
    /// List the extensions and what they ask for
    List,
    /// Let an extension do what it asks for, on behalf of its owner
    Approve {
        /// Which
        id: String,
    },
    /// Let an extension do nothing more, and revoke its tokens
    Revoke {
        /// Which
        id: String,
    },
    /// Forget an extension, so that another one can have its id
    Remove {
        /// Which
        id: String,
    },
}

fn scopes(typed: &str) -> Result<ScopeSet, String> {
    match ScopeSet::parse(typed) {
        Ok(ScopeSet::NONE) => Err("name at least one scope".to_owned()),
        Ok(scopes) => Ok(scopes),
        Err(bad) => Err(bad.to_string()),
    }
}

pub(super) fn url(typed: &str) -> Result<String, String> {
    let host = typed
        .strip_prefix("https://")
        .or_else(|| typed.strip_prefix("http://"));
    match host {
        Some(host) if !host.is_empty() && !host.contains(['?', '#', ' ']) => Ok(typed.to_owned()),
        Some(_) | None => Err("write it as http://HOST:PORT or https://HOST".to_owned()),
    }
}
