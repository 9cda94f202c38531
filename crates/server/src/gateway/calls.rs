//! One call to a linked machine: kept, sent, waited for, and ended exactly once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use portcullis_gate::Caller;
use portcullis_link::{Addition, Dialect, Event, Far, Operation, Request};
use portcullis_proto::{ConversationId, Failure, Reason, RunId};
use portcullis_store::{BegunCall, CallReply, NewCall, StoreError, WaitingCall};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::Value;
use tokio::time::Instant;

use super::again::Named;
use super::failing::{left, lost, too_late};
use super::link::{Link, Listening};
use super::queue::Outgoing;
use super::registry::Gateway;
use super::result::Returned;
use crate::answers::off_the_reactor;

/// Bytes of chance in a request id.
const CHANCE: usize = 16;

/// Calls of one gateway.
pub(crate) struct Calls<'a>(pub(crate) &'a Arc<Gateway>);

/// What is asked of a machine.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(crate) enum Asked {
    /// A tool: n8n's dialect, and ours.
    #[serde(rename = "call")]
    Tool(Far),
    /// An operation: the seed's, and ours for what is no tool.
    #[serde(rename = "operation")]
    Operation(Operation),
}

impl Asked {
    /// What it is called, and its arguments.
    pub(crate) fn said(&mut self) -> (&str, &mut Value) {
        match self {
            Self::Tool(call) => (&call.name, &mut call.arguments),
            Self::Operation(asked) => (&asked.operation, &mut asked.args),
        }
    }
}

/// What is kept of a call in the journal: all that is needed to send it again.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct Kept {
    #[serde(flatten)]
    pub(super) asked: Asked,
    pub(super) addition: Addition,
    /// What its caller is told beside the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) body: Option<String>,
}

/// A call that is under way. Dropped, nobody waits for it any more, and its
/// machine is told so where it understands that.
struct UnderWay<'a> {
    gateway: &'a Arc<Gateway>,
    link: &'a Link,
    request: String,
    journal: Journal,
    /// Raised when nobody waits any more, for who writes it down meanwhile.
    given_up: Arc<AtomicBool>,
}

/// What the journal has of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Journal {
    /// Nothing, and it will not: another dialect than ours.
    Nothing,
    /// A line that is written now, or was or will be.
    Writing,
    /// Its line.
    Line,
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
        // First, and whoever else ended it: they may have found no line to end.
        self.given_up.store(true, Ordering::Release);
        let was_awaited = self.link.give_up(&self.request);
        match self.journal {
            Journal::Writing => self.fail(),
            Journal::Line if was_awaited => self.fail(),
            Journal::Line | Journal::Nothing => {}
        }
        if was_awaited && self.link.about().dialect.is_ours() {
            let cancel = Event::Cancel {
                request_id: self.request.clone(),
            };
            self.link.tell(Outgoing::of(None, &cancel));
        }
    }
}

