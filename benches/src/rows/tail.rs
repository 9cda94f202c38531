//! The end of a huge file, and a line far down in it, in flat memory.

use serde_json::{Value, json};

use crate::Outcome;
use crate::cpu;
use crate::scratch::{SMALL, Scratch};
use crate::server::Server;
use crate::setup::Setup;
use crate::table::{Figure, Row, Unit};

const HUGE: &str = "huge.log";
/// Lines before the hole, and lines behind it.
const LINES: u32 = 1000;

pub(crate) fn run(setup: &Setup) -> Outcome<Vec<Row>> {
    let scratch = Scratch::new()?
        .with_small_file()?
        .with_sparse_file(HUGE, 4 << 30, LINES)?;
    let mut server = Server::portcullis(setup, &scratch)?.ready()?;
    server.call("read_file", &json!({"filePath": SMALL}))?;
    let before = cpu::memory(server.pid(), "VmHWM")?;
    let reply = server.call("read_file", &json!({"filePath": HUGE, "tailLines": 10}))?;
    expect(&reply, &format!("last line {}\n", LINES - 9), 10)?;
    let after = cpu::memory(server.pid(), "VmHWM")?;
    Ok(vec![
        Row::at_most(
            "tail-grows",
            Figure(after - before, Unit::MiB),
            8.0,
            "growth of the peak memory of `portcullis mcp` by the last ten lines of a sparse 4 GiB \
             file",
        ),
        Row::at_most(
            "tail-peak",
            Figure(after, Unit::MiB),
            24.0,
            "the peak itself, after that",
        ),
        far_line(setup)?,
    ])
}

/// A line behind the hole, counted from the beginning: everything before it
/// has to be looked at.
fn far_line(setup: &Setup) -> Outcome<Row> {
    let bytes: u64 = if setup.smoke { 256 << 20 } else { 4 << 30 };
    let scratch = Scratch::new()?
        .with_small_file()?
        .with_sparse_file(HUGE, bytes, LINES)?;
    let mut server = Server::portcullis(setup, &scratch)?.ready()?;
    server.call("read_file", &json!({"filePath": SMALL}))?;
    let before = cpu::memory(server.pid(), "VmHWM")?;
    let began = cpu::tree(server.pid())?;
    // The hole is one line, between the first lines and the last.
    let line = LINES + 2;
    let asked = json!({"filePath": HUGE, "startLine": line, "maxLines": 10});
    let reply = server.call("read_file", &asked)?;
    expect(&reply, "last line 1\n", 10)?;
    let cpu = cpu::tree(server.pid())?.saturating_sub(began).as_secs_f64();
    let grown = cpu::memory(server.pid(), "VmHWM")? - before;
    Ok(Row::at_most(
        "far-line",
        Figure(grown, Unit::MiB),
        8.0,
        format!(
            "growth of the peak by line {line} of {} MiB, counted from the beginning; {cpu:.2} s \
             of CPU",
            bytes >> 20
        ),
    ))
}

fn expect(reply: &Value, begins: &str, lines: u64) -> Outcome<()> {
    let structured = &reply["structuredContent"];
    let content = structured["content"].as_str().unwrap_or_default();
    if content.starts_with(begins) && structured["lineCount"] == json!(lines) {
        return Ok(());
    }
    let head: String = content.chars().take(80).collect();
    Err(format!("not the lines asked for: {head:?}").into())
}
