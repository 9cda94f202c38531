//! Calls that wait for a person as tasks, for clients that can wait but cannot ask.
//!
//! The call has ended with its question; the task looks for the answer and then
//! makes the call again with it, once. A task is for who began it, and lives in
//! the process that began it. The question outlives both: who lost the task
//! brings the question's name instead.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_gate::{Answer, Caller, CancelFlag, Decision, Question, Surface};
use portcullis_proto::{Failure, Principal, ToolCall, ToolReply};
use portcullis_store::{Stage, Store};
use rmcp::model::{
    CallToolResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
    InputRequest, Task,
};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use serde_json::Value;

use super::seat::Seat;
use super::written::{self, Writer};
use super::{Asking, shape};
use crate::answers::{self, off_the_reactor};

/// How many tasks a principal has at most, ended ones that can still be looked at included.
const MAX_OF_ONE: usize = 16;
/// How many there are at most.
const MAX_OF_ALL: usize = 128;
/// The largest arguments that are kept for the second call.
pub(super) const MAX_ARGUMENTS: usize = 64 * 1024;
/// How often the answer is looked for.
const EVERY: Duration = Duration::from_millis(200);
/// How long past its question a task may go on: the second call takes its time too.
const BEYOND: Duration = Duration::from_mins(1);
/// The key of our one question.
const ASK: &str = "approval";

/// A call that ended with a question.
pub(super) struct Waiting {
    pub(super) asking: Arc<Asking>,
    pub(super) seat: Seat,
    pub(super) call: ToolCall,
    pub(super) question: Question,
    /// Where the approval pages are.
    pub(super) pages: Arc<str>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Tasks {
    manager: TaskManager,
    owners: Mutex<HashMap<String, Principal>>,
}

impl Tasks {
    /// Goes on with a call as a task; the call again where there are too many.
    pub(super) fn begin(&self, waiting: Waiting) -> Result<Task, Box<Waiting>> {
        let mut owners = self.owners();
        owners.retain(|id, _| self.manager.get_task(id).is_ok());
        let who = waiting.seat.subject.principal.clone();
        let own = owners.values().filter(|owner| **owner == who).count();
        if own >= MAX_OF_ONE || owners.len() >= MAX_OF_ALL {
            return Err(Box::new(waiting));
        }
        let lives = waiting.asking.pending_for + BEYOND;
        let options = TaskOptions::new()
            .with_ttl_ms(u64::try_from(lives.as_millis()).unwrap_or(u64::MAX))
            .with_status_message(shape::waits_at(&waiting.question, &waiting.pages));
        let task = self.manager.spawn(options, move |context| {
            Box::pin(async move { finish(waiting, context).await })
        });
        owners.insert(task.task_id.clone(), who);
        Ok(task)
    }

    /// What keeps a task, if it is one of `who`.
    pub(super) fn of(&self, who: &Principal, id: &str) -> Option<&TaskManager> {
        (self.owners().get(id) == Some(who)).then_some(&self.manager)
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, Principal>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn finish(waiting: Waiting, context: TaskContext) -> Result<CallToolResult, TaskExit> {
    let cancel = CancelFlag::new();
    tokio::select! {
        biased;
        () = context.cancelled() => {
            cancel.cancel();
            // Unless it was answered already and the answer used.
            let question = [waiting.question.id.clone()];
            drop(waiting.asking.store.withdraw(&question));
            Err(TaskExit::Cancelled)
        }
        reply = waiting.reply(&context, &cancel) => Ok(reply),
    }
}

impl Waiting {
    async fn reply(&self, context: &TaskContext, cancel: &CancelFlag) -> CallToolResult {
        let caller = self
            .seat
            .caller("mcp/tools/call")
            .leaving_trail()
            .cancelled_by(cancel.clone());
        let (reply, warrant) = match self.answered(context, caller.clone()).await {
            Ok(caller) => {
                let reply = self.seat.machine.call(&caller, self.call.clone()).await;
                (reply, caller.warrant())
            }
            Err(why) => {
                let name = &self.call.name;
                let failure = self.seat.machine.refuse(&caller, name, why);
                (ToolReply::failed(&failure), None)
            }
        };
        written::result(&reply, warrant, Writer::Rmcp)
    }

    /// The answer, from wherever a person gave it.
    async fn answered(&self, context: &TaskContext, caller: Caller) -> Result<Caller, Failure> {
        let Asking { store, clock, .. } = &*self.asking;
        let id = &self.question.id;
        let mut client = Some(Box::pin(context.request_input(ASK, self.link())));
        while self.is_pending().await? {
            let Some(opens) = &mut client else {
                tokio::time::sleep(EVERY).await;
                continue;
            };
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                said = opens => {
                    client = None;
                    if said.is_ok_and(|said| is_declined(&said)) {
                        // Where somebody answered before, that stands.
                        let (id, now) = (id.clone(), clock.now_ms());
                        let said = move |store: &Store| store.answer(&id, &no(), now);
                        let _said = off_the_reactor(store, said).await?;
                    }
                }
            }
        }
        answers::bring(store, clock, caller, id.as_str()).await
    }

    async fn is_pending(&self) -> Result<bool, Failure> {
        let Asking { store, clock, .. } = &*self.asking;
        let (id, now) = (self.question.id.clone(), clock.now_ms());
        off_the_reactor(store, move |store| {
            Ok(store.poll(&id, now)? == Stage::Pending)
        })
        .await
    }

    /// Where the person goes: there is no form this client could show.
    fn link(&self) -> InputRequest {
        InputRequest::Elicitation(ElicitRequest::new(
            ElicitRequestParams::UrlElicitationParams {
                meta: None,
                message: self.question.sentence(),
                url: shape::page(&self.question, &self.pages),
                elicitation_id: self.question.id.as_str().to_owned(),
            },
        ))
    }
}

/// Whether the client says that the page was not even opened.
fn is_declined(said: &Value) -> bool {
    serde_json::from_value::<ElicitResult>(said.clone())
        .is_ok_and(|said| matches!(said.action, ElicitationAction::Decline))
}

fn no() -> Answer {
    Answer {
        decision: Decision::DenyOnce,
        surface: Surface::Mcp,
        by: "client".to_owned(),
    }
}
