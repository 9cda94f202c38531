//! What is always the same: lists, and results that depend on nothing.

use rmcp::ErrorData;
use rmcp::model::{CacheScope, CallToolResult, Tool};
use serde_json::{Value, json};

/// A red pixel.
const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8/5+hHgAHggJ/PchI7wAAAABJRU5ErkJggg==";
/// Silence.
const AUDIO: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

/// How long lists may be kept, as the newer era wants to be told.
pub(crate) const FRESH_MS: u64 = 60_000;
/// By whom.
pub(crate) const KEPT: CacheScope = CacheScope::Public;

/// Tools without arguments.
const PLAIN: &[&str] = &[
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_logging",
    "test_error_handling",
    "test_tool_with_progress",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_reconnection",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
    "test_missing_capability",
    "test_streaming_elicitation",
    "test_logging_tool",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
    "failing_job",
    "protocol_error_job",
    "multi_input",
    "test_tool_with_task",
];

/// Reads what is written in this file as rmcp's own.
pub(crate) fn shaped<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(format!("a fixture is wrong: {error}"), None))
}

fn text_argument(name: &str) -> Value {
    json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]})
}

/// Every tool.
pub(crate) fn tools() -> Result<Vec<Tool>, ErrorData> {
    let optional = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}});
    let plain = PLAIN
        .iter()
        .map(|name| (*name, json!({"type": "object", "properties": {}})));
    let others = [
        ("test_sampling", text_argument("prompt")),
        ("test_elicitation", text_argument("message")),
        ("greet", text_argument("name")),
        ("confirm_delete", optional("filename")),
        (
            "slow_compute",
            json!({"type": "object", "properties": {"seconds": {"type": "number"}, "label": {"type": "string"}}}),
        ),
        ("test_custom_header", custom_header_schema()),
        ("json_schema_2020_12_tool", schema_2020_12()),
    ];
    plain
        .chain(others)
        .map(|(name, schema)| {
            shaped(json!({"name": name, "description": name, "inputSchema": schema}))
        })
        .collect()
}

/// The tool whose argument is in a header as well.
pub(crate) fn custom_header_tool() -> Option<Tool> {
    let name = "test_custom_header";
    shaped(json!({"name": name, "description": name, "inputSchema": custom_header_schema()})).ok()
}

fn custom_header_schema() -> Value {
    json!({
        "type": "object",
        "properties": {"value": {"type": "string", "x-mcp-header": "Value"}},
        "required": ["value"],
    })
}

fn schema_2020_12() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "address",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }},
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "allOf": [{"anyOf": [{"required": ["name"]}, {"required": ["address"]}]}],
        "if": {"required": ["address"]},
        "then": {"properties": {"address": {"required": ["street"]}}},
        "else": {"required": ["name"]},
        "additionalProperties": false,
    })
}

/// A result that is one text.
pub(crate) fn said(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![rmcp::model::ContentBlock::text(text.into())])
}

/// The result of a tool that always says the same, if it is one.
pub(crate) fn result(tool: &str) -> Result<Option<CallToolResult>, ErrorData> {
    let image = json!({"type": "image", "data": IMAGE, "mimeType": "image/png"});
    let resource = |uri: &str, mime: &str, text: &str| json!({"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": text}});
    let content = match tool {
        "test_simple_text" => {
            json!([{"type": "text", "text": "This is a simple text response for testing."}])
        }
        "test_image_content" => json!([image]),
        "test_audio_content" => {
            json!([{"type": "audio", "data": AUDIO, "mimeType": "audio/wav"}])
        }
        "test_embedded_resource" => json!([resource(
            "test://embedded-resource",
            "text/plain",
            "This is an embedded resource content."
        )]),
        "test_multiple_content_types" => json!([
            {"type": "text", "text": "Multiple content types test:"},
            image,
            resource(
                "test://mixed-content-resource",
                "application/json",
                r#"{"test":"data","value":123}"#
            ),
        ]),
        "test_error_handling" => {
            json!([{"type": "text", "text": "This tool intentionally returns an error for testing"}])
        }
        _ => return Ok(None),
    };
    let failed = tool == "test_error_handling";
    let mut result: CallToolResult = shaped(json!({"content": content, "isError": failed}))?;
    result.result_type = CallToolResult::success(Vec::new()).result_type;
    Ok(Some(result))
}

/// Every resource.
pub(crate) fn resources() -> Value {
    json!([
        {"uri": "test://static-text", "name": "Static text", "mimeType": "text/plain"},
        {"uri": "test://static-binary", "name": "Static binary", "mimeType": "image/png"},
        {"uri": "test://watched-resource", "name": "Watched", "mimeType": "text/plain"},
    ])
}

/// Every template.
pub(crate) fn templates() -> Value {
    json!([{"uriTemplate": "test://template/{id}/data", "name": "Data", "mimeType": "application/json"}])
}

/// The contents of a resource, if there is one.
pub(crate) fn contents(uri: &str) -> Option<Value> {
    let text = |mime: &str, text: &str| json!([{"uri": uri, "mimeType": mime, "text": text}]);
    match uri {
        "test://static-text" => Some(text(
            "text/plain",
            "This is the content of the static text resource.",
        )),
        "test://static-binary" => {
            Some(json!([{"uri": uri, "mimeType": "image/png", "blob": IMAGE}]))
        }
        "test://watched-resource" => Some(text("text/plain", "Watched.")),
        _ => {
            let id = uri
                .strip_prefix("test://template/")?
                .strip_suffix("/data")?;
            let data =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            Some(text("application/json", &data.to_string()))
        }
    }
}

/// Every prompt.
pub(crate) fn prompts() -> Value {
    let argument = |name: &str, required: bool| json!({"name": name, "description": name, "required": required});
    let prompt = |name: &str| json!({"name": name, "description": name});
    let mut arguments = prompt("test_prompt_with_arguments");
    arguments["arguments"] = json!([argument("arg1", true), argument("arg2", false)]);
    json!([
        prompt("test_simple_prompt"),
        arguments,
        prompt("test_prompt_with_embedded_resource"),
        prompt("test_prompt_with_image"),
        prompt("test_input_required_result_prompt"),
    ])
}

/// The messages of a prompt, if there is one.
pub(crate) fn prompt(name: &str, arguments: &Value) -> Option<Value> {
    let user = |content: Value| json!({"role": "user", "content": content});
    let text = |text: &str| json!({"type": "text", "text": text});
    let argument = |name: &str| {
        arguments
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    Some(match name {
        "test_simple_prompt" => json!([user(text("This is a simple test prompt."))]),
        "test_prompt_with_arguments" => json!([user(text(&format!(
            "Prompt with arguments: arg1='{}', arg2='{}'",
            argument("arg1"),
            argument("arg2")
        )))]),
        "test_prompt_with_embedded_resource" => {
            let uri = match argument("resourceUri") {
                "" => "test://static-text",
                uri => uri,
            };
            let resource = json!({"uri": uri, "mimeType": "text/plain", "text": "Embedded resource content for testing."});
            json!([
                user(json!({"type": "resource", "resource": resource})),
                user(text("Please process the embedded resource above.")),
            ])
        }
        "test_prompt_with_image" => json!([
            user(json!({"type": "image", "data": IMAGE, "mimeType": "image/png"})),
            user(text("Please analyze the image above.")),
        ]),
        _ => return None,
    })
}
