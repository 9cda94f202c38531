//! Machines at the far end of links, as one machine of an agent's.
//!
//! Without a word the newest link is meant. Where a person has several machines
//! the agent may name one, and the one the server runs on too, as `here`.

use std::sync::Arc;

use portcullis_gate::{Caller, Decision, Relay, Wanted};
use portcullis_link::{Confirmation, Far};
use portcullis_proto::{
    Digest, Failure, Group, Json, Reason, Scope, ScopeSet, ToolCall, ToolReply, ToolSpec, Verb,
};
use portcullis_tools::{
    FileAsk, Machine, RawBytes, ResourcePage, ResourceText, ResourceWatch, Task, Workspace,
    unknown_tool,
};
use ring::digest::{Context, SHA256};
use serde_json::{Map, Value, json};

use super::calls::Calls;
use super::link::{Link, object};
use super::registry::Gateway;
use super::result::Returned;

/// The machine the server runs on, among several.
const HERE: &str = "here";
/// The argument a machine is named in.
const MACHINE: &str = "machine";
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
const MAX_TOLD: usize = 200;

/// The linked machines of one person, for one credential.
pub(crate) struct There {
    gateway: Arc<Gateway>,
    /// The newest first; never none.
    links: Vec<Arc<Link>>,
    local: Option<Arc<dyn Machine>>,
    scopes: ScopeSet,
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
        (!links.is_empty()).then(|| Self {
            gateway: Arc::clone(gateway),
            links,
            local,
            scopes,
        })
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
            names.push(HERE.to_owned());
        }
        names
    }

    fn named(&self, name: &str) -> Option<Target<'_>> {
        let link = self.links.iter().find(|link| link.about().name == name);
        let here = self.local.as_ref().filter(|_| name == HERE);
        link.map(Target::Link).or(here.map(Target::Here))
    }

    /// Whom a call is for, and its arguments without what only we look at.
    fn target(&self, arguments: &mut Map<String, Value>) -> Result<Target<'_>, Failure> {
        // An answer is the owner's to give, and comes by another way.
        arguments.remove(Confirmation::ARGUMENT);
        let newest = self.links.first().map(Target::Link);
        let named = match arguments.remove(MACHINE) {
            None => newest,
            Some(Value::String(name)) => self.named(&name),
            Some(_) => None,
        };
        named.ok_or_else(|| {
            Failure::new(Reason::BadArguments, "No machine of that name is linked.").hint(format!(
                "Name one of {}, or none to mean the first.",
                self.names().join(", ")
            ))
        })
    }

    async fn dispatch(&self, caller: &Caller, call: ToolCall) -> ToolReply {
        let mut arguments = object(call.arguments);
        let link = match self.target(&mut arguments) {
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
        let about = link.about();
        let offered = about.offer.tool(&call.name);
        let offered = offered.filter(|tool| self.scopes.has(Scope::of_group(tool.group)));
        let Some(offered) = offered else {
            return self.refused(caller, &call.name, unknown_tool());
        };
        fill_in(offered, &mut arguments);
        let what = told(&about.name, &call.name, &arguments);
        let mut relay = match self.gateway.gate.relay(caller, &what) {
            Ok(relay) => relay,
            Err(why) => return ToolReply::failed(&why),
        };
        let far = Far {
            name: call.name,
            arguments: Value::Object(arguments),
        };
        let passed = self.pass_on(&mut relay, link, far).await;
        let replied = passed.and_then(|returned| {
            let (bytes, failed) = (returned.bytes(), returned.is_error());
            Ok((returned.into_reply()?, bytes, failed))
        });
        match replied {
            Ok((reply, bytes, failed)) => {
                if failed {
                    relay.failed_there(bytes);
                } else {
                    relay.answered(bytes);
                }
                reply
            }
            Err(why) => ToolReply::failed(&relay.failed(why)),
        }
    }

    /// Sends a call, and sends it again with its owner's yes where the machine
    /// wants one.
    async fn pass_on(
        &self,
        relay: &mut Relay,
        link: &Link,
        mut call: Far,
    ) -> Result<Returned, Failure> {
        let calls = Calls(&self.gateway);
        let caller = relay.caller().clone();
        let returned = calls.send(link, &caller, call.clone()).await?;
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
        let name = &link.about().name;
        let about = format!(
            "on {name}: {} {} ({}, {})",
            call.name, asks.description, asks.resource, asks.tool_group
        );
        let wanted = Wanted {
            about: &about,
            pinned: pinned(link, &call, &asks),
            for_session: takes("allowForSession"),
        };
        let answer = match relay.ask(wanted).await? {
            Decision::AllowSession => "allowForSession",
            Decision::AllowOnce
            | Decision::AlwaysAllow
            | Decision::DenyOnce
            | Decision::AlwaysDeny => "allowOnce",
        };
        if let Some(arguments) = call.arguments.as_object_mut() {
            arguments.insert(Confirmation::ARGUMENT.to_owned(), answer.into());
        }
        let returned = calls.send(link, &caller, call).await?;
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

    /// What a link does not carry.
    fn not_offered<T>(&self, caller: &Caller, what: &str) -> Result<T, Failure> {
        let name = self.names().into_iter().next().unwrap_or_default();
        let why = Failure::new(
            Reason::NotOffered,
            format!("The linked machine {name} offers tools, and not that."),
        )
        .hint("Call its tools over /mcp, or disconnect it to work with this server's own files.");
        Err(self.refuse(caller, what, why))
    }
}

/// What a yes is pinned to: this call on this machine, and the words that were shown.
fn pinned(link: &Link, call: &Far, asks: &Confirmation) -> Digest {
    let mut context = Context::new(&SHA256);
    let arguments = call.arguments.to_string();
    let parts = [
        &*link.id,
        &call.name,
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
fn told(machine: &str, tool: &str, arguments: &Map<String, Value>) -> String {
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

/// Says what our own tools take for granted and another daemon's want said: the
/// root itself, and every file.
fn fill_in(tool: &ToolSpec, arguments: &mut Map<String, Value>) {
    let required = tool.input_schema.get("required").and_then(Value::as_array);
    let wants = |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
    if wants("dirPath") && !arguments.contains_key("dirPath") {
        arguments.insert("dirPath".to_owned(), ".".into());
    }
    if tool.name == "search_files" && wants("name") && !arguments.contains_key("name") {
        let pattern = arguments.remove("filePattern");
        arguments.insert("name".to_owned(), pattern.unwrap_or_else(|| "**/*".into()));
    }
}

/// Lets an agent say which machine is meant.
fn add_machine(tool: &mut ToolSpec, names: &[String], must: bool) {
    let Some(schema) = tool.input_schema.as_object_mut() else {
        return;
    };
    let property = json!({
        "type": "string",
        "enum": names,
        "description": "Which machine. Default: the first of these.",
    });
    let properties = schema
        .entry("properties")
        .or_insert_with(|| json!({}))
        .as_object_mut();
    if let Some(properties) = properties {
        properties.insert(MACHINE.to_owned(), property);
    }
    if must {
        let required = schema.entry("required").or_insert_with(|| json!([]));
        if let Some(required) = required.as_array_mut() {
            required.push(MACHINE.into());
        }
    }
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
            offers.push((HERE.to_owned(), local.catalog(caller)));
        }
        let mut tools: Vec<(ToolSpec, Vec<String>, bool)> = Vec::new();
        for (at, (name, offered)) in offers.into_iter().enumerate() {
            for tool in offered {
                match tools.iter_mut().find(|(known, ..)| known.name == tool.name) {
                    Some((_, names, _)) => names.push(name.clone()),
                    None => tools.push((tool, vec![name.clone()], at > 0)),
                }
            }
        }
        let several = self.is_several();
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

    fn resources<'a>(
        &'a self,
        _caller: &'a Caller,
        _cursor: Option<String>,
    ) -> Task<'a, Result<ResourcePage, Failure>> {
        Box::pin(std::future::ready(Ok((Vec::new(), None))))
    }

    fn read_resource<'a>(
        &'a self,
        caller: &'a Caller,
        uri: &'a str,
    ) -> Task<'a, Result<(ResourceText, String), Failure>> {
        Box::pin(std::future::ready(self.not_offered(caller, uri)))
    }

    fn watch_resource<'a>(
        &'a self,
        caller: &'a Caller,
        uri: &'a str,
    ) -> Task<'a, Result<ResourceWatch, Failure>> {
        Box::pin(std::future::ready(self.not_offered(caller, uri)))
    }

    fn workspaces(&self) -> Vec<Workspace> {
        Vec::new()
    }

    fn file<'a>(
        &'a self,
        caller: &'a Caller,
        _root: Option<&'a str>,
        ask: FileAsk,
    ) -> Task<'a, Result<Json, Failure>> {
        let what = ask.verb().as_str();
        Box::pin(std::future::ready(self.not_offered(caller, what)))
    }

    fn raw<'a>(
        &'a self,
        caller: &'a Caller,
        _root: Option<&'a str>,
        path: &'a str,
        _window: (u64, usize),
    ) -> Task<'a, Result<RawBytes, Failure>> {
        Box::pin(std::future::ready(self.not_offered(caller, path)))
    }

    fn watch<'a>(
        &'a self,
        caller: &'a Caller,
        _root: Option<&'a str>,
        path: &'a str,
    ) -> Task<'a, Result<ResourceWatch, Failure>> {
        Box::pin(std::future::ready(self.not_offered(caller, path)))
    }

    fn undoable<'a>(
        &'a self,
        caller: &'a Caller,
        _root: Option<&'a str>,
    ) -> Task<'a, Result<Json, Failure>> {
        Box::pin(std::future::ready(self.not_offered(caller, "undo")))
    }

    fn undo<'a>(
        &'a self,
        caller: &'a Caller,
        _root: Option<&'a str>,
        id: &'a str,
    ) -> Task<'a, Result<Json, Failure>> {
        Box::pin(std::future::ready(self.not_offered(caller, id)))
    }

    fn instructions(&self) -> String {
        let names = self.names();
        let which = if self.is_several() {
            format!(
                "Tools work on a machine that is linked: {}. The first is meant unless `machine` names another.",
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
