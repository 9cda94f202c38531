//! The peers that need Node, as `benches/run.sh` installs them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::Outcome;
use crate::rounds::Cost;
use crate::scratch::Scratch;
use crate::server::Server;
use crate::setup::Setup;

/// The reference file server, serving the scratch directory.
pub(crate) fn reference_server(setup: &Setup, scratch: &Scratch) -> Outcome<Server> {
    let script = installed(
        setup,
        "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js",
    )?;
    let arguments = [script.into_os_string(), scratch.root().into_os_string()];
    Server::start(
        &node(setup)?,
        &arguments.each_ref().map(std::ffi::OsString::as_os_str),
    )?
    .ready()
}

/// A peer behind a driver that does as told and says what it cost.
#[derive(Debug)]
pub(crate) struct Driven {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Driven {
    /// `@openclaw/fs-safe`.
    pub(crate) fn fs_safe(setup: &Setup, scratch: &Scratch) -> Outcome<Self> {
        installed(setup, "node_modules/@openclaw/fs-safe/package.json")?;
        Self::start(setup, scratch, "fs-safe.mjs")
    }

    /// `@n8n/computer-use`.
    pub(crate) fn computer_use(setup: &Setup, scratch: &Scratch) -> Outcome<Self> {
        installed(
            setup,
            "computer-use/node_modules/@n8n/computer-use/package.json",
        )?;
        Self::start(setup, scratch, "computer-use/search.mjs")
    }

    fn start(setup: &Setup, scratch: &Scratch, script: &str) -> Outcome<Self> {
        let mut child = Command::new(node(setup)?)
            .arg(installed(setup, script)?)
            .arg(scratch.root())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or("no standard input")?;
        let output = child.stdout.take().ok_or("no standard output")?;
        Ok(Self {
            child,
            input,
            output: BufReader::new(output),
        })
    }

    /// What an operation takes, over `times` of them.
    pub(crate) fn cost(&mut self, verb: &str, times: u32, path: &str) -> Outcome<Cost> {
        writeln!(self.input, "{verb} {times} {path}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let said = line
            .trim()
            .split_once(' ')
            .and_then(|(cpu, wall)| Some((cpu.parse().ok()?, wall.parse().ok()?)));
        match said {
            Some((cpu, wall)) => Ok(Cost { cpu, wall }),
            None => Err(format!("the driver said {line:?}").into()),
        }
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        // Fails only where it has ended already.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn node(setup: &Setup) -> Outcome<PathBuf> {
    installed(setup, "node_modules/node/bin/node")
}

fn installed(setup: &Setup, path: &str) -> Outcome<PathBuf> {
    let path = setup.peers.join(path);
    path.canonicalize()
        .map_err(|_| format!("{} is missing; run benches/run.sh", path.display()).into())
}
