//! `portcullis hammer`: races a file server until it leaks, this one by default.

use std::io::{IsTerminal as _, Write as _};
use std::ops::ControlFlow;
use std::time::Duration;

use portcullis_files::ScratchDir;
use portcullis_hammer::{Attack, Expectation, Plan, Progress, run as race};

use crate::args::HammerArgs;
use crate::environment::Environment;
use crate::out::Out;
use crate::problem::{Ending, Problem};

pub(crate) fn run(env: &Environment, args: &HammerArgs) -> Result<Ending, Problem> {
    let attacks = args
        .attacks
        .iter()
        .map(|name| name.parse::<Attack>().map_err(Problem::usage))
        .collect::<Result<Vec<_>, _>>()?;
    // A million audited requests would bury the person's own audit; these go
    // into a data directory of their own, which is gone afterwards.
    let scratch = ScratchDir::new(&env.temp)?;
    let target = if args.target.is_empty() {
        ourselves(env, &scratch)?
    } else {
        args.target.clone()
    };
    let mut plan = Plan::against(target, env.temp.clone());
    plan.ops = args.ops;
    plan.time_limit = Duration::from_secs(args.seconds);
    if !attacks.is_empty() {
        plan.attacks = attacks;
    }
    if args.expect_escapes {
        plan.expectation = Expectation::Escapes;
    }
    let mut told = Told {
        live: std::io::stderr().is_terminal(),
    };
    let report = race(&plan, &mut told).map_err(|error| {
        let cause = std::error::Error::source(&error)
            .map(|cause| format!(" ({cause})"))
            .unwrap_or_default();
        Problem::new(format!("The race never began: {error}{cause}.")).hint(
            "Name a server that speaks MCP on standard input and output: portcullis hammer -- COMMAND {root}",
        )
    })?;
    told.clear();
    let mut out = Out::stdout();
    if args.json {
        out.line(report.to_json())?;
    } else {
        out.line(&report)?;
    }
    Ok(if report.passed() {
        Ending::Fine
    } else {
        Ending::Found
    })
}

fn ourselves(env: &Environment, scratch: &ScratchDir) -> Result<Vec<String>, Problem> {
    let text = |path: &std::path::Path| {
        path.to_str().map(str::to_owned).ok_or_else(|| {
            Problem::new("This program's own path is not text.")
                .hint("Name the server: portcullis hammer -- portcullis mcp --dir {root}")
        })
    };
    let program = env.program.as_deref().ok_or_else(|| {
        Problem::new("This program does not know where it stands.")
            .hint("Name the server: portcullis hammer -- portcullis mcp --dir {root}")
    })?;
    Ok(vec![
        text(program)?,
        "--data-dir".to_owned(),
        text(scratch.path())?,
        "mcp".to_owned(),
        "--dir".to_owned(),
        "{root}".to_owned(),
    ])
}

/// Tells how it goes, on one line of standard error that is gone at the end.
struct Told {
    live: bool,
}

impl Told {
    fn clear(&self) {
        if self.live {
            write!(anstream::stderr(), "\r\u{1b}[2K").ok();
        }
    }
}

impl Progress for Told {
    fn began(&mut self, _attack: Attack) {}

    fn raced(
        &mut self,
        attack: Attack,
        answered: u64,
        budget: u64,
        escapes: u64,
    ) -> ControlFlow<()> {
        if self.live {
            write!(
                anstream::stderr(),
                "\r{attack:<14} {answered:>9} of {budget} answered, {escapes} escapes "
            )
            .ok();
        }
        ControlFlow::Continue(())
    }
}
