//! The log of a server, on standard error. Never contents, and never standard
//! output, which is the wire.

use std::fmt::Display;
use std::io::Write;

use portcullis_gate::Clock as _;
use portcullis_server::{Observer, Seen};
use serde_json::{Value, json};

use crate::args::{LogFormat, LogLevel};
use crate::clock::SystemClock;
use crate::settings::Settings;

/// Says things at or below its level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
    level: LogLevel,
    format: LogFormat,
}

impl Log {
    /// As the settings say.
    pub(crate) const fn of(settings: &Settings) -> Self {
        Self {
            level: settings.log_level,
            format: settings.log_format,
        }
    }

    pub(crate) fn error(self, what: impl Display) {
        self.say(LogLevel::Error, what);
    }

    pub(crate) fn warn(self, what: impl Display) {
        self.say(LogLevel::Warn, what);
    }

    pub(crate) fn info(self, what: impl Display) {
        self.say(LogLevel::Info, what);
    }

    pub(crate) fn debug(self, what: impl Display) {
        self.say(LogLevel::Debug, what);
    }

    const fn says(self, level: LogLevel) -> bool {
        level as u8 <= self.level as u8
    }

    fn say(self, level: LogLevel, what: impl Display) {
        if !self.says(level) {
            return;
        }
        match self.format {
            LogFormat::Text => write_line(format_args!("portcullis {}: {what}", word(level))),
            LogFormat::Json => {
                Self::object(level, json!({ "message": what.to_string() }));
            }
        }
    }

    /// One object, with when and how grave before what it holds.
    fn object(level: LogLevel, what: Value) {
        let now = SystemClock::new().now_ms();
        let mut line = json!({ "timestamp": rfc3339(now), "level": word(level) });
        if let (Some(line), Value::Object(what)) = (line.as_object_mut(), what) {
            line.extend(what);
        }
        write_line(line);
    }
}

/// One line, in one write: lines of two threads never mix.
fn write_line(line: impl Display) {
    let line = format!("{line}\n");
    // Where standard error is closed there is nobody to tell.
    anstream::stderr().lock().write_all(line.as_bytes()).ok();
}

fn rfc3339(ms: u64) -> String {
    i64::try_from(ms)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        .map(|at| format!("{at:.3}"))
        .unwrap_or_default()
}

const fn word(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Off => "off",
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
    }
}

/// One line for every request: what was answered, never what was said. A route
/// is named as the table of routes has it; there is no path and no query.
impl Observer for Log {
    fn seen(&self, seen: &Seen<'_>) {
        // A probe asks every few seconds, and gets the same answer.
        let level = if seen.route == Some("GET /health") {
            LogLevel::Debug
        } else {
            LogLevel::Info
        };
        if !self.says(level) {
            return;
        }
        let principal = seen.identity.map(|identity| identity.principal.label());
        match self.format {
            LogFormat::Json => Self::object(
                level,
                json!({
                    "message": "request",
                    "requestId": seen.request_id,
                    "route": seen.route,
                    "status": seen.status,
                    "principal": principal,
                    "durationUs": seen.duration_us,
                    "bytes": seen.bytes,
                    "attempt": seen.attempt,
                }),
            ),
            LogFormat::Text => {
                let bytes = seen.bytes.map_or_else(|| "-".to_owned(), |n| n.to_string());
                write_line(format_args!(
                    "portcullis {}: request {} route={:?} status={} principal={} us={} bytes={bytes} attempt={}",
                    word(level),
                    seen.request_id,
                    seen.route.unwrap_or("-"),
                    seen.status,
                    principal.as_deref().unwrap_or("-"),
                    seen.duration_us,
                    seen.attempt.unwrap_or("-"),
                ));
            }
        }
    }
}