impl Calls<'_> {
    /// Sends a call to the machine behind `link`, and waits for what it returns:
    /// at most as long as a call of its dialect may take. Under a name, it is
    /// the call that has the name where there is one.
    pub(crate) async fn send(
        &self,
        link: &Arc<Link>,
        caller: &Caller,
        call: Asked,
        named: Option<Named>,
    ) -> Result<Returned, Failure> {
        let link = &self.0.current(link)?;
        match named {
            Some(named) => self.send_named(link, caller, call, named).await,
            None => self.send_once(link, caller, call).await,
        }
    }

    async fn send_once(
        &self,
        link: &Link,
        caller: &Caller,
        call: Asked,
    ) -> Result<Returned, Failure> {
        let gateway = self.0;
        let dialect = link.about().dialect;
        let request = request_id()?;
        let patience = self.patience(dialect);
        let until = Instant::now() + patience;
        let kept = Kept {
            asked: call,
            addition: addition(caller, patience),
            body: None,
        };
        let text = written(&kept)?;
        let waits = (until, text.len());
        let given = link.expect(&request, waits, caller.progress.clone())?;
        let mut under_way = UnderWay {
            gateway,
            link,
            request: request.clone(),
            journal: Journal::Nothing,
            given_up: Arc::default(),
        };
        if dialect.is_ours() {
            let deadline = kept.addition.deadline_ms;
            let daemon = link.listener();
            // From here on: who gives up while it is written down ends it, too.
            under_way.journal = Journal::Writing;
            let written = (text, deadline, daemon.as_ref());
            let number = self.keep(link, &request, written, &under_way.given_up);
            let number = number.await?;
            under_way.journal = Journal::Line;
            if link.awaits(&request) {
                let event = Outgoing::of(Some(number), &event(&request, kept, dialect));
                self.hand_over(link, &request, daemon, event).await?;
            } else {
                // The link ended meanwhile, and knew of no line to end.
                under_way.fail();
            }
        } else {
            drop(text);
            link.send(&request, &event(&request, kept, dialect));
        }
        let answered = tokio::select! {
            biased;
            answered = tokio::time::timeout_at(until, given) => answered,
            () = gateway.leaving.cancelled() => {
                if under_way.journal == Journal::Line {
                    let request = request.clone();
                    let failed = off_the_reactor(&gateway.store, move |store| {
                        store.fail_link_call(&request)
                    });
                    // Waited for: the next server is not to send it again.
                    drop(failed.await);
                }
                return Err(left());
            }
        };
        match answered {
            Ok(Ok(returned)) => returned,
            // Only a link that is dropped whole lets go without a word.
            Ok(Err(_)) => Err(lost()),
            Err(_) => Err(too_late()),
        }
    }

    /// How long a call may take.
    pub(super) fn patience(&self, dialect: Dialect) -> Duration {
        dialect.deadline().min(self.0.answers_within)
    }

    /// Writes a call down before it is sent; the number of its event.
    async fn keep(
        &self,
        link: &Link,
        request: &str,
        (text, patience_ms, daemon): (String, u64, Option<&Arc<str>>),
        given_up: &Arc<AtomicBool>,
    ) -> Result<u64, Failure> {
        let now = self.0.clock.now_ms();
        let deadline = now.saturating_add(patience_ms);
        let (machine, request) = (Arc::clone(&link.id), request.to_owned());
        let (daemon, given_up) = (daemon.cloned(), Arc::clone(given_up));
        off_the_reactor(&self.0.store, move |store| {
            let call = NewCall {
                machine: &machine,
                request_id: &request,
                call: &text,
                deadline,
                sent_to: daemon.as_deref(),
                named: None,
            };
            let begun = store.begin_link_call(call, now)?;
            // Else the next stream would be sent what its caller was told is over.
            if given_up.load(Ordering::Acquire) {
                store.fail_link_call(&request)?;
            }
            match begun {
                BegunCall::New(number) => Ok(number),
                // Only a name is known.
                BegunCall::Known(_) => Ok(0),
            }
        })
        .await
    }

    /// Gives a call that is written down to the daemon that listens, which has
    /// to be the one it is written down for: the next one knows nothing of it.
    pub(super) async fn hand_over(
        &self,
        link: &Link,
        request: &str,
        written_for: Option<Arc<str>>,
        event: Outgoing,
    ) -> Result<(), Failure> {
        match (written_for, link.listener()) {
            // The next stream begins with it, or its daemon is another by then.
            (_, None) => Ok(()),
            (Some(daemon), Some(now)) if daemon == now => {
                link.send_to(&now, event);
                Ok(())
            }
            (Some(_), Some(_)) => {
                let id = request.to_owned();
                let failed = off_the_reactor(&self.0.store, move |store| store.fail_link_call(&id));
                failed.await?;
                link.lose(&[request.to_owned()]);
                Err(lost())
            }
            (None, Some(now)) => {
                let (machine, daemon) = (Arc::clone(&link.id), Arc::clone(&now));
                let marked = off_the_reactor(&self.0.store, move |store| {
                    store.send_link_calls(&machine, &daemon)
                });
                marked.await?;
                link.send_to(&now, event);
                Ok(())
            }
        }
    }

    /// The calls of a machine that have no result and whose time is not over, for
    /// the daemon that listens: what it was sent, and what nobody was. Those that
    /// went to another end: whether that one did them is not known.
    pub(crate) async fn again(
        &self,
        link: &Link,
        listening: &Listening,
    ) -> Result<Vec<WaitingCall>, Failure> {
        let now = self.0.clock.now_ms();
        let machine = Arc::clone(&link.id);
        let daemon = Arc::clone(&listening.instance);
        let waiting = off_the_reactor(&self.0.store, move |store| {
            let waiting = store.waiting_link_calls(&machine, now)?;
            if waiting.iter().all(|call| call.sent_to.is_some()) {
                return Ok(waiting);
            }
            store.send_link_calls(&machine, &daemon)?;
            // As it is now: the next daemon may have been quicker.
            store.waiting_link_calls(&machine, now)
        });
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for call in waiting.await? {
            match call.sent_to.as_deref() {
                Some(daemon) if daemon == &*listening.instance => own.push(call),
                Some(_) => others.push(call.request_id),
                // It came just now, and is handed over by who made it.
                None => {}
            }
        }
        // Looked at after the journal: while this one is heard, none that came
        // after it was sent anything.
        if !others.is_empty() && link.is_heard_as(listening.number) {
            let ended = off_the_reactor(&self.0.store, move |store| {
                for request in &others {
                    store.fail_link_call(request)?;
                }
                Ok(others)
            });
            self.0.lose(link, &ended.await?);
        }
        Ok(own)
    }

    /// A call as it is sent again; nothing where it has ended since.
    pub(crate) async fn resend(
        &self,
        link: &Arc<Link>,
        call: WaitingCall,
    ) -> Result<Option<Outgoing>, Failure> {
        let (gateway, link) = (Arc::clone(self.0), Arc::clone(link));
        off_the_reactor(&self.0.store, move |_| resent(&gateway, &link, &call)).await
    }

    /// Takes a reply that nobody in this process is given: of a call that has a
    /// name, or that was sent before the server started anew. It is kept before
    /// anybody hears of it. Whether there was such a call.
    pub(crate) async fn settle_kept(
        &self,
        link: &Link,
        request: &str,
        reply: String,
        asks: bool,
    ) -> Result<bool, Failure> {
        let now = self.0.clock.now_ms();
        let (machine, id) = (Arc::clone(&link.id), request.to_owned());
        let settled = off_the_reactor(&self.0.store, move |store| {
            let reply = if asks {
                CallReply::Question(&reply)
            } else {
                CallReply::Last(&reply)
            };
            store.settle_kept_link_call(&machine, &id, reply, now)
        });
        let settled = settled.await?;
        link.give_up(request);
        self.0.waiters.wake(request);
        Ok(settled)
    }

    /// Marks a call of our own dialect as answered.
    pub(crate) fn settled(&self, dialect: Dialect, request: &str) {
        if !dialect.is_ours() {
            return;
        }
        let (store, request) = (self.0.store.clone(), request.to_owned());
        tokio::task::spawn_blocking(move || drop(store.settle_link_call(&request)));
    }
}

