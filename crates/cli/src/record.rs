//! The record, for a server's routes: read from the files every process writes.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use portcullis_files::{AuditLog, Filter, Follow, Piece, PrivateDir, Record};
use portcullis_proto::{Failure, Outcome, Reason, Verb};
use portcullis_server::{AuditAsk, AuditLine, AuditSieve, AuditSource, FollowAudit};
use serde_json::Value;

/// How long one look may take.
const LONGEST_LOOK: Duration = Duration::from_secs(10);
/// How many lines are read between two looks at the clock.
const LINES_BETWEEN_LOOKS: usize = 1_000;
/// How far a clock may have been set back in a file of the record before lines
/// in it are missed by who asks for what came since.
const SET_BACK_MS: u64 = 60 * 1_000;

/// Reads the audit in the data directory.
pub(crate) struct AuditFiles(PrivateDir);

/// When a line was written, in which chain, and its number there: the order in
/// which lines are told.
type Key = (String, String, u64);

/// Lines in that order.
type Kept = BTreeMap<Key, Record>;

/// Gives the lines of one file their places. Within a chain time only goes on:
/// lines are stamped before they are written, and clocks are set back, but what
/// has the next number was written next.
struct Places(String);

impl Places {
    /// None is before the file begins, nor before a line of an earlier file.
    fn from(piece: &Piece, earlier: Option<String>) -> Self {
        Self(piece.begun.clone().max(earlier).unwrap_or_default())
    }

    fn of(&mut self, record: &Record) -> Key {
        if record.timestamp > self.0 {
            self.0.clone_from(&record.timestamp);
        }
        (self.0.clone(), record.chain.clone(), record.n)
    }
}

/// Whether a line comes behind another: in its own chain, by its number.
fn is_behind(line: &Key, after: &Key) -> bool {
    if line.1 == after.1 {
        line.2 > after.2
    } else {
        line > after
    }
}

fn owner(record: &Record) -> Option<String> {
    let subject = record.subject.as_ref()?;
    match subject.kind.as_str() {
        "user" => Some(subject.id.clone()),
        "token" | "extension" => subject.user.clone(),
        _ => None,
    }
}

fn line(record: &Record) -> Result<AuditLine, Failure> {
    let value =
        serde_json::to_value(record).map_err(|error| Failure::from(Reason::Bug).detail(error))?;
    let denied = value.get("outcome").and_then(Value::as_str) == Some("denied");
    Ok(AuditLine {
        id: format!("{}:{}", record.chain, record.n),
        owner: owner(record),
        event: if denied { "fs.denied" } else { "fs.access" },
        value,
    })
}

fn filter(ask: &AuditAsk) -> Result<Filter, Failure> {
    let unknown =
        |what: &str| Failure::new(Reason::BadArguments, format!("There is no such {what}."));
    let outcome = match ask.outcome.as_deref() {
        None => None,
        Some("success") => Some(Outcome::Success),
        Some("denied") => Some(Outcome::Denied),
        Some("failed") => Some(Outcome::Failed),
        Some("parked") => Some(Outcome::Parked),
        Some("abandoned") => Some(Outcome::Abandoned),
        Some(_) => return Err(unknown("outcome")),
    };
    let operation = match ask.operation.as_deref() {
        None => None,
        Some(word) => Some(
            Verb::ALL
                .into_iter()
                .find(|verb| verb.as_str() == word)
                .ok_or_else(|| unknown("operation"))?,
        ),
    };
    Ok(Filter {
        since: ask.since,
        until: ask.until,
        root: ask.root.clone(),
        path: ask.path.clone(),
        outcome,
        operation,
        ..Filter::default()
    })
}

impl AuditFiles {
    pub(crate) fn in_data(data: PrivateDir) -> Self {
        Self(data)
    }
}

/// One look at the record, at the files that can hold what is asked for.
struct Look<'a> {
    log: AuditLog,
    /// Still to be looked at; the next one is last.
    pieces: Vec<Piece>,
    ask: &'a AuditAsk,
    until: Instant,
    kept: Kept,
}

