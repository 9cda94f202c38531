//! One run of a hook program: a clean start, bounded output, a certain end.
//!
//! The program gets a process group of its own. However a run ends (an answer,
//! a time-out, the caller dropping it) the whole group is killed and the
//! program reaped.

use std::io::PipeReader;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{Instant, timeout, timeout_at};

use super::wire::printable;

/// The most a hook may say.
const MAX_STDOUT: usize = 64 * 1024;
/// The most of its complaints that is kept.
const MAX_STDERR: usize = 4 * 1024;
/// How long its pipes may stay open once it and its group are gone. Only a
/// process that left the group can hold them, and that one is not waited for.
const GRACE: Duration = Duration::from_millis(200);
/// How long a killed program may take to be gone; the runtime reaps it later
/// if the kernel is slower than this.
const REAP: Duration = Duration::from_secs(1);
/// Where a hook finds programs, whatever our own environment says.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A program and what it is started with.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) path: String,
    pub(super) args: Vec<String>,
    pub(super) timeout: Duration,
}

impl Program {
    /// Runs it on `request` and returns all it said, if it read the request,
    /// said it in time and exited with 0.
    pub(super) async fn run(&self, request: &[u8], deadline: Instant) -> Result<Vec<u8>, String> {
        let (mut running, stdin) = self
            .start()
            .map_err(|error| format!("it cannot be started: {error}"))?;
        let mut complaints = Vec::new();
        let said = timeout_at(deadline, running.converse(stdin, request, &mut complaints))
            .await
            .unwrap_or_else(|_| Err("it did not answer in time".to_owned()));
        running.end().await;
        said.map_err(|why| {
            if complaints.is_empty() {
                why
            } else {
                format!("{why}; it complained: {}", printable(&complaints))
            }
        })
    }

    fn start(&self) -> std::io::Result<(Running, ChildStdin)> {
        let (reader, writer) = std::io::pipe()?;
        let stdin = ChildStdin::from_std(std::process::ChildStdin::from(OwnedFd::from(writer)))?;
        // Every handle of ours closes on exec; what we were started with
        // ourselves need not. Neither goes along.
        close_fds::set_fds_cloexec_threadsafe(3, &[]);
        let child = Command::new(&self.path)
            .args(&self.args)
            .env_clear()
            .env("PATH", PATH)
            .env("LANG", "C.UTF-8")
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::from(reader.try_clone()?))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let running = Running {
            group: Group::of(&child),
            child,
            unread: reader,
        };
        Ok((running, stdin))
    }
}

/// A program that runs. Dropped, its group is killed; the group stands first,
/// so that it goes while the program's number is still taken.
struct Running {
    group: Group,
    child: Child,
    /// A reading end of its stdin. While we hold it, writing cannot fail
    /// because the program does not read, and what it left can be counted.
    unread: PipeReader,
}

impl Running {
    async fn converse(
        &mut self,
        stdin: ChildStdin,
        request: &[u8],
        complaints: &mut Vec<u8>,
    ) -> Result<Vec<u8>, String> {
        let mut stdout = pin!(read_all(self.child.stdout.take()));
        let mut stderr = pin!(read_some(self.child.stderr.take(), complaints));
        let mut write = pin!(write(stdin, request));
        let mut said = None;
        let (mut written, mut complained) = (false, false);
        let status = loop {
            tokio::select! {
                status = self.child.wait() => break status,
                output = &mut stdout, if said.is_none() => said = Some(output?),
                () = &mut stderr, if !complained => complained = true,
                () = &mut write, if !written => written = true,
            }
        };
        // What it left behind in its group could add to the answer, or hold the
        // pipe open for ever.
        self.group.kill();
        let rest = async {
            if !complained {
                stderr.await;
            }
        };
        let said = match said {
            Some(said) => {
                timeout(GRACE, rest).await.ok();
                said
            }
            None => timeout(GRACE, async { tokio::join!(stdout, rest).0 })
                .await
                .map_err(|_| "a process it left behind holds its output open".to_owned())??,
        };
        let status = status.map_err(|error| format!("its end was not seen: {error}"))?;
        if !status.success() {
            return Err(format!("it ended with {status}"));
        }
        // An answer given without reading the question is no answer.
        let left = ioctl_fionread(&self.unread).map_err(|error| error.to_string())?;
        if !written || left > 0 {
            return Err("it did not read what it was asked".to_owned());
        }
        Ok(said)
    }

    /// Kills what is left of it, and sees it gone.
    async fn end(mut self) {
        self.group.kill();
        // It may have left its own group. An error means it is gone already.
        self.child.start_kill().ok();
        timeout(REAP, self.child.wait()).await.ok();
    }
}

/// A process group, killed once: at the latest when this is dropped.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let number = child.id().and_then(|id| i32::try_from(id).ok());
        Self(number.and_then(Pid::from_raw))
    }

    /// To be called before the program is reaped, or at once after: later its
    /// number might be somebody else's.
    fn kill(&mut self) {
        if let Some(group) = self.0.take() {
            // An error means that nobody is left in it.
            kill_process_group(group, Signal::KILL).ok();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn write(mut stdin: ChildStdin, request: &[u8]) {
    // It cannot fail for want of a reader, and whether all of it was read is
    // asked at the end. Dropping `stdin` says that nothing more comes.
    stdin.write_all(request).await.ok();
}

/// All of it; more than a hook may say is an error at once.
async fn read_all(from: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(MAX_STDOUT as u64 + 1)
            .read_to_end(&mut bytes)
            .await
            .map_err(|error| format!("its answer cannot be read: {error}"))?;
    }
    if bytes.len() > MAX_STDOUT {
        return Err("it said more than 64 KiB".to_owned());
    }
    Ok(bytes)
}

/// The beginning of it; the rest is read and dropped, so that it never blocks.
async fn read_some(from: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut from) = from else { return };
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let room = MAX_STDERR.saturating_sub(kept.len());
        kept.extend(buffer.iter().take(count.min(room)));
    }
}
