//! Who may do what: every kind of principal, group of tools, mode and rule, as a
//! table that a person has read.
//!
//! `matrix.txt` is what came of it. When a verdict changes on purpose, write the
//! table anew and read the difference as carefully as the code:
//!
//! ```text
//! PORTCULLIS_BLESS=1 cargo test -p portcullis-server --test http who_may_do_what
//! ```

use std::fmt::Write as _;

use portcullis_policy::{Effect, Modes, PatternSet, Rule, RuleSet, Rules};
use portcullis_proto::{Group, Mode, Scope};
use serde_json::json;

use crate::client::Ask;
use crate::isolation::cookie;
use crate::surfaces::{Deed, Manner, Surface, tools_seen};
use crate::world::{Running, World, now_ms};

const SNAPSHOT: &str = include_str!("matrix.txt");
const AT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http/matrix.txt");
const READS: &str = "filesystem:workspace:read";
const WRITES: &str = "filesystem:workspace:readwrite";

/// Somebody, and how they show it.
enum Principal {
    Person(String),
    Bearer(String),
    /// Who started `portcullis mcp`.
    Me,
    Stranger,
}

/// Every kind there is, with a credential in `world`.
fn principals(world: &World) -> Vec<(&'static str, Principal)> {
    let token = |scopes: &[Scope]| Principal::Bearer(world.token("ada", scopes));
    let extension = |id: &str, permission: &str| {
        let wanted = [permission.to_owned()];
        let store = &world.store;
        store
            .register_extension(id, "ada", &wanted, now_ms())
            .unwrap();
        assert!(store.approve_extension(id, "ada", &wanted).unwrap());
        let made = store.create_extension_token(id, "ada", now_ms()).unwrap();
        Principal::Bearer(made.secret.expose().to_owned())
    };
    vec![
        ("person", Principal::Person(cookie(world, "ada"))),
        ("fs:read", token(&[Scope::FsRead])),
        ("fs:write", token(&[Scope::FsWrite])),
        ("both", token(&[Scope::FsRead, Scope::FsWrite])),
        (
            "no fs",
            token(&[Scope::Approve, Scope::Audit, Scope::Admin]),
        ),
        ("ext. reads", extension("reader", READS)),
        ("ext. writes", extension("writer", WRITES)),
        ("me (stdio)", Principal::Me),
        ("stranger", Principal::Stranger),
    ]
}

/// What somebody decided beside the mode.
#[derive(Clone, Copy)]
enum Decided {
    Nothing,
    Allow,
    Deny,
    RootDenies,
    RootLeavesOut,
    Untrusted,
}

const DECIDED: [(&str, Decided); 6] = [
    ("-", Decided::Nothing),
    ("rule allows", Decided::Allow),
    ("rule denies", Decided::Deny),
    ("root denies", Decided::RootDenies),
    ("root leaves out", Decided::RootLeavesOut),
    ("not trusted", Decided::Untrusted),
];

const MODES: [Mode; 3] = [Mode::Allow, Mode::Ask, Mode::Deny];

/// The groups that have tools, and one deed of each.
fn deeds() -> [(Group, Deed); 2] {
    let path = "src/main.rs";
    let append = json!({"path": path, "content": "x"});
    [
        (
            Group::FilesystemRead,
            Deed {
                rest: Ask::get("/file?path=src/main.rs"),
                tool: "read_file",
                arguments: json!({"filePath": path}),
            },
        ),
        (
            Group::FilesystemWrite,
            Deed {
                rest: Ask::post("/file/append", &append),
                tool: "append_file",
                arguments: json!({"filePath": path, "content": "x"}),
            },
        ),
    ]
}

fn world(group: Group, mode: Mode, decided: Decided) -> World {
    let modes = Modes::all(Mode::Allow).with(group, mode);
    let rule = |effect| Rule {
        effect,
        group,
        root: None,
        pattern: "src/**".to_owned(),
        covers_protected: false,
        exact_path: false,
        source: "a rule".into(),
    };
    let under = |rules| {
        World::under(Rules {
            modes,
            stored: RuleSet::compile(rules).unwrap(),
        })
    };
    let here = PatternSet::compile(&["src/**"]).unwrap();
    match decided {
        Decided::Nothing => under(Vec::new()),
        Decided::Allow => under(vec![rule(Effect::Allow)]),
        Decided::Deny => under(vec![rule(Effect::Deny)]),
        Decided::RootDenies => under(Vec::new()).with_policy(|policy| policy.denied = here),
        Decided::RootLeavesOut => under(Vec::new()).with_policy(|policy| {
            policy.allowed = PatternSet::compile(&["docs/**"]).unwrap();
        }),
        Decided::Untrusted => under(Vec::new()).untrusted(),
    }
}

