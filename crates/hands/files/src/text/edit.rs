//! An edit: text that stands in a file once, replaced where it stands.
//!
//! Exact and unambiguous, or refused; never applied to what merely resembles.
//! The plan is a list of splices of the original bytes, so whatever is outside
//! them stays as it is: line ends, byte order mark, damage, a missing last line
//! end. Text is matched by its bytes in the file's own encoding.

use std::fmt;
use std::ops::Range;

use portcullis_proto::{Failure, Reason};

use super::breaks::{LineCounter, Terminator};
use super::charset::{Charset, Unencodable};
use super::find::{Body, LfCopy, LineEnds, places};
use super::lines::BLOCK;
use super::nearest;
use super::request::EncodingChoice;
use super::sniff::sniff;

/// The most edits of one call: each of them is one pass over the file.
pub const MAX_EDITS: usize = 100;
/// The most places one call changes, so that a plan stays small.
pub const MAX_SPLICES: usize = 100_000;
/// The largest result that is planned. What may be written is capped lower, by
/// the root; this keeps the plan itself from growing without bound.
pub const MAX_RESULT_BYTES: usize = 64 * 1024 * 1024;
/// How many lines a refusal names.
const MAX_LINES_NAMED: usize = 100;

/// One text to be replaced by another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What stands there, as a text page shows it; a line end may be given as
    /// LF whatever the file has.
    pub old: String,
    /// What is to stand there.
    pub new: String,
    /// Whether every place is meant, rather than the only one.
    pub all: bool,
}

/// Some bytes of a file, and what takes their place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splice {
    /// The first byte, counted in the original.
    pub at: usize,
    /// How many bytes go.
    pub removed: usize,
    /// The bytes that come.
    pub inserted: Vec<u8>,
    /// The line the first byte is in, counted from 1.
    pub first_line: u64,
}

/// What is to be done to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// In ascending order, none overlapping another.
    pub splices: Vec<Splice>,
    /// The encoding the file was found to have.
    pub charset: Charset,
}

/// Finds what `edits` change in `original`, or says why that is not clear.
///
/// Every edit is matched against the original, so their order does not matter.
/// `choice` and `probe_bytes` are those the text was read with.
pub fn plan(
    original: &[u8],
    edits: &[Edit],
    choice: EncodingChoice,
    probe_bytes: usize,
) -> Result<Planned, Failure> {
    if edits.is_empty() || edits.len() > MAX_EDITS {
        return Err(Failure::new(
            Reason::BadArguments,
            format!(
                "One call takes 1 to {MAX_EDITS} edits, not {}.",
                edits.len()
            ),
        ));
    }
    // What a page of the file decides its encoding by, so both see one text.
    let head = original.get(..BLOCK).unwrap_or(original);
    let sniffed = sniff(head, head.len() == original.len(), choice, probe_bytes)?;
    let file = File {
        body: Body {
            bytes: original.get(sniffed.bom_bytes..).unwrap_or_default(),
            charset: sniffed.charset,
        },
        lf_copy: std::cell::OnceCell::new(),
    };
    let mut found = Vec::new();
    let mut result_bytes = original.len();
    for (index, edit) in edits.iter().enumerate() {
        let which = Which {
            index,
            of: edits.len(),
        };
        for replacement in file.replacements(edit, which)? {
            result_bytes = result_bytes.saturating_add(replacement.inserted.len());
            found.push((which, replacement));
            if found.len() > MAX_SPLICES || result_bytes > MAX_RESULT_BYTES {
                return Err(Failure::new(
                    Reason::TooLarge,
                    format!(
                        "{which}The edit changes more than {MAX_SPLICES} places, or makes more than {MAX_RESULT_BYTES} bytes."
                    ),
                )
                .hint("Edit fewer places at a time."));
            }
        }
    }
    found.sort_by_key(|(_, replacement)| replacement.place.start);
    let mut counter = LineCounter::new(file.body.bytes, file.body.unit());
    let mut last: Option<(Which, Range<usize>)> = None;
    let mut splices = Vec::with_capacity(found.len());
    for (which, Replacement { place, inserted }) in found {
        let first_line = counter.line_at(place.start);
        if let Some((other, range)) = &last
            && place.start < range.end
        {
            return Err(overlap(*other, which, first_line));
        }
        splices.push(Splice {
            at: sniffed.bom_bytes + place.start,
            removed: place.len(),
            inserted,
            first_line,
        });
        last = Some((which, place));
    }
    Ok(Planned {
        splices,
        charset: sniffed.charset,
    })
}

