//! `portcullis audit`: the record of everything that was tried, for people and
//! for other tools.

use std::collections::VecDeque;

use portcullis_files::{AuditLog, BadLine, Filter, LineKind, Record, Verification};
use portcullis_gate::Clock as _;
use portcullis_proto::{Outcome, Verb};

use crate::args::{
    AuditCommand, Everywhere, ExportArgs, ExportFormat, FilterFlags, QueryArgs, TailArgs,
};
use crate::clock::SystemClock;
use crate::commands::audit_line::{CSV_HEAD, csv, day, for_people};
use crate::environment::Environment;
use crate::out::{FAINT, Mark, Out, bytes, paint, shown};
use crate::problem::{Ending, Problem};
use crate::settings;
use crate::times::moment;
use crate::wiring::open_data;

pub(crate) fn run(
    everywhere: &Everywhere,
    env: &Environment,
    command: &AuditCommand,
) -> Result<Ending, Problem> {
    let data = open_data(&settings::data_dir(everywhere, env)?)?;
    let log = AuditLog::open(&data)?;
    match command {
        AuditCommand::Tail(args) => tail(&log, args),
        AuditCommand::Query(args) => query(&log, args),
        AuditCommand::Verify => verify(&log),
        AuditCommand::Export(args) => export(&log, args),
    }
}

/// Prints lines, with the day wherever it changes.
pub(crate) struct Printer {
    out: Out,
    json: bool,
    day: String,
    bad: usize,
}

impl Printer {
    pub(crate) fn new(json: bool) -> Self {
        Self {
            out: Out::stdout(),
            json,
            day: String::new(),
            bad: 0,
        }
    }

    pub(crate) fn print(&mut self, record: &Record) -> Result<(), Problem> {
        if self.json {
            let line = serde_json::to_string(record).map_err(Problem::new)?;
            return self.out.line(line);
        }
        if self.day != day(record) {
            day(record).clone_into(&mut self.day);
            self.out
                .line(paint(FAINT, format!("── {} (UTC)", self.day)))?;
        }
        self.out.line(for_people(record))
    }

    /// A line that cannot be read is told where it stands, never left out.
    fn print_bad(&mut self, bad: &BadLine) -> Result<(), Problem> {
        self.bad += 1;
        if self.json {
            return Ok(());
        }
        self.out.line(Mark::No.with(format_args!(
            "unreadable line {} of segment {} of {}: {}",
            bad.line, bad.segment, bad.chain, bad.why
        )))
    }

    fn end(mut self) -> Result<Ending, Problem> {
        self.out.flush()?;
        if self.bad == 0 {
            return Ok(Ending::Fine);
        }
        Err(
            Problem::new(format!("{} lines could not be read.", self.bad))
                .hint("portcullis audit verify"),
        )
    }
}

fn tail(log: &AuditLog, args: &TailArgs) -> Result<Ending, Problem> {
    let filter = Filter::default();
    // Before the old lines are read, so that none is lost in between.
    let follow = if args.follow {
        Some(log.follow(filter.clone())?)
    } else {
        None
    };
    let mut printer = Printer::new(args.json);
    let openings = if args.json {
        Openings::All
    } else {
        Openings::Unfinished
    };
    for line in newest(log, filter, args.lines, openings)? {
        match line {
            Ok(record) => printer.print(&record)?,
            Err(bad) => printer.print_bad(&bad)?,
        }
    }
    let Some(follow) = follow else {
        if printer.day.is_empty() && printer.bad == 0 && !args.json {
            printer.out.line("Nothing is recorded yet.")?;
        }
        return printer.end();
    };
    printer.out.flush()?;
    for record in follow {
        let record = record?;
        // What was begun is told when it ends.
        if openings == Openings::Unfinished && is_opening(&record) {
            continue;
        }
        printer.print(&record)?;
        printer.out.flush()?;
    }
    printer.end()
}

/// Which lines about what is under way are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Openings {
    /// All of them, for programs.
    All,
    /// The last one of a change that has not ended: what a crash leaves.
    Unfinished,
}

/// Whether it tells of something under way: an opening, or a file staged.
fn is_opening(record: &Record) -> bool {
    record.outcome.as_deref() == Some(outcome_word(Outcome::Begun))
}

/// The newest `count` lines of all chains, oldest of them first.
fn newest(
    log: &AuditLog,
    filter: Filter,
    count: usize,
    openings: Openings,
) -> Result<Vec<Result<Record, BadLine>>, Problem> {
    let mut chains: Vec<(String, VecDeque<Record>)> = Vec::new();
    let mut bad = Vec::new();
    for line in log.records(filter)? {
        match line {
            Ok(record) => {
                // Chains come one after the other, each in order: its last
                // `count` lines are all that can be among the newest.
                if chains.last().is_none_or(|(name, _)| *name != record.chain) {
                    chains.push((record.chain.clone(), VecDeque::new()));
                }
                if let Some((_, lines)) = chains.last_mut() {
                    if openings == Openings::Unfinished && record.line == LineKind::Event {
                        lines.retain(|old| !is_opening(old) || old.request_id != record.request_id);
                    }
                    if lines.len() == count {
                        lines.pop_front();
                    }
                    if count > 0 {
                        lines.push_back(record);
                    }
                }
                if chains.len() > 64 {
                    chains = vec![(String::new(), merge(chains, count).into())];
                }
            }
            Err(line) => bad.push(Err(line)),
        }
    }
    bad.extend(merge(chains, count).into_iter().map(Ok));
    Ok(bad)
}

