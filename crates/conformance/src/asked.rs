//! Tools that end with `input_required` and are called again.

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, CreateMessageRequest,
    CreateMessageRequestParams, ElicitRequest, ElicitRequestParams, InputRequest, InputRequests,
    InputRequiredResult, InputResponses, ListRootsRequest, RequestStateCodec, SamplingMessage,
};
use serde_json::{Map, Value, json};

use crate::fixed::{said, shaped};

/// What seals states. Nothing is at stake here.
const KEY: [u8; 32] = [7; 32];

/// A question with one field.
pub(crate) fn field(message: &str, name: &str, kind: &str) -> Result<InputRequest, ErrorData> {
    let schema =
        json!({"type": "object", "properties": {name: {"type": kind}}, "required": [name]});
    let form = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.to_owned(),
        requested_schema: shaped(schema)?,
    };
    Ok(InputRequest::Elicitation(ElicitRequest::new(form)))
}

fn who() -> Result<InputRequest, ErrorData> {
    field("What is your name?", "name", "string")
}

fn sampling(prompt: &str) -> InputRequest {
    let messages = vec![SamplingMessage::user_text(prompt)];
    InputRequest::CreateMessage(CreateMessageRequest::new(CreateMessageRequestParams::new(
        messages, 100,
    )))
}

fn roots() -> InputRequest {
    InputRequest::ListRoots(ListRootsRequest::default())
}

/// Ends a call with questions, and a state if there is one.
pub(crate) fn ask<const N: usize>(
    questions: [(&str, InputRequest); N],
    state: Option<String>,
) -> InputRequiredResult {
    let mut requests = InputRequests::new();
    for (key, question) in questions {
        requests.insert(key.to_owned(), question);
    }
    InputRequiredResult::new(Some(requests), state)
}

/// The answer under a key. What is no object counts as none, and is asked for anew.
pub(crate) fn answer<'a>(
    answers: Option<&'a InputResponses>,
    key: &str,
) -> Option<&'a Map<String, Value>> {
    answers?.get(key)?.as_object()
}

/// A field of the content of an answer.
pub(crate) fn content<'a>(answer: &'a Map<String, Value>, name: &str) -> &'a str {
    answer
        .get("content")
        .and_then(|content| content.get(name))
        .and_then(Value::as_str)
        .unwrap_or("nothing")
}

fn seal(state: &Value) -> Result<Option<String>, ErrorData> {
    codec()?
        .seal_json(state)
        .map(Some)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn open(sealed: &str) -> Result<Value, ErrorData> {
    codec()?
        .open_json(sealed)
        .map_err(|_| ErrorData::invalid_params("requestState is not one of ours", None))
}

fn codec() -> Result<RequestStateCodec, ErrorData> {
    RequestStateCodec::try_new(KEY.to_vec())
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// Calls one, if `request` names one of these.
pub(crate) fn call(
    request: &CallToolRequestParams,
    able: &ClientCapabilities,
) -> Result<Option<CallToolResponse>, ErrorData> {
    let answers = request.input_responses.as_ref();
    let state = request.request_state.as_deref();
    let Some(name) = request.name.strip_prefix("test_input_required_result_") else {
        return Ok(None);
    };
    let response: CallToolResponse = match name {
        "elicitation" => match answer(answers, "user_name") {
            Some(answer) => said(format!("Hello, {}!", content(answer, "name"))).into(),
            None => ask([("user_name", who()?)], None).into(),
        },
        "sampling" => match answer(answers, "capital_question") {
            Some(answer) => said(format!("Sampling response: {}", content(answer, "text"))).into(),
            None => ask([("capital_question", sampling("Which capital?"))], None).into(),
        },
        "list_roots" => match answer(answers, "client_roots") {
            Some(answer) => {
                let roots = answer.get("roots").cloned().unwrap_or_default();
                said(format!("Client roots: {roots}")).into()
            }
            None => ask([("client_roots", roots())], None).into(),
        },
        "request_state" | "tampered_state" => match state.map(open) {
            Some(opened) => opened.map(|_| said("Confirmed: state-ok").into())?,
            None => ask(
                [("confirm", field("Please confirm", "ok", "boolean")?)],
                seal(&json!("confirm"))?,
            )
            .into(),
        },
        "multiple_inputs" => multiple(state, answers)?,
        "multi_round" => rounds(state)?,
        "capabilities" => capable(answers, able)?,
        _ => return Ok(None),
    };
    Ok(Some(response))
}

fn multiple(
    state: Option<&str>,
    answers: Option<&InputResponses>,
) -> Result<CallToolResponse, ErrorData> {
    let known = state.map(open).transpose()?.is_some();
    let all = ["user_name", "greeting", "client_roots"];
    if known && all.iter().all(|key| answer(answers, key).is_some()) {
        return Ok(said("All inputs received").into());
    }
    let questions = [
        ("user_name", who()?),
        ("greeting", sampling("Generate a greeting")),
        ("client_roots", roots()),
    ];
    Ok(ask(questions, seal(&json!("gather"))?).into())
}

fn rounds(state: Option<&str>) -> Result<CallToolResponse, ErrorData> {
    let round = match state {
        None => 0,
        Some(sealed) => open(sealed)?.as_u64().unwrap_or_default(),
    };
    let (key, question) = match round {
        0 => (
            "step1",
            field("Step 1: What is your name?", "name", "string")?,
        ),
        1 => (
            "step2",
            field("Step 2: What is your favorite color?", "color", "string")?,
        ),
        _ => return Ok(said("Multi-round flow complete").into()),
    };
    Ok(ask([(key, question)], seal(&json!(round + 1))?).into())
}

/// Only what the client says it can do is asked of it.
fn capable(
    answers: Option<&InputResponses>,
    able: &ClientCapabilities,
) -> Result<CallToolResponse, ErrorData> {
    if answers.is_some() {
        return Ok(said("Capability-aware flow complete").into());
    }
    let mut requests = InputRequests::new();
    if able.elicitation.is_some() {
        requests.insert("user_name".to_owned(), who()?);
    }
    if able.sampling.is_some() {
        requests.insert("greeting".to_owned(), sampling("Generate a greeting"));
    }
    if able.roots.is_some() {
        requests.insert("client_roots".to_owned(), roots());
    }
    if requests.is_empty() {
        return Ok(said("The client can do nothing that could be asked of it").into());
    }
    Ok(InputRequiredResult::from_input_requests(requests).into())
}
