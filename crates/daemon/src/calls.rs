//! The calls of one session: each is run beside the others, done once and
//! replied to, and nothing about it is believed that was not confirmed here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use portcullis_gate::{Caller, CancelFlag, Headway};
use portcullis_link::{Addition, Confirmation, Far, Progress, Request, bounds, paths};
use portcullis_proto::{Failure, Reason, ToolCall, ToolReply};
use portcullis_tools::{Machine, unknown_tool};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answers::{Answers, Suspend, what};
use crate::http::{Ask, Http, Trouble};
use crate::outbox::{Known, Outbox};
use crate::pace::Pace;
use crate::result::{body, error_body, parts};
use crate::surface::{Asking, Errands, Surface};
use crate::{Observer, Status};

/// The longest a call of our own server may take, whatever it says.
const LONGEST: Duration = Duration::from_hours(1);
/// The shortest a person has to answer.
const SHORTEST_QUESTION: Duration = Duration::from_secs(1);
/// How often the server hears how far a call is.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// What calls need, and what is known of them.
pub(crate) struct Calls {
    machine: Arc<dyn Machine>,
    http: Arc<Http>,
    surface: Arc<Surface>,
    errands: Errands,
    observer: Arc<dyn Observer>,
    answers: Answers,
    outbox: Mutex<Outbox>,
    running: Mutex<HashMap<String, CancellationToken>>,
    room: Arc<Semaphore>,
    tasks: TaskTracker,
    is_ours: AtomicBool,
}

/// One call on its way.
struct Errand {
    id: String,
    far: Far,
    addition: Addition,
    deadline: Instant,
    cancelled: CancellationToken,
}

impl Calls {
    pub(crate) fn new(
        machine: Arc<dyn Machine>,
        http: Arc<Http>,
        surface: Arc<Surface>,
        errands: Errands,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Self {
            machine,
            http,
            surface,
            errands,
            observer,
            answers: Answers::default(),
            outbox: Mutex::default(),
            running: Mutex::default(),
            room: Arc::new(Semaphore::new(bounds::MAX_PENDING)),
            tasks: TaskTracker::new(),
            is_ours: AtomicBool::new(false),
        }
    }

    /// Whether the server speaks our dialect, as init has shown.
    pub(crate) fn speaks_ours(&self, ours: bool) {
        self.is_ours.store(ours, Ordering::Release);
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.is_ours.load(Ordering::Acquire)
    }

    /// Takes a call in. Never waits: what stands behind it is heard meanwhile.
    pub(crate) fn take(self: &Arc<Self>, request: Request) {
        let id = request.id;
        if !is_plain_id(&id) {
            return self.ignore("a call whose name cannot be replied to");
        }
        let Some(far) = request.tool_call else {
            self.tasks.spawn(Arc::clone(self).deliver(
                id,
                error_body("No tool is named. This daemon offers tools, not operations."),
                Instant::now() + bounds::GRACE,
            ));
            return self.ignore("a call that names no tool");
        };
        let addition = request.portcullis.filter(|_| self.is_ours());
        let wait = addition.as_ref().map_or(bounds::DEADLINE, |addition| {
            Duration::from_millis(addition.deadline_ms).min(LONGEST)
        });
        let deadline = Instant::now() + wait;
        let known = self.outbox().enter(&id, what(&far.name, &far.arguments));
        let reply = match known {
            Known::New => None,
            // Its reply is on its way.
            Known::UnderWay => return,
            Known::Done(reply) => Some(reply),
            Known::Forgotten => Some(error_body(
                "It was done under this id before; what came of it is not kept any more.",
            )),
            Known::Other => {
                self.ignore("a call under the id of another one");
                Some(error_body("Another call has this id. Nothing was done."))
            }
        };
        if let Some(reply) = reply {
            self.tasks
                .spawn(Arc::clone(self).deliver(id, reply, deadline + bounds::GRACE));
            return;
        }
        let cancelled = CancellationToken::new();
        self.running().insert(id.clone(), cancelled.clone());
        let errand = Errand {
            id,
            far,
            addition: addition.unwrap_or_default(),
            deadline,
            cancelled,
        };
        let room = Arc::clone(&self.room).try_acquire_owned().ok();
        self.tasks.spawn(Arc::clone(self).run(errand, room));
    }