fn merge(chains: Vec<(String, VecDeque<Record>)>, count: usize) -> Vec<Record> {
    let mut all: Vec<Record> = chains.into_iter().flat_map(|(_, lines)| lines).collect();
    all.sort_by(|a, b| a.timestamp.cmp(&b.timestamp));
    let surplus = all.len().saturating_sub(count);
    all.drain(..surplus);
    all
}

fn query(log: &AuditLog, args: &QueryArgs) -> Result<Ending, Problem> {
    let mut printer = Printer::new(args.json);
    let mut found = 0usize;
    for line in log.records(filter(&args.filter)?)? {
        match line {
            Ok(record) => {
                found += 1;
                printer.print(&record)?;
            }
            Err(bad) => printer.print_bad(&bad)?,
        }
    }
    if !args.json {
        let lines = if found == 1 { "line" } else { "lines" };
        printer.out.line(paint(FAINT, format!("{found} {lines}")))?;
    }
    printer.end()
}

fn export(log: &AuditLog, args: &ExportArgs) -> Result<Ending, Problem> {
    let mut printer = Printer::new(true);
    let mut wanted = filter(&args.filter)?;
    match args.format {
        ExportFormat::Jsonl => wanted.service_lines = args.filter.is_open(),
        ExportFormat::Csv => printer.out.line(CSV_HEAD)?,
    }
    for line in log.records(wanted)? {
        match (line, args.format) {
            (Ok(record), ExportFormat::Jsonl) => printer.print(&record)?,
            (Ok(record), ExportFormat::Csv) if record.line == LineKind::Event => {
                printer.out.line(csv(&record))?;
            }
            (Ok(_), ExportFormat::Csv) => {}
            (Err(bad), _) => printer.print_bad(&bad)?,
        }
    }
    printer.end()
}

impl FilterFlags {
    /// Whether nothing is filtered, and so an export is of everything.
    fn is_open(&self) -> bool {
        let Self {
            since,
            until,
            subject,
            root,
            path,
            outcome,
            operation,
        } = self;
        [since, until, subject, root, path, outcome, operation]
            .iter()
            .all(|flag| flag.is_none())
    }
}

fn filter(typed: &FilterFlags) -> Result<Filter, Problem> {
    let now = SystemClock::new().now_ms();
    let when =
        |typed: &Option<String>| typed.as_deref().map(|typed| moment(typed, now)).transpose();
    Ok(Filter {
        since: when(&typed.since)?,
        until: when(&typed.until)?,
        subject: typed.subject.clone(),
        root: typed.root.clone(),
        path: typed.path.clone(),
        outcome: word(typed.outcome.as_deref(), "outcome", &OUTCOMES, outcome_word)?,
        operation: word(
            typed.operation.as_deref(),
            "operation",
            &Verb::ALL,
            Verb::as_str,
        )?,
        service_lines: false,
    })
}

const OUTCOMES: [Outcome; 6] = [
    Outcome::Begun,
    Outcome::Success,
    Outcome::Denied,
    Outcome::Failed,
    Outcome::Parked,
    Outcome::Abandoned,
];

const fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Begun => "begun",
        Outcome::Success => "success",
        Outcome::Denied => "denied",
        Outcome::Failed => "failed",
        Outcome::Parked => "parked",
        Outcome::Abandoned => "abandoned",
    }
}

fn word<T: Copy>(
    typed: Option<&str>,
    what: &str,
    all: &[T],
    spelled: impl Fn(T) -> &'static str,
) -> Result<Option<T>, Problem> {
    let Some(typed) = typed else {
        return Ok(None);
    };
    let found = all.iter().copied().find(|one| spelled(*one) == typed);
    found.map(Some).ok_or_else(|| {
        let known: Vec<&str> = all.iter().copied().map(spelled).collect();
        Problem::usage(format!("{typed:?} is not an {what}."))
            .hint(format!("Write one of {}.", known.join(", ")))
    })
}

fn verify(log: &AuditLog) -> Result<Ending, Problem> {
    let found = log.verify()?;
    let mut out = Out::stdout();
    for problem in &found.problems {
        let chain = match problem.chain.as_str() {
            "" => String::new(),
            chain => format!(
                "{} segment {} line {}: ",
                shown(chain),
                problem.segment,
                problem.line
            ),
        };
        out.line(Mark::No.with(format_args!("{chain}{}", problem.what)))?;
    }
    tell_tails(&mut out, &found)?;
    let checked = format!(
        "{} lines in {} chains, {}, {} heads",
        found.lines,
        found.chains,
        bytes(found.bytes),
        found.heads
    );
    if found.recovered > 0 {
        out.line(Mark::Warn.with(format_args!(
            "{} lines were left torn by dying processes, kept and marked",
            found.recovered
        )))?;
    }
    if found.is_sound() {
        out.line(Mark::Yes.with(format_args!("sound: {checked}")))?;
        return Ok(Ending::Fine);
    }
    let count = found.problems.len();
    out.line(Mark::No.with(format_args!("not sound: {count} problems in {checked}")))?;
    out.line("  The lines named are not as they were written. Keep the directory as it is, and compare it with a copy.")?;
    Ok(Ending::Found)
}

fn tell_tails(out: &mut Out, found: &Verification) -> Result<(), Problem> {
    for tail in found.unsigned_tail.iter().filter(|tail| tail.lines > 0) {
        let why = match (tail.live, tail.torn) {
            (true, _) => "its process is alive and will sign them",
            (false, true) => "its process died while it wrote",
            (false, false) => "its process died before it signed them",
        };
        out.line(Mark::Warn.with(format_args!(
            "{}: the last {} lines are not signed ({why})",
            tail.chain, tail.lines
        )))?;
    }
    Ok(())
}
