//! What Portcullis costs, measured side by side with its peers in one run.
//!
//! Each row compares CPU time per operation, the best of interleaved rounds,
//! and holds it against a limit of docs/SPEC.md. A missed limit ends the run
//! with 1. `benches/run.sh` fetches the peers and starts this.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench makes its own files and starts its own peers"
)]

mod args;
mod clock;
mod cpu;
mod node;
mod rounds;
mod rows;
mod scratch;
mod server;
mod setup;
mod table;
mod world;

use std::io::Write as _;
use std::process::ExitCode;

use crate::args::{Args, USAGE};
use crate::rows::{BENCHES, Bench};
use crate::setup::Setup;
use crate::table::{Row, Table};

/// Anything that keeps a row from being measured.
type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            tell(&format!(
                "problem: {error}\nhint: benches/run.sh --help says how to start this"
            ));
            ExitCode::from(2)
        }
    }
}

fn run() -> Outcome<ExitCode> {
    let args = Args::parse(std::env::args().skip(1))?;
    if args.help {
        write!(anstream::stdout(), "{USAGE}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let setup = Setup::new(&args)?;
    let mut table = Table::new(args.smoke);
    for bench in BENCHES {
        if !bench.rows.iter().any(|row| args.wants(row)) {
            continue;
        }
        tell(&format!("measuring {} …", bench.rows.join(", ")));
        measured(bench, &setup)
            .into_iter()
            .filter(|row| args.wants(row.what))
            .for_each(|row| table.push(row));
    }
    write!(anstream::stdout(), "{table}")?;
    if let Some(file) = &args.json {
        std::fs::write(file, table.json().to_string())?;
    }
    Ok(if table.passed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The rows of a bench. Where one missed its limit or could not be measured it
/// is measured again, twice at most and each time with twice the rounds, since
/// something beside it on the machine may have spoilt it. The last time decides; in a
/// smoke run none does.
fn measured(bench: &Bench, setup: &Setup) -> Vec<Row> {
    let mut setup = setup.clone();
    let mut rows = match (bench.run)(&setup) {
        Ok(rows) => rows,
        // A row that could not be measured keeps no promise.
        Err(error) => bench
            .rows
            .iter()
            .map(|row| Row::unmeasured(row, &error.to_string()))
            .collect(),
    };
    let more = if setup.smoke { 0 } else { 2 };
    for _ in 0..more {
        let missed: Vec<_> = rows
            .iter()
            .filter(|row| row.is_worth_another_try())
            .collect();
        if missed.is_empty() {
            break;
        }
        for row in missed {
            tell(&format!("missed: {row}"));
        }
        tell("measuring again, with twice the rounds …");
        setup = setup.with_twice_the_rounds();
        match (bench.run)(&setup) {
            Ok(again) => rows = kept_where_met(rows, again),
            Err(error) => tell(&format!("could not be measured again: {error}")),
        }
    }
    rows
}

/// What was measured again, but for the rows that were met before.
fn kept_where_met(mut before: Vec<Row>, again: Vec<Row>) -> Vec<Row> {
    let keep = |row: Row| {
        let met = before
            .iter()
            .position(|old| old.what == row.what && !old.is_worth_another_try());
        met.map_or(row, |at| before.swap_remove(at))
    };
    again.into_iter().map(keep).collect()
}

/// Says on standard error what is going on.
fn tell(line: &str) {
    // Nobody is left to tell when that fails.
    let _unheard = writeln!(anstream::stderr(), "{line}");
}
