//! Machines at the far end of links, as one machine of an agent's.
//!
//! Without a word the first link is meant, or whom a conversation stays with (see
//! `staying`). Where a person has several machines the agent may name one, and the
//! one the server runs on too, as `here`.

use std::sync::Arc;

use portcullis_gate::{Caller, Decision, Relay, Wanted};
use portcullis_link::{Confirmation, Dialect, Far};
use portcullis_proto::{
    Digest, Failure, Group, Json, Reason, Scope, ScopeSet, ToolCall, ToolReply, ToolSpec, Verb,
};
use portcullis_tools::{
    FileAsk, Machine, MachineAsk, RawBytes, ResourcePage, ResourceText, Task, Workspace,
    unknown_tool,
};
use ring::digest::{Context, SHA256};
use serde_json::{Map, Value};

use super::about::About;
use super::again::{Named, call_name};
use super::calls::{Asked, Calls};
use super::link::Link;
use super::naming::{MACHINE, add_machine, has_machine, takes_machine};
use super::registry::Gateway;
use super::result::Returned;
use super::seed::Ask;
use super::spelling::{fill_in, leave_root, object};

/// The machine the server runs on, among several.
pub(crate) const HERE: &str = "here";
/// The arguments that say what a call is about, as the record names it. What a
/// call writes is none of them.
const TELLING: [&str; 9] = [
    "filePath",
    "dirPath",
    "path",
    "sourcePath",
    "destinationPath",
    "command",
    "name",
    "query",
    "url",
];
/// How much of each is told, in bytes.
pub(super) const MAX_TOLD: usize = 200;

/// The linked machines of one person, for one credential.
pub(crate) struct There {
    pub(super) gateway: Arc<Gateway>,
    /// The one that is meant without a word before the others, where it is a link.
    pub(super) links: Vec<Arc<Link>>,
    local: Option<Arc<dyn Machine>>,
    first: First,
    pub(super) scopes: ScopeSet,
}

/// Who is meant without a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// The first of the links.
    Link,
    /// The machine the server runs on.
    Here,
    /// The one that was meant is gone: whoever calls has to name another.
    Nobody,
}

