//! Calls that have a name: made once, and asked for again as often as one likes.
//!
//! The journal is the truth about them. A reply stands there before its daemon
//! hears that it was taken and before its caller hears of it, so that a server
//! that is killed in between can still tell. Who asks again waits for the very
//! same call, under its own deadline; who is cut off ends nothing.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_gate::Caller;
use portcullis_link::Confirmation;
use portcullis_proto::{
    Failure, Group, Json, Principal, Reason, Scope, ScopeSet, ToolCall, ToolReply, Verb,
};
use portcullis_store::{BegunCall, CallName, KeptCall, KeptState, NewCall};
use portcullis_tools::MachineAsk;
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::calls::{Asked, Calls, Kept, addition, event, request_id, written};
use super::failing::{away, clipped, left, lost, said, too_late};
use super::far;
use super::link::Link;
use super::naming::{MACHINE, takes_machine};
use super::queue::Outgoing;
use super::registry::Gateway;
use super::result::Returned;
use super::spelling::object;
use super::there::{HERE, replied, settled, told};
use crate::answers::off_the_reactor;
use crate::http::Holder;

/// How often who waits looks at the journal unasked: another process may have
/// ended the call.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Who waits for calls that have a name, by request.
#[derive(Default)]
pub(super) struct Waiters(Mutex<HashMap<String, Waiting>>);

#[derive(Default)]
struct Waiting {
    how_many: usize,
    woken: Arc<Notify>,
}

/// Somebody who waits, until this is dropped.
struct Waiter<'a> {
    waiters: &'a Waiters,
    request: &'a str,
    woken: Arc<Notify>,
}

impl Waiters {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&'a self, request: &'a str) -> Waiter<'a> {
        let mut all = self.all();
        let waiting = all.entry(request.to_owned()).or_default();
        waiting.how_many += 1;
        Waiter {
            waiters: self,
            request,
            woken: Arc::clone(&waiting.woken),
        }
    }

    /// Something became of `request`: whoever waits for it looks.
    pub(super) fn wake(&self, request: &str) {
        if let Some(waiting) = self.all().get(request) {
            waiting.woken.notify_waiters();
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut all = self.waiters.all();
        if let Some(waiting) = all.get_mut(self.request) {
            waiting.how_many -= 1;
            if waiting.how_many == 0 {
                all.remove(self.request);
            }
        }
    }
}

/// What `caller` calls this call, where it gave it a name: its own name for it,
/// which nobody else's is, and what it asks for.
pub(crate) fn call_name(caller: &Caller, tool: &str, arguments: &Value) -> Option<CallName> {
    Some(CallName {
        name: name_of(caller)?,
        what: what_of(tool, arguments),
    })
}

fn name_of(caller: &Caller) -> Option<[u8; 32]> {
    let name = caller.call_name()?;
    let whose = Holder::of(&caller.subject.principal).label();
    Some(digest(&[&whose, name]))
}

fn what_of(tool: &str, arguments: &Value) -> [u8; 32] {
    let mut arguments = object(arguments.clone());
    arguments.remove(Confirmation::ARGUMENT);
    digest(&[tool, &Value::Object(arguments).to_string()])
}

/// A call that has a name, and what it takes to be told what it came to.
#[derive(Clone)]
pub(crate) struct Named {
    pub(super) call: CallName,
    pub(super) scope: Scope,
    /// What its caller is told where it went well and that is not in the reply.
    pub(super) body: Option<Arc<str>>,
}

impl Named {
    /// What `caller` calls this call, where it gave it a name.
    pub(super) fn of(caller: &Caller, tool: &str, arguments: &Value, scope: Scope) -> Option<Self> {
        let call = call_name(caller, tool, arguments)?;
        Some(Self {
            call,
            scope,
            body: None,
        })
    }
}

fn digest(parts: &[&str]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&part.len().to_le_bytes());
        context.update(part.as_bytes());
    }
    let mut digest = [0; 32];
    for (to, from) in digest.iter_mut().zip(context.finish().as_ref()) {
        *to = *from;
    }
    digest
}

