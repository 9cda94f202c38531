//! A line of text that a person writes, beginning with the one there is.

use std::io::{self, Write as _};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::execute;
use crossterm::terminal::{Clear, ClearType};

use super::keys::{Keys, is_interrupt};
use super::width;
use crate::out::shown;

/// The longest line, in characters; a path is no longer.
const MAX: usize = 4_096;

/// Has `text` edited at its end: Backspace takes a character away, Ctrl-U all of
/// them. None where it was left by Esc, Ctrl-C or Ctrl-D.
pub(crate) fn edit_line(asked: &str, text: &str) -> io::Result<Option<String>> {
    let keys = Keys::take()?;
    let mut text = text.to_owned();
    draw(asked, &text)?;
    let written = loop {
        let event = keys.next()?;
        if event.as_ref().is_some_and(is_interrupt) {
            break None;
        }
        match event {
            Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                match hear(&mut text, &key) {
                    Meant::Written => break Some(text),
                    Meant::Left => break None,
                    Meant::Nothing => draw(asked, &text)?,
                }
            }
            Some(_) | None => {}
        }
    };
    write!(anstream::stderr(), "\r\n")?;
    Ok(written)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meant {
    Written,
    Left,
    Nothing,
}

fn hear(text: &mut String, key: &KeyEvent) -> Meant {
    let with = key.modifiers - KeyModifiers::SHIFT;
    if key.code == KeyCode::Enter {
        return Meant::Written;
    } else if key.code == KeyCode::Esc {
        return Meant::Left;
    } else if key.code == KeyCode::Backspace {
        text.pop();
    } else if let KeyCode::Char(letter) = key.code {
        match (letter, with) {
            ('d', KeyModifiers::CONTROL) => return Meant::Left,
            ('u', KeyModifiers::CONTROL) => text.clear(),
            (_, KeyModifiers::NONE) if text.chars().count() < MAX => text.push(letter),
            (_, _) => {}
        }
    }
    Meant::Nothing
}

/// Draws the end of what was written: that is where it is edited.
fn draw(asked: &str, text: &str) -> io::Result<()> {
    let mut err = anstream::stderr();
    let room = width().saturating_sub(asked.chars().count() + 3);
    let text = shown(text);
    let over = text.chars().count().saturating_sub(room);
    let tail: String = text.chars().skip(over).collect();
    execute!(err, Clear(ClearType::CurrentLine))?;
    write!(err, "\r{asked}: {tail}")?;
    err.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_edited_at_its_end() {
        let mut text = "/a".to_owned();
        let mut press = |code, with| hear(&mut text, &KeyEvent::new(code, with));
        for letter in "/Bx".chars() {
            press(KeyCode::Char(letter), KeyModifiers::SHIFT);
        }
        press(KeyCode::Backspace, KeyModifiers::NONE);
        press(KeyCode::Char('1'), KeyModifiers::ALT);
        press(KeyCode::Tab, KeyModifiers::NONE);
        assert_eq!(press(KeyCode::Enter, KeyModifiers::NONE), Meant::Written);
        assert_eq!(text, "/a/B");
        let mut press = |code, with| hear(&mut text, &KeyEvent::new(code, with));
        press(KeyCode::Char('u'), KeyModifiers::CONTROL);
        let end = press(KeyCode::Char('d'), KeyModifiers::CONTROL);
        assert_eq!(end, Meant::Left);
        assert_eq!(text, "");
    }
}
