//! What a person sees of a link that is up: one line that is kept up to date, on
//! standard error; and the log beside it. Neither holds contents.
//!
//! A terminal can be held up (Ctrl-S, a connection that hangs), and who writes to it
//! then waits for as long. So the line is drawn by a thread of its own, which holds
//! nothing that calls wait for.

use std::collections::VecDeque;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
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
/// How often the line is drawn at most.
const PACE: Duration = Duration::from_millis(100);
/// How many sentences wait to be shown above it.
const MAX_SAID: usize = 16;
/// How long the end waits for a terminal that is held up.
const END_PATIENCE: Duration = Duration::from_millis(500);

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
    is_over: bool,
    /// Something is to be drawn.
    is_stale: bool,
    /// What is to stay above the line.
    said: VecDeque<String>,
}

/// What is lent, to whom.
pub(super) struct About {
    pub(super) to: String,
    pub(super) directory: String,
    pub(super) machine: String,
}

pub(super) struct Screen {
    seen: Mutex<Seen>,
    stale: Condvar,
    /// Who holds it writes to the terminal: what the line says there. Taken before
    /// `seen`, and never by who must not wait.
    pen: Mutex<String>,
    about: About,
    is_watched: bool,
    log: Log,
    file: OwnLog,
}

impl Screen {
    pub(super) fn new(about: About, log: Log, file: OwnLog) -> Arc<Self> {
        let screen = Arc::new(Self {
            seen: Mutex::new(Seen {
                link: Link::Connecting,
                calls: 0,
                running: 0,
                refused: 0,
                is_prompting: false,
                is_over: false,
                is_stale: false,
                said: VecDeque::new(),
            }),
            stale: Condvar::new(),
            pen: Mutex::default(),
            about,
            is_watched: std::io::stderr().is_terminal(),
            log,
            file,
        });
        if screen.is_watched {
            let drawing = Arc::clone(&screen);
            std::thread::spawn(move || drawing.keep_drawn());
        }
        screen
    }

    /// Draws what changes, until the end.
    fn keep_drawn(&self) {
        loop {
            let mut seen = self.seen();
            while !seen.is_over && (!seen.is_stale || seen.is_prompting) {
                let woken = self.stale.wait(seen);
                seen = woken.unwrap_or_else(PoisonError::into_inner);
            }
            if seen.is_over {
                return;
            }
            drop(seen);
            self.draw();
            std::thread::sleep(PACE);
        }
    }

    fn draw(&self) {
        let mut pen = self.pen();
        let (said, line) = {
            let mut seen = self.seen();
            if seen.is_prompting || seen.is_over {
                return;
            }
            seen.is_stale = false;
            (std::mem::take(&mut seen.said), self.line(&seen))
        };
        write_over(&mut pen, &said, &line);
    }

    /// A prompt takes the terminal: the line goes until it is done.
    pub(super) fn begin_prompt(&self) {
        let mut pen = self.pen();
        let said = {
            let mut seen = self.seen();
            seen.is_prompting = true;
            std::mem::take(&mut seen.said)
        };
        if self.is_watched {
            write_over(&mut pen, &said, "");
        }
    }

    pub(super) fn end_prompt(&self) {
        let mut seen = self.seen();
        seen.is_prompting = false;
        self.stale(&mut seen);
    }

    /// Called every second: a wait gets shorter.
    pub(super) fn tick(&self) {
        let mut seen = self.seen();
        if matches!(seen.link, Link::Waiting(..)) {
            self.stale(&mut seen);
        }
    }

    /// The line goes for good; a terminal that is held up keeps what it has.
    pub(super) fn end(&self) {
        let said = {
            let mut seen = self.seen();
            seen.is_over = true;
            std::mem::take(&mut seen.said)
        };
        self.stale.notify_all();
        let until = Instant::now() + END_PATIENCE;
        loop {
            match self.pen.try_lock() {
                Ok(mut pen) if self.is_watched => return write_over(&mut pen, &said, ""),
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Ok(_) | Err(_) => return,
            }
        }
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

    fn line(&self, seen: &Seen) -> String {
        let line = match &seen.link {
            Link::Connecting => format!("… connecting to {}", self.about.to),
            Link::Up => up(&self.about.to, (seen.calls, seen.running, seen.refused)),
            Link::Waiting(until, why) => {
                let left = until.saturating_duration_since(Instant::now());
                format!("○ reconnecting in {} s: {why}", left.as_secs_f64().ceil())
            }
        };
        clipped(&shown(&line), WIDTH).into_owned()
    }

    fn stale(&self, seen: &mut Seen) {
        seen.is_stale = true;
        self.stale.notify_all();
    }

    fn pen(&self) -> MutexGuard<'_, String> {
        self.pen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A sentence that stays above the line.
    fn say(&self, what: &str) {
        let mut seen = self.seen();
        if seen.said.len() < MAX_SAID {
            let what = clipped(&shown(what), 2 * WIDTH).into_owned();
            seen.said.push_back(format!("! {what}"));
        }
        self.stale(&mut seen);
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
            Status::TookOver(_) | Status::Ignored(_) => {}
        }
        self.stale(&mut seen);
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
            Status::TookOver(host) => {
                let what =
                    format!("another daemon, on {host}, stood for this machine and was let go");
                self.note(&what);
                if self.is_watched {
                    self.say(&what);
                } else {
                    self.log.warn(shown(&what));
                }
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

/// The line of a link that is up. Where it is too long, the server's name is what is
/// cut: the counts are what changes.
fn up(to: &str, (calls, running, refused): (u64, u64, u64)) -> String {
    let before = "● connected to ";
    let counts = format!(" · calls: {calls}, running: {running}, refused: {refused}");
    let how_to_end = " · Ctrl-C ends";
    let count = |text: &str| text.chars().count();
    let to = shown(to);
    let room = WIDTH.saturating_sub(count(before) + count(&counts));
    let to = clipped(&to, room);
    let rest = room - count(&to).min(room);
    let how_to_end = if count(how_to_end) <= rest {
        how_to_end
    } else {
        ""
    };
    format!("{before}{to}{counts}{how_to_end}")
}

/// Puts `line` in the place of the one that is there, below what is `said`.
fn write_over(there: &mut String, said: &VecDeque<String>, line: &str) {
    if said.is_empty() && there == line {
        return;
    }
    let mut text = String::from("\r\u{1b}[2K");
    for what in said {
        text.push_str(what);
        text.push_str("\r\n");
    }
    text.push_str(line);
    // Where nobody can see it there is nobody to tell.
    let mut err = std::io::stderr().lock();
    err.write_all(text.as_bytes()).ok();
    err.flush().ok();
    line.clone_into(there);
}

fn seconds(wait: Duration) -> String {
    format!("{:.1} s", wait.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_are_seen_however_long_the_name_of_the_server_is() {
        let counts = " · calls: 12, running: 3, refused: 4";
        let short = up("http://here", (12, 3, 4));
        assert_eq!(
            short,
            format!("● connected to http://here{counts} · Ctrl-C ends")
        );
        let whole = up("http://127.0.0.1:54321", (12, 3, 4));
        assert_eq!(
            whole,
            format!("● connected to http://127.0.0.1:54321{counts}")
        );
        let long = format!("https://{}.example", "n".repeat(100));
        let cut = up(&long, (12, 3, 4));
        assert!(
            cut.contains("https://nn") && cut.contains(".example"),
            "{cut}"
        );
        assert!(cut.ends_with(counts), "{cut}");
        assert_eq!(cut.chars().count(), WIDTH);
    }
}
