//! A child that is spoken to over its standard streams, and that dies with its handle.
//!
//! Invariants:
//! - the child leads a process group of its own, and dropping the handle kills the whole group;
//! - the child is reaped only in `drop`, after the kill, so the group id we kill is never a recycled one;
//! - standard error is always drained (a full pipe must not stall the child) and at most
//!   [`STDERR_KEPT`] bytes of it are kept.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// How much of a child's standard error is kept: enough for a stack trace, too little to hurt.
const STDERR_KEPT: usize = 64 * 1024;

/// A running child with piped standard streams.
///
/// Proves: the child was started and has not been reaped. Does not prove that it still runs.
#[derive(Debug)]
pub struct Piped {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Arc<Mutex<Vec<u8>>>,
}

impl Piped {
    /// Starts `argv` in its own process group, with `env_additions` on top of our environment.
    pub fn start<A: AsRef<OsStr>>(argv: &[A], env_additions: &[(A, A)]) -> io::Result<Self> {
        let (program, arguments) = argv
            .split_first()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no program was named"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .envs(env_additions.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let stderr = child.stderr.take().map(keep_stderr).unwrap_or_default();
        Ok(Self {
            child,
            stdin,
            stdout,
            stderr,
        })
    }

    /// The writing end towards the child; `None` once taken.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// The reading end from the child; `None` once taken.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// What the child wrote to standard error so far, up to the first 64 KiB.
    pub fn stderr_text(&self) -> String {
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }

    /// Whether the child has ended. It is not reaped by asking.
    pub fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(Pid::from_child(&self.child)), options) {
            Ok(status) => status.is_some(),
            Err(_no_such_child) => true,
        }
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        // Both may fail only because nothing is left to kill or to reap.
        let _gone = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _reaped = self.child.wait();
    }
}

/// Drains standard error on a thread of its own until the child's side closes.
fn keep_stderr(mut stream: ChildStderr) -> Arc<Mutex<Vec<u8>>> {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let ours = Arc::clone(&kept);
    std::thread::spawn(move || {
        let mut piece = [0_u8; 4096];
        while let Ok(count) = stream.read(&mut piece) {
            if count == 0 {
                break;
            }
            let mut kept = ours.lock().unwrap_or_else(PoisonError::into_inner);
            let room = STDERR_KEPT.saturating_sub(kept.len()).min(count);
            kept.extend(piece.iter().take(room));
        }
    });
    kept
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::time::{Duration, Instant};

    use rustix::process::test_kill_process;

    use super::*;

    #[test]
    fn what_is_written_comes_back() {
        let mut cat = Piped::start(&["cat"], &[]).unwrap();
        cat.take_stdin().unwrap().write_all(b"hello\n").unwrap();
        let mut line = String::new();
        BufReader::new(cat.take_stdout().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "hello\n");
    }

    #[test]
    fn when_dropped_then_grandchildren_die_too() {
        let mut shell = Piped::start(&["sh", "-c", "sleep 600 & echo $!; wait"], &[]).unwrap();
        let mut line = String::new();
        BufReader::new(shell.take_stdout().unwrap())
            .read_line(&mut line)
            .unwrap();
        let grandchild = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
        assert!(test_kill_process(grandchild).is_ok());
        drop(shell);
        let patience = Instant::now() + Duration::from_secs(10);
        while lives(grandchild) {
            assert!(
                Instant::now() < patience,
                "the grandchild outlived its handle"
            );
            std::thread::yield_now();
        }
    }

    /// A killed orphan may stay a zombie where nobody reaps, and that is dead enough.
    fn lives(pid: Pid) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        stat.is_ok_and(|text| !text.contains(") Z "))
    }

    #[test]
    fn stderr_is_drained_and_bounded() {
        let argv = ["sh", "-c", "head -c 300000 /dev/zero >&2; echo done"];
        let mut loud = Piped::start(&argv, &[]).unwrap();
        let mut line = String::new();
        BufReader::new(loud.take_stdout().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "done\n");
        assert!(loud.stderr_text().len() <= STDERR_KEPT);
    }

    #[test]
    fn an_ended_child_is_known_to_have_ended() {
        let mut brief = Piped::start(&["true"], &[]).unwrap();
        let mut rest = Vec::new();
        brief.take_stdout().unwrap().read_to_end(&mut rest).unwrap();
        let patience = Instant::now() + Duration::from_secs(10);
        while !brief.has_ended() {
            assert!(Instant::now() < patience);
            std::thread::yield_now();
        }
    }

    #[test]
    fn an_empty_command_line_is_an_error() {
        let nothing: [&str; 0] = [];
        assert_eq!(
            Piped::start(&nothing, &[]).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }
}
