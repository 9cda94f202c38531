//! What is asked of `/mcp`, whose streams end with the credential they were
//! opened with.

use std::sync::Arc;

use http::Request;

use super::held::{is_stream, while_standing};
use super::reply::{self, Reply};
use super::rest::lost;
use super::server::{Asked, Server};

pub(super) async fn answer(server: &Arc<Server>, mut asked: Asked) -> Reply {
    let Some(body) = asked.body.take() else {
        return lost();
    };
    let standing = asked.standing(server);
    let request = Request::from_parts(asked.head, body);
    let mut answer = server.parts.mcp.answer(asked.identity, request).await;
    reply::guarded(answer.headers_mut());
    if is_stream(&answer) {
        return while_standing(answer, standing);
    }
    answer
}
