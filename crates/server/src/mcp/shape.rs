//! Our words in MCP's shapes.

use std::sync::Arc;

use portcullis_proto::{Failure, ToolSpec};
use portcullis_tools::{ResourceEntry, ResourceText};
use rmcp::ErrorData;
use rmcp::model::{
    JsonObject, ReadResourceResult, Resource, ResourceContents, ResourceTemplate, Tool,
    ToolAnnotations,
};
use serde_json::{Value, json};

pub(super) fn tool(spec: &ToolSpec) -> Tool {
    let mut tool = Tool::new(spec.name, spec.description, object(&spec.input_schema));
    tool.title = Some(spec.title.to_owned());
    tool.output_schema = Some(object(&spec.output_schema));
    tool.annotations = Some(
        ToolAnnotations::with_title(spec.title)
            .read_only(spec.traits.read_only)
            .destructive(spec.traits.destructive)
            .idempotent(spec.traits.idempotent)
            .open_world(spec.traits.open_world),
    );
    tool
}

fn object(schema: &Value) -> Arc<JsonObject> {
    Arc::new(schema.as_object().cloned().unwrap_or_default())
}

pub(super) fn resource(entry: ResourceEntry) -> Resource {
    let mut resource = Resource::new(entry.uri, entry.name);
    resource.size = entry.size.filter(|_| !entry.directory);
    resource.mime_type = entry.directory.then(|| "inode/directory".to_owned());
    resource
}

pub(super) fn templates() -> Vec<ResourceTemplate> {
    let mut template = ResourceTemplate::new("portcullis://{root}/{+path}", "file");
    template.title = Some("A file in a root".to_owned());
    template.description = Some(
        "Any file the roots hold, by its path from the root. Text as text, anything else as bytes."
            .to_owned(),
    );
    vec![template]
}

pub(super) fn contents(uri: &str, text: ResourceText, mime: String) -> ReadResourceResult {
    let contents = match text {
        ResourceText::Text(text) => ResourceContents::TextResourceContents {
            uri: uri.to_owned(),
            mime_type: Some(mime),
            text,
            meta: None,
        },
        ResourceText::Bytes(bytes) => ResourceContents::BlobResourceContents {
            uri: uri.to_owned(),
            mime_type: Some(mime),
            blob: portcullis_tools::base64(&bytes),
            meta: None,
        },
    };
    ReadResourceResult::new(vec![contents])
}

/// A failure where MCP knows no typed result: resources.
pub(super) fn error(failure: &Failure) -> ErrorData {
    let data = json!({
        "errorKind": failure.kind().as_str(),
        "reason": failure.reason().as_str(),
        "category": failure.category().as_str(),
        "status": failure.kind().status(),
        "hint": failure.next_step(),
    });
    ErrorData::invalid_params(failure.message().to_owned(), Some(data))
}