/// `original` with `splices`, which are in order, done to it.
pub fn apply(original: &[u8], splices: &[Splice]) -> Vec<u8> {
    let coming: usize = splices.iter().map(|splice| splice.inserted.len()).sum();
    let mut result = Vec::with_capacity(original.len() + coming);
    let mut kept = 0;
    for splice in splices {
        result.extend_from_slice(original.get(kept..splice.at).unwrap_or_default());
        result.extend_from_slice(&splice.inserted);
        kept = splice.at.saturating_add(splice.removed);
    }
    result.extend_from_slice(original.get(kept..).unwrap_or_default());
    result
}

/// Which edit of a call a refusal is about; nothing to say when there is one.
#[derive(Clone, Copy)]
struct Which {
    index: usize,
    of: usize,
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.of == 1 {
            return Ok(());
        }
        write!(f, "Edit {} of {}: ", self.index + 1, self.of)
    }
}

/// One place, and the bytes that are to stand there.
struct Replacement {
    place: Range<usize>,
    inserted: Vec<u8>,
}

struct File<'a> {
    body: Body<'a>,
    /// Made when an edit first needs it.
    lf_copy: std::cell::OnceCell<LfCopy>,
}

/// How the text of an edit was found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Matched {
    /// Its bytes stand in the file.
    Exactly,
    /// They do but for the line ends.
    ButForLineEnds,
}

