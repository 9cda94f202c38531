//! What a person sees of a link that is up: one line that is kept up to date, on
//! standard error; and the log beside it. Neither holds contents.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use portcullis_daemon::{Observer, Status};
use portcullis_files::OwnLog;
use portcullis_gate::Clock as _;
use serde_json::{Value, json};

use crate::clock::SystemClock;
use crate::log::Log;
use crate::out::{clipped, moment, shown};

/// The longest line: narrower terminals are rare, and a line that wraps cannot
/// be written over.
const WIDTH: usize = 78;

#[derive(Debug)]
enum Link {
    Connecting,
    Up,
    Waiting(Instant, String),
}

#[derive(Debug)]
struct Seen {
    link: Link,
    calls: u64,
    running: u64,
    refused: u64,
    /// A prompt has the terminal.
    is_prompting: bool,
    drawn: String,
}

/// What is lent, to whom.
pub(super) struct About {
    pub(super) to: String,
    pub(super) directory: String,
    pub(super) machine: String,
}

pub(super) struct Screen {
    seen: Mutex<Seen>,
    about: About,
    is_watched: bool,
    log: Log,
    file: OwnLog,
}

impl Screen {
    pub(super) fn new(about: About, log: Log, file: OwnLog) -> Self {
        Self {
            seen: Mutex::new(Seen {
                link: Link::Connecting,
                calls: 0,
                running: 0,
                refused: 0,
                is_prompting: false,
                drawn: String::new(),
            }),
            about,
            is_watched: std::io::stderr().is_terminal(),
            log,
            file,
        }
    }

    /// A prompt takes the terminal: the line goes until it is done.
    pub(super) fn begin_prompt(&self) {
        let mut seen = self.seen();
        self.draw(&mut seen, "");
        seen.is_prompting = true;
    }

    pub(super) fn end_prompt(&self) {
        let mut seen = self.seen();
        seen.is_prompting = false;
        self.refresh(&mut seen);
    }

    /// Called every second: a wait gets shorter.
    pub(super) fn tick(&self) {
        let mut seen = self.seen();
        if matches!(seen.link, Link::Waiting(..)) {
            self.refresh(&mut seen);
        }
    }

    /// The line goes for good.
    pub(super) fn end(&self) {
        let mut seen = self.seen();
        seen.is_prompting = false;
        self.draw(&mut seen, "");
        seen.is_prompting = true;
    }

    /// How it stands, for programs.
    pub(super) fn status(&self) -> Value {
        let seen = self.seen();
        let state = match seen.link {
            Link::Connecting => "connecting",
            Link::Up => "connected",
            Link::Waiting(..) => "reconnecting",
        };
        json!({
            "state": state,
            "server": self.about.to,
            "directory": self.about.directory,
            "machine": self.about.machine,
            "calls": seen.calls,
            "running": seen.running,
            "refused": seen.refused,
        })
    }

    /// A line in the log.
    pub(super) fn note(&self, what: &str) {
        let now = moment(SystemClock::new().now_ms());
        self.file.line(&format!("{now} {}", shown(what)));
    }

    fn refresh(&self, seen: &mut Seen) {
        let line = match &seen.link {
            Link::Connecting => format!("… connecting to {}", self.about.to),
            Link::Up => format!(
                "● connected to {} · calls: {}, running: {}, refused: {} · Ctrl-C ends",
                self.about.to, seen.calls, seen.running, seen.refused
            ),
            Link::Waiting(until, why) => {
                let left = until.saturating_duration_since(Instant::now());
                format!("○ reconnecting in {} s: {why}", left.as_secs_f64().ceil())
            }
        };
        let line = clipped(&shown(&line), WIDTH).into_owned();
        self.draw(seen, &line);
    }

    fn draw(&self, seen: &mut Seen, line: &str) {
        if !self.is_watched || seen.is_prompting || seen.drawn == line {
            return;
        }
        // Where nobody can see it there is nobody to tell.
        let mut err = std::io::stderr().lock();
        write!(err, "\r\u{1b}[2K{line}").ok();
        err.flush().ok();
        line.clone_into(&mut seen.drawn);
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What happens to the link itself is also said where there is no line.
    fn tell_link(&self, what: &str) {
        self.note(what);
        if !self.is_watched {
            self.log.info(what);
        }
    }
}

impl Observer for Screen {
    fn tell(&self, status: &Status<'_>) {
        let mut seen = self.seen();
        match status {
            Status::Connecting => seen.link = Link::Connecting,
            Status::Connected(_) => seen.link = Link::Up,
            Status::Waiting(wait, why) => {
                seen.link = Link::Waiting(Instant::now() + *wait, (*why).to_owned());
            }
            Status::Began { .. } => seen.running += 1,
            Status::Ended { is_error, .. } => {
                seen.running = seen.running.saturating_sub(1);
                seen.calls += 1;
                seen.refused += u64::from(*is_error);
            }
            Status::Ignored(_) => {}
        }
        self.refresh(&mut seen);
        drop(seen);
        match status {
            Status::Connecting => self.note("connecting"),
            Status::Connected(dialect) => {
                self.tell_link(&format!(
                    "connected to {} ({})",
                    self.about.to,
                    dialect.as_str()
                ));
            }
            Status::Waiting(wait, why) => {
                self.tell_link(&format!("reconnecting in {}: {why}", seconds(*wait)));
            }
            Status::Began { request, tool } => self.note(&format!("call {request} {tool} began")),
            Status::Ended {
                request,
                is_error,
                took,
            } => {
                let how = if *is_error { "failed" } else { "ended" };
                let ms = took.as_millis();
                self.note(&format!("call {request} {how} after {ms} ms"));
            }
            Status::Ignored(what) => self.note(&format!("ignored: {what}")),
        }
    }
}

fn seconds(wait: Duration) -> String {
    format!("{:.1} s", wait.as_secs_f64())
}
