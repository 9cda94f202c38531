//! Facts in, verdict out. Pure: no clock, no file, no state of its own.
//!
//! [`judge`] is the one place where the order of decisions stands; single deeds
//! and bulk deeds go through the same function, path by path, so they cannot
//! disagree.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]
#![cfg_attr(
    not(test),
    forbid(clippy::disallowed_methods, clippy::disallowed_types)
)]

mod begins;
mod class;
mod explain;
mod exposure;
mod file;
mod judge;
mod modes;
mod pattern;
mod place;
mod root;
mod rule;
mod terms;
mod trigger;

pub use class::Class;
pub use explain::{Explanation, Step, explain};
pub use exposure::judged_with_read;
pub use file::parse_rules;
pub use judge::{Asking, Denial, Standing, Verdict, View, judge};
pub use modes::Modes;
pub use pattern::{BadPattern, PatternSet};
pub use place::{Misplaced, read_part};
pub use root::{Containment, Hardlinks, RootPolicy, Symlinks};
pub use rule::{Effect, Remembered, Rule, RuleSet, Rules, Source};
pub use terms::{Admit, Terms};
pub use trigger::{Trigger, moves_along, triggers};
