//! MCP, as far as an OpenAPI document can tell it: one address, and messages
//! that another specification describes.

use serde_json::{Value, json};

use super::super::routes::Mcp;
use super::described::Described;
use super::shapes::Shapes;

const ABOUT: &str = "The Model Context Protocol over streamable HTTP, revisions up to 2026-07-28. docs/PROTOCOL.md tells which tools, and how a person is asked.";

fn message() -> Value {
    json!({
        "type": "object",
        "required": ["jsonrpc"],
        "properties": {"jsonrpc": {"const": "2.0"}},
        "additionalProperties": true,
    })
}

fn of<'a>(shapes: &'a mut Shapes, summary: &'static str) -> Described<'a> {
    let session = "The session, in revisions that have them.";
    let version = "The revision that is spoken.";
    let text = || json!({"type": "string"});
    let told = [
        ("application/json", json!({"type": "object"})),
        ("text/plain", text()),
    ];
    Described::of(shapes, summary)
        .about(ABOUT)
        .header("Mcp-Session-Id", session, text())
        .header("Mcp-Protocol-Version", version, text())
        .giving_as(
            400,
            "No message of the protocol, or not one for now. In words, or as a JSON-RPC error.",
            &told,
        )
        .giving_as(404, "There is no such session.", &told)
        .giving_as(
            406,
            "Accept does not name what it may be answered with.",
            &told,
        )
        .giving_as(
            429,
            "As many sessions as may be are open, or too many credentials stood for nobody.",
            &told,
        )
}

pub(super) fn described(mcp: Mcp, shapes: &mut Shapes) -> Described<'_> {
    let events = ("text/event-stream", json!({"type": "string"}));
    let told = [
        ("application/json", json!({"type": "object"})),
        ("text/plain", json!({"type": "string"})),
    ];
    match mcp {
        Mcp::Post => of(shapes, "One message of MCP")
            .taking_as("application/json", message())
            .giving_as(
                408,
                "The message did not come whole, or not in time.",
                &told,
            )
            .giving_as(
                200,
                "The answer, or events that end in it.",
                &[("application/json", message()), events],
            )
            .giving_as(202, "Taken; there is no answer to it.", &[])
            .giving_as(413, "The message has more than 16 MiB.", &told)
            .giving_as(415, "The body is not said to be JSON.", &told)
            .giving_as(422, "The session has not begun.", &told)
            .giving_as(500, "A defect of Portcullis.", &told),
        Mcp::Get => of(shapes, "What the server says of itself, as events")
            .giving_as(200, "Events, for as long as somebody listens.", &[events])
            .giving_as(405, "This revision has no such stream.", &told)
            .giving_as(409, "Somebody listens already.", &told)
            .giving_as(500, "A defect of Portcullis.", &told),
        Mcp::Delete => of(shapes, "Ends a session")
            .giving_as(202, "It is ended.", &[])
            .giving_as(204, "It is ended.", &[])
            .giving_as(405, "This revision has no sessions.", &told)
            .giving_as(500, "A defect of Portcullis.", &told),
    }
}
