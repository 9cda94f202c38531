//! What a secret file holds is in no reply, question, log, audit line or
//! database of ours, whatever is tried with the file, as long as nobody says yes
//! to reading it.
//!
//! The undo store is left out of the search: the files that changes displaced
//! are kept there whole, by design, where no agent reaches.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// Secret files, and how each holds a canary.
const SECRETS: &[(&str, &str)] = &[
    (
        ".env",
        "# was CANARY\nAPI_KEY=CANARY\nexport OTHER='CANARY'\nEMPTY=\n",
    ),
    (
        "app/.env.production",
        "DATABASE_URL=postgres://u:CANARY@db/x\nKEY=CANARY\nKEY=CANARY\n",
    ),
    ("prod.env", "TOKEN=\"CANARY\nCANARY\"\n"),
    (".envrc", "export SECRET=CANARY\n"),
    (
        "id_rsa",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nCANARY\n-----END OPENSSH PRIVATE KEY-----\n",
    ),
    (
        ".ssh/id_ed25519",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nCANARY\n",
    ),
    (".ssh/config", "Host x\n  ProxyCommand nc CANARY 1\n"),
    (
        "keys/server.pem",
        "-----BEGIN PRIVATE KEY-----\nCANARY\n-----END PRIVATE KEY-----\n",
    ),
    ("keys/tls.key", "CANARY\n"),
    (
        ".aws/credentials",
        "[default]\naws_secret_access_key = CANARY\n",
    ),
    (".npmrc", "//registry.example/:_authToken=CANARY\n"),
    (".netrc", "machine h login u password CANARY\n"),
    (".git-credentials", "https://u:CANARY@host\n"),
    (".pypirc", "[pypi]\npassword = CANARY\n"),
    (".pgpass", "h:5432:db:u:CANARY\n"),
    (
        ".docker/config.json",
        "{\"auths\": {\"r\": {\"auth\": \"CANARY\"}}}\n",
    ),
    (
        ".kube/config",
        "users:\n- name: u\n  user:\n    token: CANARY\n",
    ),
    ("kubeconfig", "users:\n- user: {token: CANARY}\n"),
    (
        "service-account.json",
        "{\"private_key\": \"CANARY\", \"client_email\": \"a@b\"}\n",
    ),
    (
        "credentials.json",
        "{\"installed\": {\"client_secret\": \"CANARY\"}}\n",
    ),
    (
        "secrets.yaml",
        "db:\n  password: CANARY\n  list: [CANARY, 1]\n",
    ),
];

fn canary(n: usize) -> String {
    format!("cAnArY{n}x7Qp0Zk4Lm9")
}

/// Every form in which the canaries are looked for: as they are, and inside
/// base64 at each of its three alignments.
fn forms() -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for n in 0..SECRETS.len() {
        let plain = canary(n).into_bytes();
        for lead in 0..3 {
            let padded = [vec![b'A'; lead], plain.clone()].concat();
            let encoded = base64(&padded);
            // The first and the last group mix with what stands around.
            forms.push(encoded.get(4..encoded.len() - 4).unwrap().to_vec());
        }
        forms.push(plain);
    }
    forms
}

fn base64(bytes: &[u8]) -> Vec<u8> {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = Vec::new();
    for group in bytes.chunks(3) {
        let word = (0..3).fold(0_u32, |word, at| {
            word << 8 | u32::from(group.get(at).copied().unwrap_or_default())
        });
        for shift in [18, 12, 6, 0] {
            out.push(alphabet[(word >> shift & 63) as usize]);
        }
    }
    out
}

#[track_caller]
fn holds_none(what: &str, bytes: &[u8], forms: &[Vec<u8>]) {
    for form in forms {
        let found = bytes.windows(form.len()).position(|window| window == form);
        let around = found.map(|at| {
            let from = at.saturating_sub(200);
            let to = (at + form.len() + 40).min(bytes.len());
            String::from_utf8_lossy(bytes.get(from..to).unwrap()).into_owned()
        });
        assert_eq!(around, None, "{what} tells a secret");
    }
}

