//! One line of the audit, for people and for spreadsheets.

use portcullis_files::{LineKind, Record};

use crate::out::{FAINT, Mark, Painted, bytes, clipped, paint, shown};

/// How wide a path may be before its middle is left out.
const PATH_WIDTH: usize = 36;
/// How wide the source may be.
const SOURCE_WIDTH: usize = 26;

/// The day of a line: `2026-11-15`.
pub(crate) fn day(record: &Record) -> &str {
    record.timestamp.split('T').next().unwrap_or_default()
}

/// The line as a person reads it: when, verdict, verb, where, by what, who,
/// how much, how long.
pub(crate) fn for_people(record: &Record) -> String {
    let time = clock_time(record);
    if record.line != LineKind::Event {
        return paint(FAINT, format!("{time}  {}", service(record))).to_string();
    }
    let place = clipped_place(record);
    let source = clipped_field(record.policy_source.as_deref().unwrap_or("-"), SOURCE_WIDTH);
    let reason = match &record.reason {
        Some(reason) => format!("  {}", shown(reason)),
        None => String::new(),
    };
    let by = match &record.answered_by {
        Some(by) => format!("  answered by {}", shown(by)),
        None => String::new(),
    };
    format!(
        "{time}  {}  {:<6} {place:<PATH_WIDTH$}  {source:<SOURCE_WIDTH$}  {:<10} {:>9} {:>9}{reason}{by}",
        verdict(record),
        shown(record.operation.as_deref().unwrap_or("-")),
        who(record),
        amount(record),
        duration(record),
    )
}

/// A mark and a word, together ten characters wide.
pub(crate) fn verdict(record: &Record) -> Painted<String> {
    let (mark, word) = match record.outcome.as_deref() {
        Some("success") => (Mark::Yes, "done"),
        Some("denied") => (Mark::No, "denied"),
        Some("failed") => (Mark::No, "failed"),
        Some("parked") => (Mark::Ask, "waits"),
        Some("abandoned") => (Mark::Warn, "dropped"),
        Some("begun") => (Mark::Warn, "begun"),
        Some(_) | None => (Mark::Warn, "unknown"),
    };
    mark.with(format_args!("{word:<8}"))
}

/// `root:path`, or what was alleged where it never became a path.
pub(crate) fn place(record: &Record) -> String {
    let root = record.root.as_ref().map_or("", |root| root.id.as_str());
    match (&record.relative_path, &record.alleged) {
        (Some(path), _) => match &record.destination_path {
            Some(to) => format!("{root}:{} → {}", shown(path), shown(to)),
            None => format!("{root}:{}", shown(path)),
        },
        (None, Some(alleged)) => format!("{:?}", shown(alleged)),
        (None, None) => "-".to_owned(),
    }
}

fn clipped_place(record: &Record) -> String {
    clipped_field(&place(record), PATH_WIDTH)
}

fn clipped_field(text: &str, width: usize) -> String {
    clipped(&shown(text), width).into_owned()
}

/// `user:me`.
pub(crate) fn who(record: &Record) -> String {
    record.subject.as_ref().map_or_else(
        || "-".to_owned(),
        |subject| match &subject.user {
            Some(user) => format!("{}:{}/{}", subject.kind, shown(user), shown(&subject.id)),
            None => format!("{}:{}", subject.kind, shown(&subject.id)),
        },
    )
}

fn amount(record: &Record) -> String {
    match (&record.bytes, &record.counts) {
        (Some(count), _) => bytes(*count),
        (None, Some(counts)) => format!("{} names", counts.entries),
        (None, None) => "-".to_owned(),
    }
}

fn duration(record: &Record) -> String {
    match record.duration_ms {
        None => "-".to_owned(),
        Some(ms) if ms < 1.0 => format!("{:.0} µs", ms * 1000.0),
        Some(ms) if ms < 1000.0 => format!("{ms:.1} ms"),
        Some(ms) => format!("{:.1} s", ms / 1000.0),
    }
}

fn clock_time(record: &Record) -> &str {
    record
        .timestamp
        .split('T')
        .nth(1)
        .and_then(|time| time.split('.').next())
        .unwrap_or("--:--:--")
}

fn service(record: &Record) -> String {
    match record.line {
        LineKind::Start => format!(
            "process {} began (version {})",
            record.pid.unwrap_or_default(),
            shown(record.version.as_deref().unwrap_or("unknown"))
        ),
        LineKind::Segment => "a further file began".to_owned(),
        LineKind::Head if record.closed == Some(true) => "closed and signed".to_owned(),
        LineKind::Head => "signed up to here".to_owned(),
        LineKind::Recovered => "the line before was left torn by a dying process".to_owned(),
        LineKind::Event | LineKind::Unknown => {
            "a line of a kind this version does not know".to_owned()
        }
    }
}

/// The columns of an export as a table.
pub(crate) const CSV_HEAD: &str = "timestamp,outcome,operation,root,path,destination,policySource,reason,subject,conversation,route,requestId,bytes,durationMs,chain,n";

/// The line as a row of a table.
pub(crate) fn csv(record: &Record) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let subject = record.subject.as_ref();
    let cells = [
        record.timestamp.clone(),
        text(&record.outcome),
        text(&record.operation),
        record
            .root
            .as_ref()
            .map(|root| root.id.clone())
            .unwrap_or_default(),
        record
            .relative_path
            .clone()
            .or_else(|| record.alleged.clone())
            .unwrap_or_default(),
        text(&record.destination_path),
        text(&record.policy_source),
        text(&record.reason),
        subject.map(|_| who(record)).unwrap_or_default(),
        subject
            .and_then(|subject| subject.conversation_id.clone())
            .unwrap_or_default(),
        text(&record.route),
        text(&record.request_id),
        record
            .bytes
            .map(|count| count.to_string())
            .unwrap_or_default(),
        record
            .duration_ms
            .map(|ms| ms.to_string())
            .unwrap_or_default(),
        record.chain.clone(),
        record.n.to_string(),
    ];
    cells.map(|cell| quoted(&cell)).join(",")
}

/// A cell, quoted where it must be. A spreadsheet takes a leading `=`, `+`, `-`
/// or `@` for a formula, and a path an agent chose could be one.
fn quoted(cell: &str) -> String {
    let formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let cell = if formula {
        format!("'{cell}")
    } else {
        cell.to_owned()
    };
    if cell.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_cannot_become_a_formula_or_another_cell() {
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"x\""), "\"say \"\"x\"\"\"");
        assert_eq!(quoted("=cmd()"), "'=cmd()");
        assert_eq!(quoted("plain"), "plain");
    }
}