/// What only our own daemon is told with a call.
pub(super) fn addition(caller: &Caller, patience: Duration) -> Addition {
    Addition {
        deadline_ms: u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
        conversation: caller
            .subject
            .conversation_id
            .as_ref()
            .map(ConversationId::to_string),
        run: caller.subject.run_id.as_ref().map(RunId::to_string),
        subject: Some(caller.subject.label()),
    }
}

pub(super) fn written(kept: &Kept) -> Result<String, Failure> {
    serde_json::to_string(kept).map_err(|error| Failure::from(Reason::Bug).detail(error))
}

/// The event of a call, as `dialect` has it.
pub(super) fn event(request: &str, kept: Kept, dialect: Dialect) -> Event {
    let addition = dialect.is_ours().then_some(kept.addition);
    asking(request, kept.asked, addition)
}

fn asking(request: &str, asked: Asked, addition: Option<Addition>) -> Event {
    let (tool_call, operation) = match asked {
        Asked::Tool(call) => (Some(call), None),
        Asked::Operation(operation) => (None, Some(operation)),
    };
    Event::FilesystemRequest(Request {
        id: request.to_owned(),
        tool_call,
        operation,
        portcullis: addition,
    })
}

/// A call as it is sent again; its reply is expected from now on. Nothing where
/// it has ended. Waits for the disk: one call at a time, each may be large.
pub(super) fn resent(
    gateway: &Gateway,
    link: &Link,
    call: &WaitingCall,
) -> Result<Option<Outgoing>, StoreError> {
    let Some(text) = gateway.store.waiting_link_call(&call.request_id)? else {
        return Ok(None);
    };
    let Ok(mut kept) = serde_json::from_str::<Kept>(&text) else {
        return Ok(None);
    };
    let now = gateway.clock.now_ms();
    kept.addition.deadline_ms = call.deadline.saturating_sub(now);
    let until = Instant::now() + Duration::from_millis(kept.addition.deadline_ms);
    let body = kept.body.take().map(Arc::from);
    link.expect_again(&call.request_id, (until, text.len()), body);
    let event = event(&call.request_id, kept, Dialect::Ours);
    Ok(Some(Outgoing::of(Some(call.event), &event)))
}

