//! A conversation stays with the machine of its first call: nothing an agent does
//! without naming one lands on another.

use portcullis_proto::{Mode, Scope};
use serde_json::{Value, json};

use crate::client::{Answer, Ask};
use crate::lent::{How, Lent};
use crate::surfaces::{message_in, over_http, request};
use crate::world::{Running, World};

const AGENT: [Scope; 2] = [Scope::FsRead, Scope::FsWrite];
const ERA: &str = "2025-11-25";

/// How an agent says which conversation a call is of.
#[derive(Clone, Debug)]
enum Way {
    /// Over REST and MCP, with no word: the token binds.
    Rest,
    Mcp,
    /// By name, over each.
    RestNamed(&'static str),
    McpNamed(&'static str),
    /// In a session of MCP's older eras.
    Session(String),
}

/// An agent, and whom it speaks to.
struct Agent<'a> {
    server: &'a Running,
    token: String,
}

/// What a call came to.
#[derive(Debug, PartialEq, Eq)]
struct Came {
    /// Why not, where it failed.
    reason: Option<(String, String)>,
    /// The machine the reply names.
    machine: Option<String>,
}

fn done(machine: Option<&str>) -> Came {
    Came {
        reason: None,
        machine: machine.map(str::to_owned),
    }
}

fn gone() -> Came {
    Came {
        reason: Some(("machine_gone".to_owned(), "io_error".to_owned())),
        machine: None,
    }
}

impl Agent<'_> {
    fn begin(&self) -> Way {
        let params = json!({"protocolVersion": ERA, "capabilities": {},
            "clientInfo": {"name": "test", "version": "0"}});
        let init = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let ask = Ask::post("/mcp", &init).header("Accept", "application/json, text/event-stream");
        let begun = self.server.ask(&ask.bearer(&self.token)).expect(200);
        let id = begun.header("mcp-session-id").unwrap().to_owned();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.in_session(&id, &Ask::post("/mcp", &ready)).expect(202);
        Way::Session(id)
    }

    fn in_session(&self, id: &str, ask: &Ask) -> Answer {
        let ask = ask
            .clone()
            .header("Accept", "application/json, text/event-stream")
            .header("Mcp-Session-Id", id)
            .header("MCP-Protocol-Version", ERA)
            .bearer(&self.token);
        self.server.ask(&ask)
    }

    /// Writes `who.txt`, on the machine that is named or on the one that is meant.
    fn write(&self, way: &Way, content: &str, machine: Option<&str>) -> Came {
        let (tool, mut arguments) = match way {
            Way::Rest | Way::RestNamed(_) => return self.write_by_route(way, content, machine),
            Way::Mcp | Way::McpNamed(_) | Way::Session(_) => (
                "append_file",
                json!({"filePath": "who.txt", "content": content}),
            ),
        };
        if let Some(machine) = machine {
            arguments["machine"] = json!(machine);
        }
        let mut params = json!({"name": tool, "arguments": arguments});
        let answer = match way {
            Way::Session(id) => {
                let call =
                    json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
                self.in_session(id, &Ask::post("/mcp", &call))
            }
            Way::Rest | Way::RestNamed(_) | Way::Mcp | Way::McpNamed(_) => {
                if let Way::McpNamed(name) = way {
                    params["_meta"] = json!({"portcullis/conversation": name});
                }
                let message = request("tools/call", params);
                let ask = over_http("tools/call", Some(tool), &message);
                self.server.ask(&ask.bearer(&self.token))
            }
        };
        let result = message_in(&answer)["result"].clone();
        let told = &result["structuredContent"];
        let word = |value: &Value| value.as_str().map(str::to_owned);
        let machine = word(&told["machine"]);
        let note = machine.as_ref().map(|name| format!("(machine: {name})"));
        let last = result["content"].as_array().unwrap().last().unwrap();
        assert_eq!(
            word(&last["text"]).filter(|text| text.starts_with("(machine")),
            note
        );
        let reason = (result["isError"] == true).then(|| {
            (
                word(&told["reason"]).unwrap(),
                word(&told["errorKind"]).unwrap(),
            )
        });
        Came { reason, machine }
    }

