//! A numbered list, of which a person chooses one by the arrows or its number.
//!
//! Enter gives what is pointed at. Letters choose nothing: after one, nothing is
//! pointed at, Enter answers nothing, and the last line says which keys choose.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use crossterm::cursor::MoveUp;
use crossterm::event::{Event, KeyEventKind};
use crossterm::execute;
use crossterm::terminal::{Clear, ClearType};

use super::keys::{Cursor, Keys, Meant, Typed, is_interrupt};
use super::width;
use crate::out::{BOLD, clipped, paint};

/// What is put to a person.
pub(crate) struct List<'a, T> {
    /// The line above the choices. With one, the list gives way to the answer.
    pub(crate) asked: Option<&'a str>,
    pub(crate) choices: &'a [T],
    /// What Enter gives if no other key was pressed.
    pub(crate) start: usize,
    /// What Esc does, as the last line says it.
    pub(crate) escape: &'a str,
    /// How long nothing is typed before keys count.
    pub(crate) pause: Duration,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chosen<'a, T> {
    This(&'a T),
    /// Esc or Ctrl-D.
    Left,
    /// Ctrl-C.
    Interrupted,
    /// Nobody waits for the answer any more.
    TooLate,
}

impl<'a, T: Display> List<'a, T> {
    /// Hears keys until they are an answer, or nobody waits for one any more. What was
    /// typed before the list is there is no answer to it, but for a Ctrl-C.
    pub(crate) fn put(&self, is_over: impl Fn() -> bool) -> io::Result<Chosen<'a, T>> {
        let keys = Keys::take()?;
        match keys.drop_until_silent(self.pause, &is_over)? {
            Typed::Nothing => {}
            Typed::Interrupt => return Ok(Chosen::Interrupted),
        }
        if is_over() {
            return Ok(Chosen::TooLate);
        }
        self.draw(Some(self.start))?;
        let chosen = self.hear(&keys, is_over)?;
        if let (Some(asked), Chosen::This(choice)) = (self.asked, &chosen) {
            self.wipe()?;
            let mut err = anstream::stderr();
            write!(err, "{}\r\n", clip(&format!("{asked} {choice}")))?;
        }
        Ok(chosen)
    }

    fn hear(&self, keys: &Keys, is_over: impl Fn() -> bool) -> io::Result<Chosen<'a, T>> {
        let mut cursor = Cursor::new(self.choices.len(), self.start);
        loop {
            let event = keys.next()?;
            // Before anything else: it is not about this question alone.
            if event.as_ref().is_some_and(is_interrupt) {
                return Ok(Chosen::Interrupted);
            }
            if is_over() {
                return Ok(Chosen::TooLate);
            }
            let Some(Event::Key(key)) = event else {
                continue;
            };
            if key.kind == KeyEventKind::Release {
                continue;
            }
            match cursor.hear(&key, Instant::now()) {
                Meant::This(at) => {
                    let choice = self.choices.get(at);
                    return Ok(choice.map_or(Chosen::Left, Chosen::This));
                }
                Meant::Left => return Ok(Chosen::Left),
                Meant::Nothing => {
                    self.wipe()?;
                    self.draw(cursor.at())?;
                }
            }
        }
    }

    fn draw(&self, at: Option<usize>) -> io::Result<()> {
        let mut err = anstream::stderr();
        if let Some(asked) = self.asked {
            write!(err, "{}\r\n", clip(asked))?;
        }
        for (n, choice) in self.choices.iter().enumerate() {
            let mark = if at == Some(n) { ">" } else { " " };
            let line = clip(&format!("{mark} {}. {choice}", n + 1));
            if at == Some(n) {
                write!(err, "{}\r\n", paint(BOLD, line))?;
            } else {
                write!(err, "{line}\r\n")?;
            }
        }
        let escape = self.escape;
        let how = if at.is_some() {
            format!("Up, Down or a number, then Enter; {escape}")
        } else {
            format!("Letters choose nothing: Up, Down or a number, then Enter; {escape}")
        };
        write!(err, "{}\r\n", clip(&how))?;
        err.flush()
    }

    /// Takes away what was drawn.
    fn wipe(&self) -> io::Result<()> {
        let lines = self.choices.len() + 1 + usize::from(self.asked.is_some());
        let lines = u16::try_from(lines).unwrap_or(u16::MAX);
        execute!(
            anstream::stderr(),
            MoveUp(lines),
            Clear(ClearType::FromCursorDown)
        )
    }
}

/// A line that wraps cannot be taken away again.
fn clip(line: &str) -> String {
    clipped(line, width() - 1).into_owned()
}
