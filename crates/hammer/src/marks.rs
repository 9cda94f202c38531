//! The marks that tell inside from outside, and the eye that looks for them in replies.
//!
//! Invariants:
//! - the marks are 128-bit nonces of this run, written in the letters `a` to `p`, so they look the
//!   same raw and JSON-escaped, and no secret scanner mistakes them for a key;
//! - a mark is found raw, in base64 at any alignment, and behind `\u` escapes;
//! - a reply that shows anything of the outside is an escape, whatever else it shows.

use memchr::memmem::{Finder, find_iter};

use crate::{Attack, Verb};

/// How many bytes of evidence are kept on either side of what was found.
const EXCERPT_REACH: usize = 100;

/// The nonces and sizes of one run.
#[derive(Debug, Clone)]
pub(crate) struct Marks {
    pub(crate) inside: String,
    pub(crate) outside: String,
    pub(crate) inside_size: u64,
    pub(crate) outside_size: u64,
}

impl Marks {
    pub(crate) fn fresh() -> Result<Self, getrandom::Error> {
        let mut sizes = [0_u8; 4];
        getrandom::fill(&mut sizes)?;
        let chance = u64::from(u32::from_le_bytes(sizes));
        Ok(Self {
            inside: format!("inside{}", letters()?),
            outside: format!("outside{}", letters()?),
            // Seven digits that differ in the first, so no rounding makes them alike.
            inside_size: 5_100_000 + chance % 800_000,
            outside_size: 7_100_000 + (chance / 7) % 800_000,
        })
    }
}

/// 128 bits of chance, four to a letter.
fn letters() -> Result<String, getrandom::Error> {
    let mut nonce = [0_u8; 16];
    getrandom::fill(&mut nonce)?;
    let letter = |nibble: u8| char::from(b'a' + nibble);
    Ok(nonce
        .iter()
        .flat_map(|byte| [letter(byte >> 4), letter(byte & 15)])
        .collect())
}

/// What a reply shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// Something of the outside, with the text around it.
    Outside(String),
    /// Something of the inside, and nothing of the outside.
    Inside,
    /// Neither.
    Nothing,
}

