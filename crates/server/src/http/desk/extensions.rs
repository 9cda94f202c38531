//! Extensions at the desk: they ask, their owner says.
//!
//! Each route works on what is the asker's own; another's extension and none
//! get the same answer. Every step is on the record.

use std::sync::Arc;

use http::StatusCode;
use portcullis_proto::{Failure, Principal, Reason, RootKind, Scope};
use portcullis_store::{Extension, Store, StoreError, Trouble};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::super::identity::Via;
use super::super::reply::{self, Reply};
use super::super::rest::json_body;
use super::super::server::{Asked, Server};
use super::{caller, nothing_of_yours, refuse};
use crate::answers::off_the_reactor;

/// An extension as its owner is shown it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExtensionShown {
    /// Which.
    id: String,
    /// What it asked for.
    permissions: Vec<String>,
    /// pending, approved or revoked.
    state: &'static str,
    /// When it was registered, in milliseconds since 1970.
    created_at: u64,
}

/// What `GET /extensions` replies with.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExtensionsReply {
    /// Yours, by id.
    extensions: Vec<ExtensionShown>,
}

/// How an extension stands after a step.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExtensionState {
    /// Which.
    id: String,
    /// approved, revoked or removed.
    state: &'static str,
    /// What it may do now.
    #[serde(skip_serializing_if = "Option::is_none")]
    permissions: Option<Vec<String>>,
}

/// What `POST /extensions/{id}/token` replies with.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExtensionTokenReply {
    /// Whose.
    id: String,
    /// How lists name it.
    token_id: String,
    /// All of it, here and never again.
    token: String,
}

fn shown(extension: Extension) -> ExtensionShown {
    ExtensionShown {
        state: extension.state.as_str(),
        id: extension.id,
        permissions: extension.permissions,
        created_at: extension.created_at,
    }
}

/// The asker's own, by id.
pub(super) async fn list(server: &Arc<Server>, asked: &Asked) -> Reply {
    let user = Arc::clone(&asked.identity.user);
    let theirs = move |store: &Store| store.extensions(Some(&user));
    match off_the_reactor(&server.parts.store, theirs).await {
        Ok(all) => {
            let extensions = all.into_iter().map(shown).collect();
            reply::of(StatusCode::OK, &ExtensionsReply { extensions })
        }
        Err(why) => reply::failure(&why),
    }
}

/// What `POST /extensions` takes: the part of a manifest that is ours.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RegisterBody {
    /// 1 to 64 characters of a-z, 0-9, `.` and `-`.
    #[schemars(regex(pattern = "^[a-z0-9][a-z0-9.-]{0,63}$"))]
    id: String,
    /// `filesystem:workspace:read`, `filesystem:extension-storage:readwrite`, ….
    #[schemars(schema_with = "permissions")]
    permissions: Vec<String>,
}

fn permissions(_: &mut SchemaGenerator) -> Schema {
    let kinds = RootKind::ALL.map(RootKind::as_str).join("|");
    let access = "read|write|readwrite|list|metadata|watch|delete|move|archive";
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "items": {"type": "string", "pattern": format!("^filesystem:({kinds}):({access})$")},
    })
}

/// Registers an extension, or its next version, with the asker as its owner. It
/// may do nothing until the owner has approved it.
pub(super) async fn register(server: &Arc<Server>, mut asked: Asked) -> Reply {
    let body: RegisterBody = match json_body(&mut asked).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    // One speaks for itself: another's wish must not stop what works.
    if let Principal::Extension { id } = &asked.identity.principal
        && **id != *body.id
    {
        let why = Failure::new(Reason::NoGrant, "An extension registers only itself.")
            .hint("Register the other one with a credential of its owner.");
        return refuse(server, &asked, &body.id, why);
    }
    // A next version narrows or stops what works: that is for itself, or its owner.
    let speaks_for_it = matches!(&asked.identity.principal, Principal::Extension { .. });
    let may_renew = speaks_for_it || in_person(&asked).is_ok();
    let what = format!("register {} {}", body.id, body.permissions.join(" "));
    let (user, now) = (
        Arc::clone(&asked.identity.user),
        server.parts.clock.now_ms(),
    );
    settle(server, &asked, what, move |store| {
        let is_own = |one: &Extension| one.id == body.id;
        if !may_renew && store.extensions(Some(&user))?.iter().any(is_own) {
            return Err(Failure::new(
                Reason::NoGrant,
                "The next version of an extension is registered by itself, or by its owner in person.",
            )
            .hint("Use the extension's own token, sign in with a browser, or use portcullis extension register."));
        }
        store
            .register_extension(&body.id, &user, &body.permissions, now)
            .map(|extension| Some(shown(extension)))
            .map_err(failure)
    })
    .await
}

/// What `POST /extensions/{id}/approve` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ApproveBody {
    /// The permissions that were shown, all of them: others are not approved.
    permissions: Vec<String>,
}

/// Lets an extension do what it asked for, and no more than was shown.
pub(super) async fn approve(server: &Arc<Server>, mut asked: Asked) -> Reply {
    let body: ApproveBody = match json_body(&mut asked).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let id = id(&asked);
    if let Err(why) = in_person(&asked) {
        return refuse(server, &asked, &id, why);
    }
    let user = Arc::clone(&asked.identity.user);
    let what = format!("approve {id} {}", body.permissions.join(" "));
    settle(server, &asked, what, move |store| {
        let approved = store
            .approve_extension(&id, &user, &body.permissions)
            .map_err(failure)?;
        Ok(approved.then_some(ExtensionState {
            id,
            state: "approved",
            permissions: Some(body.permissions),
        }))
    })
    .await
}

