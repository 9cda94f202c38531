//! A file as one piece of text with its hash, where it is small enough for that.

use portcullis_gate::{Permit, Settled};
use portcullis_proto::{Digest, Failure, Reason, RelPath};

use super::Key;
use super::read::{Reading, whole};
use super::text::{TextRequest, read_text, stamp};
use crate::hashes::Hashes;
use crate::ignores::MatchedBy;
use crate::meta::Meta;
use crate::options::TextShape;
use crate::text::{
    Charset, EncodingChoice, Growth, OnMalformed, PROBE_BYTES_REST, PageRequest, ReadFrom,
    TextPage, read_page, sniff,
};

/// A file that is read whole where it is small, and by a window where it is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// Up to how many bytes it is read whole.
    pub up_to: u64,
    /// The window into a larger one; without, that is refused.
    pub beyond: Option<TextRequest>,
}

/// What a snapshot came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotReply {
    /// The text.
    pub content: Snapshot,
    /// Where the file really stands, where links are followed.
    pub path: RelPath,
    /// The file.
    pub meta: Meta,
    /// The ignore rule that names it, if one does; it is read all the same.
    pub ignored_by: Option<MatchedBy>,
}

/// Text, all of it or a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Snapshot {
    /// All of it.
    Whole {
        /// The text, without a byte order mark.
        text: String,
        /// How it is written.
        shape: TextShape,
        /// SHA-256 of the file's bytes.
        hash: Digest,
    },
    /// A window into a larger file.
    Window(TextPage),
}

/// Reads a small file whole, with its hash, or a window of a large one.
pub(crate) fn read_snapshot(
    permit: Permit<Reading>,
    request: &SnapshotRequest,
    ignored_by: Option<MatchedBy>,
    hashes: &Hashes,
) -> Result<SnapshotReply, Failure> {
    if permit.deed().meta.size > request.up_to {
        return match &request.beyond {
            Some(window) => read_text(permit, window, None).map(|reply| SnapshotReply {
                content: Snapshot::Window(reply.page),
                path: reply.path,
                meta: reply.meta,
                ignored_by,
            }),
            None => permit.spend(Key::turn(), |_, _, _| {
                Err(Failure::new(
                    Reason::TooLarge,
                    format!("The file has more than {} bytes.", request.up_to),
                )
                .hint("Read a window of it: line and limit, maxBytes, or a cursor."))
            }),
        };
    }
    permit.spend(Key::turn(), |mut reading, terms, live| {
        reading.settle_version(live)?;
        let bytes = whole(&reading, terms)?;
        let hash = hashes.of(&reading.handle, &reading.meta, &bytes, live.now_ms());
        let mut settled = Settled::bytes(bytes.len() as u64);
        settled.hash = Some(hash);
        let (text, shape) = decoded(bytes, &reading.meta)?;
        let reply = SnapshotReply {
            content: Snapshot::Whole { text, shape, hash },
            path: reading.path.clone(),
            meta: reading.meta,
            ignored_by,
        };
        Ok((reply, settled))
    })
}

/// A whole file as text. What is UTF-8 already is taken over as it is.
fn decoded(bytes: Vec<u8>, meta: &Meta) -> Result<(String, TextShape), Failure> {
    let sniffed = sniff(&bytes, true, EncodingChoice::Detect, PROBE_BYTES_REST)?;
    let shape = TextShape::of(&bytes, sniffed.charset);
    let bytes = if sniffed.charset == Charset::UTF_8 {
        match String::from_utf8(bytes) {
            Ok(mut text) => {
                text.drain(..sniffed.bom_bytes);
                return Ok((text, shape));
            }
            // It says where it is damaged.
            Err(damaged) => damaged.into_bytes(),
        }
    } else {
        bytes
    };
    let page = read_page(
        &bytes[..],
        &PageRequest {
            from: ReadFrom::Line(1),
            max_lines: u64::MAX,
            max_bytes: usize::MAX,
            max_line_bytes: None,
            encoding: EncodingChoice::Detect,
            on_malformed: OnMalformed::Refuse,
            probe_bytes: PROBE_BYTES_REST,
            stamp: stamp(meta),
            growth: Growth::Allow,
        },
    )?;
    Ok((page.text, shape))
}
