//! The `portcullis` binary: what was typed, what holds, the wiring, and words
//! for people. Everything that touches the machine is in the hands below it.

mod args;
mod clock;
mod commands;
mod environment;
mod issuing;
mod log;
mod named;
mod out;
mod peer;
mod placed;
mod problem;
mod prompt;
mod provider;
mod record;
mod recorded;
mod service;
mod settings;
mod sockets;
mod telemetry;
mod times;
mod wiring;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::Typed;
use crate::environment::Environment;

fn main() -> ExitCode {
    let typed = match Typed::try_parse() {
        Ok(typed) => typed,
        Err(other) => {
            // Help, the version, or what cannot be meant; clap words them all.
            let code = u8::try_from(other.exit_code()).unwrap_or(2);
            return match other.print() {
                Ok(()) => ExitCode::from(code),
                Err(_) => ExitCode::from(2),
            };
        }
    };
    out::choose_colour(typed.everywhere.color);
    let env = Environment::read();
    match commands::run(&typed, &env) {
        Ok(ending) => ending.into(),
        Err(problem) => {
            if problem.is_worth_telling() {
                out::tell(&problem);
            }
            problem.exit_code()
        }
    }
}
