//! Which lines differ between two texts: bounded in time, the same every time.
//!
//! What the two share at either end is set aside first, so that a small change
//! in a large file costs little. Lines are compared by their bytes, terminators
//! included.

use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// The most lines, of both sides together, that are compared one by one; what
/// has more is one hunk from the first difference to the last.
pub(super) const MAX_LINES: usize = 200_000;

/// Lines of one text that stand where lines of another did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hunk {
    pub(super) before: Range<usize>,
    pub(super) after: Range<usize>,
}

/// Whether the lines were compared one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    Lines,
    Coarse,
}

/// The hunks that make `after` out of `before`, by index of line, ascending,
/// with at least one common line between two of them.
pub(super) fn hunks(before: &[&[u8]], after: &[&[u8]]) -> (Vec<Hunk>, Detail) {
    let same = |(one, other): &(&&[u8], &&[u8])| one == other;
    let head = before.iter().zip(after).take_while(same).count();
    let (before_rest, after_rest) = (&before[head..], &after[head..]);
    let backwards = before_rest.iter().rev().zip(after_rest.iter().rev());
    let tail = backwards.take_while(same).count();
    let before_rest = &before_rest[..before_rest.len() - tail];
    let after_rest = &after_rest[..after_rest.len() - tail];
    let whole = Hunk {
        before: head..head + before_rest.len(),
        after: head..head + after_rest.len(),
    };
    if before_rest.is_empty() && after_rest.is_empty() {
        return (Vec::new(), Detail::Lines);
    }
    if before_rest.is_empty() || after_rest.is_empty() {
        return (vec![whole], Detail::Lines);
    }
    if before_rest.len() + after_rest.len() > MAX_LINES {
        return (vec![whole], Detail::Coarse);
    }
    let mut found: Vec<Hunk> = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, before_rest, after_rest) {
        let (old, new) = match op {
            DiffOp::Equal { .. } => continue,
            DiffOp::Delete { .. } | DiffOp::Insert { .. } | DiffOp::Replace { .. } => {
                (op.old_range(), op.new_range())
            }
        };
        let hunk = Hunk {
            before: head + old.start..head + old.end,
            after: head + new.start..head + new.end,
        };
        match found.last_mut() {
            // Neighbours are one change, however they were found.
            Some(last)
                if last.before.end == hunk.before.start && last.after.end == hunk.after.start =>
            {
                last.before.end = hunk.before.end;
                last.after.end = hunk.after.end;
            }
            _ => found.push(hunk),
        }
    }
    (found, Detail::Lines)
}
