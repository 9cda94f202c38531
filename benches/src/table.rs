//! The rows, as a person reads them and as a program does.

use std::fmt;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use crate::rounds::Cost;

/// What a figure is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// CPU microseconds an operation, where not said otherwise.
    Micros,
    /// CPU nanoseconds an entry.
    Nanos,
    /// Milliseconds.
    Millis,
    /// Memory.
    MiB,
    /// One over the other.
    Times,
}

/// A figure and what it is counted in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure(pub(crate) f64, pub(crate) Unit);

/// What the figure in the middle has to keep to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
    /// Told for the reader; promises nothing.
    None,
}

/// One promise, measured.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) what: &'static str,
    pub(crate) ours: Option<Figure>,
    pub(crate) peer: Option<Figure>,
    /// What the limit is held against.
    pub(crate) ratio: Option<Figure>,
    pub(crate) limit: Limit,
    /// What was measured, in a sentence; figures that fit no column.
    pub(crate) note: String,
}

impl Row {
    /// Ours may cost at most `limit` times what the peer costs.
    pub(crate) fn at_most_times(
        what: &'static str,
        unit: Unit,
        (ours, peer): (f64, f64),
        limit: f64,
        note: impl Into<String>,
    ) -> Self {
        Self {
            what,
            ours: Some(Figure(ours, unit)),
            peer: Some(Figure(peer, unit)),
            ratio: Some(Figure(ours / peer, Unit::Times)),
            limit: Limit::AtMost(limit),
            note: note.into(),
        }
    }

    /// The peer must cost at least `limit` times what ours costs.
    pub(crate) fn times_cheaper(
        what: &'static str,
        (ours, peer): (f64, f64),
        limit: f64,
        note: impl Into<String>,
    ) -> Self {
        Self {
            ratio: Some(Figure(peer / ours, Unit::Times)),
            limit: Limit::AtLeast(limit),
            ..Self::at_most_times(what, Unit::Micros, (ours, peer), limit, note)
        }
    }

    /// A figure of ours alone that may be at most `limit`.
    pub(crate) fn at_most(
        what: &'static str,
        ours: Figure,
        limit: f64,
        note: impl Into<String>,
    ) -> Self {
        Self {
            what,
            ours: Some(ours),
            peer: None,
            ratio: Some(ours),
            limit: Limit::AtMost(limit),
            note: note.into(),
        }
    }

    /// A row that could not be measured, and so is missed.
    pub(crate) fn unmeasured(what: &'static str, why: &str) -> Self {
        Self {
            what,
            ours: None,
            peer: None,
            ratio: None,
            limit: Limit::AtMost(0.0),
            note: format!("not measured: {why}"),
        }
    }

    /// Whether a limit was missed, or could not be measured.
    pub(crate) fn is_missed(&self) -> bool {
        self.verdict() == Verdict::Missed
    }

    /// Whether it missed, and not because it is known to.
    pub(crate) fn is_worth_another_try(&self) -> bool {
        self.is_missed() && (self.ratio.is_none() || !KNOWN_MISSED.contains(&self.what))
    }

    fn verdict(&self) -> Verdict {
        match (self.limit, self.ratio) {
            (Limit::None, _) => Verdict::Told,
            (Limit::AtMost(limit), Some(ratio)) if ratio.0 <= limit => Verdict::Met,
            (Limit::AtLeast(limit), Some(ratio)) if ratio.0 >= limit => Verdict::Met,
            (Limit::AtMost(_) | Limit::AtLeast(_), _) => Verdict::Missed,
        }
    }

    fn cells(&self) -> [String; 6] {
        let shown = |figure: Option<Figure>| figure.map_or("–".to_owned(), |f| f.to_string());
        let unit = self.ratio.map_or(Unit::Times, |ratio| ratio.1);
        [
            self.what.to_owned(),
            shown(self.ours),
            shown(self.peer),
            shown(self.ratio),
            match self.limit {
                Limit::None => "–".to_owned(),
                Limit::AtMost(_) if self.ratio.is_none() => "–".to_owned(),
                Limit::AtMost(limit) => format!("≤ {}", Figure(limit, unit)),
                Limit::AtLeast(limit) => format!("≥ {}", Figure(limit, unit)),
            },
            self.verdict().as_str().to_owned(),
        ]
    }
}

/// On one line, for who waits for the table.
impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ratio {
            Some(ratio) => write!(f, "{} ({ratio}, {})", self.what, self.cells()[4]),
            None => write!(f, "{} ({})", self.what, self.note),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Met,
    Missed,
    Told,
}

impl Verdict {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "MISSED",
            Self::Told => "told",
        }
    }

    fn style(self) -> Style {
        let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
        match self {
            Self::Met => colour(AnsiColor::Green),
            Self::Missed => colour(AnsiColor::Red).bold(),
            Self::Told => Style::new().dimmed(),
        }
    }
}

