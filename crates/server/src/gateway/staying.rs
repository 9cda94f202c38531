//! The machines of one caller, of which its conversation stays with one.
//!
//! Every call goes to the machine of the first one. Where that is gone the call
//! fails; no other machine takes it, unless the agent names one with `machine`.

use std::sync::Arc;

use portcullis_gate::Caller;
use portcullis_proto::{
    Attached, Failure, Group, Json, ScopeSet, ToolCall, ToolReply, ToolSpec, Verb,
};
use portcullis_tools::{Machine, ResourcePage, ResourceText, ResourceWatch, Task};
use serde_json::{Map, Value};

use super::bindings::{Conversation, Place};
use super::link::Link;
use super::naming::{MACHINE, takes_machine};
use super::registry::Gateway;
use super::there::{First, HERE, There, nobody_called};

/// See the module.
pub(crate) struct Staying {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) who: Conversation,
    /// The newest first.
    pub(crate) links: Vec<Arc<Link>>,
    pub(crate) local: Option<Arc<dyn Machine>>,
    pub(crate) scopes: ScopeSet,
}

impl Staying {
    /// Whether the caller could mean another machine.
    fn is_several(&self) -> bool {
        self.links.len() + usize::from(self.local.is_some()) > 1
    }

    /// Whether anything is there, or was for this conversation.
    pub(crate) fn is_anywhere(&self) -> bool {
        !self.links.is_empty() || self.local.is_some() || self.gateway.stays(&self.who)
    }

    /// What is there, the newest link first.
    fn names(&self) -> Vec<String> {
        let links = self.links.iter().map(|link| link.about().name.clone());
        let here = self.local.iter().map(|_| HERE.to_owned());
        links.chain(here).collect()
    }

    /// Where a first call goes: to the newest link, else to this machine.
    fn first(&self) -> Place {
        let newest = self.links.first();
        newest.map_or(Place::Here, |link| Place::of(link))
    }

    fn now(&self) -> u64 {
        self.gateway.clock.now_ms()
    }

    /// Where its calls go, without one being made.
    fn look(&self) -> Place {
        let bound = self.gateway.bindings.look(&self.who, self.now());
        bound.unwrap_or_else(|| self.first())
    }

    /// Where this call goes.
    async fn stay(&self) -> Place {
        let bindings = &self.gateway.bindings;
        let (place, note) = bindings.stay(&self.who, &self.first(), self.now());
        note.keep(&self.gateway.store).await;
        place
    }

    async fn go_to(&self, place: &Place) {
        let note = self.gateway.bindings.bind(&self.who, place, self.now());
        note.keep(&self.gateway.store).await;
    }

    /// The one machine at `place`, where it is there.
    fn machine_at(&self, place: &Place) -> Result<Arc<dyn Machine>, Failure> {
        let machine = match place {
            Place::Here => self.local.clone(),
            Place::Link { id, .. } => {
                let link = self.links.iter().find(|link| link.id == *id);
                link.and_then(|link| {
                    let links = vec![Arc::clone(link)];
                    let there = There::of(&self.gateway, links, None, self.scopes)?;
                    Some(Arc::new(there) as Arc<dyn Machine>)
                })
            }
            Place::Unclear => None,
        };
        machine.ok_or_else(|| place.gone(&self.names()))
    }

    /// All of them, the one at `place` first.
    fn all_from(&self, place: &Place) -> There {
        let mut links = self.links.clone();
        let first = match place {
            Place::Here if self.local.is_some() => First::Here,
            Place::Link { id, .. } if links.iter().any(|link| link.id == *id) => {
                links.sort_by_key(|link| link.id != *id);
                First::Link
            }
            Place::Here | Place::Link { .. } | Place::Unclear => First::Nobody,
        };
        There::among(
            &self.gateway,
            links,
            (self.local.clone(), first),
            self.scopes,
        )
    }