impl<'a> Look<'a> {
    fn new(data: &PrivateDir, ask: &'a AuditAsk, longest: Duration) -> Result<Self, Failure> {
        let until = Instant::now() + longest;
        let log = AuditLog::open(data)?;
        Ok(Self {
            pieces: log.pieces()?,
            log,
            ask,
            until,
            kept: Kept::new(),
        })
    }

    /// Leaves out what was written before or after what is asked for.
    fn leave_out(&mut self) {
        let since = self.ask.since.map(|ms| ms.saturating_sub(SET_BACK_MS));
        let until = self.ask.until.map(|ms| ms.saturating_add(SET_BACK_MS));
        self.pieces.retain(|piece| {
            !since.is_some_and(|since| piece.ends_before(since))
                && !until.is_some_and(|until| piece.begins_after(until))
        });
    }

    /// The newest lines: from the newest file back, as far as need be.
    fn newest(&mut self) -> Result<(), Failure> {
        self.leave_out();
        // Where the time is unknown it may be the newest.
        self.pieces
            .sort_by(|one, other| match (&one.ended, &other.ended) {
                (Some(one), Some(other)) => one.cmp(other),
                (one, other) => other.is_some().cmp(&one.is_some()),
            });
        while let Some(piece) = self.pieces.pop() {
            let is_older = |key: &Key| piece.ended.as_ref().is_some_and(|ended| *ended < key.0);
            let oldest = self.kept.keys().next();
            if self.is_full() && oldest.is_some_and(is_older) {
                self.pieces.push(piece);
                break;
            }
            let places = Places::from(&piece, None);
            self.read(&piece, places, |_| true, Kept::pop_first)?;
        }
        Ok(())
    }