/// A name nobody guesses: whoever knew it could answer in the machine's place.
pub(super) fn request_id() -> Result<String, Failure> {
    let mut chance = [0; CHANCE];
    SystemRandom::new()
        .fill(&mut chance)
        .map_err(|_| Failure::new(Reason::Bug, "There is no chance to be had."))?;
    Ok(format!("gw_{}", URL_SAFE_NO_PAD.encode(chance)))
}

#[cfg(test)]
mod tests {
    use portcullis_files::PrivateDir;
    use portcullis_gate::Clock as _;
    use portcullis_link::bounds;
    use portcullis_proto::ScopeSet;
    use portcullis_store::Store;
    use portcullis_testkit::{Scratch, World, user};
    use serde_json::json;

    use super::super::about::About;
    use super::super::admission::Welcome;
    use super::super::{Tree, seed_offer};
    use super::*;

    fn welcome(dialect: Dialect) -> Welcome {
        Welcome {
            dialect,
            named: dialect.is_ours().then(|| "desk".to_owned()),
            host: "ada@laptop".to_owned(),
            root: "/w".to_owned(),
            offer: seed_offer().ok().unwrap(),
            tree: Tree::default(),
            files: None,
            instance: String::new(),
        }
    }

    /// A gateway, and a machine of ada's that is linked to it.
    fn paired(dialect: Dialect) -> (World, Arc<Gateway>, Arc<Link>) {
        let world = World::workspace().over(Scratch::of("a.txt = one"));
        let data = PrivateDir::open_or_create(&world.scratch.at("../store")).unwrap();
        let (store, clock) = (Store::new(data.path()), Arc::clone(&world.clock));
        let now = clock.now_ms();
        store.add_user("ada", ScopeSet::ALL, now).unwrap();
        let token = store.create_pairing("ada", now).unwrap().token;
        let gateway = Arc::new(Gateway::new(store, clock, Arc::clone(&world.gate)));
        let key = gateway.key(token.expose()).unwrap().unwrap();
        let admitted = gateway.admit(token.expose(), &key, welcome(dialect));
        let machine = admitted.ok().unwrap().machine.id;
        let link = gateway.link("ada", &machine).unwrap();
        (world, gateway, link)
    }

