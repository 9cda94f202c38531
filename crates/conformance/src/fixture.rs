//! The handler the suites talk to.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ClientCapabilities,
    CompleteRequestParams, CompleteResult, CompletionInfo, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, GetTaskParams, GetTaskResult, Implementation,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    LoggingLevel, LoggingMessageNotificationParam, PaginatedRequestParams,
    ProgressNotificationParam, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    ServerCapabilities, ServerConfig, SetLevelRequestParams, SubscribeRequestParams,
    SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext, SubscriptionSink};
use rmcp::task_manager::TaskManager;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};

use crate::fixed::{self, FRESH_MS, KEPT, said, shaped};
use crate::{asked, asking, tasks};

/// How long a tool pauses between two things it tells.
const PAUSE: Duration = Duration::from_millis(50);

/// See the module. Clones share who listens and what goes on.
#[derive(Clone)]
pub(crate) struct Fixture {
    ears: Arc<Mutex<HashMap<u64, SubscriptionSink>>>,
    next_ear: Arc<AtomicU64>,
    tasks: TaskManager,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self {
            ears: Arc::default(),
            next_ear: Arc::default(),
            tasks: TaskManager::new(),
        }
    }

    fn ears(&self) -> MutexGuard<'_, HashMap<u64, SubscriptionSink>> {
        self.ears.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn everyone(&self) -> Vec<SubscriptionSink> {
        self.ears().values().cloned().collect()
    }

    /// Tools that tell something while they run, or of what they were asked.
    async fn tell(
        &self,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<Option<CallToolResult>, ErrorData> {
        let argument = |name: &str| {
            let arguments = request.arguments.as_ref();
            arguments
                .and_then(|all| all.get(name))
                .and_then(Value::as_str)
        };
        let result = match request.name.as_ref() {
            "test_tool_with_logging" => {
                for words in ["started", "processing data", "completed"] {
                    log(context, LoggingLevel::Info, &format!("Tool {words}")).await;
                    tokio::time::sleep(PAUSE).await;
                }
                said("Logging test completed")
            }
            "test_logging_tool" => {
                if let Some(level) = context.meta.log_level() {
                    log(context, level, "logLevel was requested").await;
                }
                said("Logging tool completed")
            }
            "test_tool_with_progress" => {
                for done in [0.0, 50.0, 100.0] {
                    progress(context, done).await;
                    tokio::time::sleep(PAUSE).await;
                }
                said("Progress test completed")
            }
            "test_reconnection" => {
                tokio::time::sleep(2 * PAUSE).await;
                said("Reconnection test completed")
            }
            "test_trigger_tool_change" => {
                for ear in self.everyone() {
                    // Who has not asked for it is not told.
                    drop(ear.notify_tool_list_changed().await);
                }
                said("Tool list change triggered")
            }
            "test_trigger_prompt_change" => {
                for ear in self.everyone() {
                    drop(ear.notify_prompt_list_changed().await);
                }
                said("Prompt list change triggered")
            }
            "test_custom_header" => said(
                argument("value")
                    .ok_or_else(|| ErrorData::invalid_params("value must be a string", None))?,
            ),
            "json_schema_2020_12_tool" => {
                said(format!("Hello, {}!", argument("name").unwrap_or("world")))
            }
            _ => return Ok(None),
        };
        Ok(Some(result))
    }
}

async fn log(context: &RequestContext<RoleServer>, level: LoggingLevel, words: &str) {
    let told = LoggingMessageNotificationParam::new(level, json!(words)).with_logger("fixture");
    drop(context.peer.notify_logging_message(told).await);
}

async fn progress(context: &RequestContext<RoleServer>, done: f64) {
    let Some(token) = context.meta.get_progress_token() else {
        return;
    };
    let told = ProgressNotificationParam::new(token, done).with_total(100.0);
    drop(context.peer.notify_progress(told).await);
}

impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_logging()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_resources_list_changed()
            .enable_tasks()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        let name = Implementation::new("portcullis-conformance", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities)
            .with_server_info(name)
            .with_instructions("Fixtures for the conformance suites.")
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        (name == "test_custom_header")
            .then(fixed::custom_header_tool)
            .flatten()
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = ListToolsResult::with_all_items(fixed::tools()?);
        Ok(tools.with_ttl_ms(FRESH_MS).with_cache_scope(KEPT))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let able = context.client_capabilities().unwrap_or_default();
        if let Some(result) = fixed::result(&request.name)? {
            return Ok(result.into());
        }
        if let Some(response) = asked::call(&request, &able)? {
            return Ok(response);
        }
        if let Some(response) = tasks::call(&self.tasks, &request, &able).await? {
            return Ok(response);
        }
        if let Some(result) = self.tell(&request, &context).await? {
            return Ok(result.into());
        }
        match request.name.as_ref() {
            "test_missing_capability" => {
                let needed = ClientCapabilities::builder().enable_sampling().build();
                return match able.sampling {
                    Some(_) => Ok(said("The capability is there").into()),
                    None => Err(ErrorData::missing_required_client_capability(needed)),
                };
            }
            "test_streaming_elicitation" => {
                let question = asked::field("Provide a value", "value", "string")?;
                return Ok(asked::ask([("streaming_elicitation", question)], None).into());
            }
            _ => {}
        }
        let arguments = request.arguments.unwrap_or_default();
        asking::call(&request.name, &arguments, &context.peer)
            .await?
            .map(Into::into)
            .ok_or_else(|| ErrorData::invalid_params("There is no such tool.", None))
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let all = ListResourcesResult::with_all_items(shaped(fixed::resources())?);
        Ok(all.with_ttl_ms(FRESH_MS).with_cache_scope(KEPT))
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let all = ListResourceTemplatesResult::with_all_items(shaped(fixed::templates())?);
        Ok(all.with_ttl_ms(FRESH_MS).with_cache_scope(KEPT))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = fixed::contents(&request.uri).ok_or_else(|| {
            let uri = json!({"uri": request.uri});
            ErrorData::resource_not_found("There is no such resource.", Some(uri))
        })?;
        let read = ReadResourceResult::new(shaped(contents)?);
        Ok(read.with_ttl_ms(FRESH_MS).with_cache_scope(KEPT).into())
    }

    async fn subscribe(
        &self,
        _request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let number = self.next_ear.fetch_add(1, Ordering::Relaxed);
        self.ears().insert(number, context.sink().clone());
        context.cancelled().await;
        self.ears().remove(&number);
        Ok(())
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let all = ListPromptsResult::with_all_items(shaped(fixed::prompts())?);
        Ok(all.with_ttl_ms(FRESH_MS).with_cache_scope(KEPT))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name == "test_input_required_result_prompt" {
            let answers = request.input_responses.as_ref();
            let Some(answer) = asked::answer(answers, "user_context") else {
                let question = asked::field("What context?", "context", "string")?;
                return Ok(asked::ask([("user_context", question)], None).into());
            };
            let text = format!("Prompt with context: {}", asked::content(answer, "context"));
            let message = json!({"role": "user", "content": {"type": "text", "text": text}});
            return Ok(GetPromptResult::new(shaped(json!([message]))?).into());
        }
        let arguments = request
            .arguments
            .map_or(Value::Null, |arguments| json!(arguments));
        let messages = fixed::prompt(&request.name, &arguments)
            .ok_or_else(|| ErrorData::invalid_params("There is no such prompt.", None))?;
        Ok(GetPromptResult::new(shaped(messages)?).into())
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let values = vec!["paris".to_owned(), "park".to_owned(), "party".to_owned()];
        let values =
            CompletionInfo::new(values).map_err(|error| ErrorData::internal_error(error, None))?;
        Ok(CompleteResult::new(values))
    }

    async fn set_level(
        &self,
        _request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks.get_task(&request.task_id)?))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let answers = request.input_responses;
        self.tasks.update_task(&request.task_id, answers)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}