/// What `principal` is told: `ok`, or the reason alone.
fn told(server: &Running, principal: &Principal, deed: &Deed) -> String {
    let answer = match principal {
        Principal::Me => {
            let told = Surface::Stdio.ask(server, "", deed, &Manner::default());
            return last_word(&told.verdict);
        }
        Principal::Person(cookie) => server.ask(&deed.rest.clone().cookie(cookie)),
        Principal::Bearer(token) => server.ask(&deed.rest.clone().bearer(token)),
        Principal::Stranger => server.ask(&deed.rest),
    };
    if answer.status < 400 {
        return "ok".to_owned();
    }
    let reason = answer.json()["reason"].as_str().map(str::to_owned);
    reason.unwrap_or_else(|| answer.status.to_string())
}

fn last_word(verdict: &str) -> String {
    verdict.rsplit('/').next().unwrap_or_default().to_owned()
}

/// One line of the table.
fn row(out: &mut String, heads: [&str; 3], cells: &[String]) {
    let [group, mode, decided] = heads;
    write!(out, "{group:<16} {mode:<6} {decided:<16}").unwrap();
    for cell in cells {
        write!(out, "| {cell:<21}").unwrap();
    }
    let end = out.trim_end().len();
    out.truncate(end);
    out.push('\n');
}

fn table() -> String {
    let mut out = String::from(
        "What each principal is told when it asks for one deed of a group. `approval_pending` and\n\
         `approval_unavailable` wait for a person; 401 is a stranger's. Written by matrix.rs.\n\n",
    );
    let names: Vec<String> = principals(&World::new(Mode::Allow))
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    row(&mut out, ["group", "mode", "decided"], &names);
    for (group, deed) in deeds() {
        for mode in MODES {
            for (name, decided) in DECIDED {
                let world = world(group, mode, decided);
                let principals = principals(&world);
                let server = world.start();
                let cells: Vec<String> = principals
                    .iter()
                    .map(|(_, principal)| told(&server, principal, &deed))
                    .collect();
                row(&mut out, [group.as_str(), mode.as_str(), name], &cells);
            }
        }
    }
    out.push_str(
        "\nHow many tools each sees over MCP: those that look, and those that change.\n\n",
    );
    row(&mut out, ["group", "mode", ""], &names);
    for (group, _) in deeds() {
        for mode in MODES {
            let world = world(group, mode, Decided::Nothing);
            let principals = principals(&world);
            let server = world.start();
            let cells: Vec<String> = principals
                .iter()
                .map(|(_, principal)| {
                    let seen = match principal {
                        Principal::Me => tools_seen(&server, None),
                        Principal::Person(cookie) => {
                            tools_seen(&server, Some(&|ask: Ask| ask.cookie(cookie)))
                        }
                        Principal::Bearer(token) => {
                            tools_seen(&server, Some(&|ask: Ask| ask.bearer(token)))
                        }
                        Principal::Stranger => tools_seen(&server, Some(&|ask: Ask| ask)),
                    };
                    match seen {
                        Ok((looks, changes)) => format!("{looks} + {changes}"),
                        Err(status) => status.to_string(),
                    }
                })
                .collect();
            row(&mut out, [group.as_str(), mode.as_str(), ""], &cells);
        }
    }
    out
}

#[test]
fn who_may_do_what_is_as_it_was_read() {
    let now = table();
    if std::env::var_os("PORTCULLIS_BLESS").is_some() {
        std::fs::write(AT, &now).unwrap();
        return;
    }
    let changed: Vec<String> = now
        .lines()
        .zip(SNAPSHOT.lines())
        .filter(|(now, then)| now != then)
        .map(|(now, then)| format!("- {then}\n+ {now}"))
        .collect();
    assert!(
        now == SNAPSHOT,
        "who may do what has changed:\n{}\nIf that is meant: PORTCULLIS_BLESS=1 cargo test -p portcullis-server --test http who_may_do_what, and read the difference.",
        changed.join("\n")
    );
}
