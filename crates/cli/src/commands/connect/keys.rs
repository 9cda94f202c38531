//! The keys, while a question is shown: what chooses, and what counts for nothing.
//!
//! Only the arrows and the numbers choose, and only for who has paused: a line that
//! somebody was writing when the question came is no answer to it, whichever
//! numbers stand in it. At most it is a no.

use std::io;
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};

/// How often it is looked whether anybody still waits for the answer.
const LOOK: Duration = Duration::from_millis(100);
/// How long nothing is typed before keys are an answer: they were meant for something
/// else, or for a question that went away, and nobody has read this one yet.
pub(super) const PAUSE: Duration = Duration::from_millis(700);

/// What counts of the keys that were typed before they could be an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Typed {
    Nothing,
    /// Ctrl-C lets nothing through, and is never lost.
    Interrupt,
}

/// Drops what was typed before a prompt is there, but for a Ctrl-C.
pub(crate) fn forget_typed() -> Typed {
    let dropped = Keys::take().and_then(|keys| keys.drop_until_silent(Duration::ZERO, || false));
    // Where there is no terminal the prompt itself says so.
    dropped.unwrap_or(Typed::Nothing)
}

/// Gives the terminal back as it was, whatever was being asked.
pub(super) fn give_back() {
    // Where it is gone there is nothing to give back.
    disable_raw_mode().ok();
}

/// The keys, one by one, while a question is shown; given back at its end.
pub(super) struct Keys {
    /// How long they are waited for at a time.
    look: Duration,
}

impl Keys {
    pub(super) fn take() -> io::Result<Self> {
        enable_raw_mode()?;
        Ok(Self { look: LOOK })
    }

    /// Drops what was typed and what is, until nothing was for so long or it is over.
    pub(super) fn drop_until_silent(
        &self,
        pause: Duration,
        is_over: impl Fn() -> bool,
    ) -> io::Result<Typed> {
        let mut last = Instant::now();
        loop {
            let is_last = is_over();
            let wait = if is_last {
                // What is there is looked at once more: a Ctrl-C may be among it.
                Duration::ZERO
            } else {
                pause.saturating_sub(last.elapsed()).min(self.look)
            };
            if poll(wait)? {
                if is_interrupt(&read()?) {
                    return Ok(Typed::Interrupt);
                }
                last = Instant::now();
            } else if is_last || last.elapsed() >= pause {
                return Ok(Typed::Nothing);
            }
        }
    }

    /// What happens next, if it happens before the next look.
    pub(super) fn next(&self) -> io::Result<Option<Event>> {
        poll(self.look)?.then(read).transpose()
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        give_back();
    }
}

pub(super) fn is_interrupt(event: &Event) -> bool {
    matches!(
        event,
        Event::Key(KeyEvent {
            code: KeyCode::Char('c'),
            modifiers: KeyModifiers::CONTROL,
            kind: KeyEventKind::Press | KeyEventKind::Repeat,
            ..
        })
    )
}

/// What a key means to a list of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meant {
    /// The answer that is pointed at.
    This,
    /// None of them.
    Left,
    /// Perhaps another one is pointed at.
    Nothing,
}

/// Which of the answers is pointed at. It begins at the no, and is there again as
/// soon as anything is typed that chooses nothing.
pub(super) struct Cursor {
    at: usize,
    no: usize,
    count: usize,
    /// When something was typed that is no answer.
    typed: Option<Instant>,
}

impl Cursor {
    pub(super) const fn new(count: usize, no: usize) -> Self {
        Self {
            at: no,
            no,
            count,
            typed: None,
        }
    }

    pub(super) const fn at(&self) -> usize {
        self.at
    }

    pub(super) fn hear(&mut self, key: &KeyEvent, now: Instant) -> Meant {
        let is_writing = self
            .typed
            .is_some_and(|typed| now.saturating_duration_since(typed) < PAUSE);
        match key {
            KeyEvent {
                code: KeyCode::Char('d'),
                modifiers: KeyModifiers::CONTROL,
                ..
            }
            | KeyEvent {
                code: KeyCode::Esc, ..
            } => return Meant::Left,
            KeyEvent {
                code: KeyCode::Enter,
                ..
            } => return Meant::This,
            KeyEvent {
                code: KeyCode::Up, ..
            } if !is_writing => {
                let last = self.count.saturating_sub(1);
                self.at = self.at.checked_sub(1).unwrap_or(last);
            }
            KeyEvent {
                code: KeyCode::Down,
                ..
            } if !is_writing => self.at = (self.at + 1) % self.count.max(1),
            KeyEvent {
                code: KeyCode::Char(digit @ '1'..='9'),
                modifiers: KeyModifiers::NONE,
                ..
            } if !is_writing && self.nth(*digit).is_some() => {
                self.at = self.nth(*digit).unwrap_or(self.no);
            }
            KeyEvent { .. } => {
                self.at = self.no;
                self.typed = Some(now);
            }
        }
        Meant::Nothing
    }

    /// The answer of this number; they are counted from one.
    fn nth(&self, digit: char) -> Option<usize> {
        let nth = usize::try_from(digit.to_digit(10)?).ok()?.checked_sub(1)?;
        (nth < self.count).then_some(nth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer that Enter gives after these keys, of five with the no as the fourth.
    #[track_caller]
    fn check(keys: &[KeyCode], want: usize) {
        let mut cursor = Cursor::new(5, 3);
        let now = Instant::now();
        for key in keys {
            let key = KeyEvent::new(*key, KeyModifiers::NONE);
            assert_eq!(cursor.hear(&key, now), Meant::Nothing);
        }
        let enter = KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE);
        assert_eq!(cursor.hear(&enter, now), Meant::This);
        assert_eq!(cursor.at() + 1, want, "{keys:?}");
    }

    fn line(text: &str) -> Vec<KeyCode> {
        text.chars().map(KeyCode::Char).collect()
    }

    #[test]
    fn arrows_and_numbers_choose() {
        check(&[], 4);
        check(&[KeyCode::Up], 3);
        check(&[KeyCode::Down, KeyCode::Down], 1);
        check(&line("1"), 1);
        check(&line("52"), 2);
    }

    #[test]
    fn whatever_else_is_typed_is_the_no() {
        for text in [
            "k",
            "j",
            "make check",
            "git stash pop 3",
            "1k",
            "sleep 1",
            "9",
            "0",
        ] {
            check(&line(text), 4);
        }
        check(&[KeyCode::Tab], 4);
        check(&[KeyCode::Up, KeyCode::Backspace], 4);
        check(&[KeyCode::Char('x'), KeyCode::Up], 4);
    }

    #[test]
    fn who_has_paused_is_answering_again() {
        let mut cursor = Cursor::new(5, 3);
        let now = Instant::now();
        let [letter, one] = ['x', '1'].map(|c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
        cursor.hear(&letter, now);
        cursor.hear(&one, now + PAUSE / 2);
        assert_eq!(cursor.at(), 3);
        cursor.hear(&one, now + PAUSE / 2 + PAUSE);
        assert_eq!(cursor.at(), 0);
    }

    #[test]
    fn escape_leaves_and_a_number_with_alt_is_none() {
        let mut cursor = Cursor::new(5, 3);
        let now = Instant::now();
        let alt = KeyEvent::new(KeyCode::Char('1'), KeyModifiers::ALT);
        assert_eq!(cursor.hear(&alt, now), Meant::Nothing);
        assert_eq!(cursor.at(), 3);
        let escape = KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE);
        assert_eq!(cursor.hear(&escape, now), Meant::Left);
    }
}
