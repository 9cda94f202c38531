//! One handler for both eras: a call becomes a caller and a tool call.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use portcullis_gate::Headway;
use portcullis_proto::{Failure, Reason, ScopeSet, ToolCall, ToolReply};
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, CreateTaskResult,
    DiscoverResult, GetTaskParams, GetTaskResult, Implementation, InitializeRequestParams,
    InitializeResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, SubscribeRequestParams,
    SubscriptionFilter, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::task_manager::TaskManager;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::changed::Changes;
use super::errand::{Brought, Errand, Parked, unless_cancelled};
use super::http::Carried;
use super::seat::{Seat, Seats};
use super::subscribe::{Ear, MAX_SUBSCRIPTIONS, Subscriptions, Watched, tell_changes, tell_end};
use super::tasks::{Tasks, Waiting};
use super::written::{self, Writer};
use super::{Asking, HttpMcpParts, McpParts, resume, shape};
use crate::http::{Holder, Long, Names, Shares, Turn};

/// Serves one client on a pipe, or one request or session over HTTP.
#[derive(Clone)]
pub(super) struct Handler {
    pub(super) seats: Seats,
    pub(super) asking: Arc<Asking>,
    subscriptions: Arc<Subscriptions>,
    tasks: Arc<Tasks>,
    /// What each caller may hold; nothing where there is one alone.
    shares: Option<Arc<Shares>>,
}

impl Handler {
    pub(super) fn for_one(parts: McpParts) -> Self {
        let asking = Asking {
            store: parts.store,
            clock: parts.clock,
            state_key: parts.state_key,
            patience: parts.patience,
            pending_for: parts.patience,
            ending: CancellationToken::new(),
        };
        let seat = Seat {
            machine: parts.machine,
            subject: parts.subject,
            session: Some(parts.session),
            scopes: ScopeSet::ALL,
            by_grant_alone: false,
            waits: Duration::ZERO,
            files_off: None,
            names: Names::default(),
        };
        Self::new(Seats::One(Box::new(seat)), Arc::new(asking), Arc::default())
    }

    pub(super) fn for_everyone(
        parts: HttpMcpParts,
        ending: CancellationToken,
        shares: Arc<Shares>,
    ) -> Self {
        let asking = Asking {
            store: parts.store.clone(),
            clock: Arc::clone(&parts.clock),
            state_key: Arc::clone(&parts.state_key),
            patience: parts.patience,
            pending_for: parts.pending_for,
            ending,
        };
        let seats = Seats::Each(Arc::new(parts));
        Self {
            shares: Some(shares),
            ..Self::new(seats, Arc::new(asking), Arc::default())
        }
    }

    /// The same, for another session: it listens to nothing yet.
    pub(super) fn afresh(&self) -> Self {
        Self {
            subscriptions: Arc::default(),
            ..self.clone()
        }
    }

    fn new(seats: Seats, asking: Arc<Asking>, tasks: Arc<Tasks>) -> Self {
        Self {
            seats,
            asking,
            subscriptions: Arc::default(),
            tasks,
            shares: None,
        }
    }

    /// Who writes the results of tools.
    fn writer(&self) -> Writer {
        match self.seats {
            Seats::One(_) => Writer::Us,
            Seats::Each(_) => Writer::Rmcp,
        }
    }

