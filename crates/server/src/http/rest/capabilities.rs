//! What this server can do, and what it found.

use std::sync::Arc;

use http::StatusCode;
use portcullis_gate::Grant;
use portcullis_proto::{RootKind, Scope};
use portcullis_tools::Workspace;
use schemars::JsonSchema;
use serde::Serialize;

use super::super::desk::FilesOff;
use super::super::limits::MAX_UPLOAD;
use super::super::reply::{self, Reply};
use super::super::routes::ROUTES;
use super::Errand;

/// Ways in which we differ from the wire these routes come from, each on
/// purpose; `docs/PROTOCOL.md` says what they mean.
const DIFFERENCES: &[&str] = &[
    "require_auth",
    "workspace_qualified_rest_core",
    "workspace_file_read_cursor",
    "portcullis_relative_errors",
    "portcullis_sorted_list",
    "portcullis_paged_list",
    "portcullis_exact_edit",
    "portcullis_strict_encoding",
    "portcullis_large_edit",
    "portcullis_live_ignores",
    "portcullis_links_by_policy",
    "portcullis_auto_exec_asks",
    "portcullis_json_errors",
];

/// Every tag, each once, in the order of the routes.
pub(crate) fn features() -> Vec<&'static str> {
    let mut features: Vec<&'static str> = Vec::new();
    for tag in ROUTES
        .iter()
        .filter_map(|route| route.tag)
        .chain(DIFFERENCES.iter().copied())
    {
        if !features.contains(&tag) {
            features.push(tag);
        }
    }
    features
}

/// What `GET /capabilities` replies with.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CapabilitiesReply {
    /// The version of this shape.
    v: u8,
    /// The versions of the protocol.
    protocol_versions: Versions,
    /// The version of the program.
    portcullis_version: &'static str,
    /// Always `http-bridge`.
    mode: &'static str,
    /// A tag for each thing it can do, and for each way in which it differs.
    features: Vec<&'static str>,
    /// Always empty: no model runs here.
    model_services: [String; 0],
    /// Where the workspace stands that a request means which names none.
    workspace_cwd: Option<String>,
    /// The ways to talk to it.
    transports: [&'static str; 2],
    /// How questions are answered.
    policy: Answering,
    /// What there are limits of.
    limits: LimitsTold,
    /// Every workspace.
    workspaces: Vec<WorkspaceTold>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ProtocolVersions")]
struct Versions {
    /// The one that is spoken.
    current: &'static str,
    /// Those that are understood.
    supported: [&'static str; 1],
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answering {
    /// Whose answer counts.
    permission: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Limits")]
struct LimitsTold {
    /// Bytes of an upload.
    max_workspace_file_upload_bytes: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Workspace")]
struct WorkspaceTold {
    /// What `/workspaces/{workspace}/…` takes.
    id: String,
    /// Where it stands on its machine.
    cwd: String,
    /// The root it is.
    root: String,
    /// workspace, or what an extension has of its own: extension-storage, temp.
    kind: &'static str,
    /// Whether a request means it that names none.
    primary: bool,
    /// Whether it may be changed.
    trusted: bool,
    /// Always false.
    removable: bool,
}

pub(super) fn tell(errand: &Errand) -> Reply {
    // Where a workspace stands on its host is for who may work in it.
    let identity = &errand.asked.identity;
    let all = if identity.may(Scope::FsRead) || identity.may(Scope::FsWrite) {
        let mut all = errand.machine.workspaces();
        all.retain(|one| is_shown(errand, one));
        all
    } else {
        Vec::new()
    };
    let primary = all.iter().find(|one| one.primary);
    let reply = CapabilitiesReply {
        v: 1,
        protocol_versions: Versions {
            current: "v1",
            supported: ["v1"],
        },
        portcullis_version: env!("CARGO_PKG_VERSION"),
        mode: "http-bridge",
        features: features(),
        model_services: [],
        workspace_cwd: primary.map(|one| one.cwd.clone()),
        transports: ["rest", "mcp"],
        policy: Answering {
            permission: "first-responder",
        },
        limits: LimitsTold {
            max_workspace_file_upload_bytes: MAX_UPLOAD,
        },
        workspaces: all
            .into_iter()
            .map(|one| WorkspaceTold {
                id: one.id,
                cwd: one.cwd,
                root: one.root.as_str().to_owned(),
                kind: one.kind.as_str(),
                primary: one.primary,
                trusted: one.trusted,
                removable: false,
            })
            .collect(),
    };
    reply::of(StatusCode::OK, &reply)
}

/// Whether who asks is told of a root: of a workspace by its scopes, of every
/// other only where it was granted something.
fn is_shown(errand: &Errand, one: &Workspace) -> bool {
    let to = &errand.asked.identity.principal;
    let granted = |grant: &Arc<Grant>| grant.root == one.root && grant.principal == *to;
    one.kind == RootKind::Workspace || errand.server.parts.gate.grants().list().iter().any(granted)
}

pub(super) fn status(errand: &Errand) -> Reply {
    let enabled = errand.asked.head.extensions.get::<FilesOff>().is_none();
    let machines = &errand.server.parts.machines;
    reply::value(
        StatusCode::OK,
        &machines.status(&errand.asked.identity, enabled),
    )
}