    /// What offers tools at `place`: the machine alone, where nothing else is there.
    fn tools_at(&self, place: &Place) -> Arc<dyn Machine> {
        match (&self.local, place) {
            (Some(local), Place::Here) if self.links.is_empty() => Arc::clone(local),
            (Some(_) | None, _) => Arc::new(self.all_from(place)),
        }
    }

    /// The machine that `name` calls.
    fn called(&self, name: &str) -> Option<Place> {
        let link = self.links.iter().find(|link| link.about().name == name);
        let here = (name == HERE && self.local.is_some()).then_some(Place::Here);
        link.map(|link| Place::of(link)).or(here)
    }

    /// What a call names as its machine. Where there is one alone, `machine` may be an
    /// argument of the tool's own.
    fn named_in<'a>(&self, call: &'a ToolCall) -> Option<&'a Value> {
        let is_own = |link: &Arc<Link>| takes_machine(link, &call.name);
        if !self.is_several() && self.links.first().is_some_and(is_own) {
            return None;
        }
        call.arguments.get(MACHINE)
    }

    /// The machine a request is for that names `name` or none: the conversation stays
    /// with it from now on, unless the request is about the machine alone.
    pub(crate) async fn for_request(
        &self,
        name: Option<&str>,
        what: Purpose,
    ) -> Result<Meant, Failure> {
        let named = name.map(|name| {
            let place = self.called(name);
            place.ok_or_else(|| nobody_called(&self.names()))
        });
        let place = match (named.transpose()?, what) {
            (Some(place), Purpose::Look) => place,
            (Some(place), Purpose::Call) => {
                self.go_to(&place).await;
                place
            }
            (None, Purpose::Look) => self.look(),
            (None, Purpose::Call) => self.stay().await,
        };
        self.meant(&place)
    }

    /// The machine the conversation stays with.
    async fn stayed(&self) -> Result<Meant, Failure> {
        self.for_request(None, Purpose::Call).await
    }

    /// The same, where nothing is done there.
    fn looked_at(&self) -> Result<Meant, Failure> {
        self.meant(&self.look())
    }

    fn meant(&self, place: &Place) -> Result<Meant, Failure> {
        Ok(Meant {
            machine: self.machine_at(place)?,
            called: self.is_several().then(|| place.name().to_owned()),
        })
    }

    async fn dispatch(&self, caller: &Caller, call: ToolCall) -> ToolReply {
        let (place, reply) = if let Some(name) = self.named_in(&call) {
            let Some(place) = name.as_str().and_then(|name| self.called(name)) else {
                // Nobody has the name: it is refused, and moves nothing.
                let why = nobody_called(&self.names());
                return ToolReply::failed(&self.refuse(caller, &call.name, why));
            };
            self.go_to(&place).await;
            // It takes the name out.
            let reply = self.all_from(&place).call(caller, call).await;
            (place, reply)
        } else {
            let place = self.stay().await;
            if let Err(why) = self.machine_at(&place) {
                return ToolReply::failed(&self.refuse(caller, &call.name, why));
            }
            let reply = self.tools_at(&place).call(caller, call).await;
            (place, reply)
        };
        if self.is_several() {
            named_in_reply(reply, place.name())
        } else {
            reply
        }
    }
}

/// What a request wants of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To know about it.
    Look,
    /// Something to be done there, if only a look at its files.
    Call,
}

/// The machine a request is for.
pub struct Meant {
    /// The machine.
    pub machine: Arc<dyn Machine>,
    /// What it is called, where its caller could mean another.
    pub called: Option<String>,
}

impl std::fmt::Debug for Meant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meant")
            .field("called", &self.called)
            .finish_non_exhaustive()
    }
}

impl Meant {
    /// The only machine there is.
    pub fn only(machine: Arc<dyn Machine>) -> Self {
        Self {
            machine,
            called: None,
        }
    }
}

