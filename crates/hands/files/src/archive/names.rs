//! Which names an archive may bring, and which of them would be one file.

use std::collections::HashMap;

use portcullis_proto::{BadPath, RelPath};
use sha2::{Digest as _, Sha256};
use unicode_normalization::UnicodeNormalization as _;

use super::limits::{MAX_COMPONENTS, MAX_ENTRIES};
use super::why::Why;
use crate::writing::admit_new_name;

/// The path a raw name means below the destination; the root itself for `./`.
pub(super) fn admit(raw: &[u8]) -> Result<RelPath, Why> {
    if raw.is_empty() {
        return Err(Why::EmptyName);
    }
    let name = std::str::from_utf8(raw).map_err(|_| Why::NotUtf8)?;
    if name.contains('\\') {
        return Err(Why::Backslash);
    }
    let mut start = name.bytes();
    if let (Some(letter), Some(b':')) = (start.next(), start.next())
        && letter.is_ascii_alphabetic()
    {
        return Err(Why::Drive);
    }
    let path = RelPath::parse(name).map_err(|bad| match bad {
        BadPath::ParentComponent => Why::Parent,
        BadPath::Absolute => Why::Absolute,
        BadPath::Character => Why::Character,
        BadPath::NotUtf8 => Why::NotUtf8,
        BadPath::TooLong => Why::NameTooLong,
    })?;
    if path.components().count() > MAX_COMPONENTS {
        return Err(Why::TooDeep);
    }
    if path.components().any(|part| admit_new_name(part).is_err()) {
        return Err(Why::Unportable);
    }
    Ok(path)
}

/// Which place a name takes on any common file system: two names that are the
/// same to one of them have the same. Hashed, so that it stays small whatever a
/// name unfolds to.
fn place(part: &str) -> [u8; 16] {
    let mut hasher = Sha256::new();
    if part.is_ascii() {
        hasher.update(part.to_ascii_lowercase());
    } else {
        // Folding undoes normal form, and normal form folding: twice is enough.
        let once: String = caseless::default_case_fold_str(&part.nfkc().collect::<String>());
        let twice: String = caseless::default_case_fold_str(&once.nfkc().collect::<String>());
        let key: String = twice.nfkc().collect();
        hasher.update(key.trim_end_matches(['.', ' ']));
    }
    let mut short = [0; 16];
    short.copy_from_slice(&hasher.finalize()[..16]);
    short
}

#[derive(Debug)]
struct Node {
    id: u32,
    spelled: Box<str>,
    is_directory: bool,
    /// Named by an entry of its own, not only on the way to another.
    is_entry: bool,
}

/// As many entries as there may be, and as many directories that no entry names.
const MAX_NODES: usize = 2 * MAX_ENTRIES;

/// All names of an archive, as the tree they would become.
#[derive(Debug, Default)]
pub(super) struct Names {
    nodes: HashMap<(u32, [u8; 16]), Node>,
}

impl Names {
    /// Adds an entry; what cannot stand beside the others is refused.
    pub(super) fn add(&mut self, path: &RelPath, is_directory: bool) -> Result<(), Why> {
        let mut above = 0;
        let mut parts = path.components().peekable();
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none();
            let is_directory = is_directory || !is_last;
            let next = u32::try_from(self.nodes.len() + 1).unwrap_or(u32::MAX);
            let node = self.nodes.entry((above, place(part))).or_insert(Node {
                id: next,
                spelled: part.into(),
                is_directory,
                is_entry: false,
            });
            if next as usize > MAX_NODES {
                return Err(Why::TooManyEntries);
            }
            if &*node.spelled != part {
                return Err(Why::Collides);
            }
            if node.is_directory != is_directory {
                return Err(Why::FileAndDirectory);
            }
            if is_last {
                if node.is_entry {
                    return Err(Why::Duplicate);
                }
                node.is_entry = true;
            }
            above = node.id;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_some_file_system_takes_for_one_are_one() {
        for (a, b) in [
            ("a", "A"),
            ("stra\u{df}e", "STRASSE"),
            ("stra\u{1e9e}e", "strasse"),
            ("caf\u{e9}", "cafe\u{301}"),
            ("\u{fb01}le", "file"),
            ("\u{130}", "i\u{307}"),
            ("\u{3c3}", "\u{3c2}"),
            ("\u{212a}", "k"),
        ] {
            assert_eq!(place(a), place(b), "{a} and {b}");
        }
        for (a, b) in [("a", "b"), ("\u{e9}", "e"), ("ss", "s")] {
            assert_ne!(place(a), place(b), "{a} and {b}");
        }
    }

    #[test]
    fn a_file_is_not_also_on_the_way_to_another() {
        let add = |list: &[(&str, bool)]| {
            let mut names = Names::default();
            list.iter().try_for_each(|(path, is_directory)| {
                names.add(&RelPath::parse(path).unwrap(), *is_directory)
            })
        };
        assert_eq!(add(&[("a/b", false), ("a", true), ("a/c", false)]), Ok(()));
        assert_eq!(
            add(&[("a", false), ("a/b", false)]),
            Err(Why::FileAndDirectory)
        );
        assert_eq!(
            add(&[("a/b", false), ("a", false)]),
            Err(Why::FileAndDirectory)
        );
        assert_eq!(add(&[("A/b", false), ("a/c", false)]), Err(Why::Collides));
        assert_eq!(add(&[("a/b", false), ("a/b", false)]), Err(Why::Duplicate));
    }
}
