//! The calls of one session: each is run beside the others, done once and
//! replied to, and nothing about it is believed that was not confirmed here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use portcullis_gate::{Caller, CancelFlag, Headway};
use portcullis_link::{Addition, Confirmation, Dialect, Progress, Request, bounds, paths};
use portcullis_proto::{Failure, Reason, ToolReply};
use portcullis_tools::{Machine, unknown_tool};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::age::Heard;
use crate::answers::{Answers, Suspend, what};
use crate::http::{Ask, Http, Trouble};
use crate::in_time::{Until, in_time};
use crate::outbox::{Known, Outbox};
use crate::pace::Pace;
use crate::result::{body, error_body, is_refusal, parts};
use crate::room::{Place, Room, Share};
use crate::surface::{Asking, Errands, Surface};
use crate::wanted::{Done, Meant, Wanted};
use crate::{Observer, Status};
use crate::{seed, shipped};

/// The longest a call of our own server may take, whatever it says.
const LONGEST: Duration = Duration::from_hours(1);
/// The shortest a person has to answer, where the call has twice as long: a question
/// ends before its call does.
const SHORTEST_QUESTION: Duration = Duration::from_secs(1);
/// A reply of at most so many bytes gets there soon or not at all: by a
/// connection that leads nowhere, as a proxy may leave one behind.
const SMALL_REPLY: usize = 64 * 1024;
/// How long the server has to take a small one, and any other, before it is
/// sent again. What it takes twice counts once.
const SMALL_PATIENCE: Duration = Duration::from_secs(5);
const LARGE_PATIENCE: Duration = Duration::from_secs(20);
/// How often a reply is sent from its first piece again: a server that starts
/// anew knows nothing of those it had.
const MAX_RESTARTS: u32 = 3;
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
    done: Mutex<Done>,
    running: Mutex<HashMap<String, CancellationToken>>,
    room: Room,
    tasks: TaskTracker,
    is_ours: AtomicBool,
    is_seed: AtomicBool,
}

