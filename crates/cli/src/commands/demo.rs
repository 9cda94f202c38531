//! `portcullis demo`: a short session as an agent has it, with the refusals it
//! sees, and the record of it. Drives our own `mcp` as a child over stdio.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::ChildStdin;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use portcullis_files::{AuditLog, Filter};
use portcullis_gate::Clock as _;
use portcullis_process::Piped;
use serde_json::{Value, json};

use crate::args::{DirArgs, Everywhere};
use crate::clock::SystemClock;
use crate::commands::audit_line::{place, verdict};
use crate::environment::Environment;
use crate::out::{BOLD, CYAN, FAINT, Mark, Out, clipped, paint, shown};
use crate::problem::{Ending, Problem};
use crate::settings;
use crate::wiring::open_data;

/// The client's name in the audit, by which its lines are found again.
const CLIENT: &str = "demo";
/// How long a reply may take before the demonstration gives up.
const PATIENCE: Duration = Duration::from_secs(10);
/// How wide a line of the transcript may get.
const WIDTH: usize = 96;
/// How many lines of a file are shown.
const LINES: usize = 3;
/// How many lines of the audit are shown.
const RECORDED: usize = 7;

pub(crate) fn run(
    everywhere: &Everywhere,
    env: &Environment,
    args: &DirArgs,
) -> Result<Ending, Problem> {
    let data_dir = settings::data_dir(everywhere, env)?;
    let data = open_data(&data_dir)?;
    let started = SystemClock::new().now_ms();
    let mut out = Out::stdout();
    out.line(format_args!(
        "{} {}",
        paint(BOLD, "An agent is given"),
        args.dir.display()
    ))?;
    let mut agent = Agent::start(everywhere, env, args)?;
    let names = agent.list(&mut out)?;
    if let Some(file) = readable(&names) {
        agent.read(&mut out, &file)?;
    }
    out.blank()?;
    out.line(paint(BOLD, "What it is refused"))?;
    for (path, what) in traps(&names) {
        agent.try_read(&mut out, &path, what)?;
    }
    agent.leave();
    out.blank()?;
    out.line(paint(BOLD, "What the record says"))?;
    let log = AuditLog::open(&data)?;
    let filter = Filter {
        since: Some(started),
        subject: Some(CLIENT.to_owned()),
        ..Filter::default()
    };
    let mut records: Vec<_> = log.records(filter)?.flatten().collect();
    let skipped = records.len().saturating_sub(RECORDED);
    records.drain(..skipped);
    for record in &records {
        out.line(format_args!(
            "  {}  {:<5} {:<34} {}",
            verdict(record),
            shown(record.operation.as_deref().unwrap_or("-")),
            clipped(&place(record), 34),
            paint(
                FAINT,
                shown(
                    record
                        .reason
                        .as_deref()
                        .or(record.policy_source.as_deref())
                        .unwrap_or("-")
                )
            )
        ))?;
    }
    out.blank()?;
    out.line(paint(BOLD, "Next"))?;
    for (command, why) in [
        (
            "portcullis mcp --dir .",
            "put this into your agent's MCP settings",
        ),
        ("portcullis approve --watch", "be there when it has to ask"),
        (
            "portcullis policy explain .env",
            "which rule decides, and what would change it",
        ),
        ("portcullis audit tail --follow", "watch what it does"),
    ] {
        out.line(format_args!(
            "  {:<32} {why}",
            paint(CYAN, format!("{command:<31}"))
        ))?;
    }
    Ok(Ending::Fine)
}

/// What there is to try: what always is refused, and what stands in the way here.
fn traps(names: &[Value]) -> Vec<(String, &'static str)> {
    let of_kind = |kind: &str| {
        names
            .iter()
            .find(|entry| entry["type"] == kind)
            .and_then(|entry| entry["path"].as_str().or(entry["name"].as_str()))
            .map(str::to_owned)
    };
    let mut traps = vec![("../../etc/passwd".to_owned(), "a way up and out")];
    if let Some(link) = of_kind("symlink") {
        traps.push((link, "a link that leads elsewhere"));
    }
    if let Some(pipe) = of_kind("special") {
        traps.push((pipe, "a pipe that would never answer"));
    }
    traps.push((".env".to_owned(), "a secret, whether or not it exists"));
    traps
}

/// A file worth reading aloud: a readme first.
fn readable(names: &[Value]) -> Option<String> {
    let files: Vec<&str> = names
        .iter()
        .filter(|entry| entry["type"] == "file")
        .filter_map(|entry| entry["path"].as_str().or(entry["name"].as_str()))
        .collect();
    let plain = |name: &&&str| {
        let name = name.to_ascii_lowercase();
        [".txt", ".md", ".toml", ".json", ".py", ".rs", ".js"]
            .iter()
            .any(|ending| name.ends_with(ending))
    };
    files
        .iter()
        .find(|name| name.to_ascii_lowercase().starts_with("readme"))
        .or_else(|| files.iter().find(plain))
        .or(files.first())
        .map(|name| (*name).to_owned())
}

/// An agent's client, as small as it can be.
struct Agent {
    child: Piped,
    stdin: Option<ChildStdin>,
    replies: Receiver<Value>,
    next: u64,
}

