//! How the document tells what goes wrong, and what every reply carries.

use portcullis_proto::ErrorKind;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::shapes::Shapes;

/// What went wrong, in the envelope every failure of a deed has.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(
    dead_code,
    reason = "a shape for the document; `reply::failure` writes it"
)]
struct Failure {
    /// One of fourteen kinds, closed.
    #[schemars(schema_with = "kinds")]
    error_kind: String,
    /// Finer than the kind; docs/PROTOCOL.md has the table.
    reason: String,
    /// Whether somebody or some rule decided so, or the machine or the request fell short.
    #[schemars(extend("enum" = ["policy", "operational"]))]
    category: String,
    /// What happened, and what did not change.
    error: String,
    /// The next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// The status of the reply.
    status: u16,
    /// The question that waits, where a person has to be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    question_id: Option<String>,
    /// Where a person answers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval_url: Option<String>,
}

fn kinds(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ErrorKind::ALL.map(ErrorKind::as_str)})
}

/// A refusal before any deed.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(
    dead_code,
    reason = "a shape for the document; `reply::refused` writes it"
)]
struct Refusal {
    /// What happened.
    error: String,
    /// The same, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// The id a client gave itself, where that is what is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_id: Option<String>,
}

/// An upload that is not taken.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "a shape for the document; uploads write it")]
struct UploadRefusal {
    /// What kind of refusal.
    #[schemars(extend("enum" = ["unsupported_media_type", "upload_busy", "file_too_large"]))]
    error_kind: String,
    /// What happened.
    error: String,
    /// The next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// The status of the reply.
    status: u16,
    /// After how long to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<u64>,
    /// How many bytes an upload may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_bytes: Option<u64>,
}

/// More than its share was asked for at once.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(
    dead_code,
    reason = "a shape for the document; `shares::over` writes it"
)]
struct ShareRefusal {
    /// Always the one for what cannot be done now.
    error_kind: String,
    /// Always `overload`.
    reason: String,
    /// What there are too many of.
    error: String,
    /// The next step.
    hint: Option<String>,
    /// Always `too_many_at_once`.
    code: String,
    /// The status of the reply.
    status: u16,
    /// After how long to try again.
    retry_after_seconds: u64,
}

/// What a daemon is refused with, as n8n spells it.
#[derive(JsonSchema)]
#[expect(
    dead_code,
    reason = "a shape for the document; `links::spoken` writes it"
)]
struct DaemonRefusal {
    /// The status of the reply.
    code: u16,
    /// What happened.
    message: String,
    /// The same, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// What a reply carries that tells of a deed.
pub(super) const JUDGED: &[&str] = &[
    "Portcullis-Request-Id",
    "Portcullis-Policy",
    "Portcullis-Hooks",
];

/// The same, and where to get a credential that may.
const FORBIDDEN: &[&str] = &[
    "Portcullis-Request-Id",
    "Portcullis-Policy",
    "Portcullis-Hooks",
    "WWW-Authenticate",
];

/// What every reply carries.
const ALWAYS: [&str; 2] = ["Cache-Control", "X-Content-Type-Options"];

/// Every header the document speaks of.
pub(super) fn headers() -> Value {
    let text = |about: &str, required: bool, schema: Value| json!({"description": about, "required": required, "schema": schema});
    let string = || json!({"type": "string"});
    json!({
        "Cache-Control": text("Nothing is kept.", true, json!({"const": "no-store"})),
        "X-Content-Type-Options": text("It is what it says it is.", true, json!({"const": "nosniff"})),
        "Portcullis-Request-Id": text("Names the attempt, as its line in the audit does.", false, string()),
        "Portcullis-Policy": text("Which rule, mode, class or person decided.", false, string()),
        "Portcullis-Hooks": text("The hooks that were asked, in order.", false, string()),
        "Retry-After": text("After how many seconds to try again.", true, json!({"type": "integer"})),
        "WWW-Authenticate": text("What is wrong with the credential and who else issues tokens, where that is configured.", false, string()),
        "Content-Range": text("Which bytes of how many.", true, string()),
    })
}

/// The headers of a response: those of every one, and these.
pub(super) fn carried(names: &[&str]) -> Map<String, Value> {
    ALWAYS
        .iter()
        .chain(names)
        .map(|name| {
            let at = format!("#/components/headers/{name}");
            ((*name).to_owned(), json!({"$ref": at}))
        })
        .collect()
}

/// What a status is called among the responses.
pub(super) const fn name(status: u16) -> &'static str {
    match status {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        406 => "NotAcceptable",
        408 => "Timeout",
        409 => "Conflict",
        410 => "Gone",
        413 => "TooLarge",
        415 => "WrongMediaType",
        416 => "RangeNotSatisfiable",
        422 => "Unprocessable",
        429 => "TooMany",
        500 => "Defect",
        503 => "Unavailable",
        _ => "Other",
    }
}

