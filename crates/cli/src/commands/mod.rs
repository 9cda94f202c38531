//! One file per command. Each takes what was typed and what the environment
//! says, resolves what holds, does its work and says how it ended.

mod approve;
mod audit;
mod audit_line;
mod connect;
mod demo;
mod doctor;
mod extension;
mod hammer;
mod link;
mod mcp;
mod policy;
mod recover;
mod rules;
mod serve;
mod settings;
mod status;
mod token;
mod trust;
mod undo;
mod user;

use crate::args::{Command, Typed};
use crate::environment::Environment;
use crate::problem::{Ending, Problem};

/// Runs the command that was typed.
pub(crate) fn run(typed: &Typed, env: &Environment) -> Result<Ending, Problem> {
    let everywhere = &typed.everywhere;
    match &typed.command {
        Command::Mcp(args) => mcp::run(everywhere, env, args),
        Command::Serve(args) => serve::run(everywhere, env, args),
        Command::Connect(args) => connect::run(everywhere, env, args),
        Command::Status(args) => status::run(everywhere, env, args),
        Command::Disconnect => status::disconnect(everywhere, env),
        Command::Demo(args) => demo::run(everywhere, env, args),
        Command::Policy(command) => policy::run(everywhere, env, command),
        Command::Audit(command) => audit::run(everywhere, env, command),
        Command::Approve(args) => approve::run(everywhere, env, args),
        Command::Rules(command) => rules::run(everywhere, env, command),
        Command::Trust(command) => trust::run(everywhere, env, command),
        Command::Settings(command) => settings::run(everywhere, env, command),
        Command::User(command) => user::run(everywhere, env, command),
        Command::Token(command) => token::run(everywhere, env, command),
        Command::Link(command) => link::run(everywhere, env, command),
        Command::Extension(command) => extension::run(everywhere, env, command),
        Command::Undo(command) => undo::run(everywhere, env, command),
        Command::Recover(args) => recover::run(everywhere, env, args),
        Command::Doctor(args) => doctor::run(everywhere, env, args),
        Command::Hammer(args) => hammer::run(env, args),
    }
}