/// A client whose person says yes to changes, or to nothing, and never to a
/// look at a secret. Keeps all that it heard.
struct Listener {
    child: Child,
    lines: BufReader<ChildStdout>,
    logged: JoinHandle<Vec<u8>>,
    heard: String,
    questions: usize,
    undo: BTreeSet<String>,
    says_yes: bool,
    next: u64,
}

impl Listener {
    fn start(sandbox: &Sandbox, says_yes: bool) -> Self {
        let args = ["mcp", "--dir", ".", "--write", "--log-level", "debug"];
        let mut child = sandbox
            .command(&args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut stderr = child.stderr.take().unwrap();
        let logged = std::thread::spawn(move || {
            let mut all = Vec::new();
            stderr.read_to_end(&mut all).unwrap();
            all
        });
        let mut listener = Self {
            child,
            lines,
            logged,
            heard: String::new(),
            questions: 0,
            undo: BTreeSet::new(),
            says_yes,
            next: 0,
        };
        listener.request(
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
                   "clientInfo": {"name": "test", "version": "0"}}),
        );
        listener.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        listener
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "it ended");
            self.heard.push_str(&line);
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["method"] == "elicitation/create" {
                self.questions += 1;
                let asked = message["params"]["message"].as_str().unwrap();
                let reveals = ["read", "stat", "copy"]
                    .iter()
                    .any(|verb| asked.starts_with(&format!("The agent wants to {verb} ")));
                let decision = if self.says_yes && !reveals {
                    "allow_once"
                } else {
                    "deny_once"
                };
                let result = json!({"action": "accept", "content": {"decision": decision}});
                self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
            } else if message["id"] == id {
                return message;
            }
        }
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let call = json!({"name": tool, "arguments": arguments});
        let reply = self.request("tools/call", call)["result"].take();
        if let Some(id) = reply["structuredContent"]["undo"].as_str() {
            self.undo.insert(id.to_owned());
        }
        reply
    }

    /// All that it heard, what was logged, and how often it was asked.
    fn end(mut self) -> (String, Vec<u8>, usize, BTreeSet<String>) {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        self.heard.push_str(&rest);
        assert!(self.child.wait().unwrap().success());
        let logged = self.logged.join().unwrap();
        (self.heard, logged, self.questions, self.undo)
    }
}

/// Everything an agent can try with one secret file.
fn try_all(client: &mut Listener, path: &str, n: usize) {
    for more in [
        json!({}),
        json!({"redacted": true}),
        json!({"byteOffset": 0, "byteLength": 4096}),
        json!({"tailLines": 5}),
        json!({"startLine": 1, "maxLines": 1, "encoding": "latin1"}),
    ] {
        let mut arguments = json!({"filePath": path});
        for (key, value) in more.as_object().unwrap() {
            arguments[key] = value.clone();
        }
        client.call("read_file", arguments);
    }
    client.call("stat", json!({"path": path}));
    client.request(
        "resources/read",
        json!({"uri": format!("portcullis://workspace/{path}")}),
    );
    // Refusals that name what is near, what is ambiguous, what is expected.
    for old in [
        "API_KEY = ",
        "KEY=",
        "password",
        "token :",
        "-----BEGIN",
        "e",
    ] {
        client.call(
            "edit_file",
            json!({"filePath": path, "oldString": old, "newString": "x"}),
        );
    }
    client.call(
        "edit_file",
        json!({"filePath": path, "oldString": "zzz", "newString": "y", "expectedHash": "0".repeat(64)}),
    );
    client.call(
        "write_file",
        json!({"filePath": path, "content": "x", "mode": "create"}),
    );
    client.call(
        "write_file",
        json!({"filePath": path, "content": "x", "expectedVersion": "v1-0-0-0-0"}),
    );
    client.call(
        "append_file",
        json!({"filePath": path, "content": "MORE=1\n"}),
    );
    client.call(
        "copy_file",
        json!({"sourcePath": path, "destinationPath": format!("plain-{n}.txt")}),
    );
    client.call(
        "copy_file",
        json!({"sourcePath": "a.txt", "destinationPath": path, "overwrite": false}),
    );
    let elsewhere = format!("moved-{n}/.env");
    let way = json!({"sourcePath": path, "destinationPath": elsewhere});
    client.call("move", way);
    let back = json!({"sourcePath": elsewhere, "destinationPath": path});
    client.call("move", back);
    client.call(
        "write_file",
        json!({"filePath": path, "content": "NEW=1\n"}),
    );
    client.call("delete", json!({"path": path}));
}

