//! Signing in with a link that counts once, and out.

use std::sync::Arc;

use http::header::SET_COOKIE;
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use hyper::body::Incoming;
use portcullis_gate::Caller;
use portcullis_proto::{Failure, Principal, Subject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::door::{TLS_COOKIE_NAME, presented};
use super::super::identity::Via;
use super::super::reply::{self, Reply};
use super::super::rest::json_of;
use super::super::server::{Asked, Server};
use super::caller;
use crate::answers::off_the_reactor;

/// How long a browser keeps the cookie.
const MAX_AGE_S: u64 = 30 * 24 * 60 * 60;

/// What `POST /sign-in` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SignInBody {
    /// What stands behind the # of the link that was printed.
    link: String,
}

/// What `POST /sign-in` replies with.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SignInReply {
    /// Who signed in.
    user: String,
}

/// Turns a link into the cookie of a browser. The link is the credential here:
/// a wrong, used or old one gets the same answer.
pub(crate) async fn sign_in(server: &Arc<Server>, head: &Parts, body: Option<Incoming>) -> Reply {
    let body: SignInBody = match json_of(&head.headers, body).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let now = server.parts.clock.now_ms();
    let used = off_the_reactor(&server.parts.store, move |store| {
        store.use_sign_in_link(&body.link, now)
    });
    let signed_in = match used.await {
        Ok(Some(signed_in)) => signed_in,
        Ok(None) => return reply::refused(StatusCode::UNAUTHORIZED, "Unauthorized", None),
        Err(why) => return reply::failure(&why),
    };
    let who = Principal::User {
        id: signed_in.user.as_str().into(),
    };
    let caller = Caller::new(Subject::of(who), "POST /sign-in").by_grant_alone();
    let noted = server.parts.gate.note(&caller, "sign in");
    let settled = noted.and_then(|()| server.parts.doorman.refresh().map_err(Failure::from));
    if let Err(why) = settled {
        return reply::failure(&why);
    }
    let told = SignInReply {
        user: signed_in.user,
    };
    let mut reply = reply::of(StatusCode::OK, &told);
    set(server, &mut reply, signed_in.cookie.expose(), MAX_AGE_S);
    reply
}

pub(crate) async fn sign_out(server: &Arc<Server>, asked: &Asked) -> Reply {
    if let Some((Via::Cookie, cookie)) = presented(&asked.head.headers, server.cookie) {
        let cookie = cookie.to_owned();
        let (gate, asker) = (Arc::clone(&server.parts.gate), caller(asked));
        let ended = off_the_reactor(&server.parts.store, move |store| {
            Ok(gate.administer(&asker, "sign out", || Ok(store.sign_out(&cookie)?)))
        });
        let settled = ended.await.and_then(|ended| {
            ended?;
            server.parts.doorman.refresh().map_err(Failure::from)
        });
        if let Err(why) = settled {
            return reply::failure(&why);
        }
    }
    let mut reply = reply::empty(StatusCode::NO_CONTENT);
    set(server, &mut reply, "", 0);
    reply
}

/// Under TLS the name itself keeps the cookie to this host, over TLS: no other
/// page of the host's can put one in its place.
fn set(server: &Server, reply: &mut Reply, value: &str, max_age: u64) {
    let name = server.cookie;
    let secure = if name == TLS_COOKIE_NAME {
        "; Secure"
    } else {
        ""
    };
    let text =
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={max_age}{secure}");
    if let Ok(mut value) = HeaderValue::from_str(&text) {
        value.set_sensitive(true);
        reply.headers_mut().append(SET_COOKIE, value);
    }
}
