//! Signing in with a link that counts once, and out.

use std::sync::Arc;

use http::header::{COOKIE, SET_COOKIE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use hyper::body::Incoming;
use portcullis_proto::{Failure, Reason};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::super::door::COOKIE_NAME;
use super::super::reply::{self, Reply};
use super::super::rest::json_of;
use super::super::server::{Asked, Server};

/// How long a browser keeps the cookie.
const MAX_AGE_S: u64 = 30 * 24 * 60 * 60;

/// What `POST /sign-in` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SignInBody {
    /// What stands behind the # of the link that was printed.
    link: String,
}

/// Turns a link into the cookie of a browser. The link is the credential here:
/// a wrong, used or old one gets the same answer.
pub(crate) async fn sign_in(server: &Arc<Server>, head: &Parts, body: Option<Incoming>) -> Reply {
    let body: SignInBody = match json_of(&head.headers, body).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let (store, now) = (server.parts.store.clone(), server.parts.clock.now_ms());
    let used = tokio::task::spawn_blocking(move || store.use_sign_in_link(&body.link, now)).await;
    let signed_in = match used {
        Ok(Ok(Some(signed_in))) => signed_in,
        Ok(Ok(None)) => {
            return reply::refused(StatusCode::UNAUTHORIZED, "Unauthorized", None);
        }
        Ok(Err(error)) => return reply::failure(&Failure::from(Reason::Io).detail(error)),
        Err(panicked) => return reply::failure(&Failure::from(Reason::Bug).detail(panicked)),
    };
    if let Err(error) = server.parts.doorman.refresh() {
        return reply::failure(&Failure::from(Reason::Io).detail(error));
    }
    let mut reply = reply::value(StatusCode::OK, &json!({"user": signed_in.user}));
    set(server, &mut reply, signed_in.cookie.expose(), MAX_AGE_S);
    reply
}

pub(crate) async fn sign_out(server: &Arc<Server>, asked: &Asked) -> Reply {
    if let Some(cookie) = cookie(&asked.head.headers).map(str::to_owned) {
        let store = server.parts.store.clone();
        let ended = tokio::task::spawn_blocking(move || store.sign_out(&cookie)).await;
        let refreshed = match ended {
            Ok(Ok(_)) => server.parts.doorman.refresh(),
            Ok(Err(error)) => Err(error),
            Err(panicked) => return reply::failure(&Failure::from(Reason::Bug).detail(panicked)),
        };
        if let Err(error) = refreshed {
            return reply::failure(&Failure::from(Reason::Io).detail(error));
        }
    }
    let mut reply = reply::empty(StatusCode::NO_CONTENT);
    set(server, &mut reply, "", 0);
    reply
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == COOKIE_NAME)
        .map(|(_, value)| value)
}

fn set(server: &Server, reply: &mut Reply, value: &str, max_age: u64) {
    let secure = if server.parts.url.starts_with("https://") {
        "; Secure"
    } else {
        ""
    };
    let text = format!(
        "{COOKIE_NAME}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={max_age}{secure}"
    );
    if let Ok(mut value) = HeaderValue::from_str(&text) {
        value.set_sensitive(true);
        reply.headers_mut().append(SET_COOKIE, value);
    }
}