/// Whom a call is for.
enum Target<'a> {
    Link(&'a Arc<Link>),
    Here(&'a Arc<dyn Machine>),
}

impl There {
    /// What `links` offer, to who has `scopes`; nothing where there is no link.
    pub(crate) fn of(
        gateway: &Arc<Gateway>,
        links: Vec<Arc<Link>>,
        local: Option<Arc<dyn Machine>>,
        scopes: ScopeSet,
    ) -> Option<Self> {
        let first = (local, First::Link);
        (!links.is_empty()).then(|| Self::among(gateway, links, first, scopes))
    }

    /// The same, with who is meant without a word.
    pub(super) fn among(
        gateway: &Arc<Gateway>,
        links: Vec<Arc<Link>>,
        (local, first): (Option<Arc<dyn Machine>>, First),
        scopes: ScopeSet,
    ) -> Self {
        Self {
            gateway: Arc::clone(gateway),
            links,
            local,
            first,
            scopes,
        }
    }

    fn is_several(&self) -> bool {
        self.links.len() > 1 || self.local.is_some()
    }

    /// What every machine is called, the one that is meant without a word first.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .links
            .iter()
            .map(|link| link.about().name.clone())
            .collect();
        if self.local.is_some() {
            let at = if self.first == First::Here {
                0
            } else {
                names.len()
            };
            names.insert(at, HERE.to_owned());
        }
        names
    }

    fn named(&self, name: &str) -> Option<Target<'_>> {
        let link = self.links.iter().find(|link| link.about().name == name);
        let here = self.local.as_ref().filter(|_| name == HERE);
        link.map(Target::Link).or(here.map(Target::Here))
    }

    /// Whom a call of the tool `name` is for, and its arguments without what only
    /// we look at.
    fn target(
        &self,
        name: &str,
        arguments: &mut Map<String, Value>,
    ) -> Result<Target<'_>, Failure> {
        // An answer is the owner's to give, and comes by another way.
        arguments.remove(Confirmation::ARGUMENT);
        let newest = self.links.first();
        let is_its_own = !self.is_several() && newest.is_some_and(|link| takes_machine(link, name));
        let machine = (!is_its_own).then(|| arguments.remove(MACHINE)).flatten();
        let meant = match self.first {
            First::Link => newest.map(Target::Link),
            First::Here => self.local.as_ref().map(Target::Here),
            First::Nobody => None,
        };
        let named = match machine {
            None => meant,
            Some(Value::String(name)) => self.named(&name),
            Some(_) => None,
        };
        named.ok_or_else(|| nobody_called(&self.names()))
    }

    async fn dispatch(&self, caller: &Caller, call: ToolCall) -> ToolReply {
        // As it was asked for, before anything is filled in.
        let named = call_name(caller, &call.name, &call.arguments);
        let mut arguments = object(call.arguments);
        let link = match self.target(&call.name, &mut arguments) {
            Ok(Target::Link(link)) if self.is_several() && takes_machine(link, &call.name) => {
                return self.refused(caller, &call.name, unknown_tool());
            }
            Ok(Target::Link(link)) => link,
            Ok(Target::Here(here)) => {
                let scope = here.group_of(&call.name).map(Scope::of_group);
                if scope.is_some_and(|scope| !self.scopes.has(scope)) {
                    return self.refused(caller, &call.name, unknown_tool());
                }
                let call = ToolCall {
                    name: call.name,
                    arguments: Value::Object(arguments),
                };
                return here.call(caller, call).await;
            }
            Err(why) => return self.refused(caller, &call.name, why),
        };
        let offered = link.about();
        let tool = offered.offer.tool(&call.name);
        let named = named.zip(tool).map(|(call, tool)| Named {
            call,
            scope: Scope::of_group(tool.group),
            body: None,
        });
        replied(self.run(caller, link, &call.name, arguments, named).await)
    }

    /// Calls a tool of a linked machine, with its lines on the record.
    pub(super) async fn run(
        &self,
        caller: &Caller,
        link: &Arc<Link>,
        name: &str,
        mut arguments: Map<String, Value>,
        named: Option<Named>,
    ) -> Result<Returned, Failure> {
        let about = link.about();
        let offered = about.offer.tool(name);
        let offered = offered.filter(|tool| self.scopes.has(Scope::of_group(tool.group)));
        let Some(offered) = offered else {
            return Err(self.refuse(caller, name, unknown_tool()));
        };
        leave_root(offered, &mut arguments);
        if let Err(why) = fill_in(offered, &mut arguments) {
            return Err(self.refuse(caller, name, why));
        }
        let what = told(&about.name, name, &arguments);
        let mut relay = self.gateway.gate.relay(caller, &what)?;
        let passed = if about.dialect == Dialect::Seed {
            match look(&about, name, arguments).await {
                Ok(Ask::Answered(told)) => Ok(Returned::of_data(told)),
                Ok(Ask::Far(operation)) => {
                    let asked = Asked::Operation(operation);
                    Calls(&self.gateway).send(link, caller, asked, None).await
                }
                Err(why) => Err(why),
            }
        } else {
            let far = Far {
                name: name.to_owned(),
                arguments: Value::Object(arguments),
            };
            let asked = Asked::Tool(far);
            self.pass_on(&mut relay, link, asked, named).await
        };
        let returned = settled(relay, name, passed)?;
        Ok(returned.typed_below(&about.root, Scope::of_group(offered.group)))
    }

    /// Sends a call, and sends it again with its owner's yes where the machine
    /// wants one. A name goes with both: nothing is done under it by asking.
    pub(super) async fn pass_on(
        &self,
        relay: &mut Relay,
        link: &Arc<Link>,
        mut asked: Asked,
        named: Option<Named>,
    ) -> Result<Returned, Failure> {
        let calls = Calls(&self.gateway);
        let caller = relay.caller().clone();
        let returned = calls
            .send(link, &caller, asked.clone(), named.clone())
            .await?;
        let Some(asks) = returned.question() else {
            return Ok(returned);
        };
        let takes = |answer: &str| asks.options.iter().any(|option| option == answer);
        if !takes("allowOnce") {
            return Err(Failure::new(
                Reason::ApprovalUnavailable,
                "The machine wants its owner's yes, and takes none from here.",
            ));
        }
        let (called, arguments) = asked.said();
        let about = format!(
            "on {}: {called} {} ({}, {})",
            link.about().name,
            asks.description,
            asks.resource,
            asks.tool_group
        );
        let wanted = Wanted {
            about: &about,
            pinned: pinned(link, called, arguments, &asks),
            for_session: takes("allowForSession"),
        };
        let answer = match relay.ask(wanted).await? {
            Decision::AllowSession => "allowForSession",
            Decision::AllowOnce
            | Decision::AlwaysAllow
            | Decision::DenyOnce
            | Decision::AlwaysDeny => "allowOnce",
        };
        if let Some(arguments) = arguments.as_object_mut() {
            arguments.insert(Confirmation::ARGUMENT.to_owned(), answer.into());
        }
        let returned = calls.send(link, &caller, asked, named).await?;
        if returned.question().is_some() {
            return Err(Failure::new(
                Reason::ApprovalDenied,
                "The machine did not take its owner's yes.",
            ));
        }
        Ok(returned)
    }

    fn refused(&self, caller: &Caller, name: &str, why: Failure) -> ToolReply {
        ToolReply::failed(&self.refuse(caller, name, why))
    }
}

