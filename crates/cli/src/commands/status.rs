//! `portcullis status` and `portcullis disconnect`: how this machine is lent, and
//! the end of it.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::time::{Duration, Instant};

use portcullis_proto::read_json;
use serde_json::Value;

use crate::args::{Everywhere, StatusArgs};
use crate::environment::Environment;
use crate::out::{BOLD, Mark, Out, paint, shown};
use crate::problem::{Ending, Problem};
use crate::settings;
use crate::sockets;

/// The longest answer.
const MAX_ANSWER: u64 = 64 * 1024;
/// How long a daemon may take to say goodbye: its own three seconds, and more.
const GOODBYE: Duration = Duration::from_secs(8);

pub(crate) fn run(
    everywhere: &Everywhere,
    env: &Environment,
    args: &StatusArgs,
) -> Result<Ending, Problem> {
    let mut out = Out::stdout();
    let told = ask(everywhere, env, "status")?;
    if args.json {
        let none = || serde_json::json!({"state": "not lent"});
        out.line(told.unwrap_or_else(none))?;
        return Ok(Ending::Fine);
    }
    let Some(told) = told else {
        out.line("This machine is not lent.")?;
        return Ok(Ending::Fine);
    };
    let text =
        |name: &str| shown(told.get(name).and_then(Value::as_str).unwrap_or("-")).into_owned();
    out.line(format_args!("state      {}", paint(BOLD, text("state"))))?;
    for name in ["server", "directory", "machine"] {
        out.line(format_args!("{name:<10} {}", text(name)))?;
    }
    let number = |name: &str| told.get(name).and_then(Value::as_u64).unwrap_or(0);
    out.line(format_args!(
        "calls      {} ended ({} refused or failed), {} running",
        number("calls"),
        number("refused"),
        number("running")
    ))?;
    Ok(Ending::Fine)
}

pub(crate) fn disconnect(everywhere: &Everywhere, env: &Environment) -> Result<Ending, Problem> {
    let mut out = Out::stdout();
    if ask(everywhere, env, "disconnect")?.is_none() {
        out.line("This machine is not lent.")?;
        return Ok(Ending::Fine);
    }
    let began = Instant::now();
    while ask(everywhere, env, "status")?.is_some() {
        if began.elapsed() > GOODBYE {
            return Err(Problem::new("It was asked to end, and has not ended yet.")
                .hint("portcullis status"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    out.line(Mark::Yes.with("Disconnected"))?;
    Ok(Ending::Fine)
}

/// What the daemon says to a word; nothing where there is none.
fn ask(everywhere: &Everywhere, env: &Environment, word: &str) -> Result<Option<Value>, Problem> {
    let data = settings::data_dir(everywhere, env)?;
    let Some(stream) = sockets::ask_daemon(&data)? else {
        return Ok(None);
    };
    Ok(said(stream, word)?)
}

/// What is said over `stream` to a word. One that ends while it is asked says
/// nothing more: it may have taken the connection and not the word, or neither.
fn said(mut stream: impl Read + Write, word: &str) -> io::Result<Option<Value>> {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    let mut line = String::new();
    let asked = stream
        .write_all(format!("{word}\n").as_bytes())
        .and_then(|()| BufReader::new(stream.take(MAX_ANSWER)).read_line(&mut line));
    match asked {
        Ok(_) => Ok(read_json(line.as_bytes()).ok()),
        Err(error) if matches!(error.kind(), BrokenPipe | ConnectionReset) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A daemon at the other end of a pipe.
    struct Far {
        write: Option<io::ErrorKind>,
        read: Result<&'static [u8], io::ErrorKind>,
    }

    impl Write for Far {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.write.map_or(Ok(bytes.len()), |kind| Err(kind.into()))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Read for Far {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let mut rest = self.read?;
            let read = rest.read(buffer)?;
            self.read = Ok(rest);
            Ok(read)
        }
    }

    #[test]
    fn a_daemon_that_ends_while_it_is_asked_is_none() {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut};
        let ask = |write, read| said(Far { write, read }, "status");
        let told = ask(None, Ok(b"{\"state\":\"connected\"}\n")).unwrap();
        assert_eq!(told.unwrap()["state"], "connected");
        for gone in [
            ask(None, Ok(b"")),
            ask(None, Err(ConnectionReset)),
            ask(Some(BrokenPipe), Ok(b"")),
        ] {
            assert_eq!(gone.unwrap(), None);
        }
        assert!(ask(None, Err(TimedOut)).is_err());
    }
}