/// The name of what every failure to a daemon looks like.
pub(super) const TO_DAEMONS: &str = "ToDaemons";

/// The response to a daemon that something failed.
pub(super) fn to_daemons(shapes: &mut Shapes) -> Value {
    let refusals = [
        shapes.written::<DaemonRefusal>(),
        shapes.written::<Refusal>(),
    ];
    json!({
        "description": "It is not done. What is refused before a route is looked at is a Refusal.",
        "headers": carried(&[]),
        "content": {"application/json": {"schema": {"anyOf": refusals}}},
    })
}

/// The response to a failure of that status.
pub(super) fn told(status: u16, shapes: &mut Shapes) -> Value {
    let failure = |shapes: &mut Shapes| shapes.written::<Failure>();
    let refusal = |shapes: &mut Shapes| shapes.written::<Refusal>();
    let either = |shapes: &mut Shapes| json!({"anyOf": [failure(shapes), refusal(shapes)]});
    let (about, schema, more): (_, _, &[&str]) = match status {
        400 => (
            "The request does not fit: a parameter, the body, a path that leads out, a workspace that is not there.",
            Some(either(shapes)),
            JUDGED,
        ),
        401 => (
            "No credential, or one that stands for nobody.",
            Some(refusal(shapes)),
            &["WWW-Authenticate"],
        ),
        403 => (
            "Not allowed: by Host or Origin, by the scopes of the credential, by a rule, or until a person says yes (then questionId and approvalUrl are there).",
            Some(either(shapes)),
            FORBIDDEN,
        ),
        404 => ("Nothing is there.", Some(either(shapes)), JUDGED),
        408 => ("The body did not come in time.", Some(refusal(shapes)), &[]),
        409 => (
            "What is there is not what was expected, or somebody was faster.",
            Some(either(shapes)),
            JUDGED,
        ),
        410 => ("Its time is over.", Some(refusal(shapes)), &[]),
        413 => {
            let upload = shapes.written::<UploadRefusal>();
            let schema = json!({"anyOf": [failure(shapes), refusal(shapes), upload]});
            ("It is larger than it may be.", Some(schema), JUDGED)
        }
        415 => (
            "The body is not said to be bytes.",
            Some(shapes.written::<UploadRefusal>()),
            JUDGED,
        ),
        416 => ("The file has no such bytes.", None, &["Content-Range"]),
        422 => (
            "The file is not text, or the text to replace is not there once.",
            Some(failure(shapes)),
            JUDGED,
        ),
        429 => {
            let upload = shapes.written::<UploadRefusal>();
            let share = shapes.written::<ShareRefusal>();
            let schema = json!({"anyOf": [refusal(shapes), upload, share]});
            (
                "Too many credentials that stand for nobody came from this address, this one asks too fast, or has its share of what it asks for.",
                Some(schema),
                &["Retry-After"],
            )
        }
        500 => ("A defect of Portcullis.", Some(failure(shapes)), JUDGED),
        503 => (
            "The machine could not do it: its disk, a name that is too long for it, or too much under way.",
            Some(failure(shapes)),
            JUDGED,
        ),
        _ => ("It failed.", Some(either(shapes)), &[]),
    };
    let mut response = json!({"description": about, "headers": carried(more)});
    if let (Some(object), Some(schema)) = (response.as_object_mut(), schema) {
        let content = json!({"application/json": {"schema": schema}});
        object.insert("content".to_owned(), content);
    }
    response
}