impl Calls<'_> {
    /// Sends a call under a name, and waits for what it comes to; where the name
    /// stands for a call already, for that one.
    pub(super) async fn send_named(
        &self,
        link: &Arc<Link>,
        caller: &Caller,
        asked: Asked,
        named: Named,
    ) -> Result<Returned, Failure> {
        let patience = self.patience(link.about().dialect);
        let request = request_id()?;
        let until = Instant::now() + patience;
        let kept = Kept {
            asked,
            addition: addition(caller, patience),
            body: named.body.as_deref().map(str::to_owned),
        };
        let text = written(&kept)?;
        let waits = (until, text.len());
        link.expect_kept(&request, waits, caller.progress.clone(), named.body)?;
        let beginning = begin(
            Arc::clone(self.0),
            Arc::clone(link),
            request.clone(),
            (kept, text),
            (named.call, named.scope),
        );
        // On its own: a caller that is cut off meanwhile does not leave a call
        // that is written down and never sent.
        let begun = tokio::spawn(beginning).await;
        let begun = begun.map_err(|error| Failure::from(Reason::Bug).detail(error));
        match begun.flatten()? {
            None => self.outcome(&request, until).await,
            Some(known) => {
                if known.scope != Some(named.scope) {
                    return Err(another());
                }
                self.ask_again(caller, known, named.call.what).await
            }
        }
    }

    /// What a call that is kept comes to, for who names it and asks for `what`.
    async fn ask_again(
        &self,
        caller: &Caller,
        known: KeptCall,
        what: [u8; 32],
    ) -> Result<Returned, Failure> {
        if known.what != Some(what) {
            return Err(another());
        }
        if let Some(link) = person(caller).and_then(|user| self.0.link(user, &known.machine)) {
            link.follow(&known.request_id, caller.progress.clone());
        }
        let left = known.deadline.saturating_sub(self.0.clock.now_ms());
        let until = Instant::now() + Duration::from_millis(left);
        self.outcome(&known.request_id, until).await
    }

    /// Waits until the journal tells what a call came to.
    async fn outcome(&self, request: &str, until: Instant) -> Result<Returned, Failure> {
        let waiter = self.0.waiters.wait(request);
        loop {
            let mut woken = std::pin::pin!(waiter.woken.notified());
            // Before the look: what ends right after it is not missed.
            woken.as_mut().enable();
            let id = request.to_owned();
            let look = off_the_reactor(&self.0.store, move |store| store.link_call(&id));
            match look.await?.map(|kept| kept.state) {
                Some(KeptState::Settled(Some(reply))) => return read(&reply),
                Some(KeptState::Settled(None)) => return Err(forgotten()),
                Some(KeptState::Failed) | None => return Err(lost()),
                Some(KeptState::Waiting) if Instant::now() >= until => return Err(too_late()),
                Some(KeptState::Waiting) if self.0.leaving.is_cancelled() => return Err(left()),
                Some(KeptState::Waiting) => {}
            }
            let next = until.min(Instant::now() + LOOK_EVERY);
            // Woken or not, it looks again.
            tokio::select! {
                _woken = tokio::time::timeout_at(next, woken) => {}
                () = self.0.leaving.cancelled() => {}
            }
        }
    }
}

/// Writes a call down under its name and sends it, unless the name stands for
/// another: that one.
async fn begin(
    gateway: Arc<Gateway>,
    link: Arc<Link>,
    request: String,
    (kept, text): (Kept, String),
    named: (CallName, Scope),
) -> Result<Option<KeptCall>, Failure> {
    let calls = Calls(&gateway);
    let now = gateway.clock.now_ms();
    let deadline = now.saturating_add(kept.addition.deadline_ms);
    let daemon = link.listener();
    let (machine, id, sent_to) = (Arc::clone(&link.id), request.clone(), daemon.clone());
    let begun = off_the_reactor(&gateway.store, move |store| {
        let call = NewCall {
            machine: &machine,
            request_id: &id,
            call: &text,
            deadline,
            sent_to: sent_to.as_deref(),
            named: Some(named),
        };
        store.begin_link_call(call, now)
    });
    let number = match begun.await {
        Ok(BegunCall::New(number)) => number,
        Ok(BegunCall::Known(known)) => {
            link.give_up(&request);
            return Ok(Some(known));
        }
        Err(why) => {
            link.give_up(&request);
            return Err(why);
        }
    };
    if !link.awaits(&request) {
        // The link ended meanwhile, and knew of no line to end.
        let failed = off_the_reactor(&gateway.store, move |store| store.fail_link_call(&request));
        failed.await?;
        return Ok(None);
    }
    let dialect = link.about().dialect;
    let event = event(&request, kept, dialect);
    if dialect.is_ours() {
        let event = Outgoing::of(Some(number), &event);
        // A call that could not be handed over has failed, which the journal tells.
        drop(calls.hand_over(&link, &request, daemon, event).await);
    } else {
        link.send(&request, &event);
    }
    Ok(None)
}

/// A reply as it is kept, and what its caller is told beside it.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeptReply<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Cow<'a, str>>,
    /// The same of another dialect than ours, which has no other way to fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) words: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) body: Option<Cow<'a, str>>,
}

impl KeptReply<'_> {
    pub(crate) fn written(&self) -> String {
        // Texts and what was JSON before: nothing in it can fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn read(reply: &str) -> Result<Returned, Failure> {
    let bad = |why: String| Failure::from(Reason::Bug).detail(why);
    let kept: KeptReply<'_> =
        serde_json::from_str(reply).map_err(|error| bad(error.to_string()))?;
    let returned = match (kept.result, kept.words, kept.error) {
        (Some(result), None, None) => Returned::parse(result.get()).map_err(bad)?,
        (_, Some(words), _) => Returned::of_error(clipped(&words)),
        (_, None, Some(error)) => return Err(said(&error)),
        (None, None, None) => return Err(bad("an empty reply was kept".to_owned())),
    };
    Ok(returned.for_body(kept.body.map(Cow::into_owned)))
}

