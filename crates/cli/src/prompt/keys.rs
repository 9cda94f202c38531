//! The keys, while a question is shown: what chooses, and what counts for nothing.
//!
//! Only the arrows and the numbers choose, and only for who has paused: a line that
//! somebody was writing when the question came is no answer to it, whichever
//! numbers stand in it, neither a yes nor a no.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use portcullis_files::read_own_text;

/// The longest line of /proc/self/stat; some 50 numbers and a name.
const MAX_STAT: u64 = 4_096;

/// How often it is looked whether anybody still waits for the answer.
const LOOK: Duration = Duration::from_millis(100);
/// How long nothing is typed before keys are an answer: they were meant for something
/// else, or for a question that went away, and nobody has read this one yet.
pub(crate) const PAUSE: Duration = Duration::from_millis(700);

/// What counts of the keys that were typed before they could be an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Typed {
    Nothing,
    /// Ctrl-C lets nothing through, and is never lost.
    Interrupt,
}

/// Whether there is a terminal to ask on: what is asked is seen, and keys come.
pub(crate) fn is_there() -> bool {
    io::stderr().is_terminal()
        && is_in_foreground()
        && enable_raw_mode().and_then(|()| disable_raw_mode()).is_ok()
}

/// Whether this process has the terminal. One in the background is stopped by the
/// kernel when it changes the terminal's mode, and hears no keys.
fn is_in_foreground() -> bool {
    let stat = read_own_text(Path::new("/proc/self/stat"), MAX_STAT);
    // Where the kernel does not say, the terminal itself does.
    stat.ok()
        .flatten()
        .and_then(|stat| has_terminal(&stat))
        .unwrap_or(true)
}

/// Whether the process group of this line of proc(5) is its terminal's.
fn has_terminal(stat: &str) -> Option<bool> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    Some(fields.get(2)? == fields.get(5)?)
}

/// Gives the terminal back as it was, whatever was being asked.
pub(crate) fn give_back() {
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
    This(usize),
    /// None of them.
    Left,
    /// Perhaps another one is pointed at.
    Nothing,
}

/// Which of the answers is pointed at. It begins at `start`; as soon as anything is
/// typed that chooses nothing, none is.
pub(super) struct Cursor {
    at: Option<usize>,
    start: usize,
    count: usize,
    /// When something was typed that is no answer.
    typed: Option<Instant>,
}

impl Cursor {
    pub(super) const fn new(count: usize, start: usize) -> Self {
        Self {
            at: Some(start),
            start,
            count,
            typed: None,
        }
    }

    pub(super) const fn at(&self) -> Option<usize> {
        self.at
    }

    pub(super) fn hear(&mut self, key: &KeyEvent, now: Instant) -> Meant {
        let is_writing = self
            .typed
            .is_some_and(|typed| now.saturating_duration_since(typed) < PAUSE);
        let from = self.at.unwrap_or(self.start);
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
            } if self.at.is_some() => return Meant::This(from),
            KeyEvent {
                code: KeyCode::Up, ..
            } if !is_writing => {
                let last = self.count.saturating_sub(1);
                self.at = Some(from.checked_sub(1).unwrap_or(last));
            }
            KeyEvent {
                code: KeyCode::Down,
                ..
            } if !is_writing => self.at = Some((from + 1) % self.count.max(1)),
            KeyEvent {
                code: KeyCode::Char(digit @ '1'..='9'),
                modifiers: KeyModifiers::NONE,
                ..
            } if !is_writing && self.nth(*digit).is_some() => self.at = self.nth(*digit),
            KeyEvent { .. } => {
                self.at = None;
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
    fn check(keys: &[KeyCode], want: Option<usize>) {
        let mut cursor = Cursor::new(5, 3);
        let now = Instant::now();
        for key in keys {
            let key = KeyEvent::new(*key, KeyModifiers::NONE);
            assert_eq!(cursor.hear(&key, now), Meant::Nothing);
        }
        let enter = KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE);
        let want = want.map_or(Meant::Nothing, |nth| Meant::This(nth - 1));
        assert_eq!(cursor.hear(&enter, now), want, "{keys:?}");
    }

    fn line(text: &str) -> Vec<KeyCode> {
        text.chars().map(KeyCode::Char).collect()
    }

    #[test]
    fn a_process_in_the_background_does_not_have_the_terminal() {
        let line =
            |group, of_terminal| format!("7 (a) b) S 1 {group} 5 34816 {of_terminal} 4194304 0");
        assert_eq!(has_terminal(&line(7, 7)), Some(true));
        assert_eq!(has_terminal(&line(7, 9)), Some(false));
        assert_eq!(has_terminal(&line(7, -1)), Some(false));
        assert_eq!(has_terminal("7"), None);
    }

    #[test]
    fn arrows_and_numbers_choose() {
        check(&[], Some(4));
        check(&[KeyCode::Up], Some(3));
        check(&[KeyCode::Down, KeyCode::Down], Some(1));
        check(&line("1"), Some(1));
        check(&line("52"), Some(2));
    }

    #[test]
    fn whatever_else_is_typed_is_no_answer() {
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
            check(&line(text), None);
        }
        check(&[KeyCode::Tab], None);
        check(&[KeyCode::Up, KeyCode::Backspace], None);
        check(&[KeyCode::Char('x'), KeyCode::Up], None);
    }

    #[test]
    fn who_has_paused_is_answering_again() {
        let mut cursor = Cursor::new(5, 3);
        let now = Instant::now();
        let [letter, one] = ['x', '1'].map(|c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
        cursor.hear(&letter, now);
        cursor.hear(&one, now + PAUSE / 2);
        assert_eq!(cursor.at(), None);
        cursor.hear(&one, now + PAUSE / 2 + PAUSE);
        assert_eq!(cursor.at(), Some(0));
    }

    #[test]
    fn escape_leaves_and_a_number_with_alt_is_none() {
        let mut cursor = Cursor::new(5, 3);
        let now = Instant::now();
        let alt = KeyEvent::new(KeyCode::Char('1'), KeyModifiers::ALT);
        assert_eq!(cursor.hear(&alt, now), Meant::Nothing);
        assert_eq!(cursor.at(), None);
        let escape = KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE);
        assert_eq!(cursor.hear(&escape, now), Meant::Left);
    }
}
