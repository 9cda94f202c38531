//! The file routes under a name: what was done on a linked machine is told from
//! what is kept, and done nowhere else, whatever became of the machine.

use portcullis_proto::{Mode, Scope};
use serde_json::{Value, json};

use crate::client::{Answer, Ask, Events};
use crate::daemon::{Daemon, id, init_of_ours, next_call, result, tool};
use crate::world::{Running, World};

const AGENT: [Scope; 2] = [Scope::FsRead, Scope::FsWrite];

/// What a daemon of ours says that lends its files beside its tools.
fn lending() -> Value {
    let mut init = init_of_ours("desk");
    init["portcullis"]["instance"] = json!("a");
    init["portcullis"]["files"] =
        json!({"operations": 1, "root": "workspace", "kind": "workspace", "trusted": true});
    init["tools"] = json!([
        tool("read_file", "filesystem", true),
        tool("write_file", "filesystem", false),
        tool("delete", "filesystem", false),
    ]);
    init
}

/// Every way to change something, each under a name of its own: by an operation
/// and by a tool, with and without a machine and a workspace named.
fn changes(token: &str) -> Vec<Ask> {
    let write = json!({"path": "made.txt", "content": "x", "mode": "create"});
    let edit = json!({"path": "notes.txt", "oldText": "some", "newText": "no",
        "expectedHash": format!("sha256:{}", "0".repeat(64))});
    let delete = json!({"path": "notes.txt"});
    let there = "/workspaces/%2Fhome%2Fada%2Fwork";
    let asks = [
        Ask::post("/file/write", &write),
        Ask::post("/file/edit", &edit),
        Ask::post("/undo", &json!({"id": "u_1"})),
        Ask::post("/file/delete", &delete),
        Ask::new("POST", "/file/upload?path=made.txt")
            .header("Content-Type", "application/octet-stream")
            .body("x"),
        Ask::post("/file/write", &write).header("Portcullis-Machine", "desk"),
        Ask::post("/file/delete?machine=desk", &delete),
        Ask::post(&format!("{there}/file/write"), &write),
        Ask::post(&format!("{there}/file/delete"), &delete),
    ];
    let named =
        |(n, ask): (usize, Ask)| ask.header("Idempotency-Key", format!("k{n}")).bearer(token);
    asks.into_iter().enumerate().map(named).collect()
}

/// Asks, while the daemon answers the one call that comes.
#[track_caller]
fn done(server: &Running, daemon: &Daemon<'_>, events: &mut Events, ask: &Ask) -> Answer {
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| server.ask(ask));
        let event = next_call(events);
        let said = json!({"done": id(&event)}).to_string();
        daemon.respond(id(&event), &result(&said)).expect(200);
        asked.join().unwrap()
    })
}

#[test]
fn a_change_that_is_asked_for_again_is_told_from_what_is_kept_and_done_nowhere_else() {
    let world = World::new(Mode::Allow);
    let token = world.token("ada", &AGENT);
    let server = world.start();
    let daemon = Daemon::pair(&world, &server, "ada", &lending());
    let mut events = daemon.listen();
    let changes = changes(&token);
    let first: Vec<Answer> = changes
        .iter()
        .map(|ask| done(&server, &daemon, &mut events, ask))
        .collect();
    for (ask, first) in changes.iter().zip(&first) {
        assert!(matches!(first.status, 200 | 201), "{ask:?}: {first:?}");
        assert_eq!(server.ask(ask).expect(first.status).body, first.body);
    }
    // Offering less, it is told as well: nothing is asked of it.
    let mut less = lending();
    less["tools"] = json!([tool("read_file", "filesystem", true)]);
    daemon.init(&less).expect(200);
    let check = |what: &str| {
        for (ask, first) in changes.iter().zip(&first) {
            let again = server.ask(ask);
            assert_eq!(
                (again.status, again.text()),
                (first.status, first.text()),
                "{what}: {ask:?}"
            );
        }
    };
    check("less is offered");
    server
        .ask(&daemon.post("/disconnect", &json!({})))
        .expect(200);
    check("nobody is linked");
    // The server's own files are as they were.
    let own = |path: &str| std::fs::read_to_string(world.scratch.at(path));
    assert_eq!(own("notes.txt").unwrap().trim_end(), "some notes");
    assert!(own("made.txt").is_err());
    // Something else under the same name is refused, and not done here either.
    let other = json!({"path": "other.txt", "content": "x", "mode": "create"});
    let other = Ask::post("/file/write", &other).header("Idempotency-Key", "k0");
    let refused = server.ask(&other.bearer(&token)).expect(400).json();
    assert_eq!(refused["reason"], "bad_arguments");
    assert!(own("other.txt").is_err());
}