/// What a route takes that needs nothing: an empty object. No form sends one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NothingBody {}

/// Makes the token of an approved extension. The one it had before holds no
/// more; this one is shown here and never again.
pub(super) async fn make_token(server: &Arc<Server>, mut asked: Asked) -> Reply {
    let NothingBody {} = match json_body(&mut asked).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let id = id(&asked);
    if let Err(why) = in_person(&asked) {
        return refuse(server, &asked, &id, why);
    }
    let (user, now) = (
        Arc::clone(&asked.identity.user),
        server.parts.clock.now_ms(),
    );
    let what = format!("token {id}");
    settle(server, &asked, what, move |store| {
        let made = match store.create_extension_token(&id, &user, now) {
            Ok(made) => made,
            Err(error) if error.trouble() == Trouble::Missing => return Ok(None),
            Err(error) => return Err(failure(error)),
        };
        Ok(Some(ExtensionTokenReply {
            id,
            token_id: made.id,
            token: made.secret.expose().to_owned(),
        }))
    })
    .await
}

/// Ends all an extension may do, its token with it, until it is approved again.
pub(super) async fn revoke(server: &Arc<Server>, mut asked: Asked) -> Reply {
    let NothingBody {} = match json_body(&mut asked).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let (id, user) = (id(&asked), Arc::clone(&asked.identity.user));
    settle(server, &asked, format!("revoke {id}"), move |store| {
        let revoked = store.revoke_extension(&id, Some(&user)).map_err(failure)?;
        Ok(revoked.then_some(ExtensionState {
            id,
            state: "revoked",
            permissions: None,
        }))
    })
    .await
}

/// Forgets an extension, with its token and all it stored.
pub(super) async fn remove(server: &Arc<Server>, asked: Asked) -> Reply {
    let (id, user) = (id(&asked), Arc::clone(&asked.identity.user));
    if let Err(why) = in_person(&asked) {
        return refuse(server, &asked, &id, why);
    }
    let machines = Arc::clone(&server.parts.machines);
    let doorman = Arc::clone(&server.parts.doorman);
    settle(server, &asked, format!("remove {id}"), move |store| {
        let Some(storage) = store.remove_extension(&id, Some(&user)).map_err(failure)? else {
            return Ok(None);
        };
        // It ends before its files go: what is under way finds no grant.
        doorman.refresh().map_err(failure)?;
        machines.forget_extension(&storage)?;
        Ok(Some(ExtensionState {
            id,
            state: "removed",
            permissions: None,
        }))
    })
    .await
}

fn id(asked: &Asked) -> String {
    asked.id.clone().unwrap_or_default()
}

/// What an extension is approved for lasts, and a credential must not make
/// another that outlives it or may do more.
fn in_person(asked: &Asked) -> Result<(), Failure> {
    if asked.identity.via == Via::Cookie || asked.identity.may(Scope::Admin) {
        return Ok(());
    }
    Err(Failure::new(
        Reason::NoGrant,
        "An extension is approved, gets its token and is removed by its owner in person.",
    )
    .hint("Sign in with a browser, or use portcullis extension approve, or a credential with the scope admin."))
}

/// Does one step, with its lines in the record; nothing where there is no such
/// extension of the asker's. What changed holds before the reply goes out.
async fn settle<T: Serialize + Send + 'static>(
    server: &Arc<Server>,
    asked: &Asked,
    what: String,
    act: impl FnOnce(&Store) -> Result<Option<T>, Failure> + Send + 'static,
) -> Reply {
    let caller = caller(asked);
    let done = {
        let (gate, caller, store) = (
            Arc::clone(&server.parts.gate),
            caller.clone(),
            server.parts.store.clone(),
        );
        let doorman = Arc::clone(&server.parts.doorman);
        tokio::task::spawn_blocking(move || {
            let told =
                gate.administer(&caller, &what, || act(&store)?.ok_or_else(nothing_of_yours))?;
            // Behind the line: what was done is done, whoever has not heard of it yet.
            doorman.refresh().map_err(failure)?;
            Ok(told)
        })
        .await
    };
    let mut reply = match done {
        Ok(Ok(told)) => reply::of(StatusCode::OK, &told),
        Ok(Err(why)) => reply::failure(&why),
        Err(panicked) => reply::failure(&Failure::from(Reason::Bug).detail(panicked)),
    };
    reply::settled_on(&mut reply, caller.warrant());
    reply
}

/// What the store would not do, as the asker is told: what it asked for does
/// not fit, or our own state failed.
fn failure(error: StoreError) -> Failure {
    match error.trouble() {
        Trouble::Invalid => Failure::new(Reason::BadArguments, error.message().to_owned()),
        Trouble::Full => Failure::new(Reason::Quota, error.message().to_owned())
            .hint("Remove some with DELETE /extensions/{id}."),
        // It is not as its owner was shown it, or not approved: how it stands now
        // is at GET /extensions.
        Trouble::Refused => Failure::new(Reason::VersionMismatch, error.message().to_owned())
            .hint("GET /extensions shows how it stands now."),
        Trouble::Damaged
        | Trouble::Newer
        | Trouble::NotOurs
        | Trouble::Unsafe
        | Trouble::Busy
        | Trouble::NoSpace
        | Trouble::Missing
        | Trouble::Taken
        | Trouble::Io => error.into(),
    }
}