/// What a call comes to in the seed's dialect. A tree may be large and a pattern
/// costly: it is not gone through where everybody else's requests are answered.
async fn look(
    about: &Arc<About>,
    name: &str,
    arguments: Map<String, Value>,
) -> Result<Ask, Failure> {
    let (about, name) = (Arc::clone(about), name.to_owned());
    let looked = tokio::task::spawn_blocking(move || about.tree.ask(&name, &arguments));
    let looked = looked.await;
    looked.map_err(|error| Failure::from(Reason::Bug).detail(error))
}

/// What a name comes to that no machine has.
pub(crate) fn nobody_called(names: &[String]) -> Failure {
    Failure::new(Reason::BadArguments, "No machine of that name is linked.").hint(format!(
        "Name one of {}, or none to mean the first.",
        names.join(", ")
    ))
}

/// What a call of the tool `name` came to, put on the record.
pub(super) fn settled(
    relay: Relay,
    name: &str,
    passed: Result<Returned, Failure>,
) -> Result<Returned, Failure> {
    match passed {
        Ok(returned) if returned.is_error() => {
            relay.failed_there(returned.bytes());
            Ok(returned)
        }
        Ok(mut returned) => {
            relay.answered(returned.bytes());
            if name == "get_file_tree" {
                returned.name_text("tree");
            }
            Ok(returned)
        }
        Err(why) => Err(relay.failed(why)),
    }
}

/// The same, as its caller hears it.
pub(super) fn replied(settled: Result<Returned, Failure>) -> ToolReply {
    match settled.and_then(Returned::into_reply) {
        Ok(reply) => reply,
        Err(why) => ToolReply::failed(&why),
    }
}

/// What a yes is pinned to: this call on this machine, and the words that were shown.
fn pinned(link: &Link, called: &str, arguments: &Value, asks: &Confirmation) -> Digest {
    let mut context = Context::new(&SHA256);
    let arguments = arguments.to_string();
    let parts = [
        &*link.id,
        called,
        &arguments,
        &asks.tool_group,
        &asks.resource,
        &asks.description,
    ];
    for part in parts {
        context.update(&part.len().to_le_bytes());
        context.update(part.as_bytes());
    }
    let mut digest = Digest::ZERO;
    for (to, from) in digest.0.iter_mut().zip(context.finish().as_ref()) {
        *to = *from;
    }
    digest
}

/// Machine, tool and what it is about, for the record.
pub(super) fn told(machine: &str, tool: &str, arguments: &Map<String, Value>) -> String {
    let mut told = format!("{machine} {tool}");
    for name in TELLING {
        if let Some(text) = arguments.get(name).and_then(Value::as_str) {
            let end = text.floor_char_boundary(MAX_TOLD);
            told.push(' ');
            told.push_str(text.get(..end).unwrap_or_default());
        }
    }
    told
}

