//! What was typed about undoing, and about what a crash left.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum UndoCommand {
    /// List what can be undone, the newest first
    List(UndoListArgs),
    /// Say what one operation did, and what is kept of it
    Show(UndoOneArgs),
    /// Show what undoing one operation would change now
    Diff(UndoOneArgs),
    /// Undo operations, the newest first; what somebody changed since is left alone
    Apply(UndoApplyArgs),
    /// Free what is kept for undo; it is shown and asked about first
    Prune(UndoPruneArgs),
}

#[derive(Debug, Args)]
pub(crate) struct UndoListArgs {
    #[command(flatten)]
    pub(crate) place: UndoPlaceArgs,
    /// Only of this run: its name, or the first part of its operations' names
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Only since: a time (2026-11-15T08:00:00Z), or so long ago (90s, 10m, 2h, 7d)
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct UndoOneArgs {
    /// The operation, as `undo list` and the agent's replies name it
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) place: UndoPlaceArgs,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["ids", "run", "since"])))]
pub(crate) struct UndoApplyArgs {
    /// The operations, as `undo list` names them
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Everything of this run: its name, or the first part of its operations' names
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Everything since: a time (2026-11-15T08:00:00Z), or so long ago (90s, 10m, 2h, 7d)
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    #[command(flatten)]
    pub(crate) place: UndoPlaceArgs,
}

#[derive(Debug, Args)]
pub(crate) struct UndoPruneArgs {
    /// Only what is older: than a time (2026-11-15T08:00:00Z), or than so long (90s, 10m, 2h, 7d)
    #[arg(long, value_name = "WHEN")]
    pub(crate) older_than: Option<String>,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) place: UndoPlaceArgs,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct UndoPlaceArgs {
    /// The directory that is served [default: as for `mcp`, then the working directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The directory that is served [default: as for `mcp`, then the working directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