/// A reply that says which machine acted: in its structured half, and beside its
/// text, because a text may be a file's.
fn named_in_reply(mut reply: ToolReply, name: &str) -> ToolReply {
    if let Some(structured) = with_machine(reply.structured.get(), name) {
        reply.structured = structured;
    }
    let text = format!("(machine: {name})");
    reply.attached.push(Attached::Note { text });
    reply
}

/// An object, and in it the machine.
fn with_machine(object: &str, name: &str) -> Option<Json> {
    let name = Value::from(name);
    // A tool of another's may have said so already, or lied.
    if object.contains("\"machine\"") {
        let mut object: Map<String, Value> = serde_json::from_str(object).ok()?;
        object.insert(MACHINE.to_owned(), name);
        return Json::of(&object).ok();
    }
    let rest = object.trim_start().strip_prefix('{')?;
    let comma = if rest.trim_start().starts_with('}') {
        ""
    } else {
        ","
    };
    Some(Json::vouched(format!(
        "{{\"{MACHINE}\":{name}{comma}{rest}"
    )))
}

impl Machine for Staying {
    fn catalog(&self, caller: &Caller) -> Vec<ToolSpec> {
        self.tools_at(&self.look()).catalog(caller)
    }

    fn group_of(&self, name: &str) -> Option<Group> {
        self.tools_at(&self.look()).group_of(name)
    }

    fn call<'a>(&'a self, caller: &'a Caller, call: ToolCall) -> Task<'a, ToolReply> {
        Box::pin(self.dispatch(caller, call))
    }

    fn refuse(&self, caller: &Caller, name: &str, why: Failure) -> Failure {
        match (&self.local, self.links.is_empty()) {
            (Some(local), true) => local.refuse(caller, name, why),
            (Some(_) | None, _) => self.gateway.gate.refuse(caller, Verb::Relay, name, why),
        }
    }

    fn without_files(&self) -> Failure {
        match self.looked_at() {
            Ok(meant) => meant.machine.without_files(),
            Err(why) => why,
        }
    }

    fn resources<'a>(
        &'a self,
        caller: &'a Caller,
        cursor: Option<String>,
    ) -> Task<'a, Result<ResourcePage, Failure>> {
        Box::pin(async move {
            // Clients list by themselves, before anybody has said anything.
            let meant = self.looked_at();
            let meant = meant.map_err(|why| self.refuse(caller, "", why))?;
            meant.machine.resources(caller, cursor).await
        })
    }

    fn read_resource<'a>(
        &'a self,
        caller: &'a Caller,
        uri: &'a str,
    ) -> Task<'a, Result<(ResourceText, String), Failure>> {
        Box::pin(async move {
            let meant = self.stayed().await;
            let meant = meant.map_err(|why| self.refuse(caller, uri, why))?;
            meant.machine.read_resource(caller, uri).await
        })
    }

    fn watch_resource<'a>(
        &'a self,
        caller: &'a Caller,
        uri: &'a str,
    ) -> Task<'a, Result<ResourceWatch, Failure>> {
        Box::pin(async move {
            let meant = self.stayed().await;
            let meant = meant.map_err(|why| self.refuse(caller, uri, why))?;
            meant.machine.watch_resource(caller, uri).await
        })
    }

    fn instructions(&self) -> String {
        self.tools_at(&self.look()).instructions()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(object: &str, want: &str) {
        assert_eq!(with_machine(object, "desk").unwrap().get(), want);
    }

    #[test]
    fn a_reply_names_the_machine_once() {
        check("{}", r#"{"machine":"desk"}"#);
        check(r#" {"a":1}"#, r#"{"machine":"desk","a":1}"#);
        check(
            r#"{"a":{"machine":1}}"#,
            r#"{"a":{"machine":1},"machine":"desk"}"#,
        );
        check(r#"{"machine":"other"}"#, r#"{"machine":"desk"}"#);
    }
}
