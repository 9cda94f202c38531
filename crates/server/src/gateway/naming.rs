//! The argument a machine is named in, in the schemas of tools.

use portcullis_proto::ToolSpec;
use serde_json::{Value, json};

use super::link::Link;

/// The argument a machine is named in.
pub(super) const MACHINE: &str = "machine";

/// Whether the tool `name` of a machine has an argument `machine` of its own: where
/// there are several machines it cannot be told from ours.
pub(super) fn takes_machine(link: &Link, name: &str) -> bool {
    let about = link.about();
    let tool = about.offer.tool(name);
    tool.is_some_and(|tool| has_machine(&tool.input_schema))
}

pub(super) fn has_machine(schema: &Value) -> bool {
    let properties = schema.get("properties");
    let ways = ["allOf", "anyOf", "oneOf"].map(|way| schema.get(way).and_then(Value::as_array));
    properties.is_some_and(|properties| properties.get(MACHINE).is_some())
        || ways.into_iter().flatten().flatten().any(has_machine)
}

/// Lets an agent say which machine is meant, and tells it which one acted.
pub(super) fn add_machine(tool: &mut ToolSpec, names: &[String], must: bool) {
    let Some(schema) = tool.input_schema.as_object_mut() else {
        return;
    };
    let property = json!({
        "type": "string",
        "enum": names,
        "description": "Which machine. Default: the one of the calls before, at first the first of these.",
    });
    let properties = schema
        .entry("properties")
        .or_insert_with(|| json!({}))
        .as_object_mut();
    if let Some(properties) = properties {
        properties.insert(MACHINE.to_owned(), property);
    }
    if let Some(Value::Object(properties)) = tool
        .output_schema
        .as_mut()
        .and_then(|schema| schema.get_mut("properties"))
    {
        let acted = json!({"type": "string", "description": "The machine that acted."});
        properties.insert(MACHINE.to_owned(), acted);
    }
    if must {
        let required = schema.entry("required").or_insert_with(|| json!([]));
        if let Some(required) = required.as_array_mut() {
            required.push(MACHINE.into());
        }
    }
}