fn look_around(client: &mut Listener) {
    client.call("list_files", json!({"dirPath": ".", "recursive": true}));
    client.call("get_file_tree", json!({"dirPath": "."}));
    client.call("glob", json!({"pattern": "**/*"}));
    client.request("resources/list", json!({}));
    client.request("tools/list", json!({}));
    let way = json!({"sourcePath": "app", "destinationPath": "app2"});
    client.call("move", way);
    client.call("delete", json!({"path": "app2"}));
}

/// Every file below `dir`, but for those of the undo store.
fn search(dir: &Path, forms: &[Vec<u8>]) -> usize {
    let mut files = 0;
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.to_string_lossy().into_owned();
        holds_none("a name", name.as_bytes(), forms);
        if path.is_dir() {
            if path.file_name().unwrap() != "undo" {
                files += search(&path, forms);
            }
        } else if path.is_file() {
            holds_none(&name, &fs::read(&path).unwrap(), forms);
            files += 1;
        }
    }
    files
}

#[test]
fn what_a_secret_holds_is_in_nothing_that_is_said_asked_logged_or_recorded() {
    let forms = forms();
    for says_yes in [false, true] {
        let sandbox = Sandbox::new();
        for (n, (path, text)) in SECRETS.iter().enumerate() {
            sandbox.file(path, &text.replace("CANARY", &canary(n)));
        }
        let mut client = Listener::start(&sandbox, says_yes);
        look_around(&mut client);
        for (n, (path, _)) in SECRETS.iter().enumerate() {
            try_all(&mut client, path, n);
        }
        let (heard, logged, questions, undo) = client.end();
        assert!(questions >= SECRETS.len() * 8, "{questions} questions");
        holds_none("the wire", heard.as_bytes(), &forms);
        holds_none("the log", &logged, &forms);
        // The redacted reads came through, with the names.
        assert!(heard.contains("API_KEY") && heard.contains("client_secret"));
        assert_eq!(undo.len() > SECRETS.len() * 3, says_yes, "{}", undo.len());

        let mut commands: Vec<Vec<String>> = [
            &["undo", "list"][..],
            &["audit", "tail"],
            &["audit", "query"],
            &["audit", "verify"],
            &["audit", "export"],
            &["doctor"],
            &["approve", "list"],
            &["policy", "explain", ".env"],
            &["policy", "asks"],
            &["rules", "list"],
            &["recover", "--dry-run"],
        ]
        .iter()
        .map(|words| words.iter().map(|&word| word.to_owned()).collect())
        .collect();
        for verb in ["show", "diff", "apply"] {
            for id in undo.iter().rev() {
                commands.push(vec!["undo".into(), verb.into(), id.clone()]);
            }
        }
        for command in &commands {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            let came = sandbox.run(&words);
            let what = words.join(" ");
            holds_none(&what, came.out.as_bytes(), &forms);
            holds_none(&what, came.err.as_bytes(), &forms);
        }
        assert!(search(&sandbox.data(), &forms) > 2, "nothing was searched");
    }
}

#[test]
fn the_search_finds_what_it_looks_for() {
    let forms = forms();
    let said = |text: String| std::panic::catch_unwind(|| holds_none("x", text.as_bytes(), &forms));
    assert!(said("nothing".into()).is_ok());
    assert!(said(format!("K={}", canary(3))).is_err());
    for lead in ["", "a", "ab"] {
        let text = format!("{lead}{}and more", canary(0));
        let encoded = String::from_utf8(base64(text.as_bytes())).unwrap();
        assert!(said(encoded).is_err(), "{lead:?}");
    }
}
