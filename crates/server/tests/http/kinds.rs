//! What each kind of root gives whom through each surface, as a table that a
//! person has read.
//!
//! `kinds.txt` is what came of it. When a default changes on purpose, write the
//! table anew and read the difference as carefully as the code:
//!
//! ```text
//! PORTCULLIS_BLESS=1 cargo test -p portcullis-server --test http each_kind_gives
//! ```

use std::cell::Cell;
use std::fmt::Write as _;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use portcullis_files::sha256;
use portcullis_gate::RootSpec;
use portcullis_policy::RootPolicy;
use portcullis_proto::{Access, AccessSet, Mode, Principal, RootId, RootKind, Scope};
use serde_json::{Value, json};

use crate::client::Ask;
use crate::isolation::cookie;
use crate::lent::{How, Lent};
use crate::surfaces::{Deed, Manner, Surface, Told};
use crate::world::{OtherRoot, Running, World, now_ms};

const SNAPSHOT: &str = include_str!("kinds.txt");
const AT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http/kinds.txt");
const BOTH: [Scope; 2] = [Scope::FsRead, Scope::FsWrite];

/// What the settings say of somebody on a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    Looks,
    Everything,
    Expired,
    Owner,
}

const SAID: [(&str, Said); 5] = [
    ("nothing", Said::Nothing),
    ("looks", Said::Looks),
    ("everything", Said::Everything),
    ("expired", Said::Expired),
    ("owner", Said::Owner),
];

fn user(name: &str) -> Principal {
    Principal::User { id: name.into() }
}

/// The root of `kind` on which the settings say `said` of `of`.
fn name(kind: RootKind, said: &str, of: &str) -> String {
    format!("{kind}-{said}-{of}")
}

/// Roots of every kind with all that may be said of `of` there, below `base`.
fn roots(base: &Path, of: &str) -> Vec<OtherRoot> {
    let mut all = Vec::new();
    for kind in RootKind::ALL {
        for (said, what) in SAID {
            let name = name(kind, said, of);
            let path = base.join(&name);
            std::fs::create_dir_all(&path).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
            let file = path.join("f.txt");
            std::fs::write(&file, "content").unwrap();
            std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
            let look = AccessSet::of(&[Access::Read, Access::List, Access::Metadata]);
            let grants = match what {
                Said::Nothing | Said::Owner => Vec::new(),
                Said::Looks => vec![(user(of), look, None)],
                Said::Everything => vec![(user(of), AccessSet::ALL, Some(now_ms() + 3_600_000))],
                Said::Expired => vec![(user(of), AccessSet::ALL, Some(now_ms() - 1))],
            };
            all.push(OtherRoot {
                spec: RootSpec {
                    id: RootId::parse(&name).unwrap(),
                    kind,
                    display_name: None,
                    policy: RootPolicy::of(kind),
                    owner: (what == Said::Owner).then(|| user(of)),
                    trusted: true,
                },
                path,
                grants,
            });
        }
    }
    all
}

/// A deed in the root called `root` of the directory `dir`.
fn deed(
    root: &str,
    dir: &Path,
    rest: impl Fn(&str) -> Ask,
    tool: &'static str,
    with: Value,
) -> Deed {
    let mut id = sha256(dir.to_str().unwrap().as_bytes()).hex();
    id.truncate(16);
    let mut arguments = with;
    arguments["root"] = json!(root);
    Deed {
        rest: rest(&format!("/workspaces/{id}")),
        tool,
        arguments,
    }
}

