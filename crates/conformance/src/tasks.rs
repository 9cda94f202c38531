//! Tools that go on as tasks.

use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
    CreateTaskResult,
};
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};
use serde_json::Value;

use crate::asked::{answer, ask, content, field};
use crate::fixed::said;

/// Tools that cannot do without a task.
const NEED_ONE: &[&str] = &[
    "failing_job",
    "test_tool_with_task",
    "confirm_delete",
    "multi_input",
];

/// Calls one, if `request` names one of these.
pub(crate) async fn call(
    tasks: &TaskManager,
    request: &CallToolRequestParams,
    able: &ClientCapabilities,
) -> Result<Option<CallToolResponse>, ErrorData> {
    let name = request.name.as_ref();
    let knows_tasks = able.supports_tasks();
    if NEED_ONE.contains(&name) && !knows_tasks {
        return Err(ErrorData::missing_required_client_capability(
            ClientCapabilities::builder().enable_tasks().build(),
        ));
    }
    let argument = |name: &str| request.arguments.as_ref().and_then(|all| all.get(name));
    let text = |name: &str| argument(name).and_then(Value::as_str).unwrap_or("nothing");
    let response = match name {
        "greet" => said(format!("Hello, {}!", text("name"))).into(),
        "slow_compute" => {
            let seconds = argument("seconds").and_then(Value::as_f64).unwrap_or(1.0);
            let sleep = Duration::from_secs_f64(seconds.clamp(0.0, 60.0));
            let done = said(format!("slow_compute({}) done", text("label")));
            if knows_tasks {
                slowly(tasks, sleep, Ok(done))
            } else {
                tokio::time::sleep(sleep).await;
                done.into()
            }
        }
        "failing_job" => {
            let why = "failing_job: this tool fails on purpose";
            let failed = CallToolResult::error(vec![ContentBlock::text(why)]);
            slowly(tasks, Duration::from_secs(1), Ok(failed))
        }
        "protocol_error_job" => {
            let error = ErrorData::internal_error("this tool breaks on purpose", None);
            if !knows_tasks {
                return Err(error);
            }
            slowly(tasks, Duration::from_millis(200), Err(error))
        }
        "confirm_delete" => confirm(tasks, text("filename").to_owned()),
        "multi_input" => two_at_once(tasks),
        "test_tool_with_task" => match answer(request.input_responses.as_ref(), "user_name") {
            None => {
                let question = field("What is your name?", "name", "string")?;
                ask([("user_name", question)], None).into()
            }
            Some(answer) => {
                let done = said(format!("Hello, {}! (async)", content(answer, "name")));
                slowly(tasks, Duration::from_millis(200), Ok(done))
            }
        },
        _ => return Ok(None),
    };
    Ok(Some(response))
}

/// Ends after a while, or when it is cancelled.
fn slowly(
    tasks: &TaskManager,
    sleep: Duration,
    end: Result<CallToolResult, ErrorData>,
) -> CallToolResponse {
    let task = tasks.spawn(TaskOptions::default(), move |context| {
        Box::pin(async move {
            tokio::select! {
                () = context.cancelled() => Err(TaskExit::Cancelled),
                () = tokio::time::sleep(sleep) => end.map_err(TaskExit::Error),
            }
        })
    });
    CreateTaskResult::new(task).into()
}

fn confirm(tasks: &TaskManager, file: String) -> CallToolResponse {
    let task = tasks.spawn(TaskOptions::default(), move |context| {
        Box::pin(async move {
            let question =
                field(&format!("Delete {file}?"), "confirm", "boolean").map_err(TaskExit::Error)?;
            let answer = context.request_input("confirm", question).await?;
            let confirmed = answer
                .pointer("/content/confirm")
                .and_then(Value::as_bool)
                .unwrap_or(false);
            Ok(said(format!(
                "confirm_delete({file}): confirmed = {confirmed}"
            )))
        })
    });
    CreateTaskResult::new(task).into()
}

fn two_at_once(tasks: &TaskManager) -> CallToolResponse {
    let task = tasks.spawn(TaskOptions::default(), move |context| {
        Box::pin(async move {
            let question = |letter: &str| {
                field(&format!("Provide value {letter}"), "value", "string")
                    .map_err(TaskExit::Error)
            };
            let first = context.request_input("input-a", question("A")?);
            let second = context.request_input("input-b", question("B")?);
            let (first, second) = tokio::join!(first, second);
            let (first, second) = (first?, second?);
            let value = |answer: &Value| {
                let value = answer.pointer("/content/value").and_then(Value::as_str);
                value.unwrap_or("nothing").to_owned()
            };
            let (first, second) = (value(&first), value(&second));
            Ok(said(format!("multi_input: a = {first}, b = {second}")))
        })
    });
    CreateTaskResult::new(task).into()
}
