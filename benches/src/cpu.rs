//! CPU time and memory, of this process and of others.
//!
//! CPU is user and system time together. Other programs run on the machine:
//! time on the wall says what they do, CPU time what we do.

use std::io;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

use crate::Outcome;

/// Of all threads of this process, so that whatever works behind a deed counts.
pub(crate) fn own() -> Outcome<Duration> {
    Ok(ClockId::CLOCK_PROCESS_CPUTIME_ID.now()?.into())
}

/// Of this thread alone.
pub(crate) fn thread() -> Outcome<Duration> {
    Ok(ClockId::CLOCK_THREAD_CPUTIME_ID.now()?.into())
}

/// Of the process `pid` and of every process below it.
pub(crate) fn tree(pid: u32) -> Outcome<Duration> {
    Ok(running(pid)?)
}

fn running(pid: u32) -> io::Result<Duration> {
    let id = Pid::from_raw(i32::try_from(pid).map_err(io::Error::other)?);
    // The clock of a process that has ended since it was looked up is no clock.
    let mut sum: Duration = clock_getcpuclockid(id)?
        .now()
        .map_err(|_| Errno::ESRCH)?
        .into();
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let children = std::fs::read_to_string(task?.path().join("children"));
        for child in unless_ended(children)?
            .unwrap_or_default()
            .split_whitespace()
        {
            let child = child.parse().map_err(io::Error::other)?;
            sum += unless_ended(running(child))?.unwrap_or_default();
        }
    }
    Ok(sum)
}

/// What /proc said; nothing where the thread or process ended between being
/// listed and being looked at.
fn unless_ended<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(said) => Ok(Some(said)),
        Err(error) => match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOENT | Errno::ESRCH) => Ok(None),
            _ => Err(error),
        },
    }
}

/// Of all children that ended and were waited for.
pub(crate) fn ended_children() -> Outcome<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    Ok(duration(usage.user_time())? + duration(usage.system_time())?)
}

fn duration(time: TimeVal) -> Outcome<Duration> {
    Ok(Duration::from_secs(time.tv_sec().try_into()?)
        + Duration::from_micros(time.tv_usec().try_into()?))
}

/// A line such as `VmRSS` of /proc/PID/status, in MiB.
pub(crate) fn memory(pid: u32, line: &str) -> Outcome<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib: f64 = status
        .lines()
        .find_map(|text| text.strip_prefix(line)?.strip_prefix(':'))
        .and_then(|rest| rest.split_whitespace().next())
        .ok_or_else(|| format!("/proc has no {line}"))?
        .parse()?;
    Ok(kib / 1024.0)
}
