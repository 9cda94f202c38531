//! Switching one's files off for a while, and on again.
//!
//! A person does it, not their agent: what an agent could switch on again
//! would be off for nobody.

use std::sync::Arc;

use http::StatusCode;
use portcullis_proto::{Failure, Reason, Scope};
use portcullis_store::Switch;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::identity::{Identity, Via};
use super::super::links::Spoken;
use super::super::reply::{self, Reply};
use super::super::rest::json_body;
use super::super::server::{Asked, Server};
use super::{caller, refuse};
use crate::answers::off_the_reactor;

/// What `POST /filesystem/toggle` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SwitchBody {
    /// Whether files are to be there; the other way than now where it is left out.
    #[serde(default)]
    enabled: Option<bool>,
}

/// What it replies with.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SwitchReply {
    /// Whether files are there.
    enabled: bool,
}

/// Stands in a request's head while the files of who it is for are off.
#[derive(Clone, Debug)]
pub(crate) struct FilesOff(pub(crate) Arc<str>);

impl FilesOff {
    /// Why there are none, and the way back.
    pub(crate) fn why(&self) -> Failure {
        Failure::from(Reason::SwitchedOff).hint(format!(
            "{user} switches them on: POST /filesystem/toggle with {{\"enabled\": true}} when signed in, or portcullis user files {user} on",
            user = self.0
        ))
    }
}

/// Whether it is a person, or a program that administers for one.
fn may_switch(identity: &Identity) -> bool {
    match identity.via {
        Via::Cookie => true,
        Via::Bearer => identity.may(Scope::Admin),
    }
}

/// What `PUT /rest/instance-ai/preferences` takes, and replies with.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Preferences {
    /// Whether files are to be gone.
    local_gateway_disabled: bool,
}

fn not_a_person(server: &Server, asked: &Asked) -> Option<Reply> {
    if may_switch(&asked.identity) {
        return None;
    }
    let why = Failure::new(
        Reason::NoGrant,
        "Files are switched off and on by a person, not on their behalf.",
    )
    .hint("Sign in, or use a token with the scope admin.");
    Some(refuse(server, asked, "filesystem", why))
}

/// The switch, as n8n spells it.
pub(super) async fn prefer(server: &Arc<Server>, mut asked: Asked) -> Reply {
    if let Some(reply) = not_a_person(server, &asked) {
        return reply;
    }
    let body: Preferences = match json_body(&mut asked).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let to = if body.local_gateway_disabled {
        Switch::Off
    } else {
        Switch::On
    };
    match switched(server, &asked, to).await {
        Ok(now) => Spoken::at(asked.route.path).done(&Preferences {
            local_gateway_disabled: now == Switch::Off,
        }),
        Err(why) => reply::failure(&why),
    }
}

pub(super) async fn switch(server: &Arc<Server>, mut asked: Asked) -> Reply {
    if let Some(reply) = not_a_person(server, &asked) {
        return reply;
    }
    let body: SwitchBody = match json_body(&mut asked).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let is_on = server.parts.doorman.files(&asked.identity.user) == Switch::On;
    let to = if body.enabled.unwrap_or(!is_on) {
        Switch::On
    } else {
        Switch::Off
    };
    match switched(server, &asked, to).await {
        Ok(now) => reply::of(
            StatusCode::OK,
            &SwitchReply {
                enabled: now == Switch::On,
            },
        ),
        Err(why) => reply::failure(&why),
    }
}

/// Switches the files of who asks, and tells whoever works with them.
async fn switched(server: &Arc<Server>, asked: &Asked, to: Switch) -> Result<Switch, Failure> {
    let (gate, asker) = (Arc::clone(&server.parts.gate), caller(asked));
    let doorman = Arc::clone(&server.parts.doorman);
    let user = Arc::clone(&asked.identity.user);
    let switched = off_the_reactor(&server.parts.store, move |store| {
        let what = format!("filesystem {}", to.as_str());
        let switched = gate.administer(&asker, &what, || Ok(store.switch_files(&user, to)?));
        // In force here before the reply; in other processes within 100 ms.
        doorman.refresh()?;
        Ok(switched)
    });
    let now = switched.await??;
    server.parts.gateway.tell_changed(&asked.identity.user);
    let told = json!({"enabled": now == Switch::On});
    server.tell_owner(&asked.identity.user, "filesystem", now.as_str(), &told);
    Ok(now)
}
