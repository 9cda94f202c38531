//! One call to a linked machine: kept, sent, waited for, and ended exactly once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use portcullis_gate::Caller;
use portcullis_link::{Addition, Dialect, Event, Far, Operation, Request};
use portcullis_proto::{ConversationId, Failure, Reason, RunId};
use portcullis_store::WaitingCall;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::Value;

use super::link::{Link, Outgoing, lost, too_late};
use super::registry::Gateway;
use super::result::Returned;
use crate::answers::off_the_reactor;

/// Bytes of chance in a request id.
const CHANCE: usize = 16;

/// Calls of one gateway.
pub(crate) struct Calls<'a>(pub(crate) &'a Arc<Gateway>);

/// What is asked of a machine.
pub(crate) enum Asked {
    /// A tool: n8n's dialect, and ours.
    Tool(Far),
    /// An operation: the seed's.
    Operation(Operation),
}

/// What is kept of a call in the journal: all that is needed to send it again.
#[derive(serde::Serialize, serde::Deserialize)]
struct Kept {
    call: Far,
    addition: Addition,
}

/// A call that is under way. Dropped, nobody waits for it any more, and its
/// machine is told so where it understands that.
struct UnderWay<'a> {
    gateway: &'a Arc<Gateway>,
    link: &'a Link,
    request: String,
    journalled: bool,
    /// Raised when nobody waits any more, for who writes it down meanwhile.
    given_up: Arc<AtomicBool>,
}

impl UnderWay<'_> {
    /// Marks its line in the journal as failed.
    fn fail(&self) {
        let (store, request) = (self.gateway.store.clone(), self.request.clone());
        // What is not marked now is forgotten when its time is over.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn_blocking(move || drop(store.fail_link_call(&request)));
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.link.give_up(&self.request) {
            return;
        }
        if self.link.about().dialect.is_ours() {
            let cancel = Event::Cancel {
                request_id: self.request.clone(),
            };
            self.link.tell(Outgoing::of(None, &cancel));
        }
        self.given_up.store(true, Ordering::Release);
        if self.journalled {
            self.fail();
        }
    }
}

impl Calls<'_> {
    /// Sends a call to the machine behind `link`, and waits for what it returns:
    /// at most as long as a call of its dialect may take.
    pub(crate) async fn send(
        &self,
        link: &Link,
        caller: &Caller,
        call: Asked,
    ) -> Result<Returned, Failure> {
        let gateway = self.0;
        let dialect = link.about().dialect;
        let request = request_id()?;
        let given = link.expect(&request, caller.progress.clone())?;
        let mut under_way = UnderWay {
            gateway,
            link,
            request: request.clone(),
            journalled: false,
            given_up: Arc::default(),
        };
        let patience = dialect.deadline().min(gateway.answers_within);
        let until = tokio::time::Instant::now() + patience;
        let addition = dialect.is_ours().then(|| Addition {
            deadline_ms: u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
            conversation: caller
                .subject
                .conversation_id
                .as_ref()
                .map(ConversationId::to_string),
            run: caller.subject.run_id.as_ref().map(RunId::to_string),
            subject: Some(caller.subject.label()),
        });
        let (tool_call, operation) = match call {
            Asked::Tool(call) => (Some(call), None),
            Asked::Operation(operation) => (None, Some(operation)),
        };
        let number = match (&addition, &tool_call) {
            (Some(addition), Some(call)) => {
                let kept = Kept {
                    call: call.clone(),
                    addition: addition.clone(),
                };
                // From here on: who gives up while it is written down ends it, too.
                under_way.journalled = true;
                let number = self.keep(link, &request, &kept, &under_way.given_up);
                Some(number.await?)
            }
            (Some(_) | None, _) => None,
        };
        let event = Event::FilesystemRequest(Request {
            id: request.clone(),
            tool_call,
            operation,
            portcullis: addition,
        });
        if link.awaits(&request) {
            link.send(&request, Outgoing::of(number, &event));
        } else if under_way.journalled {
            // The link ended meanwhile, and knew of no line to end.
            under_way.fail();
        }
        match tokio::time::timeout_at(until, given).await {
            Ok(Ok(returned)) => returned,
            // Only a link that is dropped whole lets go without a word.
            Ok(Err(_)) => Err(lost()),
            Err(_) => Err(too_late()),
        }
    }

    /// Writes a call down before it is sent; the number of its event.
    async fn keep(
        &self,
        link: &Link,
        request: &str,
        kept: &Kept,
        given_up: &Arc<AtomicBool>,
    ) -> Result<u64, Failure> {
        let now = self.0.clock.now_ms();
        let deadline = now.saturating_add(kept.addition.deadline_ms);
        let text = serde_json::to_string(kept)
            .map_err(|error| Failure::from(Reason::Bug).detail(error))?;
        let (machine, request) = (Arc::clone(&link.id), request.to_owned());
        let given_up = Arc::clone(given_up);
        off_the_reactor(&self.0.store, move |store| {
            let number = store.begin_link_call(&machine, &request, &text, deadline, now)?;
            // Else the next stream would be sent what its caller was told is over.
            if given_up.load(Ordering::Acquire) {
                store.fail_link_call(&request)?;
            }
            Ok(number)
        })
        .await
    }

    /// The calls of a machine that have no result and whose time is not over, as
    /// they are sent again.
    pub(crate) async fn again(&self, machine: &Arc<str>) -> Result<Vec<Outgoing>, Failure> {
        let now = self.0.clock.now_ms();
        let machine = Arc::clone(machine);
        let waiting = off_the_reactor(&self.0.store, move |store| {
            store.waiting_link_calls(&machine, now)
        });
        let waiting = waiting.await?;
        Ok(waiting
            .into_iter()
            .filter_map(|call| resent(call, now))
            .collect())
    }

    /// Takes a reply nobody in this process waits for: a call that was sent
    /// before the server started anew. Whether there was one.
    pub(crate) async fn settle_kept(
        &self,
        machine: &Arc<str>,
        request: &str,
        reply: &Value,
    ) -> Result<bool, Failure> {
        let now = self.0.clock.now_ms();
        let (machine, request) = (Arc::clone(machine), request.to_owned());
        let reply = reply.to_string();
        off_the_reactor(&self.0.store, move |store| {
            store.settle_kept_link_call(&machine, &request, &reply, now)
        })
        .await
    }

    /// Marks a call of our own dialect as answered.
    pub(crate) fn settled(&self, dialect: Dialect, request: &str) {
        if !dialect.is_ours() {
            return;
        }
        let (store, request) = (self.0.store.clone(), request.to_owned());
        tokio::task::spawn_blocking(move || drop(store.settle_link_call(&request, None)));
    }
}

fn resent(call: WaitingCall, now: u64) -> Option<Outgoing> {
    let mut kept: Kept = serde_json::from_str(&call.call).ok()?;
    kept.addition.deadline_ms = call.deadline.saturating_sub(now);
    let event = Event::FilesystemRequest(Request {
        id: call.request_id,
        tool_call: Some(kept.call),
        operation: None,
        portcullis: Some(kept.addition),
    });
    Some(Outgoing::of(Some(call.event), &event))
}

/// A name nobody guesses: whoever knew it could answer in the machine's place.
fn request_id() -> Result<String, Failure> {
    let mut chance = [0; CHANCE];
    SystemRandom::new()
        .fill(&mut chance)
        .map_err(|_| Failure::new(Reason::Bug, "There is no chance to be had."))?;
    Ok(format!("gw_{}", URL_SAFE_NO_PAD.encode(chance)))
}