    fn write_by_route(&self, way: &Way, content: &str, machine: Option<&str>) -> Came {
        let body = json!({"path": "who.txt", "content": content});
        let mut ask = Ask::post("/file/append", &body).bearer(&self.token);
        if let Way::RestNamed(name) = way {
            ask = ask.header("Portcullis-Conversation", *name);
        }
        if let Some(machine) = machine {
            ask = ask.header("Portcullis-Machine", machine);
        }
        let answer = self.server.ask(&ask);
        let machine = answer.header("portcullis-machine").map(str::to_owned);
        let told = answer.json();
        let reason = (answer.status >= 400).then(|| {
            assert_eq!(answer.status, 503, "{told}");
            ["reason", "errorKind"].map(|field| told[field].as_str().unwrap().to_owned())
        });
        let reason = reason.map(|[reason, kind]| (reason, kind));
        Came { reason, machine }
    }
}

fn ways(agent: &Agent<'_>) -> Vec<Way> {
    vec![
        Way::Rest,
        Way::Mcp,
        Way::RestNamed("talk"),
        Way::McpNamed("chat"),
        agent.begin(),
    ]
}

fn text(world: &World) -> Option<String> {
    std::fs::read_to_string(world.scratch.at("who.txt")).ok()
}

fn lend(near: &World, server: &Running, far: &World) -> Lent {
    Lent::to(near, server, far, How::named("laptop"))
}

#[test]
fn a_call_never_lands_on_another_machine_when_its_own_is_gone() {
    let (near, far) = (World::new(Mode::Allow), World::new(Mode::Allow));
    let server = near.start();
    // One token each: without a conversation the token binds.
    for n in 0..5 {
        let agent = Agent {
            server: &server,
            token: near.token("ada", &AGENT),
        };
        let way = ways(&agent).swap_remove(n);
        let laptop = lend(&near, &server, &far);
        assert_eq!(
            agent.write(&way, "first", None),
            done(Some("laptop")),
            "{way:?}"
        );
        assert!(text(&far).is_some() && text(&near).is_none(), "{way:?}");
        laptop.end();
        for _ in 0..2 {
            assert_eq!(agent.write(&way, "moved", None), gone(), "{way:?}");
        }
        assert_eq!(text(&near), None, "{way:?}");
        // The machine that comes back serves again.
        let laptop = lend(&near, &server, &far);
        assert_eq!(
            agent.write(&way, "again", None),
            done(Some("laptop")),
            "{way:?}"
        );
        laptop.end();
        assert_eq!(agent.write(&way, "moved", None), gone(), "{way:?}");
        // Named, another machine is meant, from then on.
        assert_eq!(
            agent.write(&way, "here", Some("here")),
            done(None),
            "{way:?}"
        );
        let _laptop = lend(&near, &server, &far);
        assert_eq!(
            agent.write(&way, "here", None),
            done(Some("here")),
            "{way:?}"
        );
        assert!(!text(&far).unwrap().contains("here"), "{way:?}");
        for world in [&near, &far] {
            std::fs::remove_file(world.scratch.at("who.txt")).unwrap();
        }
    }
}

#[test]
fn a_conversation_that_began_here_stays_here_when_a_machine_is_lent() {
    let (near, far) = (World::new(Mode::Allow), World::new(Mode::Allow));
    let server = near.start();
    let agent = Agent {
        server: &server,
        token: near.token("ada", &AGENT),
    };
    let old = ways(&agent);
    for way in &old {
        // There is one machine: nobody has to be told which.
        assert_eq!(agent.write(way, "x", None), done(None), "{way:?}");
    }
    let _laptop = lend(&near, &server, &far);
    for way in &old {
        assert_eq!(agent.write(way, "x", None), done(Some("here")), "{way:?}");
    }
    assert_eq!(text(&far), None);
    // Another conversation begins with the newest link.
    for way in [Way::RestNamed("new"), Way::McpNamed("newer"), agent.begin()] {
        assert_eq!(
            agent.write(&way, "x", None),
            done(Some("laptop")),
            "{way:?}"
        );
    }
}