/// The failure of a call under the name of another.
fn another() -> Failure {
    Failure::new(
        Reason::BadArguments,
        "That name stands for another call. Nothing was sent.",
    )
    .hint("Give every call a name of its own; ask again with the same arguments.")
}

/// The failure of a call whose reply had to make room.
fn forgotten() -> Failure {
    Failure::new(
        Reason::LinkLost,
        "It was answered under this name before; what it came to is not kept any more.",
    )
    .hint("Look at what is there before doing it again under another name.")
}

/// The person whose machines `caller` works with, where it works with any.
fn person(caller: &Caller) -> Option<&Arc<str>> {
    match &caller.subject.principal {
        Principal::User { id } => Some(id),
        Principal::Token { user, .. } => Some(user),
        Principal::Core { .. } | Principal::Extension { .. } | Principal::Automation { .. } => None,
    }
}

/// A call that a name stands for, and its machine.
struct Known {
    call: KeptCall,
    /// What the machine is called, and the directory it lends.
    machine: String,
    root: String,
    /// What it took to make the call.
    took: Scope,
}

/// The call that `caller`'s name stands for.
async fn known(
    gateway: &Arc<Gateway>,
    caller: &Caller,
    scopes: ScopeSet,
) -> Result<Option<Known>, Failure> {
    let Some(name) = name_of(caller) else {
        return Ok(None);
    };
    let known = off_the_reactor(&gateway.store, move |store| {
        let known = store.named_link_call(&name)?;
        let Some(known) = known else {
            return Ok(None);
        };
        let machine = store.machine(&known.machine)?;
        let machine = machine.map(|machine| (machine.name, machine.root));
        Ok(Some((known, machine.unwrap_or_default())))
    });
    let Some((call, (machine, root))) = known.await? else {
        return Ok(None);
    };
    let Some(took) = call.scope.filter(|scope| scopes.has(*scope)) else {
        // What it was let do before, it may not be told any more.
        return Err(Reason::NoGrant.into());
    };
    Ok(Some(Known {
        call,
        machine,
        root,
        took,
    }))
}

/// Answers a call before a machine is chosen for it: from the journal, where its
/// name stands for one, whether or not that machine is linked now; and with a
/// refusal where it names a machine that is not. Nothing for any other.
pub(crate) async fn recalled(
    gateway: &Arc<Gateway>,
    caller: &Caller,
    scopes: ScopeSet,
    call: &ToolCall,
) -> Option<ToolReply> {
    let user = person(caller)?;
    let refused = |why: Failure| {
        let why = gateway.gate.refuse(caller, Verb::Relay, &call.name, why);
        Some(ToolReply::failed(&why))
    };
    match known(gateway, caller, scopes).await {
        Ok(None) => {}
        Ok(Some(known)) => {
            let what = told(&known.machine, &call.name, &object(call.arguments.clone()));
            let relay = match gateway.gate.relay(caller, &what) {
                Ok(relay) => relay,
                Err(why) => return Some(ToolReply::failed(&why)),
            };
            let what = what_of(&call.name, &call.arguments);
            let outcome = Calls(gateway).ask_again(caller, known.call, what).await;
            let settled = settled(relay, &call.name, outcome);
            return Some(replied(
                settled.map(|returned| returned.typed_below(&known.root, known.took)),
            ));
        }
        Err(why) => return refused(why),
    }
    let name = call.arguments.get(MACHINE)?.as_str()?;
    // Linked, or no name of a machine at all.
    let may_mean = |link: &Arc<Link>| link.about().name == name || takes_machine(link, &call.name);
    if name == HERE || gateway.of(user).iter().any(may_mean) {
        return None;
    }
    let (user, name) = (Arc::clone(user), name.to_owned());
    let is_known = off_the_reactor(&gateway.store, move |store| {
        let machines = store.machines(Some(&user))?;
        Ok(machines.iter().any(|machine| machine.name == name))
    });
    match is_known.await {
        Ok(true) => refused(away()),
        Ok(false) => None,
        Err(why) => refused(why),
    }
}

/// The same for what a file route asks for that changes something.
pub(crate) async fn recalled_ask(
    gateway: &Arc<Gateway>,
    caller: &Caller,
    scopes: ScopeSet,
    ask: &MachineAsk,
) -> Option<Result<Json, Failure>> {
    person(caller)?;
    if ask.verb().group() != Group::FilesystemWrite {
        return None;
    }
    let known = match known(gateway, caller, scopes).await {
        Ok(known) => known?,
        Err(why) => {
            let why = gateway.gate.refuse(caller, Verb::Relay, ask.about(), why);
            return Some(Err(why));
        }
    };
    let relay = match gateway.gate.relay(caller, &far::told(&known.machine, ask)) {
        Ok(relay) => relay,
        Err(why) => return Some(Err(why)),
    };
    let (operation, args) = ask.spelled();
    let what = what_of(&operation, &args);
    let outcome = Calls(gateway).ask_again(caller, known.call, what).await;
    let outcome = outcome.map(|returned| returned.typed_below(&known.root, known.took));
    Some(far::body_of(relay, outcome))
}
