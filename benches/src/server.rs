//! An MCP server on standard input and output, driven one request at a time.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::Outcome;
use crate::cpu;
use crate::rounds::Cost;
use crate::scratch::Scratch;
use crate::setup::Setup;

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: u64,
    line: String,
}

impl Server {
    /// Starts `portcullis mcp` on the scratch directory, up to its first reply.
    pub(crate) fn portcullis(setup: &Setup, scratch: &Scratch) -> Outcome<Self> {
        Self::ours(setup, scratch, &["--permission-filesystem-read", "allow"])
    }

    /// The same, with the tools that change files.
    pub(crate) fn writing(setup: &Setup, scratch: &Scratch) -> Outcome<Self> {
        Self::ours(setup, scratch, &["--write"])
    }

    fn ours(setup: &Setup, scratch: &Scratch, flags: &[&str]) -> Outcome<Self> {
        let (root, state) = (scratch.root(), scratch.state());
        let mut arguments = vec![
            OsStr::new("mcp"),
            OsStr::new("--dir"),
            root.as_os_str(),
            OsStr::new("--data-dir"),
            state.as_os_str(),
        ];
        arguments.extend(flags.iter().map(OsStr::new));
        Self::start(&setup.binary, &arguments)
    }

    /// Starts a server and shakes hands.
    pub(crate) fn start(program: &Path, arguments: &[&OsStr]) -> Outcome<Self> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{} does not start: {error}", program.display()))?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or("no standard output")?;
        let mut server = Self {
            child,
            input,
            output: BufReader::new(output),
            next: 1,
            line: String::new(),
        };
        server.request(
            "initialize",
            &json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            }),
        )?;
        Ok(server)
    }

    /// Tells the server that hands are shaken.
    pub(crate) fn ready(mut self) -> Outcome<Self> {
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(self)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// One request, and its reply.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Outcome<Value> {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        loop {
            self.line.clear();
            if self.output.read_line(&mut self.line)? == 0 {
                return Err("the server ended".into());
            }
            let mut reply: Value = serde_json::from_str(&self.line)?;
            if reply["id"] == json!(id) && reply.get("method").is_none() {
                if reply.get("error").is_some() {
                    return Err(reply["error"].to_string().into());
                }
                return Ok(reply["result"].take());
            }
        }
    }

    /// One tool call that has to succeed.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Outcome<Value> {
        let result = self.request("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        if result["isError"] == json!(true) {
            return Err(format!("{tool}: {}", result["content"]).into());
        }
        Ok(result)
    }

    /// What a call takes, over `times` of them: CPU of the whole process tree,
    /// and from request to reply. `arguments` makes those of each.
    pub(crate) fn cost(
        &mut self,
        times: u32,
        tool: &str,
        mut arguments: impl FnMut() -> Value,
    ) -> Outcome<Cost> {
        let pid = self.pid();
        Cost::of(
            || cpu::tree(pid),
            times,
            |_| self.call(tool, &arguments()).map(drop),
        )
    }

    /// Ends it as a client does, by closing its input, and waits for it.
    pub(crate) fn end(mut self) -> Outcome<()> {
        self.input = None;
        self.child.wait()?;
        Ok(())
    }

    fn send(&mut self, message: &Value) -> Outcome<()> {
        let mut line = message.to_string();
        line.push('\n');
        let input = self.input.as_mut().ok_or("its input is closed")?;
        input.write_all(line.as_bytes())?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails only where it has ended already.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
