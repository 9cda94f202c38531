//! Every tool there is, with its schemas. Built when first asked for: schemas
//! are no part of a fast start.

use std::sync::OnceLock;

use portcullis_proto::{Group, ToolSpec, ToolTraits};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::{get_file_tree, glob, list_files, read_file, stat};

/// The tools that look at files, in the order agents see them.
pub(crate) fn looking() -> &'static [ToolSpec] {
    static SPECS: OnceLock<Vec<ToolSpec>> = OnceLock::new();
    SPECS.get_or_init(|| {
        vec![
            looks::<get_file_tree::Arguments, get_file_tree::Reply>(
                "get_file_tree",
                "Directory tree",
                "Show a shallow directory tree as indented text. Start low and drill into subdirectories. Paths are relative to the root.",
            ),
            looks::<list_files::Arguments, list_files::Reply>(
                "list_files",
                "List files",
                "List the files and directories in a directory, sorted and paged. With recursive or pattern, list what is below it.",
            ),
            looks::<read_file::Arguments, read_file::Reply>(
                "read_file",
                "Read file",
                "Read a window of a file: lines of text from a line number, from the end, or from a cursor; or raw bytes. Works on files of any size.",
            ),
            looks::<stat::Arguments, stat::Reply>(
                "stat",
                "File status",
                "Tell type, size, time, mode and version of one file or directory.",
            ),
            looks::<glob::Arguments, list_files::Reply>(
                "glob",
                "Find files",
                "Find files and directories below a directory by a glob such as **/*.rs.",
            ),
        ]
    })
}

fn looks<A: JsonSchema, R: JsonSchema>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
) -> ToolSpec {
    ToolSpec {
        name,
        title,
        description,
        group: Group::FilesystemRead,
        traits: ToolTraits::LOOKS,
        input_schema: schema::<A>(),
        output_schema: or_failure(schema::<R>()),
    }
}

/// A result's schema that a failure fits as well: some clients hold a failed
/// call's structured content to the output schema too.
fn or_failure(mut schema: Value) -> Value {
    let text = json!({"type": "string"});
    let failure = [
        ("errorKind", &text),
        ("reason", &text),
        ("category", &text),
        ("error", &text),
        ("hint", &text),
        ("status", &json!({"type": "integer"})),
    ];
    if let Some(root) = schema.as_object_mut() {
        let required = root.remove("required").unwrap_or_default();
        if let Some(properties) = root.get_mut("properties").and_then(Value::as_object_mut) {
            properties.extend(failure.map(|(name, kind)| (name.to_owned(), kind.clone())));
        }
        root.insert(
            "anyOf".to_owned(),
            json!([{"required": required}, {"required": ["errorKind", "reason", "category", "error", "status"]}]),
        );
    }
    schema
}

/// A schema with everything inlined: some clients follow no reference.
fn schema<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    settings.transforms.push(Box::new(RecursiveTransform(
        // Rust's number formats mean nothing to validators, which say so loudly.
        |schema: &mut Schema| drop(schema.remove("format")),
    )));
    let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<T>();
    schema.remove("title");
    schema.to_value()
}
