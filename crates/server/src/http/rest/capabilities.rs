//! What this server can do, and what it found.

use http::StatusCode;
use serde_json::{Value, json};

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

fn told(workspaces: Vec<Value>, cwd: Option<&str>) -> Reply {
    reply::value(
        StatusCode::OK,
        &json!({
            "v": 1,
            "protocolVersions": {"current": "v1", "supported": ["v1"]},
            "portcullisVersion": env!("CARGO_PKG_VERSION"),
            "mode": "http-bridge",
            "features": features(),
            "modelServices": [],
            "workspaceCwd": cwd,
            "transports": ["rest", "mcp"],
            "policy": {"permission": "first-responder"},
            "limits": {"maxWorkspaceFileUploadBytes": MAX_UPLOAD},
            "workspaces": workspaces,
        }),
    )
}

pub(super) fn tell(errand: &Errand) -> Reply {
    let all = errand.machine.workspaces();
    let cwd = all
        .iter()
        .find(|one| one.primary)
        .map(|one| one.cwd.clone());
    let workspaces = all
        .iter()
        .map(|one| {
            json!({
                "id": one.id,
                "cwd": one.cwd,
                "root": one.root.as_str(),
                "primary": one.primary,
                "trusted": one.trusted,
                "removable": false,
            })
        })
        .collect();
    told(workspaces, cwd.as_deref())
}

pub(super) fn status(errand: &Errand) -> Reply {
    let status = errand.server.parts.machines.status(&errand.asked.identity);
    reply::value(StatusCode::OK, &status)
}