    fn asked() -> Asked {
        Asked::Tool(Far {
            name: "read_file".to_owned(),
            arguments: json!({"filePath": "a.txt"}),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_whose_grace_ends_while_a_call_waits_is_let_go_of_after_that() {
        let (_world, gateway, link) = paired(Dialect::Shipped);
        let until = Instant::now() + bounds::DEADLINE;
        let _given = link.expect("gw_1", (until, 1), None).unwrap();
        tokio::time::sleep(bounds::GRACE + Duration::from_secs(2)).await;
        assert!(gateway.of("ada").is_empty());
        let is_kept = || gateway.link("ada", &link.id).is_some();
        assert!(is_kept(), "its call may still be answered");
        // Nothing is sent to who is not there.
        let sent = Calls(&gateway).send(&link, &user(), asked(), None).await;
        assert_eq!(sent.err().unwrap().reason(), Reason::NotLinked);
        link.give_up("gw_1");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(!is_kept() && link.has_ended());
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_comes_back_while_a_call_waits_is_missed_again() {
        let (_world, gateway, link) = paired(Dialect::Shipped);
        let until = Instant::now() + bounds::DEADLINE;
        let _given = link.expect("gw_1", (until, 1), None).unwrap();
        tokio::time::sleep(bounds::GRACE + Duration::from_secs(2)).await;
        link.renew(About::clone(&link.about()));
        let listening = link.listen(None).unwrap();
        tokio::time::sleep(3 * bounds::GRACE).await;
        assert_eq!(gateway.of("ada").len(), 1);
        link.give_up("gw_1");
        gateway.unlistened(&link, listening.number);
        tokio::time::sleep(bounds::GRACE + Duration::from_secs(2)).await;
        assert!(gateway.link("ada", &link.id).is_none());
    }

    #[tokio::test]
    async fn who_gives_up_a_call_the_link_ended_ends_its_line_all_the_same() {
        let (_world, gateway, link) = paired(Dialect::Ours);
        // The link ended it before the line was there that is written now.
        let begin = |request: &str| {
            let call = NewCall {
                machine: &link.id,
                request_id: request,
                call: "{}",
                deadline: u64::MAX >> 1,
                sent_to: None,
                named: None,
            };
            let begun = gateway.store.begin_link_call(call, 0).unwrap();
            assert!(matches!(begun, BegunCall::New(_)));
        };
        let waits = || gateway.store.waiting_link_calls(&link.id, 0).unwrap().len();
        let given_up = Arc::new(AtomicBool::new(false));
        let under_way = |request: &str, journal| UnderWay {
            gateway: &gateway,
            link: &link,
            request: request.to_owned(),
            journal,
            given_up: Arc::clone(&given_up),
        };
        begin("gw_1");
        drop(under_way("gw_1", Journal::Writing));
        assert!(given_up.load(Ordering::Acquire), "for who writes it now");
        while waits() > 0 {
            tokio::task::yield_now().await;
        }
        // What was answered, and is settled, is not failed.
        begin("gw_2");
        drop(under_way("gw_2", Journal::Line));
        tokio::task::spawn_blocking(|| ()).await.unwrap();
        assert_eq!(waits(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_as_long_as_its_dialect_says() {
        for (dialect, seconds) in [
            (Dialect::Seed, 30),
            (Dialect::Shipped, 60),
            (Dialect::Ours, 60),
        ] {
            let (_world, gateway, link) = paired(dialect);
            let mut listening = link.listen(None).unwrap();
            let (calls, caller, began) = (Calls(&gateway), user(), Instant::now());
            let ended = calls.send(&link, &caller, asked(), None).await;
            let (took, why) = (began.elapsed(), ended.err().unwrap());
            assert_eq!(why.reason(), Reason::Deadline, "{dialect:?}");
            assert_eq!(took.as_secs(), seconds, "{dialect:?}: {took:?}");
            let sent = listening.hearing.next().await.unwrap();
            let sent: Value = serde_json::from_str(&sent.data).unwrap();
            let told = &sent["payload"]["portcullis"]["deadlineMs"];
            let want = dialect.is_ours().then_some(seconds * 1_000);
            assert_eq!(told.as_u64(), want, "{sent}");
            // Who is late is told so.
            let request = sent["payload"]["requestId"].as_str().unwrap();
            assert!(!link.awaits(request));
        }
    }
}