impl Machine for There {
    fn catalog(&self, caller: &Caller) -> Vec<ToolSpec> {
        let mut offers: Vec<(String, Vec<ToolSpec>)> = self
            .links
            .iter()
            .map(|link| {
                let about = link.about();
                (about.name.clone(), about.offer.tools.clone())
            })
            .collect();
        if let Some(local) = &self.local {
            let at = if self.first == First::Here {
                0
            } else {
                offers.len()
            };
            offers.insert(at, (HERE.to_owned(), local.catalog(caller)));
        }
        let is_gone = self.first == First::Nobody;
        let several = self.is_several() || is_gone;
        let mut tools: Vec<(ToolSpec, Vec<String>, bool)> = Vec::new();
        for (at, (name, offered)) in offers.into_iter().enumerate() {
            for tool in offered {
                if several && has_machine(&tool.input_schema) {
                    continue;
                }
                match tools.iter_mut().find(|(known, ..)| known.name == tool.name) {
                    Some((_, names, _)) => names.push(name.clone()),
                    None => tools.push((tool, vec![name.clone()], at > 0 || is_gone)),
                }
            }
        }
        let shown = |(mut tool, names, elsewhere): (ToolSpec, Vec<String>, bool)| {
            if several {
                add_machine(&mut tool, &names, elsewhere);
            }
            tool
        };
        tools.into_iter().map(shown).collect()
    }

    fn group_of(&self, name: &str) -> Option<Group> {
        let linked = self.links.iter().find_map(|link| {
            let about = link.about();
            about.offer.tool(name).map(|tool| tool.group)
        });
        linked.or_else(|| self.local.as_ref()?.group_of(name))
    }

    fn call<'a>(&'a self, caller: &'a Caller, call: ToolCall) -> Task<'a, ToolReply> {
        Box::pin(self.dispatch(caller, call))
    }

    fn refuse(&self, caller: &Caller, name: &str, why: Failure) -> Failure {
        self.gateway.gate.refuse(caller, Verb::Relay, name, why)
    }

    fn without_files(&self) -> Failure {
        let name = self.names().into_iter().next().unwrap_or_default();
        Failure::new(
            Reason::NotOffered,
            format!("The linked machine {name} does not offer that."),
        )
        .hint("Changes are not told over a link: GET /stat tells a version that changes with the file. Portcullis-Machine: here means this server's own files.")
    }

    fn is_off(&self, group: Group) -> bool {
        let link = self.links.first();
        link.is_some_and(|link| {
            !link
                .about()
                .offer
                .tools
                .iter()
                .any(|tool| tool.group == group)
        })
    }

    fn has_one_root(&self) -> bool {
        true
    }

    fn resources<'a>(
        &'a self,
        caller: &'a Caller,
        cursor: Option<String>,
    ) -> Task<'a, Result<ResourcePage, Failure>> {
        Box::pin(async move {
            // A list of nothing is what tools alone come to.
            if self.lends().is_none() {
                return Ok((Vec::new(), None));
            }
            let body = self.ask(caller, MachineAsk::Resources { cursor }).await?;
            MachineAsk::page_in(&body)
        })
    }

    fn read_resource<'a>(
        &'a self,
        caller: &'a Caller,
        uri: &'a str,
    ) -> Task<'a, Result<(ResourceText, String), Failure>> {
        Box::pin(async move {
            let uri = uri.to_owned();
            let body = self.ask(caller, MachineAsk::ReadResource { uri }).await?;
            MachineAsk::resource_in(&body)
        })
    }

    fn workspaces(&self) -> Vec<Workspace> {
        self.workspace().into_iter().collect()
    }

    fn file<'a>(
        &'a self,
        caller: &'a Caller,
        _root: Option<&'a str>,
        ask: FileAsk,
    ) -> Task<'a, Result<Json, Failure>> {
        Box::pin(self.ask(caller, MachineAsk::File(ask)))
    }

    fn raw<'a>(
        &'a self,
        caller: &'a Caller,
        _root: Option<&'a str>,
        path: &'a str,
        (offset, max): (u64, usize),
    ) -> Task<'a, Result<RawBytes, Failure>> {
        Box::pin(async move {
            let path = path.to_owned();
            let ask = MachineAsk::Raw { path, offset, max };
            let raw = MachineAsk::raw_in(&self.ask(caller, ask).await?)?;
            if raw.bytes.len() > max {
                return Err(Failure::new(
                    Reason::Io,
                    "The machine sent more than was asked for.",
                ));
            }
            Ok(raw)
        })
    }

    fn undoable<'a>(
        &'a self,
        caller: &'a Caller,
        _root: Option<&'a str>,
    ) -> Task<'a, Result<Json, Failure>> {
        Box::pin(self.ask(caller, MachineAsk::Undoable {}))
    }

    fn undo<'a>(
        &'a self,
        caller: &'a Caller,
        _root: Option<&'a str>,
        id: &'a str,
    ) -> Task<'a, Result<Json, Failure>> {
        let id = id.to_owned();
        Box::pin(self.ask(caller, MachineAsk::Undo { id }))
    }

    fn instructions(&self) -> String {
        let names = self.names();
        let which = if self.is_several() {
            format!(
                "Tools work on one of several machines: {}. The first is meant unless `machine` names another; calls stay with the machine of the one before, and fail where it is gone.",
                names.join(", ")
            )
        } else {
            format!("Tools work on the linked machine {}.", names.join(", "))
        };
        format!(
            "{which} Paths are relative to the directory its owner lends. The owner's rules decide there, and the owner may be asked. Every call is recorded."
        )
    }
}

