//! One handler for both eras: a call becomes a caller and a tool call.

use std::sync::Arc;

use portcullis_gate::{Approver, Caller, CancelFlag};
use portcullis_proto::{Failure, Reason, ToolCall, ToolReply};
use portcullis_store::DurableApprover;
use portcullis_tools::ResourceWatch;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, InputRequiredResult, InputResponses,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, SubscribeRequestParams, SubscriptionFilter,
    UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use tokio_util::task::AbortOnDropHandle;

use super::ask::{Elicit, Suspend};
use super::subscribe::{Ear, MAX_SUBSCRIPTIONS, Subscriptions, tell_changes, tell_end};
use super::{McpParts, resume, shape, written};

/// The era in which every request stands alone.
fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    context
        .protocol_version()
        .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// Serves one client.
#[derive(Clone)]
pub(super) struct Handler {
    parts: McpParts,
    subscriptions: Arc<Subscriptions>,
}

/// A call on its way: who asks, and where a question to the client waits.
struct Errand {
    caller: Caller,
    suspend: Option<Arc<Suspend>>,
    cancel: CancelFlag,
}

impl Handler {
    pub(super) fn new(parts: McpParts) -> Self {
        Self {
            parts,
            subscriptions: Arc::default(),
        }
    }

    /// The caller behind a request, with whoever can be asked: the client if it
    /// can show a form, a person watching elsewhere, or nobody.
    fn errand(&self, route: &'static str, context: &RequestContext<RoleServer>) -> Errand {
        let cancel = CancelFlag::new();
        let mut caller = Caller::new(self.parts.subject.clone(), route)
            .in_session(self.parts.session.clone())
            .patient_for(self.parts.patience)
            .leaving_trail()
            .cancelled_by(cancel.clone());
        let shows_forms = context
            .client_capabilities()
            .is_some_and(|capabilities| capabilities.elicitation.is_some());
        let mut suspend = None;
        let inner: Option<Arc<dyn Approver>> = match (shows_forms, is_stateless(context)) {
            (true, true) => {
                let slot = Arc::new(Suspend::default());
                suspend = Some(Arc::clone(&slot));
                caller = caller.asking(slot);
                return Errand {
                    caller,
                    suspend,
                    cancel,
                };
            }
            (true, false) => Some(Arc::new(Elicit(context.peer.clone()))),
            (false, _) => None,
        };
        let clock = Arc::clone(&self.parts.clock);
        caller = caller.asking(Arc::new(DurableApprover::new(
            self.parts.store.clone(),
            inner,
            clock,
        )));
        Errand {
            caller,
            suspend,
            cancel,
        }
    }