#[test]
fn a_conversation_stays_with_its_machine_through_a_restart_and_so_does_a_session_begun_anew() {
    let (near, far) = (World::new(Mode::Allow), World::new(Mode::Allow));
    let token = near.token("ada", &AGENT);
    let server = near.start();
    let agent = Agent {
        server: &server,
        token: token.clone(),
    };
    let laptop = lend(&near, &server, &far);
    for way in ways(&agent) {
        assert_eq!(
            agent.write(&way, "x", None),
            done(Some("laptop")),
            "{way:?}"
        );
    }
    laptop.end();
    server.kill();
    let server = near.start();
    let agent = Agent {
        server: &server,
        token,
    };
    // The old session is not there any more; the next one of the token is.
    for way in ways(&agent) {
        assert_eq!(agent.write(&way, "moved", None), gone(), "{way:?}");
    }
    assert_eq!(text(&near), None);
}

#[test]
fn sessions_that_were_lost_on_several_machines_leave_the_next_one_to_say_which() {
    let (near, far) = (World::new(Mode::Allow), World::new(Mode::Allow));
    let token = near.token("ada", &AGENT);
    let server = near.start();
    let agent = Agent {
        server: &server,
        token: token.clone(),
    };
    let here = agent.begin();
    assert_eq!(agent.write(&here, "x", None), done(None));
    let _laptop = lend(&near, &server, &far);
    let there = agent.begin();
    assert_eq!(agent.write(&there, "x", None), done(Some("laptop")));
    // One that is ended in order leaves nothing to go on with.
    let Way::Session(id) = &there else {
        panic!("{there:?}")
    };
    agent
        .in_session(id, &Ask::new("DELETE", "/mcp"))
        .expect(202);
    let next = agent.begin();
    assert_eq!(agent.write(&next, "x", None), done(Some("laptop")));
    server.kill();
    let server = near.start();
    let agent = Agent {
        server: &server,
        token,
    };
    let next = agent.begin();
    assert_eq!(agent.write(&next, "y", None), gone());
    let named = agent.write(&next, "y", Some("here"));
    assert_eq!(named.reason, None);
    assert_eq!(agent.write(&next, "z", None).reason, None);
    assert_eq!(text(&near).as_deref(), Some("xyz"));
}

#[test]
fn what_is_told_of_a_server_needs_no_machine_and_binds_to_none() {
    let (near, far) = (World::new(Mode::Allow), World::new(Mode::Allow));
    let server = near.start();
    let agent = Agent {
        server: &server,
        token: near.token("ada", &AGENT),
    };
    let session = agent.begin();
    let look = |target: &str| {
        let ask = Ask::get(target).bearer(&agent.token);
        server.ask(&ask).expect(200);
    };
    let looks = || ["/capabilities", "/status"].into_iter().for_each(look);
    looks();
    let Way::Session(id) = &session else {
        panic!("{session:?}")
    };
    for method in ["tools/list", "resources/list"] {
        let list = json!({"jsonrpc": "2.0", "id": 3, "method": method});
        agent.in_session(id, &Ask::post("/mcp", &list)).expect(200);
    }
    let laptop = lend(&near, &server, &far);
    for way in [&Way::Rest, &session] {
        assert_eq!(agent.write(way, "x", None), done(Some("laptop")), "{way:?}");
    }
    laptop.end();
    looks();
    // The tools that are left say that a machine has to be named.
    let list = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list"});
    let listed = agent.in_session(id, &Ask::post("/mcp", &list)).expect(200);
    let listed = message_in(&listed);
    for tool in listed["result"]["tools"].as_array().unwrap() {
        let required = &tool["inputSchema"]["required"];
        let must = required
            .as_array()
            .is_some_and(|all| all.contains(&json!("machine")));
        assert!(must, "{tool}");
    }
}
