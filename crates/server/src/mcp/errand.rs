//! A call on its way: who asks, whom it may ask, and how it ends when nobody
//! has answered yet.

use std::sync::Arc;

use portcullis_gate::{Approver, Caller, CancelFlag, Question};
use portcullis_proto::{Failure, Reason};
use portcullis_store::{DurableApprover, ParkedApprover};
use rmcp::model::{InputRequiredResult, InputResponses, ProtocolVersion, RequestMetaObject};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

use super::Asking;
use super::ask::{Elicit, Suspend};
use super::handler::Handler;
use super::resume;
use super::seat::{Seat, Seats};
use super::tasks::MAX_ARGUMENTS;
use crate::answers;

/// The key under which a retried call names the question it was ended with.
const QUESTION: &str = "portcullis/question";

/// The era in which every request stands alone.
fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    context
        .protocol_version()
        .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// A call on its way: who asks, and where a question waits that outlives it.
pub(super) struct Errand {
    pub(super) seat: Seat,
    pub(super) caller: Caller,
    pub(super) later: Option<Later>,
    pub(super) cancel: CancelFlag,
}

/// How a question is asked that the call does not wait for.
pub(super) enum Later {
    /// The client shows a form, and calls again with what was said.
    Form(Arc<Suspend>),
    /// A person opens its page.
    Page(Arc<ParkedApprover>, Arc<str>),
}

/// A call that ended with a question.
pub(super) enum Parked {
    Form(InputRequiredResult),
    Page(Box<Question>, Arc<str>),
}

/// What a retried call brings.
pub(super) struct Brought<'a> {
    pub(super) state: Option<&'a str>,
    pub(super) responses: Option<&'a InputResponses>,
    pub(super) bound: &'a [u8],
}

impl Handler {
    /// The caller behind a request, with whoever can be asked: the client if it
    /// can show a form, a person watching elsewhere, or nobody.
    pub(super) fn errand(
        &self,
        route: &'static str,
        context: &RequestContext<RoleServer>,
    ) -> Result<Errand, ErrorData> {
        let seat = self.seats.of(context)?;
        let cancel = CancelFlag::new();
        let caller = seat
            .caller(route)
            .patient_for(self.asking.patience)
            .leaving_trail()
            .cancelled_by(cancel.clone());
        let shows_forms = context
            .client_capabilities()
            .and_then(|capabilities| capabilities.elicitation)
            // Before there were two modes, to have any was to have forms.
            .is_some_and(|modes| modes.form.is_some() || modes.url.is_none());
        let (later, caller) = match (shows_forms, is_stateless(context), &self.seats) {
            (true, true, _) => {
                let slot = Arc::new(Suspend::default());
                let caller = caller
                    .patient_for(self.asking.pending_for)
                    .asking(Arc::clone(&slot) as Arc<dyn Approver>);
                (Some(Later::Form(slot)), caller)
            }
            (true, false, _) => {
                let client = Arc::new(Elicit(context.peer.clone()));
                (None, caller.asking(self.durably(Some(client))))
            }
            (false, _, Seats::Each(parts)) => {
                let wait = seat.waits.min(self.asking.patience);
                let parked = ParkedApprover::new(self.asking.store.clone(), wait)
                    .leaving_at(self.asking.ending.clone());
                let parked = Arc::new(parked);
                let caller = caller
                    .patient_for(self.asking.pending_for)
                    .asking(Arc::clone(&parked) as Arc<dyn Approver>);
                let page = Later::Page(parked, Arc::clone(&parts.approval_url));
                (Some(page), caller)
            }
            (false, _, Seats::One(_)) => (None, caller.asking(self.durably(None))),
        };
        Ok(Errand {
            seat,
            caller,
            later,
            cancel,
        })
    }

    fn durably(&self, inner: Option<Arc<dyn Approver>>) -> Arc<dyn Approver> {
        let clock = Arc::clone(&self.asking.clock);
        let store = self.asking.store.clone();
        Arc::new(DurableApprover::new(store, inner, clock))
    }

    /// Brings the answer a retried call carries, if it carries one.
    pub(super) async fn with_answer(
        &self,
        caller: Caller,
        meta: &RequestMetaObject,
        brought: &Brought<'_>,
    ) -> Result<Caller, Failure> {
        if let Some(question) = meta.get(QUESTION) {
            let id = question.as_str().unwrap_or_default();
            let Asking { store, clock, .. } = &*self.asking;
            return answers::bring(store, clock, caller, id).await;
        }
        match (brought.state, brought.responses) {
            (Some(state), Some(responses)) => {
                resume::resume(&self.asking, caller, state, responses, brought.bound).await
            }
            (Some(_), None) | (None, Some(_)) => Err(Failure::new(
                Reason::BadArguments,
                "requestState and inputResponses come together.",
            )),
            (None, None) => Ok(caller),
        }
    }

    /// The end of a call that waits for a person, if it does.
    pub(super) async fn waiting(
        &self,
        errand: &Errand,
        bound: &[u8],
    ) -> Option<Result<Parked, Failure>> {
        match errand.later.as_ref()? {
            Later::Form(slot) => {
                let question = slot.take()?;
                let suspended = resume::suspend(&self.asking, question, bound).await;
                Some(suspended.map(Parked::Form))
            }
            Later::Page(parked, pages) => {
                let left = resume::left(&self.asking, parked.last()?)
                    .await
                    .transpose()?;
                Some(left.map(|question| Parked::Page(Box::new(question), Arc::clone(pages))))
            }
        }
    }
}

impl Errand {
    /// Whether its call is kept, to go on as a task should it have to wait.
    pub(super) fn keeps(&self, context: &RequestContext<RoleServer>, bound: &[u8]) -> bool {
        matches!(self.later, Some(Later::Page(..)))
            && bound.len() <= MAX_ARGUMENTS
            && is_stateless(context)
            && context
                .client_capabilities()
                .is_some_and(|able| able.supports_tasks())
    }

    /// Whether resources are there for it; if not, that is on the record.
    pub(super) fn may_use_resources(&self, uri: &str) -> Result<(), Failure> {
        let refused = |why| self.seat.machine.refuse(&self.caller, uri, why);
        self.seat.check_resources().map_err(refused)
    }
}

/// Runs `task` unless the client cancels; then whatever it was doing ends with
/// its own line in the audit, and nothing acts after the client was told.
pub(super) async fn unless_cancelled<T>(
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
