//! Reading back: filters, order, and following what is written.

use portcullis_files::{Filter, LedgerOptions, LineKind, Record};
use portcullis_proto::{Outcome, Verb};

use crate::support::{Data, append, append_with, quiet};

#[track_caller]
fn check(data: &Data, filter: Filter, want: &[&str]) {
    let got: Vec<Record> = data
        .log()
        .records(filter.clone())
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let got: Vec<_> = got
        .iter()
        .filter_map(|record| record.request_id.as_deref())
        .collect();
    assert_eq!(got, want, "{filter:?}");
}

#[test]
fn filters_choose_by_time_who_where_what_and_how() {
    let data = Data::new();
    let ledger = data.ledger(quiet());
    append(&ledger, 1).unwrap();
    append_with(&ledger, 2, Verb::List, Outcome::Success).unwrap();
    append_with(&ledger, 3, Verb::Read, Outcome::Denied).unwrap();
    let all = Filter::default;
    let text = |text: &str| Some(text.to_owned());
    check(&data, all(), &["r1", "r2", "r3"]);
    let at = 1_794_000_000_000;
    #[rustfmt::skip]
    let cases: [(Filter, &[&str]); 13] = [
        (Filter { since: Some(at + 2), ..all() }, &["r2", "r3"]),
        (Filter { until: Some(at + 2), ..all() }, &["r1"]),
        (Filter { subject: text("ada"), ..all() }, &["r1", "r2", "r3"]),
        (Filter { subject: text("user:ada"), ..all() }, &["r1", "r2", "r3"]),
        (Filter { subject: text("core:ada"), ..all() }, &[]),
        (Filter { root: text("main"), ..all() }, &["r1", "r2", "r3"]),
        (Filter { root: text("other"), ..all() }, &[]),
        (Filter { path: text("src"), ..all() }, &["r1", "r2", "r3"]),
        (Filter { path: text("src/2.rs"), ..all() }, &["r2"]),
        (Filter { path: text("src/2"), ..all() }, &[]),
        (Filter { outcome: Some(Outcome::Denied), ..all() }, &["r3"]),
        (Filter { operation: Some(Verb::List), ..all() }, &["r2"]),
        (Filter { operation: Some(Verb::Write), ..all() }, &[]),
    ];
    for (filter, want) in cases {
        check(&data, filter, want);
    }
}

#[test]
fn service_lines_are_shown_when_asked_for() {
    let data = Data::new();
    data.closed_chain(1);
    let all = Filter {
        service_lines: true,
        ..Filter::default()
    };
    let records: Vec<Record> = data
        .log()
        .records(all)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let kinds: Vec<_> = records.iter().map(|record| record.line).collect();
    assert_eq!(kinds, [LineKind::Start, LineKind::Event, LineKind::Head]);
    assert_eq!(records[2].closed, Some(true));
    assert_eq!(records[0].pid, Some(std::process::id().into()));
    assert_eq!(records[1].chain, records[0].chain);
    assert_eq!(records[1].identity.unwrap().dev, 2049);
}

#[test]
fn a_line_that_cannot_be_read_is_told_and_the_rest_still_comes() {
    let data = Data::new();
    let path = data.closed_chain(3);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("\"r1\"", "r1", 1)).unwrap();
    let read: Vec<_> = data.log().records(Filter::default()).unwrap().collect();
    assert_eq!(read.len(), 3);
    let bad = read[1].as_ref().unwrap_err();
    assert_eq!((bad.segment, bad.line), (0, 3));
}

#[test]
fn following_shows_what_any_process_writes_from_now_on() {
    let data = Data::new();
    data.closed_chain(2);
    let small = LedgerOptions {
        max_segment: 8192,
        ..quiet()
    };
    let old = data.ledger(small);
    append(&old, 10).unwrap();
    let mut follow = data.log().follow(Filter::default()).unwrap();
    assert_eq!(follow.poll().unwrap(), []);
    let ids = |records: Vec<Record>| -> Vec<String> {
        records
            .into_iter()
            .filter_map(|record| record.request_id)
            .collect()
    };
    append(&old, 11).unwrap();
    let new = data.ledger(small);
    append(&new, 12).unwrap();
    assert_eq!(ids(follow.poll().unwrap()), ["r11", "r12"]);
    let many: Vec<String> = (13..100).map(|n| format!("r{n}")).collect();
    for n in 13..100 {
        append(&old, n).unwrap();
    }
    drop(old);
    assert_eq!(ids(follow.poll().unwrap()), many);
    append(&new, 100).unwrap();
    drop(new);
    assert_eq!(follow.next().unwrap().unwrap().request_id.unwrap(), "r100");
    assert_eq!(follow.poll().unwrap(), []);
}
