//! A place of its own for one test: a data directory and a directory to serve.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

/// What a command came to.
#[derive(Debug)]
pub(crate) struct Came {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Came {
    #[track_caller]
    pub(crate) fn with(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn out_has(self, part: &str) -> Self {
        assert!(self.out.contains(part), "no {part:?} in {self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn err_has(self, part: &str) -> Self {
        assert!(self.err.contains(part), "no {part:?} in {self:#?}");
        self
    }
}

impl From<Output> for Came {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

pub(crate) struct Sandbox {
    top: PathBuf,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let top = std::env::temp_dir().join(format!("pc-cli-{}-{n}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&top).unwrap();
        fs::DirBuilder::new()
            .mode(0o700)
            .create(top.join("data"))
            .unwrap();
        fs::create_dir(top.join("dir")).unwrap();
        let sandbox = Self { top };
        sandbox.file("a.txt", "one\ntwo\n");
        sandbox
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.top.join("data")
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.top.join("dir")
    }

    pub(crate) fn file(&self, name: &str, text: &str) {
        let path = self.dir().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.dir().join(name)).unwrap()
    }

    pub(crate) fn settings(&self, text: &str) -> PathBuf {
        let path = self.data().join("settings.json");
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// The binary, with nothing of our own environment that could steer it.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        command
            .env_clear()
            .env("HOME", &self.top)
            .env("USER", "tester")
            .env("PORTCULLIS_DATA_DIR", self.data())
            .current_dir(self.dir())
            .stdin(Stdio::null())
            .args(args);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Came {
        self.command(args).output().unwrap().into()
    }

    /// A server over the directory, after its handshake.
    pub(crate) fn serve(&self, args: &[&str]) -> Client {
        self.serve_below(".", args)
    }

    /// The same over a directory below it.
    pub(crate) fn serve_below(&self, dir: &str, args: &[&str]) -> Client {
        let mut all = vec!["mcp", "--dir", dir];
        all.extend(args);
        let mut child = self
            .command(&all)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut client = Client {
            child,
            lines,
            next: 0,
        };
        client.request(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {},
                   "clientInfo": {"name": "test", "version": "0"}}),
        );
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.top).ok();
    }
}

pub(crate) struct Client {
    child: Child,
    lines: BufReader<ChildStdout>,
    next: u64,
}

impl Client {
    pub(crate) fn send(&mut self, message: &Value) {
        let stdin = self.child.stdin.as_mut().unwrap();
        writeln!(stdin, "{message}").unwrap();
    }

    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert_ne!(
                self.lines.read_line(&mut line).unwrap(),
                0,
                "the server ended"
            );
            let reply: Value =
                serde_json::from_str(&line).expect("stdout holds nothing but the wire");
            if reply["id"] == id {
                return reply;
            }
        }
    }

    pub(crate) fn read(&mut self, path: &str) -> Value {
        self.call("read_file", json!({"filePath": path}))
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let call = json!({"name": tool, "arguments": arguments});
        self.request("tools/call", call)["result"].take()
    }

    /// Kills it where it stands.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Closes the pipe, as a client does, and waits.
    pub(crate) fn leave(mut self) -> i32 {
        drop(self.child.stdin.take());
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    /// Waits for a server that was told to end.
    pub(crate) fn ended(mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}