/// Looks at replies.
#[derive(Debug)]
pub(crate) struct Eye {
    inside: [Finder<'static>; 4],
    outside: [Finder<'static>; 4],
    unicode_escape: Finder<'static>,
    inode_key: Finder<'static>,
    inside_size: String,
    outside_size: String,
    outside_inodes: Vec<u64>,
}

impl Eye {
    pub(crate) fn new(marks: &Marks, outside_inodes: Vec<u64>) -> Self {
        Self {
            inside: needles(&marks.inside),
            outside: needles(&marks.outside),
            unicode_escape: Finder::new(r"\u00").into_owned(),
            inode_key: Finder::new("ino").into_owned(),
            inside_size: marks.inside_size.to_string(),
            outside_size: marks.outside_size.to_string(),
            outside_inodes,
        }
    }

    /// Judges one reply as it came off the wire.
    pub(crate) fn look(&self, reply: &[u8], verb: Verb, attack: Option<Attack>) -> Sight {
        if self.unicode_escape.find(reply).is_some()
            && let Some(plain) = without_unicode_escapes(reply)
        {
            return self.look_plainly(&plain, verb, attack);
        }
        self.look_plainly(reply, verb, attack)
    }

    fn look_plainly(&self, reply: &[u8], verb: Verb, attack: Option<Attack>) -> Sight {
        if let Some(place) = first_place(&self.outside, reply) {
            return Sight::Outside(excerpt(reply, place));
        }
        if counts_facts(verb, attack)
            && let Some(place) = self.outside_fact(reply)
        {
            return Sight::Outside(excerpt(reply, place));
        }
        let inside = match verb {
            Verb::Stat => number_place(reply, &self.inside_size).is_some(),
            Verb::Read
            | Verb::ReadMany
            | Verb::List
            | Verb::Tree
            | Verb::Glob
            | Verb::Search
            | Verb::Inspect
            | Verb::Resource => first_place(&self.inside, reply).is_some(),
        };
        if inside {
            Sight::Inside
        } else {
            Sight::Nothing
        }
    }

    /// Where the size or the inode of something outside is shown.
    fn outside_fact(&self, reply: &[u8]) -> Option<usize> {
        number_place(reply, &self.outside_size).or_else(|| {
            self.inode_key.find_iter(reply).find(|place| {
                let value = reply.get(place + "ino".len()..).unwrap_or_default();
                inode_value(value).is_some_and(|inode| self.outside_inodes.contains(&inode))
            })
        })
    }
}

/// Whether sizes and inodes count as the outside's.
///
/// A hard link planted in the root *is* an entry of the root, so a listing may say how large it is;
/// only asking for that one file must not succeed.
fn counts_facts(verb: Verb, attack: Option<Attack>) -> bool {
    match attack {
        Some(Attack::Hardlink) => verb == Verb::Stat,
        Some(
            Attack::Parent
            | Attack::Grandparent
            | Attack::Leaf
            | Attack::RootRenamed
            | Attack::BindMount,
        )
        | None => true,
    }
}

/// A mark raw, and as base64 would show it at each of the three alignments.
fn needles(mark: &str) -> [Finder<'static>; 4] {
    let shifted = |skipped: usize| base64_whole(mark.as_bytes().get(skipped..).unwrap_or_default());
    [
        Finder::new(mark).into_owned(),
        Finder::new(&shifted(0)).into_owned(),
        Finder::new(&shifted(1)).into_owned(),
        Finder::new(&shifted(2)).into_owned(),
    ]
}

/// The base64 of as many whole groups of three as `bytes` holds; the rest depends on what follows.
fn base64_whole(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |six: u32| char::from(ALPHABET[(six & 63) as usize]);
    let (groups, _rest) = bytes.as_chunks::<3>();
    groups
        .iter()
        .map(|[first, second, third]| u32::from_be_bytes([0, *first, *second, *third]))
        .flat_map(|group| {
            [
                digit(group >> 18),
                digit(group >> 12),
                digit(group >> 6),
                digit(group),
            ]
        })
        .collect()
}

fn first_place(needles: &[Finder<'static>], reply: &[u8]) -> Option<usize> {
    needles.iter().find_map(|needle| needle.find(reply))
}

/// Where `number` stands alone: not part of a longer number, and not the fraction of one.
fn number_place(reply: &[u8], number: &str) -> Option<usize> {
    find_iter(reply, number).find(|place| {
        let before = place.checked_sub(1).and_then(|index| reply.get(index));
        let after = reply.get(place + number.len());
        !before.is_some_and(|byte| byte.is_ascii_digit() || *byte == b'.')
            && !after.is_some_and(u8::is_ascii_digit)
    })
}

/// The number after an `ino` or `inode` key, whether or not the JSON around it is itself escaped.
fn inode_value(after_key: &[u8]) -> Option<u64> {
    let rest = after_key.strip_prefix(b"de").unwrap_or(after_key);
    let start = rest
        .iter()
        .position(|byte| !matches!(byte, b'\\' | b'"' | b':' | b' '))?;
    if start == 0 {
        return None;
    }
    let digits: Vec<u8> = rest
        .get(start..)?
        .iter()
        .copied()
        .take_while(u8::is_ascii_digit)
        .collect();
    str::from_utf8(&digits).ok()?.parse().ok()
}

fn without_unicode_escapes(reply: &[u8]) -> Option<Vec<u8>> {
    let value: serde_json::Value = serde_json::from_slice(reply).ok()?;
    serde_json::to_vec(&value).ok()
}

fn excerpt(reply: &[u8], place: usize) -> String {
    let start = place.saturating_sub(EXCERPT_REACH);
    let end = reply.len().min(place + EXCERPT_REACH);
    String::from_utf8_lossy(reply.get(start..end).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eye() -> (Marks, Eye) {
        let marks = Marks {
            inside: "insideaaaabbbbccccdddd".into(),
            outside: "outsideppppooooiiiikkkk".into(),
            inside_size: 5_123_456,
            outside_size: 7_654_321,
        };
        let eye = Eye::new(&marks, vec![4711]);
        (marks, eye)
    }

    #[track_caller]
    fn check(reply: &str, verb: Verb, attack: Attack, escaped: bool) {
        let sight = eye().1.look(reply.as_bytes(), verb, Some(attack));
        assert_eq!(
            matches!(sight, Sight::Outside(_)),
            escaped,
            "{reply}: {sight:?}"
        );
    }

    #[test]
    fn marks_are_seen_raw_and_behind_escapes() {
        check(
            "xx outsideppppooooiiiikkkk yy",
            Verb::Read,
            Attack::Leaf,
            true,
        );
        check(
            r#"{"a":"\u006futsideppppooooiiiikkkk"}"#,
            Verb::Read,
            Attack::Leaf,
            true,
        );
        check("insideaaaabbbbccccdddd", Verb::Read, Attack::Leaf, false);
    }

    #[test]
    fn marks_are_seen_in_base64_at_every_alignment() {
        let (marks, eye) = eye();
        for padding in ["", "x", "xy", "xyz"] {
            let whole = base64_whole(format!("{padding}{}......", marks.outside).as_bytes());
            let reply = format!(r#"{{"blob":"{whole}"}}"#);
            let sight = eye.look(reply.as_bytes(), Verb::Resource, None);
            assert!(matches!(sight, Sight::Outside(_)), "{padding:?}");
        }
    }

    #[test]
    fn sizes_count_only_as_whole_numbers() {
        check(r#""size": 7654321,"#, Verb::Stat, Attack::Parent, true);
        check(r#""size": 17654321,"#, Verb::Stat, Attack::Parent, false);
        check(r#""time": 6.7654321Z"#, Verb::Stat, Attack::Parent, false);
    }

    #[test]
    fn inodes_count_behind_their_key_alone() {
        check(r#"{\"ino\": 4711}"#, Verb::Stat, Attack::Parent, true);
        check(r#"{"inode":"4711"}"#, Verb::Stat, Attack::Parent, true);
        check(r#"{"ino":47110}"#, Verb::Stat, Attack::Parent, false);
        check(r#"{"lines":4711}"#, Verb::Stat, Attack::Parent, false);
    }

    #[test]
    fn a_planted_hard_link_may_be_listed_with_its_size_but_not_asked_for() {
        check("7654321", Verb::List, Attack::Hardlink, false);
        check("7654321", Verb::Stat, Attack::Hardlink, true);
        check("7654321", Verb::List, Attack::Leaf, true);
    }

    #[test]
    fn inside_is_told_from_nothing() {
        let (_, eye) = eye();
        assert_eq!(eye.look(b"size: 5123456", Verb::Stat, None), Sight::Inside);
        assert_eq!(
            eye.look(b"insideaaaabbbbccccdddd", Verb::List, None),
            Sight::Inside
        );
        assert_eq!(eye.look(b"denied", Verb::List, None), Sight::Nothing);
    }
}