    /// Begins to watch a resource. Nobody is asked about it: what would have to
    /// be asked about is refused, and so it is in whatever is told later.
    async fn watch(
        &self,
        uri: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<ResourceWatch, Failure> {
        let mut errand = self.errand("mcp/resources/subscribe", context);
        errand.caller.approver = None;
        let watch = self.parts.machine.watch_resource(&errand.caller, uri);
        unless_cancelled(context, &errand.cancel, watch)
            .await
            .and_then(|begun| begun)
    }

    /// Brings the answer a retried call carries, if it carries one.
    fn with_answer(
        &self,
        caller: Caller,
        state: Option<&str>,
        responses: Option<&InputResponses>,
        bound: &[u8],
    ) -> Result<Caller, Failure> {
        match (state, responses) {
            (Some(state), Some(responses)) => {
                Ok(caller.bringing(resume::resume(&self.parts, state, responses, bound)?))
            }
            (Some(_), None) | (None, Some(_)) => Err(Failure::new(
                Reason::BadArguments,
                "requestState and inputResponses come together.",
            )),
            (None, None) => Ok(caller),
        }
    }

    /// The end of a call that waits for a person, if it does.
    fn waiting(
        &self,
        errand: &Errand,
        bound: &[u8],
    ) -> Option<Result<InputRequiredResult, Failure>> {
        let question = errand.suspend.as_ref()?.take()?;
        Some(resume::suspend(&self.parts, &question, bound))
    }
}

/// Runs `task` unless the client cancels; then whatever it was doing ends with
/// its own line in the audit, and nothing acts after the client was told.
async fn unless_cancelled<T>(
    context: &RequestContext<RoleServer>,
    cancel: &CancelFlag,
    task: impl Future<Output = T>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        () = context.ct.cancelled() => {
            cancel.cancel();
            Err(Reason::Cancelled.into())
        }
        done = task => Ok(done),
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_subscribe()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(
                Implementation::new("portcullis", env!("CARGO_PKG_VERSION"))
                    .with_title("Portcullis"),
            )
            .with_instructions(self.parts.machine.instructions())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let errand = self.errand("mcp/tools/list", &context);
        let tools = self
            .parts
            .machine
            .catalog(&errand.caller)
            .iter()
            .map(shape::tool)
            .collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut errand = self.errand("mcp/tools/call", &context);
        let name = request.name.into_owned();
        let arguments = request.arguments.map_or(Value::Null, Value::Object);
        // Only a call that brings an answer, or may have to wait for one, is bound.
        let bound = if errand.suspend.is_some() || request.request_state.is_some() {
            resume::bound_to(&self.parts, "tools/call", &name, &arguments)
        } else {
            Vec::new()
        };
        let caller = errand.caller.clone();
        match self.with_answer(
            caller,
            request.request_state.as_deref(),
            request.input_responses.as_ref(),
            &bound,
        ) {
            Ok(caller) => errand.caller = caller,
            Err(why) => {
                let failure = self.parts.machine.refuse(&errand.caller, &name, why);
                return Ok(written::result(&ToolReply::failed(&failure), None).into());
            }
        }
        if let Some(token) = context.meta.get_progress_token() {
            errand.caller = errand.caller.clone().reporting(progress(&context, token));
        }
        let call = self
            .parts
            .machine
            .call(&errand.caller, ToolCall { name, arguments });
        let reply = match unless_cancelled(&context, &errand.cancel, call).await {
            Ok(reply) => reply,
            Err(failure) => ToolReply::failed(&failure),
        };
        match self.waiting(&errand, &bound) {
            Some(Ok(question)) => Ok(CallToolResponse::InputRequired(question)),
            Some(Err(failure)) => Ok(written::result(&ToolReply::failed(&failure), None).into()),
            None => Ok(written::result(&reply, errand.caller.warrant()).into()),
        }
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut errand = self.errand("mcp/resources/list", &context);
        // Listing resources never asks: what would have to be asked about is left out.
        errand.caller.approver = None;
        let cursor = page.and_then(|page| page.cursor);
        let list = self.parts.machine.resources(&errand.caller, cursor);
        let (entries, next) = unless_cancelled(&context, &errand.cancel, list)
            .await
            .and_then(|listed| listed)
            .map_err(|failure| shape::error(&failure))?;
        let mut result =
            ListResourcesResult::with_all_items(entries.into_iter().map(shape::resource).collect());
        result.next_cursor = next;
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(
            shape::templates(),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let mut errand = self.errand("mcp/resources/read", &context);
        let bound = resume::bound_to(&self.parts, "resources/read", &request.uri, &Value::Null);
        errand.caller = self
            .with_answer(
                errand.caller.clone(),
                request.request_state.as_deref(),
                request.input_responses.as_ref(),
                &bound,
            )
            .map_err(|why| {
                let machine = &self.parts.machine;
                shape::error(&machine.refuse(&errand.caller, &request.uri, why))
            })?;
        let read = self
            .parts
            .machine
            .read_resource(&errand.caller, &request.uri);
        let read = unless_cancelled(&context, &errand.cancel, read)
            .await
            .and_then(|read| read);
        match (self.waiting(&errand, &bound), read) {
            (Some(Ok(question)), _) => Ok(ReadResourceResponse::InputRequired(question)),
            (Some(Err(failure)), _) | (None, Err(failure)) => Err(shape::error(&failure)),
            (None, Ok((text, mime))) => Ok(shape::contents(&request.uri, text, mime).into()),
        }
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let uri = request.uri;
        let refused = |failure: Failure| shape::error(&failure);
        let errand = self.errand("mcp/resources/subscribe", &context);
        let place = self.subscriptions.begin(&uri).map_err(|why| {
            let machine = &self.parts.machine;
            refused(machine.refuse(&errand.caller, &uri, why))
        })?;
        let Some(place) = place else {
            return Ok(());
        };
        match self.watch(&uri, &context).await {
            Ok(watch) => {
                let (ear, ended) = (Ear::Session(context.peer), Arc::clone(&place.ended));
                let task = tokio::spawn(tell_changes(watch, uri, ear, ended));
                self.subscriptions
                    .keep(&place, AbortOnDropHandle::new(task));
                Ok(())
            }
            Err(failure) => {
                self.subscriptions.give_up(&place);
                Err(refused(failure))
            }
        }
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions.end(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let uris = requested.resource_subscriptions.iter().flatten();
        let accepted = uris.take(MAX_SUBSCRIPTIONS).cloned();
        Some(
            SubscriptionFilter::builder()
                .resource_subscriptions(accepted)
                .build(),
        )
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut told = tokio::task::JoinSet::new();
        for uri in context.accepted().resource_subscriptions.iter().flatten() {
            let ear = Ear::Stream(context.sink().clone());
            match self.watch(uri, context.request_context()).await {
                Ok(watch) => {
                    told.spawn(tell_changes(watch, uri.clone(), ear, Arc::default()));
                }
                Err(failure) => tell_end(uri, &failure, &ear).await,
            }
        }
        // When nothing is watched any more there is nothing to listen to.
        tokio::select! {
            () = context.cancelled() => {}
            () = async { while told.join_next().await.is_some() {} } => {}
        }
        Ok(())
    }
}

/// How often at most progress is told.
const PROGRESS_EVERY: std::time::Duration = std::time::Duration::from_millis(100);

/// Tells the client how far a long deed is, from whatever thread does it.
fn progress(
    context: &RequestContext<RoleServer>,
    token: rmcp::model::ProgressToken,
) -> portcullis_gate::Progress {
    let (tell, mut hear) = tokio::sync::watch::channel(0u64);
    let peer = context.peer.clone();
    tokio::spawn(async move {
        while hear.changed().await.is_ok() {
            let done = *hear.borrow_and_update();
            #[expect(
                clippy::cast_precision_loss,
                reason = "a count of files is far below 2^52"
            )]
            let told = ProgressNotificationParam::new(token.clone(), done as f64);
            if peer.notify_progress(told).await.is_err() {
                return;
            }
            tokio::time::sleep(PROGRESS_EVERY).await;
        }
    });
    Arc::new(move |done| {
        tell.send_replace(done);
    })
}
