//! What daemons ask, as the OpenAPI document tells it.

use serde_json::json;

use super::super::openapi::{Described, Shapes};
use super::super::routes::Daemon;

pub(in crate::http) fn described<'a>(daemon: Daemon, shapes: &'a mut Shapes) -> Described<'a> {
    let object = || json!({"type": "object", "additionalProperties": true});
    let taking = |summary: &'static str, shapes: &'a mut Shapes| {
        Described::open(shapes, summary)
            .header(
                "X-Gateway-Key",
                "A pairing token, a session key or the static key. Below /instance-ai it may stand in the query as apiKey.",
                json!({"type": "string", "maxLength": 256}),
            )
            .failing(&[408, 429, 500, 503])
    };
    match daemon {
        Daemon::Init => taking("A daemon says what its machine offers", shapes)
            .about("A pairing token is used up, and becomes a session key. What its owner was not shown is 409.")
            .taking_as("application/json", object())
            .giving_as(200, "It is linked.", &[("application/json", object())])
            .failing(&[400, 409, 413]),
        Daemon::Events => taking("What is asked of a machine, as it is asked", shapes)
            .about("In our own dialect events have ids, and what has no result yet is sent again.")
            .header(
                "Last-Event-ID",
                "The last event that was heard.",
                json!({"type": "string"}),
            )
            .streaming("Events, and a comment every 15 seconds where there is none."),
        Daemon::Poll => taking("The same, for who cannot hold a stream", shapes)
            .about("Waits up to 20 seconds for an event behind `after`.")
            .giving_as(200, "Events, or none.", &[("application/json", object())]),
        Daemon::Response => taking("What came of a call", shapes)
            .taking_as("application/json", object())
            .giving_as(200, "Its caller has it.", &[("application/json", object())])
            .failing(&[400, 404, 413]),
        Daemon::Progress => taking("How far a call is", shapes)
            .taking_as("application/json", object())
            .giving_as(200, "Its caller knows.", &[("application/json", object())])
            .failing(&[400, 404, 413]),
        Daemon::Disconnect => taking("A daemon leaves, and its session key counts no more", shapes)
            .giving_as(200, "It has left.", &[("application/json", object())]),
    }
}