    /// Nobody waits for that call any more.
    pub(crate) fn cancel(&self, id: &str) {
        if let Some(cancelled) = self.running().get(id) {
            cancelled.cancel();
        }
    }

    /// Gives calls under way so long to end, then ends them.
    pub(crate) async fn drain(&self, patience: Duration) {
        self.tasks.close();
        drop(timeout(patience, self.tasks.wait()).await);
        self.stop();
    }

    /// Ends every call under way.
    pub(crate) fn stop(&self) {
        for cancelled in self.running().values() {
            cancelled.cancel();
        }
    }

    pub(crate) fn ignore(&self, what: &str) {
        self.observer.tell(&Status::Ignored(what));
    }

    async fn run(self: Arc<Self>, errand: Errand, room: Option<OwnedSemaphorePermit>) {
        let began = Instant::now();
        let is_offered = self.surface.offers(&errand.far.name);
        self.observer.tell(&Status::Began {
            request: &errand.id,
            tool: if is_offered { &errand.far.name } else { "-" },
        });
        let (reply, caller) = if room.is_some() {
            self.settle(&errand).await
        } else {
            let failure =
                Failure::from(Reason::Overload).hint("Call again when something has ended.");
            (ToolReply::failed(&failure), None)
        };
        let warrant = caller
            .filter(|_| self.is_ours())
            .and_then(|caller| caller.warrant());
        let body = body(&reply, warrant.as_ref());
        // Before the reply is on its way: a call that is sent again meanwhile is
        // answered from here.
        self.outbox().done(&errand.id, body.clone());
        self.running().remove(&errand.id);
        drop(room);
        self.observer.tell(&Status::Ended {
            request: &errand.id,
            is_error: reply.is_error,
            took: began.elapsed(),
        });
        if !errand.cancelled.is_cancelled() {
            let until = errand.deadline + bounds::GRACE;
            self.deliver(errand.id, body, until).await;
        }
    }

    /// Does it, or says why not.
    async fn settle(&self, errand: &Errand) -> (ToolReply, Option<Caller>) {
        let Errand { far, addition, .. } = errand;
        let left = errand.deadline.saturating_duration_since(Instant::now());
        let patience = left.saturating_sub(bounds::QUESTION_MARGIN);
        let flag = CancelFlag::new();
        let mut caller = self
            .errands
            .caller(
                addition.conversation.as_deref(),
                addition.run.as_deref(),
                patience.max(SHORTEST_QUESTION.min(left)),
            )
            .called(errand.id.as_str().into())
            .cancelled_by(flag.clone());
        if !self.surface.offers(&far.name) {
            self.ignore("a call of a tool that is not lent");
            let failure = self.machine.refuse(&caller, &far.name, unknown_tool());
            return (ToolReply::failed(&failure), Some(caller));
        }
        let mut arguments = far.arguments.clone();
        if arguments.is_null() {
            arguments = Value::Object(serde_json::Map::new());
        }
        let said = arguments
            .as_object_mut()
            .and_then(|arguments| arguments.remove(Confirmation::ARGUMENT));
        let call = what(&far.name, &arguments);
        if let Some(said) = said {
            let is_asked_there = matches!(self.errands.asking, Asking::There);
            match self.answers.take(&call, &said).filter(|_| is_asked_there) {
                Some(answered) => caller = caller.bringing(answered),
                None => self.unasked(&caller),
            }
        }
        let suspend = Arc::new(Suspend::default());
        if matches!(self.errands.asking, Asking::There) {
            caller = caller.asking(Arc::clone(&suspend) as _);
        }
        let (headway, told) = watch::channel(Headway::default());
        caller = caller.reporting(Arc::new(move |now| {
            headway.send_modify(|last| *last = last.and(now));
        }));
        let tool = ToolCall {
            name: far.name.clone(),
            arguments,
        };
        let reply = tokio::select! {
            biased;
            () = errand.cancelled.cancelled() => {
                flag.cancel();
                ToolReply::failed(&Reason::Cancelled.into())
            }
            () = sleep_until(errand.deadline) => {
                flag.cancel();
                ToolReply::failed(&Reason::Deadline.into())
            }
            reply = self.machine.call(&caller, tool) => reply,
            () = self.tell_headway(&errand.id, told) => {
                // It never ends by itself.
                ToolReply::failed(&Reason::Bug.into())
            }
        };
        match suspend.take() {
            Some(question) if reply.is_error => (self.answers.put(call, question), Some(caller)),
            Some(_) | None => (reply, Some(caller)),
        }
    }

