//! The environment, read once and in this file alone.
#![allow(
    clippy::disallowed_methods,
    reason = "only the cli reads the environment, and only here"
)]

use std::env;
use std::path::PathBuf;

use portcullis_proto::Group;

/// What the environment says. An empty variable says nothing.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    pub(crate) home: Option<PathBuf>,
    pub(crate) working_dir: Option<PathBuf>,
    pub(crate) program: Option<PathBuf>,
    pub(crate) temp: PathBuf,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) settings: Option<PathBuf>,
    pub(crate) filesystem_path: Option<PathBuf>,
    /// `PORTCULLIS_FILESYSTEM_WRITE_ACCESS`: the flag of that name.
    pub(crate) filesystem_write_access: Option<String>,
    pub(crate) log_level: Option<String>,
    /// `PORTCULLIS_PERMISSION_FILESYSTEM_READ` and its kin, where set.
    pub(crate) modes: Vec<(Group, String)>,
    /// Who is at the keyboard, for the audit of answers.
    pub(crate) user: String,
    /// What says that this is a container, each in words.
    pub(crate) container: Vec<String>,
}

impl Environment {
    pub(crate) fn read() -> Self {
        Self {
            home: path("HOME"),
            working_dir: env::current_dir().ok(),
            program: env::current_exe().ok(),
            temp: env::temp_dir(),
            data_dir: path("PORTCULLIS_DATA_DIR"),
            settings: path("PORTCULLIS_SETTINGS"),
            filesystem_path: path("PORTCULLIS_FILESYSTEM_PATH")
                .or_else(|| path("N8N_INSTANCE_AI_FILESYSTEM_PATH")),
            filesystem_write_access: text("PORTCULLIS_FILESYSTEM_WRITE_ACCESS"),
            log_level: text("PORTCULLIS_LOG_LEVEL"),
            modes: Group::ALL
                .into_iter()
                .filter_map(|group| Some((group, text(&mode_variable(group))?)))
                .collect(),
            user: text("USER")
                .or_else(|| text("LOGNAME"))
                .unwrap_or_else(|| "me".to_owned()),
            container: container(),
        }
    }
}

/// What says that this is a container: the marks that Docker, Podman,
/// Kubernetes and systemd-nspawn leave.
fn container() -> Vec<String> {
    let files = ["/.dockerenv", "/run/.containerenv"]
        .into_iter()
        .filter(|mark| std::path::Path::new(mark).exists())
        .map(|mark| format!("{mark} is there"));
    let variables = ["KUBERNETES_SERVICE_HOST", "container"]
        .into_iter()
        .filter(|name| env::var_os(name).is_some_and(|value| !value.is_empty()))
        .map(|name| format!("the variable {name} is set"));
    files.chain(variables).collect()
}

/// The variable that sets the mode of `group`.
pub(crate) fn mode_variable(group: Group) -> String {
    format!(
        "PORTCULLIS_PERMISSION_{}",
        group.flag().replace('-', "_").to_ascii_uppercase()
    )
}

fn path(name: &str) -> Option<PathBuf> {
    env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

fn text(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
