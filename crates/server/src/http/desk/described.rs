//! What is asked of the server itself, as the OpenAPI document tells it.

use schemars::JsonSchema;
use serde_json::{Value, json};

use super::super::openapi::{Described, Shapes};
use super::super::rest::Health;
use super::super::routes::{Desk, Open};
use super::approvals::{AnswerBody, AnswerReply, ApprovalsReply};
use super::audit::{AuditQuery, AuditReply};
use super::extensions::{
    ApproveBody, ExtensionShown, ExtensionState, ExtensionTokenReply, ExtensionsReply, NothingBody,
    RegisterBody,
};
use super::signing::{SignInBody, SignInReply};
use super::switch::{Preferences, SwitchBody, SwitchReply};

/// What an OAuth client reads: RFC 9728.
#[derive(JsonSchema)]
#[schemars(rename = "ProtectedResource")]
#[expect(
    dead_code,
    reason = "a shape for the document; OAuthResource writes it"
)]
struct ProtectedResource {
    /// The address this server's MCP is known by.
    resource: String,
    /// Who issues its tokens.
    authorization_servers: Vec<String>,
    /// Every scope there is.
    scopes_supported: Vec<String>,
    /// How tokens are presented.
    bearer_methods_supported: Vec<String>,
    /// What it is called.
    resource_name: String,
}

pub(in crate::http) fn described_open(open: Open, shapes: &mut Shapes) -> Described<'_> {
    let html = || [("text/html", json!({"type": "string"}))];
    match open {
        Open::Health => Described::open(shapes, "Whether it is up").giving::<Health>(200, "It is."),
        Open::SignInPage => Described::open(shapes, "The page that signs a browser in").giving_as(
            200,
            "A page that holds nothing.",
            &html(),
        ),
        Open::SignIn => Described::open(shapes, "Turns a link that counts once into a cookie")
            .taking::<SignInBody>()
            .giving::<SignInReply>(200, "The reply sets the cookie.")
            .failing(&[401, 429, 500, 503]),
        Open::ApprovePage => Described::open(
            shapes,
            "The page on which a person answers a question",
        )
        .giving_as(200, "A page that holds nothing.", &html()),
        Open::OAuthMetadata => Described::open(shapes, "Who else issues tokens (RFC 9728)")
            .giving::<ProtectedResource>(200, "The metadata.")
            .failing(&[404]),
    }
}

/// An object whose members the protocol's page tells.
fn anything() -> Value {
    json!({"type": "object", "additionalProperties": true})
}

pub(in crate::http) fn described(desk: Desk, shapes: &mut Shapes) -> Described<'_> {
    match desk {
        Desk::SignOut => Described::of(shapes, "Ends a sign-in")
            .giving_as(204, "The cookie stands for nobody any more.", &[])
            .failing(&[500, 503]),
        Desk::Approvals => Described::of(shapes, "The questions that wait for you")
            .giving::<ApprovalsReply>(200, "At most 1,000, the oldest first.")
            .failing(&[500, 503]),
        Desk::WatchApprovals => Described::of(shapes, "Questions as they come and go")
            .about("Begins with all that waits.")
            .streaming("Events `question` and `settled`, each with an id.")
            .failing(&[500, 503]),
        Desk::Answer => Described::of(shapes, "Answers a question")
            .about("A bearer never answers its own question. Only an administrator, signed in, says `always_…`.")
            .taking::<AnswerBody>()
            .giving::<AnswerReply>(200, "It counts.")
            .failing(&[404, 409, 410, 500, 503]),
        Desk::Audit => Described::of(shapes, "The record, as far as it is yours")
            .asking::<AuditQuery>()
            .giving::<AuditReply>(200, "Lines, the oldest first.")
            .failing(&[400, 500, 503]),
        Desk::WatchAudit => Described::of(shapes, "The record as it is written")
            .asking::<AuditQuery>()
            .header(
                "Last-Event-ID",
                "Goes on behind this event.",
                json!({"type": "string"}),
            )
            .streaming("Events `fs.access` and `fs.denied`, each with an id.")
            .failing(&[400, 500, 503]),
        Desk::Metrics => Described::of(shapes, "How it does, for Prometheus").giving_as(
            200,
            "Counters and gauges.",
            &[("text/plain", json!({"type": "string"}))],
        ),
        Desk::Extensions => Described::of(shapes, "Your extensions")
            .giving::<ExtensionsReply>(200, "All of them, by id.")
            .failing(&[500, 503]),
        Desk::RegisterExtension => Described::of(shapes, "Registers an extension, or its next version")
            .about("It may do nothing until its owner has approved it.")
            .taking::<RegisterBody>()
            .giving::<ExtensionShown>(200, "It waits to be approved.")
            .judged()
            .failing(&[404, 409, 500, 503]),
        Desk::ApproveExtension => Described::of(shapes, "Lets an extension do what was shown")
            .taking::<ApproveBody>()
            .giving::<ExtensionState>(200, "It may.")
            .judged()
            .failing(&[404, 409, 500, 503]),
        Desk::ExtensionToken => Described::of(shapes, "Makes the token of an extension")
            .about("The one it had before holds no more.")
            .taking::<NothingBody>()
            .giving::<ExtensionTokenReply>(200, "The token, shown once.")
            .judged()
            .failing(&[404, 409, 500, 503]),
        Desk::RevokeExtension => Described::of(shapes, "Ends all an extension may do")
            .taking::<NothingBody>()
            .giving::<ExtensionState>(200, "It may do nothing.")
            .judged()
            .failing(&[404, 409, 500, 503]),
        Desk::RemoveExtension => Described::of(shapes, "Forgets an extension")
            .giving::<ExtensionState>(200, "There is none of that name any more.")
            .judged()
            .failing(&[404, 409, 500, 503]),
        Desk::Switch => Described::of(shapes, "Switches your files off for a while, or on again")
            .about("A person does it, signed in, or a credential with the scope admin.")
            .taking::<SwitchBody>()
            .giving::<SwitchReply>(200, "How they are now.")
            .failing(&[500, 503]),
        Desk::Preferences => Described::of(shapes, "The same switch, as n8n spells it")
            .taking::<Preferences>()
            .giving_as(200, "How it is now, in `data`.", &[("application/json", anything())])
            .failing(&[500, 503]),
        Desk::CreateLink => Described::of(shapes, "Makes a pairing token, to lend a machine with")
            .about("It counts once, for 5 minutes; the same one while it counts. Below /rest it stands in `data`.")
            .giving_as(200, "The token, and what to type on the machine.", &[("application/json", anything())])
            .failing(&[500, 503]),
        Desk::LinkStatus => Described::of(shapes, "Whether a machine of yours is linked")
            .about("Of several, the newest. Below /rest it stands in `data`.")
            .giving_as(200, "Which, and what it lends.", &[("application/json", anything())]),
        Desk::EndLinks => Described::of(shapes, "Ends the session of every machine of yours")
            .giving_as(200, "Their keys count no more.", &[("application/json", anything())])
            .failing(&[500, 503]),
        Desk::OpenApi => Described::of(shapes, "This document").giving_as(
            200,
            "OpenAPI 3.1.",
            &[("application/json", json!({"type": "object", "additionalProperties": true}))],
        ),
    }
}
