//! The environment, read once and in this file alone.
#![allow(
    clippy::disallowed_methods,
    reason = "only the cli reads the environment, and only here"
)]

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use portcullis_proto::{Group, Secret};

/// Our name of a variable, and the one n8n has for the same setting. Ours wins.
const ALIASES: [(&str, &str); 2] = [
    (FILESYSTEM_PATH, "N8N_INSTANCE_AI_FILESYSTEM_PATH"),
    (GATEWAY_API_KEY, "N8N_INSTANCE_AI_GATEWAY_API_KEY"),
];
const FILESYSTEM_PATH: &str = "PORTCULLIS_FILESYSTEM_PATH";
const GATEWAY_API_KEY: &str = "PORTCULLIS_GATEWAY_API_KEY";

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
    /// The fixed key of daemons.
    pub(crate) gateway_key: Option<Secret>,
    pub(crate) log_level: Option<String>,
    pub(crate) log_format: Option<String>,
    /// `PORTCULLIS_PERMISSION_FILESYSTEM_READ` and its kin, where set.
    pub(crate) modes: Vec<(Group, String)>,
    /// Where telemetry goes, as every program with OpenTelemetry is told.
    pub(crate) otel: OtelEnvironment,
    /// What says how this machine is lent.
    pub(crate) gateway: GatewayEnvironment,
    /// Who is at the keyboard, for the audit of answers.
    pub(crate) user: String,
    /// What says that this is a container, each in words.
    pub(crate) container: Vec<String>,
    /// What is odd about it, each in words, without any value.
    pub(crate) warnings: Vec<String>,
}

/// The variables of OpenTelemetry's that are known here.
#[derive(Clone, Debug, Default)]
pub(crate) struct OtelEnvironment {
    /// `OTEL_SDK_DISABLED`: what the environment says counts for nothing.
    pub(crate) is_disabled: bool,
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub(crate) endpoint: Option<String>,
    /// `OTEL_EXPORTER_OTLP_HEADERS`: whoever knows them may write there.
    pub(crate) headers: Option<Secret>,
    /// `OTEL_EXPORTER_OTLP_CERTIFICATE`.
    pub(crate) certificate: Option<PathBuf>,
    /// `OTEL_EXPORTER_OTLP_PROTOCOL`.
    pub(crate) protocol: Option<String>,
    /// `OTEL_SERVICE_NAME`.
    pub(crate) service_name: Option<String>,
    /// `OTEL_METRIC_EXPORT_INTERVAL`, in milliseconds.
    pub(crate) metric_interval: Option<String>,
}

/// What the shipped daemon's variables begin with, where ours begin with
/// `PORTCULLIS_`.
const SHIPPED: &str = "N8N_GATEWAY_";

/// A variable of `connect`, and by which of its two names it was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// The variables of `connect`: each by our name or, where that says nothing, by
/// the shipped daemon's.
#[derive(Clone, Debug, Default)]
pub(crate) struct GatewayEnvironment {
    pub(crate) url: Option<Said>,
    /// Whoever knows it may stand for this machine.
    pub(crate) token: Option<Secret>,
    pub(crate) filesystem_dir: Option<PathBuf>,
    pub(crate) filesystem_write_access: Option<Said>,
    pub(crate) permission_confirmation: Option<Said>,
    pub(crate) auto_confirm: Option<Said>,
    pub(crate) non_interactive: Option<Said>,
    pub(crate) allowed_origins: Option<String>,
    pub(crate) machine: Option<String>,
    pub(crate) dialect: Option<Said>,
    pub(crate) ca: Option<PathBuf>,
    /// The shipped daemon's alone: ours are read for every command.
    pub(crate) log_level: Option<Said>,
    pub(crate) modes: Vec<(Group, Said)>,
    /// Known, and without effect here.
    pub(crate) unused: Vec<String>,
    pub(crate) https_proxy: Option<String>,
    pub(crate) http_proxy: Option<String>,
    pub(crate) no_proxy: Option<String>,
    /// `SSL_CERT_FILE`: the system's certificates stand there.
    pub(crate) system_certificates: Option<PathBuf>,
}

