//! What a person is asked at a terminal: one of a numbered list, or a line of text.
//!
//! Everything is drawn on standard error. All that is no answer, a terminal that is
//! gone included, is told apart from an answer, and the caller makes it a no.

mod keys;
mod line;
mod list;

pub(crate) use self::keys::{PAUSE, give_back, is_there};
pub(crate) use self::line::edit_line;
pub(crate) use self::list::{Chosen, List};

/// The width where the terminal does not say its own, which it says as 0 columns.
const USUAL_WIDTH: u16 = 80;

/// How many columns there are to draw in; at least 2.
fn width() -> usize {
    let told = crossterm::terminal::size().map_or(0, |(columns, _)| columns);
    usize::from(if told == 0 { USUAL_WIDTH } else { told.max(2) })
}
