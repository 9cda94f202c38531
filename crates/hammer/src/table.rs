//! The report as people read it: one aligned table, then what it amounts to.
//!
//! Invariant: plain text without colour; nothing is said by position or case alone.

use std::fmt;

use crate::report::{AttackState, Cell, Report, Verdict};
use crate::{Attack, Expectation};

/// Control characters in evidence would let a server draw on the reader's terminal.
const HIDDEN: char = '\u{fffd}';

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "swap hammer: {}", printable(&self.target.join(" ")))?;
        writeln!(out)?;
        self.fmt_cells(out)?;
        self.fmt_asides(out)?;
        writeln!(out)?;
        let clock = if self.out_of_time {
            ", stopped by its time limit"
        } else {
            ""
        };
        writeln!(
            out,
            "total  {} of {} operations in {:.1} s, {} per second, seed {}{clock}",
            grouped(self.attempts()),
            grouped(self.budget),
            self.seconds,
            grouped_rate(self.ops_per_second()),
            self.seed,
        )?;
        self.fmt_verdict(out)
    }
}

impl Report {
    fn fmt_cells(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tool_width = self
            .cells
            .iter()
            .map(|cell| cell.tool.chars().count())
            .max()
            .unwrap_or(0);
        let width = tool_width.max("tool".len());
        let head = format!(
            "{:<10} {:<width$} {:<12} {:>11} {:>11} {:>11} {:>9} {:>9}",
            "verb", "tool", "attack", "attempts", "inside", "refused", "neither", "escapes",
        );
        let rule = "-".repeat(head.chars().count());
        writeln!(out, "{head}\n{rule}")?;
        for cell in &self.cells {
            let Cell {
                verb,
                tool,
                attack,
                attempts,
                inside,
                refused,
                neither,
                escapes,
            } = cell;
            let tool = printable(tool);
            writeln!(
                out,
                "{verb:<10} {tool:<width$} {attack:<12} {:>11} {:>11} {:>11} {:>9} {:>9}",
                grouped(*attempts),
                grouped(*inside),
                grouped(*refused),
                grouped(*neither),
                grouped(*escapes),
            )?;
        }
        let sum = |count: fn(&Cell) -> u64| grouped(self.cells.iter().map(count).sum());
        writeln!(
            out,
            "{rule}\n{:<10} {:<width$} {:<12} {:>11} {:>11} {:>11} {:>9} {:>9}",
            "all",
            "",
            "",
            sum(|cell| cell.attempts),
            sum(|cell| cell.inside),
            sum(|cell| cell.refused),
            sum(|cell| cell.neither),
            sum(|cell| cell.escapes),
        )
    }

    fn fmt_asides(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out)?;
        for outcome in &self.attacks {
            match &outcome.state {
                AttackState::Ran { swaps } => {
                    writeln!(
                        out,
                        "attack {:<12} {} swaps",
                        outcome.attack,
                        grouped(*swaps)
                    )?;
                }
                AttackState::NotRun { why } => {
                    writeln!(
                        out,
                        "attack {:<12} not run: {}",
                        outcome.attack,
                        printable(why)
                    )?;
                }
                AttackState::Failed { why } => {
                    writeln!(
                        out,
                        "attack {:<12} FAILED: {}",
                        outcome.attack,
                        printable(why)
                    )?;
                }
            }
        }
        for verb in &self.not_offered {
            writeln!(out, "verb   {verb:<12} not offered")?;
        }
        for trouble in &self.troubles {
            writeln!(out, "server {:<12} {}", trouble.attack, trouble.kind)?;
            for line in trouble.stderr.lines() {
                writeln!(out, "       | {}", printable(line))?;
            }
        }
        for escape in &self.evidence {
            writeln!(
                out,
                "escape {:<12} {} through {}",
                escape.attack,
                escape.verb,
                printable(&escape.tool)
            )?;
            writeln!(out, "       | {}", printable(&escape.excerpt))?;
        }
        Ok(())
    }

    fn fmt_verdict(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.passed() { "PASS" } else { "FAIL" };
        let expected = match self.expectation {
            Expectation::NoEscapes => "",
            Expectation::Escapes => " (escapes were expected)",
        };
        write!(out, "{word}{expected}: ")?;
        match self.verdict() {
            Verdict::Held => write!(
                out,
                "no escape in {} raced operations",
                grouped(self.attempts())
            )?,
            Verdict::Leaked { escapes } => {
                write!(
                    out,
                    "{} replies showed what lies outside of the root",
                    grouped(escapes)
                )?;
            }
            Verdict::TooTimid { verbs } => {
                let names: Vec<_> = verbs
                    .iter()
                    .map(|(verb, tool)| format!("{verb} ({})", printable(tool)))
                    .collect();
                write!(
                    out,
                    "less than 1 % inside, so nothing is proved, for {}",
                    names.join(", ")
                )?;
            }
            Verdict::Inconclusive => {
                write!(out, "no escape, but the race did not run to its end")?;
            }
        }
        let absent: Vec<Attack> = self
            .attacks
            .iter()
            .filter(|outcome| matches!(outcome.state, AttackState::NotRun { .. }))
            .map(|outcome| outcome.attack)
            .collect();
        for attack in absent {
            write!(out, "; {attack} was not run")?;
        }
        writeln!(out)
    }
}

/// `1234567` as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut spaced = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            spaced.push(',');
        }
        spaced.push(digit);
    }
    spaced
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is positive and far below 2^53"
)]
fn grouped_rate(rate: f64) -> String {
    grouped(rate.round() as u64)
}

fn printable(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() { HIDDEN } else { letter })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, want) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), want);
        }
    }

    #[test]
    fn evidence_cannot_draw_on_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\n"), "a\u{fffd}[31mb\u{fffd}");
    }
}