impl File<'_> {
    fn replacements(&self, edit: &Edit, which: Which) -> Result<Vec<Replacement>, Failure> {
        if edit.old.is_empty() {
            return Err(Failure::new(
                Reason::BadArguments,
                format!("{which}The text to replace is empty."),
            )
            .hint(
                "Give the text that stands there now; write or append to add to an empty file.",
            ));
        }
        if edit.old == edit.new {
            return Err(no_change(which));
        }
        let charset = self.body.charset;
        let old = charset.encode(&edit.old).map_err(|unencodable| {
            let Unencodable { character, .. } = unencodable;
            Failure::new(
                Reason::TextNotFound,
                format!("{which}The text does not occur in the file."),
            )
            .hint(format!(
                "The file is {charset}, which has no {}.",
                named(character)
            ))
        })?;
        let (mut found, matched) = self.places(edit, &old);
        if edit.all {
            let mut free = 0;
            found.retain(|place| {
                let apart = place.start >= free;
                if apart {
                    free = place.end;
                }
                apart
            });
        }
        match found.as_slice() {
            [] => {
                return Err(Failure::new(
                    Reason::TextNotFound,
                    format!("{which}The text does not occur in the file."),
                )
                .hint(nearest::hint(self.body, &edit.old)));
            }
            [_] => {}
            several if !edit.all => return Err(self.ambiguous(which, several)),
            _ => {}
        }
        if found.len() > MAX_SPLICES
            || found.len().saturating_mul(edit.new.len()) > 2 * MAX_RESULT_BYTES
        {
            return Err(Failure::new(
                Reason::TooLarge,
                format!(
                    "{which}The text occurs {} times, which is more than one call changes.",
                    found.len()
                ),
            )
            .hint("Edit fewer places at a time."));
        }
        let replacements = self.write(edit, found, matched, which)?;
        let changes = |replacement: &Replacement| {
            self.body.bytes.get(replacement.place.clone()) != Some(replacement.inserted.as_slice())
        };
        if !replacements.iter().any(changes) {
            return Err(no_change(which));
        }
        Ok(replacements)
    }

    /// Where `old` stands: as it is, or else but for its line ends. When all
    /// places are meant, those that differ in line ends are meant too.
    fn places(&self, edit: &Edit, old: &[u8]) -> (Vec<Range<usize>>, Matched) {
        let exact = places(self.body, old);
        let may_differ = edit.old.contains(['\n', '\r'])
            && (exact.is_empty() || edit.all)
            && (edit.old.contains('\r') || memchr::memchr(b'\r', self.body.bytes).is_some());
        if !may_differ {
            return (exact, Matched::Exactly);
        }
        let plain = edit.old.replace("\r\n", "\n").replace('\r', "\n");
        // What the encoding could say with other line ends it can say with these.
        let Ok(plain) = self.body.charset.encode(&plain) else {
            return (exact, Matched::Exactly);
        };
        let copy = self.lf_copy.get_or_init(|| LfCopy::of(self.body));
        let found = copy.places(self.body.charset, &plain);
        if found.len() > exact.len() {
            (found, Matched::ButForLineEnds)
        } else {
            (exact, Matched::Exactly)
        }
    }

    /// The bytes for each place. Text that was matched by its own line ends is
    /// written by them too; otherwise its lines end as those of the place do.
    fn write(
        &self,
        edit: &Edit,
        found: Vec<Range<usize>>,
        matched: Matched,
        which: Which,
    ) -> Result<Vec<Replacement>, Failure> {
        let charset = self.body.charset;
        let encode = |text: &str| {
            charset.encode(text).map_err(|unencodable| {
                Failure::new(
                    Reason::BadEncoding,
                    format!(
                        "{which}The new text has {}, which {charset}, the encoding of the file, cannot say.",
                        named(unencodable.character)
                    ),
                )
                .hint("Leave the character out, or write the whole file in another encoding.")
            })
        };
        let verbatim = match matched {
            Matched::Exactly => edit.old.contains(['\n', '\r']) || !edit.new.contains('\n'),
            Matched::ButForLineEnds => false,
        };
        if verbatim {
            let inserted = encode(&edit.new)?;
            return Ok(found
                .into_iter()
                .map(|place| Replacement {
                    place,
                    inserted: inserted.clone(),
                })
                .collect());
        }
        let with = |terminator| {
            let text = match matched {
                Matched::Exactly => end_bare_lines(&edit.new, terminator),
                Matched::ButForLineEnds => {
                    end_bare_lines(&edit.new.replace("\r\n", "\n"), terminator)
                }
            };
            encode(&text)
        };
        let (lf, crlf, cr) = (
            with(Terminator::Lf)?,
            with(Terminator::Crlf)?,
            with(Terminator::Cr)?,
        );
        let mut ends = LineEnds::new(self.body);
        Ok(found
            .into_iter()
            .map(|place| {
                let inserted = match ends.at(place.start) {
                    Terminator::Lf => lf.clone(),
                    Terminator::Crlf => crlf.clone(),
                    Terminator::Cr => cr.clone(),
                };
                Replacement { place, inserted }
            })
            .collect())
    }

    fn ambiguous(&self, which: Which, found: &[Range<usize>]) -> Failure {
        let mut counter = LineCounter::new(self.body.bytes, self.body.unit());
        let mut lines: Vec<u64> = found
            .iter()
            .map(|place| counter.line_at(place.start))
            .collect();
        lines.dedup();
        let named: Vec<String> = lines
            .iter()
            .take(MAX_LINES_NAMED)
            .map(u64::to_string)
            .collect();
        let more = match lines.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let noun = if lines.len() == 1 { "line" } else { "lines" };
        Failure::new(
            Reason::AmbiguousText,
            format!(
                "{which}The text occurs {} times, on {noun} {}{more}.",
                found.len(),
                named.join(", ")
            ),
        )
        .hint("Give more of the text around the place you mean, or ask for all places.")
    }
}

/// `text` with each LF that no CR precedes replaced by `terminator`.
pub(super) fn end_bare_lines(text: &str, terminator: Terminator) -> String {
    let mut result = String::with_capacity(text.len());
    let mut before = None;
    for character in text.chars() {
        if character == '\n' && before != Some('\r') {
            result.push_str(terminator.as_str());
        } else {
            result.push(character);
        }
        before = Some(character);
    }
    result
}

/// A character, safe to show: `'λ' (U+03BB)`.
pub(super) fn named(character: char) -> String {
    format!("{character:?} (U+{:04X})", u32::from(character))
}

fn no_change(which: Which) -> Failure {
    Failure::new(
        Reason::BadArguments,
        format!("{which}The new text is what stands there already, so nothing would change."),
    )
    .hint("Read the file again: the change may have been made.")
}

fn overlap(one: Which, other: Which, line: u64) -> Failure {
    let (first, second) = (one.index.min(other.index), one.index.max(other.index));
    Failure::new(
        Reason::BadArguments,
        format!(
            "Edit {} and edit {} overlap at line {line}.",
            first + 1,
            second + 1
        ),
    )
    .hint("Make one edit of the two: all edits of a call are matched against the file as it is.")
}
