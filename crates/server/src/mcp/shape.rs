//! Our words in MCP's shapes.

use std::sync::Arc;

use portcullis_gate::Question;
use portcullis_proto::{Failure, Json, Reason, ToolReply, ToolSpec};
use portcullis_tools::{ResourceEntry, ResourceText};
use rmcp::ErrorData;
use rmcp::model::{
    JsonObject, ReadResourceResult, Resource, ResourceContents, ResourceTemplate, Tool,
    ToolAnnotations,
};
use serde_json::{Value, json};

pub(super) fn tool(spec: &ToolSpec) -> Tool {
    let mut tool = Tool::new(
        spec.name.clone(),
        spec.description.clone(),
        object(&spec.input_schema),
    );
    tool.title = Some(spec.title.clone().into_owned());
    tool.output_schema = spec.output_schema.as_ref().map(object);
    tool.annotations = Some(
        ToolAnnotations::with_title(spec.title.clone())
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

/// The end of a call that waits for a person, and where that person goes.
pub(super) fn pending(question: &Question, pages: &str) -> ToolReply {
    let failure = left(question, pages);
    let mut reply = ToolReply::failed(&failure);
    if let Ok(Value::Object(mut told)) = serde_json::from_str(reply.structured.get()) {
        told.extend(where_to(question, pages));
        reply.structured = Json::of(&told).unwrap_or(reply.structured);
    }
    reply
}

/// The same, for a resource.
pub(super) fn pending_error(question: &Question, pages: &str) -> ErrorData {
    let mut error = error(&left(question, pages));
    if let Some(Value::Object(told)) = &mut error.data {
        told.extend(where_to(question, pages));
    }
    error
}

fn left(question: &Question, pages: &str) -> Failure {
    Failure::new(
        Reason::ApprovalPending,
        format!(
            "It waits for a person's answer, and nothing was done: {}.",
            question.sentence()
        ),
    )
    .hint(format!(
        "Have a person answer at {}, then call it again with \"portcullis/question\": \"{}\" in _meta.",
        page(question, pages),
        question.id
    ))
}

/// Where a person answers a question.
pub(super) fn page(question: &Question, pages: &str) -> String {
    format!("{pages}/approve/{}", question.id)
}

/// What a task says of itself while it waits.
pub(super) fn waits_at(question: &Question, pages: &str) -> String {
    format!("Waits for a person's answer at {}.", page(question, pages))
}

fn where_to(question: &Question, pages: &str) -> [(String, Value); 3] {
    [
        ("questionId".to_owned(), question.id.as_str().into()),
        ("approvalUrl".to_owned(), page(question, pages).into()),
        ("deadline".to_owned(), question.deadline.into()),
    ]
}