impl Agent {
    fn start(everywhere: &Everywhere, env: &Environment, args: &DirArgs) -> Result<Self, Problem> {
        let program = env
            .program
            .clone()
            .ok_or_else(|| Problem::new("This program does not know where it stands."))?;
        let data_dir = settings::data_dir(everywhere, env)?;
        let mut argv = vec![
            program.into_os_string(),
            "--data-dir".into(),
            data_dir.into_os_string(),
        ];
        if let Some(settings) = &everywhere.settings {
            argv.extend(["--settings".into(), settings.clone().into_os_string()]);
        }
        argv.extend(["mcp", "--client-name", CLIENT, "--dir"].map(Into::into));
        argv.push(args.dir.clone().into_os_string());
        let mut child = Piped::start(&argv, &[])
            .map_err(|error| Problem::new(format!("The server could not be started: {error}.")))?;
        let stdin = child.take_stdin();
        let stdout = child.take_stdout();
        let (tell, replies) = mpsc::channel();
        thread::spawn(move || {
            let lines = stdout
                .into_iter()
                .flat_map(|out| BufReader::new(out).lines());
            for line in lines.map_while(Result::ok) {
                if let Ok(reply) = serde_json::from_str(&line)
                    && tell.send(reply).is_err()
                {
                    break;
                }
            }
        });
        let mut agent = Self {
            child,
            stdin,
            replies,
            next: 1,
        };
        agent.request(
            "initialize",
            json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": CLIENT, "version": env!("CARGO_PKG_VERSION")},
            }),
        )?;
        agent.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(agent)
    }

    fn send(&mut self, message: &Value) -> Result<(), Problem> {
        let line = format!("{message}\n");
        let sent = self.stdin.as_mut().map(|pipe| {
            pipe.write_all(line.as_bytes())?;
            pipe.flush()
        });
        match sent {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) | None => Err(self.ended()),
        }
    }

    fn request(&mut self, method: &str, params: Value) -> Result<Value, Problem> {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.replies.recv_timeout(left) {
                Ok(mut reply) if reply["id"] == id => return Ok(reply["result"].take()),
                Ok(_) => {}
                Err(_) => return Err(self.ended()),
            }
        }
    }

    /// The server is gone, or silent; what it said says why.
    fn ended(&self) -> Problem {
        let said = self.child.stderr_text();
        let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
        let what = lines.next().map_or("The server did not answer.", |line| {
            line.strip_prefix("problem:").unwrap_or(line).trim()
        });
        let hint = lines.next().and_then(|line| line.strip_prefix("hint:"));
        Problem::new(what).hint(hint.map_or("portcullis doctor", str::trim))
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, Problem> {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    fn list(&mut self, out: &mut Out) -> Result<Vec<Value>, Problem> {
        let reply = self.call("list_files", json!({"dirPath": "."}))?;
        let found = &reply["structuredContent"];
        let entries = found["entries"]
            .as_array()
            .or_else(|| found["files"].as_array())
            .cloned()
            .unwrap_or_default();
        let names: Vec<String> = entries
            .iter()
            .filter_map(|entry| entry["name"].as_str().or(entry["path"].as_str()))
            .map(|name| shown(name).into_owned())
            .collect();
        step(out, "list_files .", is_fine(&reply))?;
        if names.is_empty() {
            return said(out, &reply).map(|()| entries);
        }
        aside(out, &names.join("  "))?;
        Ok(entries)
    }

    fn read(&mut self, out: &mut Out, path: &str) -> Result<(), Problem> {
        let reply = self.call("read_file", json!({"filePath": path, "maxLines": LINES}))?;
        step(out, &format!("read_file {path}"), is_fine(&reply))?;
        match reply["structuredContent"]["content"].as_str() {
            Some(text) if is_fine(&reply) => text
                .lines()
                .filter(|line| !line.trim().is_empty())
                .take(LINES)
                .try_for_each(|line| aside(out, line)),
            _ => said(out, &reply),
        }
    }

    fn try_read(&mut self, out: &mut Out, path: &str, what: &str) -> Result<(), Problem> {
        let reply = self.call("read_file", json!({"filePath": path}))?;
        step(
            out,
            &format!("read_file {path}   ({what})"),
            is_fine(&reply),
        )?;
        said(out, &reply)
    }

    /// Closes the pipe and waits until the server has signed its record off.
    fn leave(mut self) {
        drop(self.stdin.take());
        let until = Instant::now() + PATIENCE;
        while !self.child.has_ended() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn is_fine(reply: &Value) -> bool {
    reply["isError"] != true && !reply.is_null()
}

fn step(out: &mut Out, what: &str, fine: bool) -> Result<(), Problem> {
    let mark = if fine {
        Mark::Yes.with("done   ")
    } else {
        Mark::No.with("refused")
    };
    out.line(format_args!("  {mark}  {}", clipped(&shown(what), WIDTH)))
}

fn aside(out: &mut Out, text: &str) -> Result<(), Problem> {
    let text = shown(text);
    out.line(paint(
        FAINT,
        format!("             {}", clipped(&text, WIDTH)),
    ))
}

/// What the agent was told, in the server's own words.
fn said(out: &mut Out, reply: &Value) -> Result<(), Problem> {
    let text = reply["content"][0]["text"].as_str().unwrap_or_default();
    match text.lines().find(|line| !line.trim().is_empty()) {
        Some(line) => aside(out, line),
        None => Ok(()),
    }
}