    /// The lines behind the one that `id` names, the next ones first.
    fn behind(&mut self, id: &str) -> Result<(), Failure> {
        let after = self.place(id)?;
        self.leave_out();
        self.pieces.retain(|piece| {
            let ended = piece.ended.as_ref();
            piece.chain == after.1 || ended.is_none_or(|ended| *ended >= after.0)
        });
        // Where the time is unknown it may be the first.
        self.pieces
            .sort_by(|one, other| (&other.begun, other.segment).cmp(&(&one.begun, one.segment)));
        // The files of a chain come in their order.
        let mut latest_of = HashMap::new();
        while let Some(piece) = self.pieces.pop() {
            let is_later = |key: &Key| piece.begun.as_ref().is_some_and(|begun| *begun > key.0);
            let latest = self.kept.keys().next_back();
            if self.is_full() && latest.is_some_and(is_later) {
                self.pieces.push(piece);
                break;
            }
            let places = Places::from(&piece, latest_of.remove(&piece.chain));
            let wanted = |key: &Key| is_behind(key, &after);
            let latest = self.read(&piece, places, wanted, Kept::pop_last)?;
            latest_of.insert(piece.chain, latest);
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.kept.len() >= self.ask.limit
    }

    /// Reads one file, keeps what is wanted of it, lets `go` what is too much, and
    /// says how late it got.
    fn read(
        &mut self,
        piece: &Piece,
        mut places: Places,
        wanted: impl Fn(&Key) -> bool,
        go: fn(&mut Kept) -> Option<(Key, Record)>,
    ) -> Result<String, Failure> {
        let filter = filter(self.ask)?;
        self.each_line(piece, |look, record| {
            // Every line has its place, whoever looks for which.
            let key = places.of(&record);
            if filter.admits(&record) && look.is_theirs(&record) && wanted(&key) {
                look.kept.insert(key, record);
            }
            if look.kept.len() > look.ask.limit {
                go(&mut look.kept);
            }
            ControlFlow::Continue(())
        })?;
        Ok(places.0)
    }

    /// Goes through the lines of one file while there is time. A line that cannot
    /// be read is for `verify` to report.
    fn each_line(
        &mut self,
        piece: &Piece,
        mut take: impl FnMut(&mut Self, Record) -> ControlFlow<()>,
    ) -> Result<(), Failure> {
        let everything = Filter {
            service_lines: true,
            ..Filter::default()
        };
        let records = self.log.records_of(piece, everything);
        for (n, record) in records.filter_map(Result::ok).enumerate() {
            if n.is_multiple_of(LINES_BETWEEN_LOOKS) {
                self.go_on()?;
            }
            if take(self, record).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Another's line is as good as none: whose it is, is not told.
    fn is_theirs(&self, record: &Record) -> bool {
        self.ask.owner.is_none() || owner(record) == self.ask.owner
    }

    fn go_on(&self) -> Result<(), Failure> {
        if Instant::now() < self.until {
            return Ok(());
        }
        Err(
            Failure::new(Reason::Deadline, "The look at the record took too long.")
                .hint("Ask for less of it: `since` and `until` say from when to when."),
        )
    }

    /// Where the line an id names stands. Another's line is nowhere.
    fn place(&mut self, id: &str) -> Result<Key, Failure> {
        let bad = || {
            Failure::new(Reason::BadCursor, "The id names no line of the record.")
                .hint("Leave it out to begin with the newest lines.")
        };
        let (chain, number) = id.rsplit_once(':').ok_or_else(bad)?;
        let number: u64 = number.parse().map_err(|_| bad())?;
        let of_chain = || self.pieces.iter().filter(|piece| piece.chain == chain);
        let begins_before = |piece: &&Piece| piece.first.is_some_and(|first| first <= number);
        // A file that a crash left empty, or torn in its first line, says nothing
        // of what it holds.
        let unknown = of_chain().filter(|piece| piece.first.is_none());
        let likely = of_chain().rfind(begins_before).into_iter();
        for piece in likely.chain(unknown).cloned().collect::<Vec<_>>() {
            let mut places = Places::from(&piece, None);
            let mut found = None;
            self.each_line(&piece, |look, record| {
                let place = places.of(&record);
                if record.n != number {
                    return ControlFlow::Continue(());
                }
                found = look.is_theirs(&record).then_some(place);
                ControlFlow::Break(())
            })?;
            if let Some(place) = found {
                return Ok(place);
            }
        }
        Err(bad())
    }

    fn lines(self) -> Result<Vec<AuditLine>, Failure> {
        self.kept.values().map(line).collect()
    }
}

impl AuditSource for AuditFiles {
    fn query(&self, ask: &AuditAsk) -> Result<Vec<AuditLine>, Failure> {
        let mut look = Look::new(&self.0, ask, LONGEST_LOOK)?;
        match &ask.after {
            Some(id) => look.behind(id)?,
            None => look.newest()?,
        }
        look.lines()
    }

    fn sieve(&self, ask: &AuditAsk) -> Result<AuditSieve, Failure> {
        let filter = filter(ask)?;
        if filter == Filter::default() {
            return Ok(Box::new(|_| true));
        }
        Ok(Box::new(move |line| {
            serde_json::from_value::<Record>(line.value.clone())
                .is_ok_and(|record| filter.admits(&record))
        }))
    }

    fn follow(&self) -> Result<Box<dyn FollowAudit>, Failure> {
        let log = AuditLog::open(&self.0)?;
        Ok(Box::new(Following(log.follow(Filter::default())?)))
    }
}

struct Following(Follow);

impl FollowAudit for Following {
    fn poll(&mut self) -> Result<Vec<AuditLine>, Failure> {
        self.0.poll()?.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use portcullis_testkit::Scratch;

    use super::*;

    fn ids(data: &PrivateDir, ask: &AuditAsk) -> Vec<String> {
        let lines = AuditFiles::in_data(data.clone()).query(ask).unwrap();
        lines.into_iter().map(|line| line.id).collect()
    }

    /// From behind `first` on, page by page.
    fn pages(data: &PrivateDir, ask: &AuditAsk, first: &str) -> Vec<String> {
        let (mut after, mut told) = (first.to_owned(), Vec::new());
        loop {
            let ask = AuditAsk {
                after: Some(after),
                ..ask.clone()
            };
            let page = ids(data, &ask);
            let Some(last) = page.last() else { return told };
            after = last.clone();
            told.extend(page);
        }
    }

    fn of_ada(limit: usize) -> AuditAsk {
        AuditAsk {
            owner: Some("ada".to_owned()),
            limit,
            ..AuditAsk::default()
        }
    }

    fn chain(process: u64) -> String {
        format!("{:013}-{process:016x}", 1_794_000_000_000 + process)
    }

    fn spell(chain: &str, n: u64, ms: u64, user: &str) -> String {
        let second = ms / 1_000;
        let timestamp = format!(
            "2026-01-01T{:02}:{:02}:{:02}.{:03}Z",
            second / 3_600,
            second / 60 % 60,
            second % 60,
            ms % 1_000
        );
        let line = serde_json::json!({
            "n": n, "prev": "", "line": "event", "chain": chain,
            "timestamp": timestamp, "subject": {"type": "user", "id": user},
        });
        format!("{line}\n")
    }

    /// Each with its own lines, `(number, milliseconds)`, in each of its files.
    fn plant(scratch: &Scratch, data: &PrivateDir, process: u64, files: &[&[(u64, u64)]]) {
        let chain = chain(process);
        data.sub("audit").unwrap().sub(&chain).unwrap();
        for (segment, lines) in files.iter().enumerate() {
            let text: String = lines
                .iter()
                .map(|(n, ms)| spell(&chain, *n, *ms, "ada"))
                .collect();
            scratch.file(&format!("data/audit/{chain}/{segment:03}.jsonl"), text);
        }
    }

    #[test]
    fn in_a_chain_the_next_number_is_the_next_line_whatever_its_stamp() {
        let scratch = Scratch::in_memory("");
        let data = PrivateDir::open_or_create(&scratch.at("data")).unwrap();
        // Stamped before they were written, over the end of a file; then a clock
        // that is set back, long before a file ends.
        let set_back: Vec<(u64, u64)> = (7..500)
            .map(|n| (n, if n == 8 { 9_000_000 } else { 4_000 + n }))
            .collect();
        let files: [&[(u64, u64)]; 3] = [
            &[(1, 1_000), (2, 1_006), (3, 1_004)],
            &[(4, 1_005), (5, 1_003), (6, 2_000)],
            &set_back,
        ];
        let last: [(u64, u64); 2] = [(500, 4_600), (501, 4_601)];
        plant(&scratch, &data, 1, &[files[0], files[1], files[2], &last]);
        plant(
            &scratch,
            &data,
            2,
            &[&[(1, 500)], &[(2, 1_005), (3, 1_500)]],
        );
        for limit in [1, 2, 3, 7, 100] {
            let told = pages(&data, &of_ada(limit), &format!("{}:1", chain(2)));
            for n in 1..=501 {
                let id = format!("{}:{n}", chain(1));
                assert!(told.contains(&id), "{id} is missed by pages of {limit}");
            }
            for n in 2..=3 {
                let id = format!("{}:{n}", chain(2));
                assert!(told.contains(&id), "{id} is missed by pages of {limit}");
            }
        }
    }

    #[test]
    fn a_file_that_a_crash_left_empty_or_torn_hides_no_line() {
        for left in ["", "{\"n\":7,"] {
            let scratch = Scratch::in_memory("");
            let data = PrivateDir::open_or_create(&scratch.at("data")).unwrap();
            plant(
                &scratch,
                &data,
                1,
                &[&[(1, 1_000), (2, 1_001)], &[(3, 1_002), (4, 1_003)]],
            );
            scratch.file(&format!("data/audit/{}/002.jsonl", chain(1)), left);
            let told = pages(&data, &of_ada(1), &format!("{}:1", chain(1)));
            assert_eq!(told, [2, 3, 4].map(|n| format!("{}:{n}", chain(1))));
        }
    }

    /// Three processes at once, each with some files of a few lines.
    fn written(scratch: &Scratch, data: &PrivateDir) -> Vec<(u64, String)> {
        let mut all = Vec::new();
        for (process, pace) in [(1, 7_000), (2, 11_000), (3, 29_000)] {
            let chain = chain(process);
            data.sub("audit").unwrap().sub(&chain).unwrap();
            for segment in 0..4 {
                let mut text = String::new();
                for n in segment * 20..(segment + 1) * 20 {
                    let ms = process * 20_000 + n * pace;
                    let user = if n % 3 == 0 { "bob" } else { "ada" };
                    text += &spell(&chain, n, ms, user);
                    if user == "ada" {
                        all.push((ms, format!("{chain}:{n}")));
                    }
                }
                scratch.file(&format!("data/audit/{chain}/{segment:03}.jsonl"), text);
            }
        }
        all.sort();
        all
    }

    #[test]
    fn the_newest_lines_and_those_behind_one_are_found_in_whichever_file_they_are() {
        let scratch = Scratch::in_memory("");
        let data = PrivateDir::open_or_create(&scratch.at("data")).unwrap();
        let all = written(&scratch, &data);
        for limit in [1, 7, 50, 1_000] {
            let newest: Vec<_> = all.iter().rev().take(limit).rev().collect();
            let found = ids(&data, &of_ada(limit));
            assert!(found.iter().eq(newest.iter().map(|(_, id)| id)), "{limit}");
            // From the first on every one once, in order.
            let told = pages(&data, &of_ada(limit), &all[0].1);
            let rest = all[1..].iter().map(|(_, id)| id);
            assert!(told.iter().eq(rest), "{limit}");
        }
        // Another's line is nowhere, and so is one that was never written.
        let others = format!("{}:0", chain(1));
        for id in [
            others,
            "x".into(),
            "a:99".into(),
            format!("{}:99", chain(1)),
        ] {
            let ask = AuditAsk {
                after: Some(id),
                ..of_ada(5)
            };
            let failed = AuditFiles::in_data(data.clone()).query(&ask).err().unwrap();
            assert_eq!(failed.reason(), Reason::BadCursor);
        }
    }

    #[test]
    fn a_look_ends_when_its_time_is_over_and_reads_no_file_it_need_not() {
        let scratch = Scratch::in_memory("");
        let data = PrivateDir::open_or_create(&scratch.at("data")).unwrap();
        let all = written(&scratch, &data);
        let ask = of_ada(5);
        let mut late = Look::new(&data, &ask, Duration::ZERO).unwrap();
        assert_eq!(late.newest().unwrap_err().reason(), Reason::Deadline);
        let id = all[3].1.as_str();
        let mut late = Look::new(&data, &ask, Duration::ZERO).unwrap();
        assert_eq!(late.behind(id).unwrap_err().reason(), Reason::Deadline);
        // Twelve files, of which the last and the first few hold all.
        let mut look = Look::new(&data, &ask, LONGEST_LOOK).unwrap();
        look.newest().unwrap();
        assert!(look.pieces.len() > 8, "{} are left", look.pieces.len());
        let mut look = Look::new(&data, &ask, LONGEST_LOOK).unwrap();
        look.behind(id).unwrap();
        assert!(look.pieces.len() > 6, "{} are left", look.pieces.len());
        // Of a time long ago, and of one to come, none is read.
        let new_year = 1_767_225_600_000;
        for (since, until) in [(None, Some(new_year - 100_000)), (Some(new_year * 2), None)] {
            let ask = AuditAsk {
                since,
                until,
                ..of_ada(5)
            };
            let mut look = Look::new(&data, &ask, LONGEST_LOOK).unwrap();
            look.leave_out();
            assert!(look.pieces.is_empty());
        }
    }
}