/// Which of reading, listing, writing and deleting were done there.
fn letters(root: &str, dir: &Path, ask: &dyn Fn(&Deed) -> Told) -> String {
    thread_local!(static NEXT: Cell<u32> = const { Cell::new(0) });
    let n = NEXT.get();
    NEXT.set(n + 1);
    let (new, old) = (format!("new-{n}.txt"), format!("old-{n}.txt"));
    let planted = dir.join(&old);
    std::fs::write(&planted, "old").unwrap();
    std::fs::set_permissions(&planted, Permissions::from_mode(0o600)).unwrap();
    let create = json!({"path": new, "content": "x", "mode": "create"});
    let delete = json!({"path": old});
    let deeds = [
        (
            'r',
            deed(
                root,
                dir,
                |at| Ask::get(&format!("{at}/file?path=f.txt")),
                "read_file",
                json!({"filePath": "f.txt"}),
            ),
        ),
        (
            'l',
            deed(
                root,
                dir,
                |at| Ask::get(&format!("{at}/list?path=.")),
                "list_files",
                json!({"dirPath": "."}),
            ),
        ),
        (
            'w',
            deed(
                root,
                dir,
                |at| Ask::post(&format!("{at}/file/write"), &create),
                "write_file",
                json!({"filePath": new, "content": "x"}),
            ),
        ),
        (
            'd',
            deed(
                root,
                dir,
                |at| Ask::post(&format!("{at}/file/delete"), &delete),
                "delete",
                json!({"path": old}),
            ),
        ),
    ];
    let cell: String = deeds
        .iter()
        .map(|(letter, deed)| match ask(deed).verdict.as_str() {
            "ok" => *letter,
            // A token that is not for changing has no tool for it.
            "permission_denied/no_grant" | "parse_error/unknown_tool" => '-',
            "path_not_found/unknown_root" => '.',
            other => panic!("{root}: {letter}: {other}"),
        })
        .collect();
    // What was told is what was done.
    assert_eq!(dir.join(&new).exists(), cell.contains('w'), "{root}");
    assert_eq!(!planted.exists(), cell.contains('d'), "{root}");
    cell
}

/// An extension that asks for all there is, which ada approved.
fn extension(world: &World) -> String {
    let wanted: Vec<String> = RootKind::ALL
        .iter()
        .map(|kind| format!("filesystem:{kind}:readwrite"))
        .collect();
    let store = &world.store;
    store
        .register_extension("greedy", "ada", &wanted, now_ms())
        .unwrap();
    let mut shown = wanted.clone();
    shown.sort_unstable();
    assert!(store.approve_extension("greedy", "ada", &shown).unwrap());
    let made = store.create_extension_token("greedy", "ada", now_ms());
    made.unwrap().secret.expose().to_owned()
}

/// How one of the ways in is asked for a deed.
type Asks<'a> = Box<dyn Fn(&Deed) -> Told + 'a>;

/// A person at a browser.
fn in_person(server: &Running, cookie: &str, deed: &Deed) -> Told {
    let answer = server.ask(&deed.rest.clone().cookie(cookie));
    let body = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
    Told::of(&body, answer.status >= 400, answer.status)
}