/// What two sides took on the wall, in words.
pub(crate) fn wall(ours: Cost, peer: Cost) -> String {
    let micros = |figure: f64| Figure(figure, Unit::Micros);
    format!(
        "ours {}, theirs {}: {}",
        micros(ours.wall),
        micros(peer.wall),
        Figure(peer.wall / ours.wall, Unit::Times)
    )
}

/// Every row of a run.
#[derive(Debug)]
pub(crate) struct Table {
    smoke: bool,
    rows: Vec<Row>,
}

/// Rows that docs/SPEC.md says miss their limit: not measured again. May only shrink.
const KNOWN_MISSED: &[&str] = &["hooks-none", "mcp-list", "mcp-read"];

const HEAD: [&str; 6] = ["what", "ours", "peer", "ratio", "limit", "verdict"];

impl Table {
    pub(crate) fn new(smoke: bool) -> Self {
        Self {
            smoke,
            rows: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Whether every promise was kept. A smoke run promises only that each row can be
    /// measured: how fast a machine is does not decide there.
    pub(crate) fn passed(&self) -> bool {
        self.rows.iter().all(|row| self.forgives(row))
    }

    fn forgives(&self, row: &Row) -> bool {
        !row.is_missed() || (self.smoke && row.ratio.is_some())
    }

    fn missed(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.is_missed())
    }

    /// As `./bench` gathers it, alike from every suite.
    pub(crate) fn json(&self) -> Value {
        let figure =
            |figure: Option<Figure>| figure.map(|f| json!({"value": f.0, "unit": f.1.as_str()}));
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let unit = row.ratio.map_or(Unit::Times, |ratio| ratio.1).as_str();
                json!({
                    "what": row.what,
                    "ours": figure(row.ours),
                    "peer": figure(row.peer),
                    "figure": figure(row.ratio),
                    "limit": match row.limit {
                        Limit::AtMost(limit) => json!({"atMost": limit, "unit": unit}),
                        Limit::AtLeast(limit) => json!({"atLeast": limit, "unit": unit}),
                        Limit::None => Value::Null,
                    },
                    "verdict": row.verdict().as_str().to_lowercase(),
                    "note": row.note,
                })
            })
            .collect();
        json!({"smoke": self.smoke, "rows": rows})
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells: Vec<_> = self.rows.iter().map(Row::cells).collect();
        let mut widths = HEAD.map(str::len);
        for row in &cells {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let line = |cells: [&str; 6]| {
            let padded = cells
                .iter()
                .zip(widths)
                .enumerate()
                .map(|(n, (cell, width))| {
                    let gap = " ".repeat(width.saturating_sub(cell.chars().count()));
                    // Names to the left, figures to the right.
                    match n {
                        0 => format!("{cell}{gap}"),
                        5 => (*cell).to_owned(),
                        _ => format!("{gap}{cell}"),
                    }
                });
            padded.collect::<Vec<_>>().join("  ")
        };
        let bold = Style::new().bold();
        let rule = "─".repeat(widths.iter().sum::<usize>() + 10);
        writeln!(f, "\n{bold}{}{bold:#}\n{rule}", line(HEAD))?;
        for (row, cells) in self.rows.iter().zip(&cells) {
            let style = row.verdict().style();
            let text = line(cells.each_ref().map(String::as_str));
            let verdict = row.verdict().as_str();
            let rest = text.strip_suffix(verdict).unwrap_or(&text);
            writeln!(f, "{rest}{style}{verdict}{style:#}")?;
        }
        writeln!(f, "{rule}")?;
        for row in self.rows.iter().filter(|row| !row.note.is_empty()) {
            writeln!(f, "{}: {}", row.what, row.note)?;
        }
        let mode = if self.smoke {
            "smoke run: limits decide in a full one"
        } else {
            "full run"
        };
        writeln!(
            f,
            "{} rows, {} missed ({mode}; CPU time, the best of interleaved rounds)",
            self.rows.len(),
            self.missed().count()
        )?;
        // Once more at the end: of a log, that is what is looked at.
        for row in self.missed() {
            let known = if self.forgives(row) {
                " (not decided by a smoke run)"
            } else {
                ""
            };
            let cells = row.cells();
            writeln!(
                f,
                "missed{known}: {}",
                line(cells.each_ref().map(String::as_str))
            )?;
        }
        Ok(())
    }
}

impl Unit {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Micros => "µs",
            Self::Nanos => "ns",
            Self::Millis => "ms",
            Self::MiB => "MiB",
            Self::Times => "×",
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(value, unit) = self;
        let space = if *unit == Unit::Times { "" } else { " " };
        let digits = if value.abs() < 100.0 { 2 } else { 0 };
        write!(f, "{value:.digits$}{space}{}", unit.as_str())
    }
}