    /// Puts on the record that an answer came which nobody asked for. The call
    /// goes on as if it had not come.
    fn unasked(&self, caller: &Caller) {
        self.ignore("an answer that was not asked for, or not offered");
        let failure = Failure::new(
            Reason::ApprovalDenied,
            "The server sent an answer that was not asked for, or not offered. It counts for nothing.",
        );
        // The line in the audit is what it is for.
        drop(self.machine.refuse(caller, Confirmation::ARGUMENT, failure));
    }

    /// Tells our own server from time to time how far a call is.
    async fn tell_headway(&self, id: &str, mut told: watch::Receiver<Headway>) {
        let path = format!("{}{id}", paths::PROGRESS);
        loop {
            sleep(PROGRESS_EVERY).await;
            if !self.is_ours() || !told.has_changed().unwrap_or(false) {
                continue;
            }
            let now = *told.borrow_and_update();
            let progress = Progress {
                entries: now.entries,
                searched: now.searched,
                matches: now.matches,
            };
            let body = serde_json::to_vec(&progress).unwrap_or_default();
            // One that is lost is made good by the next.
            drop(self.http.send(&Ask::post(&path, body.into())).await);
        }
    }

    /// Sends a reply until somebody takes it, or nobody waits for it any more.
    async fn deliver(self: Arc<Self>, id: String, body: Bytes, until: Instant) {
        let path = format!("{}{id}", paths::RESPONSE);
        let mut pace = Pace::default();
        let mut pieces = parts(&body, self.is_ours());
        pieces.reverse();
        let mut was_refused = false;
        while let Some(piece) = pieces.last() {
            let why = match self.http.send(&Ask::post(&path, piece.clone())).await {
                Ok((status, _)) if status.is_success() => {
                    pieces.pop();
                    continue;
                }
                // Nobody waits for it any more, which happens.
                Ok((StatusCode::NOT_FOUND, _)) => return,
                Ok((
                    StatusCode::BAD_REQUEST
                    | StatusCode::PAYLOAD_TOO_LARGE
                    | StatusCode::UNPROCESSABLE_ENTITY,
                    _,
                )) if !was_refused => {
                    // The call still waits there: it is told that nothing comes.
                    was_refused = true;
                    let body = error_body("The server did not take the result of this call.");
                    pieces = vec![body];
                    continue;
                }
                Ok((status, _)) if was_refused && status.is_client_error() => return,
                Ok((status, _)) => Trouble::Unreachable(format!("it answered {}", status.as_u16())),
                Err(trouble) => trouble,
            };
            let wait = pace.next();
            if Instant::now() + wait > until {
                return self.ignore(&format!("a reply could not be delivered: {why}"));
            }
            sleep(wait).await;
        }
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an id can stand in a path and in the audit as it is.
fn is_plain_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    !id.is_empty() && id.len() <= bounds::MAX_REQUEST_ID && id.bytes().all(plain)
}
