//! From nothing to the first reply, and what an idle server keeps.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::Outcome;
use crate::cpu;
use crate::rounds::median;
use crate::scratch::Scratch;
use crate::server::Server;
use crate::setup::Setup;
use crate::table::{Figure, Row, Unit};

/// Starts of each, in turn.
const STARTS: u32 = 31;

pub(crate) fn run(setup: &Setup) -> Outcome<Vec<Row>> {
    let scratch = Scratch::new()?.with_small_file()?;
    // The first start makes the data directory, and both get into the page cache.
    serve(setup, &scratch)?;
    git()?;
    let (mut ours, mut peer) = (Vec::new(), Vec::new());
    let (mut our_cpu, mut peer_cpu) = (Vec::new(), Vec::new());
    let starts = setup.effort.rounds_of(STARTS);
    for _ in 0..starts {
        // Our server syncs its audit as it ends, and whatever starts right after
        // that is slow. So one start of git that does not count comes between:
        // both sides are measured right after a git.
        git()?;
        let (wall, cpu) = git()?;
        peer.push(wall);
        peer_cpu.push(cpu);
        let (wall, cpu) = serve(setup, &scratch)?;
        ours.push(wall);
        our_cpu.push(cpu);
    }
    let best = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let note = format!(
        "wall clock from spawn to the reply to initialize, against `git --version`; the median of \
         {starts} in turn, which waits for whatever else runs here. The best: ours {:.2} ms, git {:.2} ms",
        best(&ours),
        best(&peer)
    );
    Ok(vec![
        Row::at_most_times(
            "start",
            Unit::Millis,
            (median(ours), median(peer)),
            3.0,
            note,
        ),
        Row::at_most_times(
            "start-cpu",
            Unit::Millis,
            (median(our_cpu), median(peer_cpu)),
            3.0,
            "CPU of the same: ours when the reply is there, git's when it has ended; the median",
        ),
        idle(setup, &scratch)?,
    ])
}

fn idle(setup: &Setup, scratch: &Scratch) -> Outcome<Row> {
    let mut server = Server::portcullis(setup, scratch)?.ready()?;
    server.request("tools/list", &json!({}))?;
    std::thread::sleep(Duration::from_millis(200));
    let resident = cpu::memory(server.pid(), "VmRSS")?;
    Ok(Row::at_most(
        "idle-rss",
        Figure(resident, Unit::MiB),
        15.0,
        "resident memory of an idle `portcullis mcp` after initialize and tools/list",
    ))
}

/// Milliseconds on the wall, and of CPU, up to the first reply.
fn serve(setup: &Setup, scratch: &Scratch) -> Outcome<(f64, f64)> {
    let began = Instant::now();
    let server = Server::portcullis(setup, scratch)?;
    let wall = began.elapsed();
    let cpu = cpu::tree(server.pid())?;
    server.end()?;
    Ok((millis(wall), millis(cpu)))
}

/// The same of git, up to its end.
fn git() -> Outcome<(f64, f64)> {
    let before = cpu::ended_children()?;
    let began = Instant::now();
    let status = Command::new("git")
        .arg("--version")
        .stdout(Stdio::null())
        .status()?;
    if !status.success() {
        return Err("git --version failed".into());
    }
    let wall = began.elapsed();
    Ok((
        millis(wall),
        millis(cpu::ended_children()?.saturating_sub(before)),
    ))
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