fn table() -> String {
    let near = World::new(Mode::Allow).at_most(1_000_000);
    let (theirs, mine) = (near.scratch.at("../ada"), near.scratch.at("../me"));
    let mut others = roots(&theirs, "ada");
    others.extend(roots(&mine, "me"));
    let near = near.with_roots(others);
    let ada = cookie(&near, "ada");
    let (looks, changes, both) = (
        near.token("ada", &[Scope::FsRead]),
        near.token("ada", &[Scope::FsWrite]),
        near.token("ada", &BOTH),
    );
    let greedy = extension(&near);
    let server = near.start();
    let linking = World::new(Mode::Allow).at_most(1_000_000);
    let far = World::new(Mode::Allow);
    let far_dir = far.scratch.at("../me");
    let far = far.with_roots(roots(&far_dir, "me"));
    let linked = linking.token("ada", &BOTH);
    let lending = linking.start();
    let _lent = Lent::to(&linking, &lending, &far, How::named("laptop"));

    let plain = Manner::default();
    let over =
        |surface: Surface, token: &str, deed: &Deed| surface.ask(&server, token, deed, &plain);
    let rows: Vec<(&str, &str, &Path, Asks<'_>)> = vec![
        (
            "stdio",
            "me",
            &mine,
            Box::new(|deed| over(Surface::Stdio, "", deed)),
        ),
        (
            "link",
            "me",
            &far_dir,
            Box::new(|deed| Surface::McpHttp.ask(&lending, &linked, deed, &plain)),
        ),
        (
            "REST, in person",
            "ada",
            &theirs,
            Box::new(|deed| in_person(&server, &ada, deed)),
        ),
        (
            "REST, fs:read",
            "ada",
            &theirs,
            Box::new(|deed| over(Surface::Rest, &looks, deed)),
        ),
        (
            "REST, fs:write",
            "ada",
            &theirs,
            Box::new(|deed| over(Surface::Rest, &changes, deed)),
        ),
        (
            "REST, both",
            "ada",
            &theirs,
            Box::new(|deed| over(Surface::Rest, &both, deed)),
        ),
        (
            "MCP, fs:read",
            "ada",
            &theirs,
            Box::new(|deed| over(Surface::McpHttp, &looks, deed)),
        ),
        (
            "MCP, both",
            "ada",
            &theirs,
            Box::new(|deed| over(Surface::McpHttp, &both, deed)),
        ),
        (
            "MCP, extension",
            "ada",
            &theirs,
            Box::new(|deed| over(Surface::McpHttp, &greedy, deed)),
        ),
        (
            "MCP, not theirs",
            "me",
            &mine,
            Box::new(|deed| over(Surface::McpHttp, &both, deed)),
        ),
    ];
    let mut out = String::from(HEAD);
    write!(out, "{:<18} {:<16}", "kind", "surface").unwrap();
    for (said, _) in SAID {
        write!(out, " {said:<10}").unwrap();
    }
    for kind in RootKind::ALL {
        out.push('\n');
        for (surface, of, base, ask) in &rows {
            write!(out, "\n{:<18} {surface:<16}", kind.as_str()).unwrap();
            for (said, _) in SAID {
                let root = name(kind, said, of);
                let cell = letters(&root, &base.join(&root), ask);
                write!(out, " {cell:<10}").unwrap();
            }
        }
    }
    let lines: Vec<&str> = out.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

const HEAD: &str = "\
What each kind of root gives through each surface: r reads, l lists, w writes, d deletes, - is
refused, . names no root of the caller's. The columns are what the settings say of that person on
the root: nothing, a grant to look, a grant of everything, the same expired, or that they own it.
Over REST and MCP they come in person or by a token for these scopes; `not theirs` asks for roots
on which the settings speak of somebody else; the extension was approved by the person and asks
for everything. Written by kinds.rs.

";

#[test]
fn each_kind_gives_through_every_surface_what_the_table_says() {
    let now = table();
    if std::env::var_os("PORTCULLIS_BLESS").is_some() {
        std::fs::write(AT, &now).unwrap();
        return;
    }
    assert!(
        now == SNAPSHOT,
        "what the kinds of root give has changed; it is now:\n{now}\nIf that is meant: PORTCULLIS_BLESS=1 cargo test -p portcullis-server --test http each_kind_gives, and read the difference."
    );
}

#[test]
fn a_root_that_gives_somebody_nothing_is_not_named_to_them() {
    let world = World::new(Mode::Allow);
    let base = world.scratch.at("../ada");
    let world = world.with_roots(roots(&base, "ada"));
    let token = |user: &str| world.token(user, &BOTH);
    let (ada, bob) = (token("ada"), token("bob"));
    let server = world.start();
    let named = |token: &str, kind: RootKind| -> Vec<String> {
        let told = server.ask(&Ask::get("/capabilities").bearer(token));
        let told = told.expect(200).json();
        let all = told["workspaces"].as_array().unwrap().iter();
        all.filter(|one| one["kind"] == kind.as_str())
            .map(|one| one["root"].as_str().unwrap().to_owned())
            .collect()
    };
    for kind in RootKind::ALL {
        let open = RootPolicy::of(kind).ambient != AccessSet::NONE;
        let to_bob = named(&bob, kind).len();
        assert_eq!(to_bob > 0, open, "{kind}");
        let own = usize::from(kind == RootKind::Workspace);
        let want = if open { SAID.len() + own } else { 3 };
        assert_eq!(named(&ada, kind).len(), want, "{kind}");
    }
}
