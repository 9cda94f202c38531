//! What to tell somebody whose text was not found: where it nearly stands.
//!
//! A hint names line numbers and never repeats what the file holds.

use super::charset::OnMalformed;
use super::find::Body;

/// How many lines are compared before the search for a near place ends.
const MAX_COMPARED: usize = 200_000;

/// The next step after `old` was not found in `body`.
pub(super) fn hint(body: Body<'_>, old: &str) -> String {
    if old.contains('\u{fffd}') {
        return "The text holds U+FFFD, which stands for bytes that are no text: leave it out, or change the file as bytes.".to_owned();
    }
    let mut text = String::new();
    // Only compared, never written: damage compares unequal, which is right.
    let _ = body
        .charset
        .decode(body.bytes, &mut text, OnMalformed::Replace);
    let wanted = words_of_lines(old);
    let there = words_of_lines(&text);
    let Some(first) = wanted.first() else {
        return "The text is white space alone: give some of the words around it.".to_owned();
    };
    let mut budget = MAX_COMPARED;
    let mut begun = None;
    for (index, line) in there.iter().enumerate() {
        budget = budget.saturating_sub(1);
        if budget == 0 {
            break;
        }
        if !line.is_near(first) {
            continue;
        }
        let same = wanted
            .iter()
            .zip(there.iter().skip(index))
            .take_while(|(wanted, there)| wanted.is_near(there))
            .count();
        budget = budget.saturating_sub(same);
        if same == wanted.len() {
            return format!(
                "At line {} the same words stand with other white space or line ends: read the lines again and give them exactly.",
                line.number
            );
        }
        begun.get_or_insert((line.number, there.get(index + same).map(|line| line.number)));
    }
    match begun {
        Some((number, Some(differs))) if wanted.len() > 1 => format!(
            "The text begins like line {number}, but line {differs} differs: read the lines again and give them exactly."
        ),
        Some((number, _)) => {
            format!(
                "The text begins like line {number}: read the lines again and give them exactly."
            )
        }
        None => "Read the file again, and give the text exactly as it stands there.".to_owned(),
    }
}

/// A line that is not blank, white space aside.
struct Line<'a> {
    number: u64,
    text: &'a str,
}

impl Line<'_> {
    fn is_near(&self, other: &Line<'_>) -> bool {
        let visible = |c: &char| !c.is_whitespace();
        let (one, other) = (self.text.chars(), other.text.chars());
        one.filter(visible).eq(other.filter(visible))
    }
}

fn words_of_lines(text: &str) -> Vec<Line<'_>> {
    let mut number = 0;
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(['\n', '\r']).unwrap_or(rest.len());
        let (line, after) = rest.split_at(end);
        number += 1;
        if !line.trim().is_empty() {
            lines.push(Line { number, text: line });
        }
        rest = after
            .strip_prefix("\r\n")
            .or_else(|| after.strip_prefix(['\n', '\r']))
            .unwrap_or(after);
    }
    lines
}
