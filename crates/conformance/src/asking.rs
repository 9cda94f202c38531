//! Tools that ask the client in the middle of a call: the handshake era's way.

use rmcp::model::{
    CallToolResult, ContentBlock, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitationAction, SamplingMessage,
};
use rmcp::{ErrorData, Peer, RoleServer};
use serde_json::{Map, Value, json};

use crate::fixed::{said, shaped};

/// Asks, if `tool` is one that does.
pub(crate) async fn call(
    tool: &str,
    arguments: &Map<String, Value>,
    peer: &Peer<RoleServer>,
) -> Result<Option<CallToolResult>, ErrorData> {
    let argument = |name: &str| arguments.get(name).and_then(Value::as_str);
    let (message, properties, required) = match tool {
        "test_sampling" => {
            let prompt = argument("prompt").unwrap_or("Hello");
            return sample(prompt, peer).await.map(Some);
        }
        "test_elicitation" => (
            argument("message").unwrap_or("Please say who you are."),
            json!({
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"},
            }),
            json!(["username", "email"]),
        ),
        "test_elicitation_sep1034_defaults" => {
            ("All of these have defaults.", defaults(), json!([]))
        }
        "test_elicitation_sep1330_enums" => ("Choose.", choices(), json!([])),
        _ => return Ok(None),
    };
    let schema = json!({"type": "object", "properties": properties, "required": required});
    let form = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.to_owned(),
        requested_schema: shaped(schema)?,
    };
    Ok(Some(match peer.create_elicitation(form).await {
        Ok(answer) => {
            let action = match answer.action {
                ElicitationAction::Accept => "accept",
                ElicitationAction::Decline => "decline",
                ElicitationAction::Cancel | _ => "cancel",
            };
            let content = answer.content.unwrap_or_default();
            said(format!(
                "Elicitation completed: action={action}, content={content}"
            ))
        }
        Err(error) => failed(format!("Elicitation error: {error}")),
    }))
}

async fn sample(prompt: &str, peer: &Peer<RoleServer>) -> Result<CallToolResult, ErrorData> {
    let messages = vec![SamplingMessage::user_text(prompt)];
    let asked = CreateMessageRequestParams::new(messages, 100);
    Ok(match peer.create_message(asked).await {
        Ok(answer) => said(format!("LLM response: {}", first_text(&answer))),
        Err(error) => failed(format!("Sampling error: {error}")),
    })
}

fn first_text(answer: &CreateMessageResult) -> &str {
    let first = answer.message.content.first();
    first
        .and_then(|content| content.as_text())
        .map_or("no text", |content| &content.text)
}

fn failed(why: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(why)])
}

fn defaults() -> Value {
    json!({
        "name": {"type": "string", "description": "User's name", "default": "John Doe"},
        "age": {"type": "integer", "description": "User's age", "default": 30},
        "score": {"type": "number", "description": "User's score", "default": 95.5},
        "status": {
            "type": "string",
            "description": "User's status",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "description": "Whether user is verified", "default": true},
    })
}

fn choices() -> Value {
    let titled = |word: &str| {
        json!([
            {"const": "value1", "title": format!("First {word}")},
            {"const": "value2", "title": format!("Second {word}")},
            {"const": "value3", "title": format!("Third {word}")},
        ])
    };
    let options = json!(["option1", "option2", "option3"]);
    json!({
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
    })
}