#[cfg(test)]
mod tests {
    use portcullis_files::PrivateDir;
    use portcullis_store::Store;
    use portcullis_testkit::{Scratch, World, user};
    use serde_json::json;

    use super::super::{Offer, Tree};
    use super::*;

    /// A machine of ada's with a tool that has an argument `machine` of its own, one
    /// that has it in one of two ways, and one that has none.
    fn linked(name: &str) -> Arc<Link> {
        let tool = |name: &str, schema: Value| {
            let tool = json!({"name": name, "inputSchema": schema});
            serde_json::from_value(tool).unwrap()
        };
        let own = json!({"type": "object", "properties": {"machine": {"type": "string"}}});
        let ways = json!({"type": "object", "oneOf": [{"type": "object"}, own]});
        let tools = [
            tool("wake", own),
            tool("boot", ways),
            tool("look", json!({"type": "object", "properties": {}})),
        ];
        let about = About {
            name: name.to_owned(),
            host: "ada@laptop".to_owned(),
            root: "/home/ada".to_owned(),
            dialect: Dialect::Shipped,
            offer: Arc::new(Offer::of(&tools, Vec::new()).ok().unwrap()),
            tree: Tree::default(),
            files: None,
            since_ms: 0,
            number: 0,
            keyed: true,
            instance: "".into(),
        };
        Arc::new(Link::new(name, "ada", about))
    }

    #[tokio::test]
    async fn an_argument_of_a_tools_own_is_not_taken_for_the_name_of_a_machine() {
        let world = World::workspace().over(Scratch::of("a.txt = one"));
        let data = PrivateDir::open_or_create(&world.scratch.at("../store")).unwrap();
        let (store, clock) = (Store::new(data.path()), Arc::clone(&world.clock));
        let gateway = Arc::new(Gateway::new(store, clock, Arc::clone(&world.gate)));
        let there = |names: &[&str]| {
            let links = names.iter().map(|name| linked(name)).collect();
            There::of(&gateway, links, None, ScopeSet::ALL).unwrap()
        };
        let left = |there: &There, tool: &str, machine: &str| {
            let mut arguments = Map::from_iter([(MACHINE.to_owned(), machine.into())]);
            let is_found = there.target(tool, &mut arguments).is_ok();
            is_found.then(|| arguments.contains_key(MACHINE))
        };
        let one = there(&["desk"]);
        assert_eq!(left(&one, "wake", "the printer"), Some(true));
        assert_eq!(left(&one, "boot", "the printer"), Some(true));
        assert_eq!(left(&one, "look", "desk"), Some(false));
        assert_eq!(left(&one, "look", "the printer"), None);
        let caller = user();
        let shown = |there: &There| -> Vec<String> {
            let tools = there.catalog(&caller).into_iter();
            tools.map(|tool| tool.name.to_string()).collect()
        };
        assert_eq!(shown(&one), ["wake", "boot", "look"]);
        // Of several, it cannot be told which of the two is meant.
        let two = there(&["desk", "shelf"]);
        assert_eq!(shown(&two), ["look"]);
        let call = ToolCall {
            name: "wake".into(),
            arguments: json!({"machine": "shelf"}),
        };
        let refused = two.call(&caller, call).await;
        let told: Value = serde_json::from_str(refused.structured.get()).unwrap();
        assert_eq!(told["reason"], "unknown_tool");
    }
}