    /// Begins to watch a resource. Nobody is asked about it: what would have to
    /// be asked about is refused, and so it is in whatever is told later.
    async fn watch(
        &self,
        uri: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<Watched, Failure> {
        let mut errand = self
            .errand("mcp/resources/subscribe", context)
            .map_err(|_| Failure::from(Reason::Bug))?;
        errand.caller.approver = None;
        errand.may_use_resources(uri)?;
        let who = Holder::of(&errand.caller.subject.principal);
        let take = |shares: &Arc<Shares>| shares.watches.take(&who);
        let place = self.shares.as_ref().map(take).transpose();
        let place = place.map_err(|why| errand.seat.machine.refuse(&errand.caller, uri, why))?;
        let watch = errand.seat.machine.watch_resource(&errand.caller, uri);
        let watch = unless_cancelled(context, &errand.cancel, watch)
            .await
            .and_then(|begun| begun)?;
        Ok(Watched { watch, place })
    }

    /// Waits until a call of `tool` may begin, where it is one of those that
    /// take long.
    async fn turn(&self, errand: &Errand, tool: &str) -> Result<Option<Turn>, Failure> {
        match (&self.shares, Long::of_tool(tool)) {
            (Some(shares), Some(long)) => {
                let who = &errand.caller.subject.principal;
                shares.turn(long, who).await.map(Some)
            }
            (Some(_) | None, _) => Ok(None),
        }
    }

    /// The reply to a call that was made before under its name, or that names a
    /// machine that is not there: no machine is chosen for it.
    async fn recall(&self, errand: &Errand, call: &ToolCall) -> Option<ToolReply> {
        let Seats::Each(parts) = &self.seats else {
            return None;
        };
        let (caller, scopes) = (&errand.caller, errand.seat.scopes);
        parts.machines.recall(caller, scopes, call).await
    }

    /// What keeps a task; for who did not begin it there is none, and that it
    /// was asked for is on the record.
    fn tasks_of(
        &self,
        id: &str,
        route: &'static str,
        context: &RequestContext<RoleServer>,
    ) -> Result<&TaskManager, ErrorData> {
        let seat = self.seats.of(context)?;
        self.tasks.of(&seat.subject.principal, id).ok_or_else(|| {
            let why = Failure::new(Reason::NotFound, "There is no such task of yours.")
                .hint("Call the tool again.");
            shape::error(&seat.machine.refuse(&seat.caller(route), id, why))
        })
    }

    /// What a client is told first of the machine it works with.
    fn introduction(&self, context: &RequestContext<RoleServer>) -> Result<String, ErrorData> {
        Ok(self.seats.of(context)?.machine.instructions())
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_subscribe()
            // There are none, which a client that asks is told: rmcp answers for
            // us, and what is answered has to be declared.
            .enable_prompts()
            .build();
        if matches!(self.seats, Seats::Each(_)) {
            if let Some(tools) = &mut capabilities.tools {
                tools.list_changed = Some(true);
            }
            let tasks = ServerCapabilities::builder().enable_tasks().build();
            capabilities.extensions = tasks.extensions;
        }
        ServerConfig::new(capabilities).with_server_info(
            Implementation::new("portcullis", env!("CARGO_PKG_VERSION")).with_title("Portcullis"),
        )
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let introduction = self.introduction(&context)?;
        context.peer.set_peer_info(request.clone());
        if let Some(changes) = Changes::of(&self.seats, &context) {
            tokio::spawn(changes.tell_session(context.peer.clone()));
        }
        Ok(self
            .negotiate_initialize(&request)?
            .with_instructions(introduction))
    }

    async fn discover(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let config = self
            .get_info()
            .with_instructions(self.introduction(&context)?);
        let versions = self.supported_protocol_versions().into_owned();
        let mut found = DiscoverResult::from_server_info(versions, config);
        // It may differ from one credential to the next.
        found.cache_scope = CacheScope::Private;
        Ok(found)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let errand = self.errand("mcp/tools/list", &context)?;
        let tools = errand.seat.catalog(&errand.caller);
        let tools = tools.iter().map(shape::tool).collect();
        Ok(ListToolsResult::with_all_items(tools).with_cache_scope(CacheScope::Private))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut errand = self.errand("mcp/tools/call", &context)?;
        let writer = self.writer();
        let name = request.name.into_owned();
        let head = context.extensions.get::<Parts>();
        let carried = head.and_then(|head| head.extensions.get::<Carried>()?.take());
        let arguments = carried.or(request.arguments);
        let arguments = arguments.map_or(Value::Null, Value::Object);
        // Only a call that brings an answer, or may have to wait for one, is bound.
        let bound = if errand.later.is_some() || request.request_state.is_some() {
            let who = &errand.caller.subject.principal;
            resume::bound_to(who, "tools/call", &name, &arguments)
        } else {
            Vec::new()
        };
        let brought = Brought {
            state: request.request_state.as_deref(),
            responses: request.input_responses.as_ref(),
            bound: &bound,
        };
        let ready = match errand.seat.check_tool(&name) {
            Ok(()) => {
                let caller = errand.caller.clone();
                self.with_answer(caller, &context.meta, &brought).await
            }
            Err(unknown) => Err(unknown),
        };
        match ready {
            Ok(caller) => errand.caller = caller,
            Err(why) => {
                let failure = errand.seat.machine.refuse(&errand.caller, &name, why);
                return Ok(written::result(&ToolReply::failed(&failure), None, writer).into());
            }
        }
        if let Some(token) = context.meta.get_progress_token() {
            errand.caller = errand.caller.clone().reporting(progress(&context, token));
        }
        let call = ToolCall { name, arguments };
        let kept = errand.keeps(&context, &bound).then(|| call.clone());
        let machine = &errand.seat.machine;
        let call = async {
            if let Some(reply) = self.recall(&errand, &call).await {
                return reply;
            }
            match self.turn(&errand, &call.name).await {
                Ok(_turn) => machine.call(&errand.caller, call).await,
                Err(why) => ToolReply::failed(&machine.refuse(&errand.caller, &call.name, why)),
            }
        };
        let reply = match unless_cancelled(&context, &errand.cancel, call).await {
            Ok(reply) => reply,
            Err(failure) => ToolReply::failed(&failure),
        };
        let reply = match self.waiting(&errand, &bound).await {
            Some(Ok(Parked::Form(question))) => {
                return Ok(CallToolResponse::InputRequired(question));
            }
            Some(Ok(Parked::Page(question, pages))) => {
                let reply = shape::pending(&question, &pages);
                let waiting = kept.map(|call| Waiting {
                    asking: Arc::clone(&self.asking),
                    seat: errand.seat.clone(),
                    call,
                    question: *question,
                    pages,
                });
                if let Some(Ok(task)) = waiting.map(|waiting| self.tasks.begin(waiting)) {
                    return Ok(CreateTaskResult::new(task).into());
                }
                reply
            }
            Some(Err(failure)) => ToolReply::failed(&failure),
            None => reply,
        };
        Ok(written::result(&reply, errand.caller.warrant(), writer).into())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let tasks = self.tasks_of(&request.task_id, "mcp/tasks/get", &context)?;
        Ok(GetTaskResult::new(tasks.get_task(&request.task_id)?))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let tasks = self.tasks_of(&request.task_id, "mcp/tasks/update", &context)?;
        tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let tasks = self.tasks_of(&request.task_id, "mcp/tasks/cancel", &context)?;
        tasks.cancel_task(&request.task_id)
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut errand = self.errand("mcp/resources/list", &context)?;
        if errand.seat.check_resources().is_err() {
            return Ok(ListResourcesResult::with_all_items(Vec::new())
                .with_cache_scope(CacheScope::Private));
        }
        // Listing resources never asks: what would have to be asked about is left out.
        errand.caller.approver = None;
        let cursor = page.and_then(|page| page.cursor);
        let list = errand.seat.machine.resources(&errand.caller, cursor);
        let (entries, next) = unless_cancelled(&context, &errand.cancel, list)
            .await
            .and_then(|listed| listed)
            .map_err(|failure| shape::error(&failure))?;
        let mut result =
            ListResourcesResult::with_all_items(entries.into_iter().map(shape::resource).collect())
                .with_cache_scope(CacheScope::Private);
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
        let mut errand = self.errand("mcp/resources/read", &context)?;
        let who = &errand.caller.subject.principal;
        let bound = resume::bound_to(who, "resources/read", &request.uri, &Value::Null);
        let brought = Brought {
            state: request.request_state.as_deref(),
            responses: request.input_responses.as_ref(),
            bound: &bound,
        };
        errand
            .may_use_resources(&request.uri)
            .map_err(|failure| shape::error(&failure))?;
        errand.caller = self
            .with_answer(errand.caller.clone(), &context.meta, &brought)
            .await
            .map_err(|why| {
                let machine = &errand.seat.machine;
                shape::error(&machine.refuse(&errand.caller, &request.uri, why))
            })?;
        let machine = &errand.seat.machine;
        let read = machine.read_resource(&errand.caller, &request.uri);
        let read = unless_cancelled(&context, &errand.cancel, read)
            .await
            .and_then(|read| read);
        match (self.waiting(&errand, &bound).await, read) {
            (Some(Ok(Parked::Form(question))), _) => {
                Ok(ReadResourceResponse::InputRequired(question))
            }
            (Some(Ok(Parked::Page(question, pages))), _) => {
                Err(shape::pending_error(&question, &pages))
            }
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
        let errand = self.errand("mcp/resources/subscribe", &context)?;
        let place = self.subscriptions.begin(&uri).map_err(|why| {
            let machine = &errand.seat.machine;
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
        let mut filter = SubscriptionFilter::builder().resource_subscriptions(accepted);
        if requested.tools_list_changed == Some(true) && matches!(self.seats, Seats::Each(_)) {
            filter = filter.tools_list_changed();
        }
        Some(filter.build())
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
        if context.accepted().tools_list_changed == Some(true)
            && let Some(changes) = Changes::of(&self.seats, context.request_context())
        {
            told.spawn(changes.tell_stream(context.sink().clone()));
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
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Tells the client how far a long deed is, from whatever thread does it.
fn progress(
    context: &RequestContext<RoleServer>,
    token: rmcp::model::ProgressToken,
) -> portcullis_gate::Progress {
    let (tell, mut hear) = tokio::sync::watch::channel(Headway::default());
    let peer = context.peer.clone();
    tokio::spawn(async move {
        while hear.changed().await.is_ok() {
            let done = hear.borrow_and_update().entries;
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
    Arc::new(move |headway| {
        tell.send_if_modified(|told| {
            let further = headway.entries > told.entries;
            *told = told.and(headway);
            further
        });
    })
}