impl GatewayEnvironment {
    fn read() -> Self {
        let either = |name: &str| {
            ["PORTCULLIS_", SHIPPED]
                .into_iter()
                .map(|prefix| format!("{prefix}{name}"))
                .find_map(|name| text(&name).map(|value| Said { name, value }))
        };
        let ours = |name: &str| {
            let name = format!("PORTCULLIS_{name}");
            text(&name).map(|value| Said { name, value })
        };
        let shipped = |name: &str| {
            let name = format!("{SHIPPED}{name}");
            text(&name).map(|value| Said { name, value })
        };
        // Lower case is the older spelling, and the one that is set by hand.
        let proxy = |name: &str| text(&name.to_ascii_lowercase()).or_else(|| text(name));
        let all = || proxy("ALL_PROXY");
        Self {
            url: either("GATEWAY_URL"),
            token: text("PORTCULLIS_GATEWAY_TOKEN").map(|text| Secret::new(text.into_bytes())),
            // A name of a directory need not be text.
            filesystem_dir: path("PORTCULLIS_FILESYSTEM_DIR")
                .or_else(|| path(&format!("{SHIPPED}FILESYSTEM_DIR"))),
            filesystem_write_access: either("FILESYSTEM_WRITE_ACCESS"),
            permission_confirmation: either("PERMISSION_CONFIRMATION"),
            auto_confirm: either("AUTO_CONFIRM"),
            non_interactive: either("NON_INTERACTIVE"),
            allowed_origins: text("PORTCULLIS_ALLOWED_ORIGINS"),
            machine: text("PORTCULLIS_MACHINE"),
            dialect: ours("DIALECT"),
            ca: path("PORTCULLIS_CA"),
            log_level: shipped("LOG_LEVEL"),
            modes: Group::ALL
                .into_iter()
                .filter_map(|group| {
                    let word = group.flag().replace('-', "_").to_ascii_uppercase();
                    Some((group, shipped(&format!("PERMISSION_{word}"))?))
                })
                .collect(),
            unused: [
                "COMPUTER_SHELL_TIMEOUT",
                "DANGEROUSLY_DISABLE_SHELL_SANDBOX",
                "BROWSER_DEFAULT",
            ]
            .into_iter()
            .filter_map(|name| shipped(name).map(|said| said.name))
            .collect(),
            https_proxy: proxy("HTTPS_PROXY").or_else(all),
            http_proxy: proxy("HTTP_PROXY").or_else(all),
            no_proxy: proxy("NO_PROXY"),
            system_certificates: path("SSL_CERT_FILE"),
        }
    }
}

impl OtelEnvironment {
    fn read() -> Self {
        let disabled = text("OTEL_SDK_DISABLED");
        Self {
            is_disabled: disabled.is_some_and(|said| said.eq_ignore_ascii_case("true")),
            endpoint: text("OTEL_EXPORTER_OTLP_ENDPOINT"),
            headers: text("OTEL_EXPORTER_OTLP_HEADERS").map(|text| Secret::new(text.into_bytes())),
            certificate: path("OTEL_EXPORTER_OTLP_CERTIFICATE"),
            protocol: text("OTEL_EXPORTER_OTLP_PROTOCOL"),
            service_name: text("OTEL_SERVICE_NAME"),
            metric_interval: text("OTEL_METRIC_EXPORT_INTERVAL"),
        }
    }
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
            filesystem_path: aliased(FILESYSTEM_PATH).map(PathBuf::from),
            filesystem_write_access: text("PORTCULLIS_FILESYSTEM_WRITE_ACCESS"),
            gateway_key: aliased(GATEWAY_API_KEY)
                .map(|key| Secret::new(key.to_string_lossy().into_owned().into_bytes())),
            log_level: text("PORTCULLIS_LOG_LEVEL"),
            log_format: text("PORTCULLIS_LOG_FORMAT"),
            modes: Group::ALL
                .into_iter()
                .filter_map(|group| Some((group, text(&mode_variable(group))?)))
                .collect(),
            otel: OtelEnvironment::read(),
            gateway: GatewayEnvironment::read(),
            user: text("USER")
                .or_else(|| text("LOGNAME"))
                .unwrap_or_else(|| "me".to_owned()),
            container: container(),
            warnings: warnings(),
        }
    }
}

/// A variable by our name or, where that says nothing, by n8n's.
fn aliased(ours: &str) -> Option<OsString> {
    let theirs = ALIASES.iter().find(|(name, _)| *name == ours);
    said(ours).or_else(|| said(theirs?.1))
}

fn warnings() -> Vec<String> {
    let differ = ALIASES.iter().filter(|(ours, theirs)| {
        let (ours, theirs) = (said(ours), said(theirs));
        ours.is_some() && theirs.is_some() && ours != theirs
    });
    differ
        .map(|(ours, theirs)| format!("{ours} and {theirs} are set and differ: {ours} holds"))
        .collect()
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
    said(name).map(PathBuf::from)
}

fn said(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

fn text(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
