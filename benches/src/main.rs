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
        match measured(bench, &setup) {
            Ok(rows) => rows
                .into_iter()
                .filter(|row| args.wants(row.what))
                .for_each(|row| table.push(row)),
            // A row that could not be measured keeps no promise.
            Err(error) => bench
                .rows
                .iter()
                .filter(|row| args.wants(row))
                .for_each(|row| table.push(Row::unmeasured(row, &error.to_string()))),
        }
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

/// Measures a bench; again, twice at most, where something beside it on the
/// machine may have spoilt a row. The figures are the best of rounds anyway.
fn measured(bench: &Bench, setup: &Setup) -> Outcome<Vec<Row>> {
    let mut rows = (bench.run)(setup)?;
    for _ in 0..2 {
        if !rows
            .iter()
            .any(|row| row.is_missed() && !row.is_known_missed())
        {
            break;
        }
        tell("a row missed its limit; measuring again …");
        rows = (bench.run)(setup)?;
    }
    Ok(rows)
}

/// Says on standard error what is going on.
fn tell(line: &str) {
    // Nobody is left to tell when that fails.
    let _unheard = writeln!(anstream::stderr(), "{line}");
}