/// One call on its way.
struct Errand {
    id: String,
    wanted: Wanted,
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
            done: Mutex::default(),
            running: Mutex::default(),
            room: Room::default(),
            tasks: TaskTracker::new(),
            is_ours: AtomicBool::new(false),
            is_seed: AtomicBool::new(false),
        }
    }

    /// What the server speaks, as init has shown.
    pub(crate) fn speaks(&self, dialect: Dialect) {
        self.is_ours.store(dialect.is_ours(), Ordering::Release);
        let is_seed = dialect == Dialect::Seed;
        self.is_seed.store(is_seed, Ordering::Release);
    }

    /// What is said first in the seed's dialect.
    pub(crate) async fn seed_init(&self) -> Bytes {
        seed::init(&*self.machine, &self.errands, &self.surface).await
    }

    fn is_seed(&self) -> bool {
        self.is_seed.load(Ordering::Acquire)
    }

    fn is_shipped(&self) -> bool {
        !self.is_ours() && !self.is_seed()
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.is_ours.load(Ordering::Acquire)
    }

    /// Waits until another call can be heard. Where a server sends faster than it
    /// takes replies, or more than it is lent, it is heard more slowly.
    pub(crate) async fn place(&self) -> Option<Place> {
        self.room.place().await
    }

    /// Takes a call in. Never waits: what stands behind it is heard meanwhile.
    pub(crate) fn take(self: &Arc<Self>, request: Request, heard: Heard, place: Place) {
        let id = request.id;
        if !is_plain_id(&id) {
            self.ignore("a call whose name cannot be replied to");
            return self.record("-", "-", unknown_tool());
        }
        let wanted = if self.is_seed() {
            request.operation.map(seed::far).map(Wanted::Tool)
        } else {
            let operation = request.operation.filter(|_| self.is_ours());
            let tool = request.tool_call.map(Wanted::Tool);
            tool.or(operation.map(Wanted::Operation))
        };
        let Some(wanted) = wanted else {
            return self.unnamed(id, place);
        };
        let addition = request.portcullis.filter(|_| self.is_ours());
        let usual = if self.is_seed() {
            bounds::SEED_DEADLINE
        } else {
            bounds::DEADLINE
        };
        let told = addition
            .as_ref()
            .map(|addition| Duration::from_millis(addition.deadline_ms).min(LONGEST));
        // From when it was heard: what it waited for a place counts as well.
        let deadline = heard.deadline(told, usual);
        let call = what(&wanted.name(), wanted.arguments());
        let known = self.outbox().enter(&id, call);
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
                self.record(&id, &wanted.name(), Reason::BadArguments.into());
                Some(error_body("Another call has this id. Nothing was done."))
            }
        };
        if let Some(reply) = reply {
            self.tasks
                .spawn(Arc::clone(self).deliver(id, reply, deadline + bounds::GRACE, place));
            return;
        }
        let cancelled = CancellationToken::new();
        self.running().insert(id.clone(), cancelled.clone());
        let errand = Errand {
            id,
            wanted,
            addition: addition.unwrap_or_default(),
            deadline,
            cancelled,
        };
        let share = self.room.share(&errand.wanted);
        let errand = Errand {
            wanted: match share {
                Some(_) => errand.wanted,
                // It is told that it is too many, and holds nothing until then.
                None => errand.wanted.without_arguments(),
            },
            ..errand
        };
        self.tasks.spawn(Arc::clone(self).run(errand, share, place));
    }

    /// A call that names nothing its dialect has is refused and recorded.
    fn unnamed(self: &Arc<Self>, id: String, place: Place) {
        self.ignore("a call that names no tool");
        self.record(&id, "-", unknown_tool());
        let why = if self.is_seed() {
            "No operation is named."
        } else {
            "No tool is named. This daemon offers tools, not operations."
        };
        let until = Instant::now() + bounds::GRACE;
        let delivering = Arc::clone(self).deliver(id, error_body(why), until, place);
        self.tasks.spawn(delivering);
    }

    /// Puts on the record what is refused before it is anybody's call.
    fn record(&self, id: &str, name: &str, why: Failure) {
        self.room.refused();
        let caller = self.errands.caller(None, None, Duration::ZERO);
        // The line in the audit is what it is for.
        drop(self.machine.refuse(&caller.called(id.into()), name, why));
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

    async fn run(self: Arc<Self>, errand: Errand, share: Option<Share>, place: Place) {
        let began = Instant::now();
        let tool = match &errand.wanted {
            Wanted::Tool(far) if self.surface.offers(&far.name) => &far.name,
            Wanted::Operation(operation) if is_plain_id(&operation.operation) => {
                &operation.operation
            }
            Wanted::Tool(_) | Wanted::Operation(_) => "-",
        };
        self.observer.tell(&Status::Began {
            request: &errand.id,
            tool,
        });
        let (reply, caller) = if share.is_some() {
            self.settle(&errand).await
        } else {
            let failure =
                Failure::from(Reason::Overload).hint("Call again when something has ended.");
            let caller = self.errands.caller(None, None, Duration::ZERO);
            let caller = caller.called(errand.id.as_str().into());
            let failure = self.machine.refuse(&caller, &errand.wanted.name(), failure);
            (ToolReply::failed(&failure), None)
        };
        if is_refusal(&reply) {
            self.room.refused();
        }
        let warrant = caller
            .filter(|_| self.is_ours())
            .and_then(|caller| caller.warrant());
        let body = match &errand.wanted {
            Wanted::Tool(far) if self.is_seed() => seed::body(far, &reply),
            Wanted::Tool(_) | Wanted::Operation(_) => body(&reply, warrant.as_ref()),
        };
        // Before the reply is on its way: a call that is sent again meanwhile is
        // answered from here.
        self.outbox().done(&errand.id, body.clone());
        self.running().remove(&errand.id);
        self.observer.tell(&Status::Ended {
            request: &errand.id,
            is_error: reply.is_error,
            took: began.elapsed(),
        });
        let Errand {
            id,
            wanted,
            deadline,
            cancelled,
            addition: _,
        } = errand;
        // A reply may not be taken for an hour: all else that was held for it goes.
        drop((wanted, reply, share));
        if !cancelled.is_cancelled() {
            let until = deadline + bounds::GRACE;
            self.deliver(id, body, until, place).await;
        }
    }

    /// Does it, or says why not.
    async fn settle(&self, errand: &Errand) -> (ToolReply, Option<Caller>) {
        let Errand {
            wanted, addition, ..
        } = errand;
        let left = errand.deadline.saturating_duration_since(Instant::now());
        let patience = left.saturating_sub(bounds::QUESTION_MARGIN);
        let flag = CancelFlag::new();
        let mut caller = self
            .errands
            .caller(
                addition.conversation.as_deref(),
                addition.run.as_deref(),
                patience.max(SHORTEST_QUESTION.min(left / 2)),
            )
            .called(errand.id.as_str().into())
            .cancelled_by(flag.clone());
        let mut arguments = wanted.arguments().clone();
        if arguments.is_null() {
            arguments = Value::Object(serde_json::Map::new());
        }
        let said = arguments
            .as_object_mut()
            .and_then(|arguments| arguments.remove(Confirmation::ARGUMENT));
        let call = what(&wanted.name(), &arguments);
        let machine = &*self.machine;
        let meant = match wanted.meant(arguments, &self.surface, machine, &caller) {
            Ok(Meant::Tool(call)) if self.is_shipped() => Meant::Tool(shipped::meant(call)),
            Ok(meant) => meant,
            Err(failure) => {
                self.ignore("a call of what is not lent");
                return (ToolReply::failed(&failure), Some(caller));
            }
        };
        if left.is_zero() {
            let why = Failure::from(Reason::Deadline);
            let why = self.machine.refuse(&caller, &wanted.name(), why);
            return (ToolReply::failed(&why), Some(caller));
        }
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
        let is_change = meant.is_change(machine);
        let work = meant.done(machine, &caller, &self.done);
        let headway = self.tell_headway(&errand.id, told);
        let until = Until {
            deadline: errand.deadline,
            cancelled: &errand.cancelled,
        };
        let reply = tokio::select! {
            biased;
            reply = in_time(until, work, is_change, &flag) => reply,
            // It never ends by itself.
            () = headway => ToolReply::failed(&Reason::Bug.into()),
        };
        if let Some(warrant) = caller.warrant().filter(|_| is_change) {
            self.done().note(warrant.request_id.as_str());
        }
        match suspend.take() {
            Some(question) if reply.is_error => (self.answers.put(call, question), Some(caller)),
            Some(_) | None => (reply, Some(caller)),
        }
    }

    /// Puts on the record that an answer came which nobody asked for. The call
    /// goes on as if it had not come.
    fn unasked(&self, caller: &Caller) {
        self.ignore("an answer that was not asked for, or not offered");
        self.room.refused();
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
    /// Its place is another call's then.
    async fn deliver(self: Arc<Self>, id: String, body: Bytes, until: Instant, place: Place) {
        let path = format!("{}{id}", paths::RESPONSE);
        let mut pace = Pace::default();
        let room = self.room.untaken(&body);
        let body = if room.is_some() {
            body
        } else {
            error_body(
                "It was done, and there is no room for its reply while others are not taken. Ask again under this id.",
            )
        };
        let from_the_first = || {
            let mut pieces = parts(&body, self.is_ours());
            pieces.reverse();
            pieces
        };
        let mut pieces = from_the_first();
        let in_pieces = pieces.len() > 1;
        let (mut was_refused, mut restarts) = (false, 0);
        while let Some(piece) = pieces.last() {
            let patience = if piece.len() <= SMALL_REPLY {
                SMALL_PATIENCE
            } else {
                LARGE_PATIENCE
            };
            let ask = Ask::post(&path, piece.clone());
            let why = match self.http.send_within(&ask, patience).await {
                Ok((status, _)) if status.is_success() => {
                    pieces.pop();
                    continue;
                }
                // Nobody waits for it any more, which happens.
                Ok((StatusCode::NOT_FOUND, _)) => return,
                Ok((StatusCode::BAD_REQUEST, _))
                    if in_pieces && !was_refused && restarts < MAX_RESTARTS =>
                {
                    restarts += 1;
                    pieces = from_the_first();
                    continue;
                }
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
        drop((room, place));
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self) -> MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
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
