//! What a machine is asked for beside its tools, in words that go over a link.
//!
//! The near end says it, the far end does it: the same method of the same trait,
//! and the reply is the same text.

use base64::engine::general_purpose::STANDARD;
use portcullis_gate::Caller;
use portcullis_proto::{Failure, Json, Reason, Verb, read_json};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::machine::{Machine, ResourceEntry, ResourcePage, ResourceText};
use crate::workspace::{FileAsk, RawBytes};

/// The most raw bytes in one reply: in base64 they go over a link in one piece.
const MAX_RAW: usize = 512 * 1024;

/// What is asked of a machine beside its tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "operation",
    content = "args",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum MachineAsk {
    /// [`Machine::file`].
    File(FileAsk),
    /// [`Machine::raw`].
    Raw {
        /// The file.
        path: String,
        /// Where to begin.
        offset: u64,
        /// How many bytes at most.
        max: usize,
    },
    /// [`Machine::undoable`].
    Undoable {},
    /// [`Machine::undo`].
    Undo {
        /// Which.
        id: String,
    },
    /// [`Machine::resources`].
    Resources {
        /// Where an earlier page ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cursor: Option<String>,
    },
    /// [`Machine::read_resource`].
    ReadResource {
        /// Which.
        uri: String,
    },
}

impl MachineAsk {
    /// How an operation and its arguments are spelled.
    pub fn spelled(&self) -> (String, Value) {
        let mut spelled = serde_json::to_value(self).unwrap_or_default();
        let operation = spelled["operation"].as_str().unwrap_or_default().to_owned();
        (operation, spelled["args"].take())
    }

    /// What an operation and its arguments mean, if that is known.
    pub fn parse(operation: &str, args: &Value) -> Option<Self> {
        serde_json::from_value(json!({"operation": operation, "args": args})).ok()
    }

    /// What would be done.
    pub const fn verb(&self) -> Verb {
        match self {
            Self::File(ask) => ask.verb(),
            Self::Raw { .. } | Self::ReadResource { .. } => Verb::Read,
            Self::Undoable {} => Verb::Stat,
            Self::Undo { .. } => Verb::Undo,
            Self::Resources { .. } => Verb::List,
        }
    }

    /// The tool whose work it does: where that is not offered, nor is this.
    pub const fn tool(&self) -> &'static str {
        match self {
            Self::File(FileAsk::Read(_) | FileAsk::Bytes { .. })
            | Self::Raw { .. }
            | Self::ReadResource { .. } => "read_file",
            Self::File(FileAsk::Stat { .. }) | Self::Undoable {} => "stat",
            Self::File(FileAsk::List(_)) | Self::Resources { .. } => "list_files",
            Self::File(FileAsk::Glob { .. }) => "glob",
            Self::File(FileAsk::Write(_) | FileAsk::Upload { .. }) | Self::Undo { .. } => {
                "write_file"
            }
            Self::File(FileAsk::Edit { .. }) => "edit_file",
        }
    }

    /// What it is about, for the record.
    pub fn about(&self) -> &str {
        match self {
            Self::File(ask) => ask.path(),
            Self::Raw { path, .. } => path,
            Self::Undo { id } => id,
            Self::ReadResource { uri } => uri,
            Self::Undoable {} | Self::Resources { .. } => "",
        }
    }

    /// Does it on `machine`, in its one root: the body of the reply.
    pub async fn done_by(self, machine: &dyn Machine, caller: &Caller) -> Result<Json, Failure> {
        match self {
            Self::File(ask) => machine.file(caller, None, ask.within_bounds()).await,
            Self::Raw { path, offset, max } => {
                let window = (offset, max.min(MAX_RAW));
                let raw = machine.raw(caller, None, &path, window).await?;
                written(&SpelledRaw::from(raw))
            }
            Self::Undoable {} => machine.undoable(caller, None).await,
            Self::Undo { id } => machine.undo(caller, None, &id).await,
            Self::Resources { cursor } => {
                let (entries, next) = machine.resources(caller, cursor).await?;
                written(&SpelledPage { entries, next })
            }
            Self::ReadResource { uri } => {
                let (content, media) = machine.read_resource(caller, &uri).await?;
                written(&SpelledResource { content, media })
            }
        }
    }

    /// The bytes that the body of a reply to [`Self::Raw`] tells.
    pub fn raw_in(body: &Json) -> Result<RawBytes, Failure> {
        read::<SpelledRaw>(body).map(RawBytes::from)
    }

    /// The page that the body of a reply to [`Self::Resources`] tells.
    pub fn page_in(body: &Json) -> Result<ResourcePage, Failure> {
        read::<SpelledPage>(body).map(|page| (page.entries, page.next))
    }

    /// What the body of a reply to [`Self::ReadResource`] tells.
    pub fn resource_in(body: &Json) -> Result<(ResourceText, String), Failure> {
        read::<SpelledResource>(body).map(|read| (read.content, read.media))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpelledRaw {
    #[serde(with = "in_base64")]
    bytes: Vec<u8>,
    size: u64,
    version: String,
    is_fresh: bool,
}

impl From<RawBytes> for SpelledRaw {
    fn from(raw: RawBytes) -> Self {
        Self {
            bytes: raw.bytes,
            size: raw.size,
            version: raw.version,
            is_fresh: raw.is_fresh,
        }
    }
}

impl From<SpelledRaw> for RawBytes {
    fn from(raw: SpelledRaw) -> Self {
        Self {
            bytes: raw.bytes,
            size: raw.size,
            version: raw.version,
            is_fresh: raw.is_fresh,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct SpelledPage {
    entries: Vec<ResourceEntry>,
    next: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct SpelledResource {
    content: ResourceText,
    media: String,
}

fn written(body: &impl Serialize) -> Result<Json, Failure> {
    Json::of(body).map_err(|error| Failure::from(Reason::Bug).detail(error))
}

fn read<'a, T: Deserialize<'a>>(body: &'a Json) -> Result<T, Failure> {
    read_json(body.get().as_bytes()).map_err(|error| {
        Failure::new(
            Reason::Io,
            "The machine's reply does not say what was asked.",
        )
        .detail(error)
    })
}

/// Bytes, as text.
pub(crate) mod in_base64 {
    use base64::Engine as _;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::STANDARD;

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&STANDARD.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD.decode(text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use portcullis_proto::Digest;

    use super::*;
    use crate::workspace::{ListAsk, ReadAsk, WriteAsk};

    fn every() -> Vec<MachineAsk> {
        let path = || "a".to_owned();
        let files = [
            FileAsk::Read(ReadAsk {
                path: path(),
                line: Some(3),
                ..ReadAsk::default()
            }),
            FileAsk::Bytes {
                path: path(),
                offset: 1,
                max_bytes: 2,
            },
            FileAsk::Stat { path: path() },
            FileAsk::List(ListAsk {
                path: path(),
                include_ignored: true,
                ..ListAsk::default()
            }),
            FileAsk::Glob {
                pattern: "*".to_owned(),
                cwd: None,
                include_ignored: false,
                max_results: 4,
            },
            FileAsk::Write(WriteAsk {
                path: path(),
                content: "é".to_owned(),
                replaces: Some(Digest::ZERO),
                bom: Some(true),
                encoding: None,
                crlf: None,
            }),
            FileAsk::Edit {
                path: path(),
                old: "x".to_owned(),
                new: "y".to_owned(),
                expected: Digest::ZERO,
            },
            FileAsk::Upload {
                path: path(),
                bytes: vec![0, 255],
            },
        ];
        let mut all: Vec<MachineAsk> = files.into_iter().map(MachineAsk::File).collect();
        all.extend([
            MachineAsk::Raw {
                path: path(),
                offset: 7,
                max: 9,
            },
            MachineAsk::Undoable {},
            MachineAsk::Undo { id: path() },
            MachineAsk::Resources { cursor: None },
            MachineAsk::ReadResource { uri: path() },
        ]);
        all
    }

    #[test]
    fn what_is_spelled_is_understood() {
        for ask in every() {
            let (operation, args) = ask.spelled();
            assert!(args.is_object(), "{operation}: {args}");
            assert_eq!(MachineAsk::parse(&operation, &args), Some(ask));
        }
        let stat = MachineAsk::File(FileAsk::Stat {
            path: "a".to_owned(),
        });
        assert_eq!(
            stat.spelled(),
            ("file".to_owned(), json!({"stat": {"path": "a"}}))
        );
        for (operation, args) in [
            ("file", json!({})),
            ("file", json!({"stat": {}})),
            ("file", json!({"remove": {"path": "a"}})),
            ("file", json!({"upload": {"path": "a", "bytes": "?"}})),
            ("raw", json!({"path": "a", "offset": -1, "max": 1})),
            ("read-file", json!({"path": "a"})),
            ("", Value::Null),
        ] {
            assert_eq!(MachineAsk::parse(operation, &args), None, "{operation}");
        }
    }

    #[test]
    fn what_changes_something_is_the_work_of_a_tool_that_does() {
        for ask in every() {
            let looks = crate::catalogue::looking()
                .iter()
                .any(|tool| tool.name == ask.tool());
            let changes = crate::catalogue::changing()
                .iter()
                .any(|tool| tool.name == ask.tool() && tool.group == ask.verb().group());
            let is_change = ask.verb().group() == portcullis_proto::Group::FilesystemWrite;
            assert_eq!((looks, changes), (!is_change, is_change), "{ask:?}");
        }
    }

    #[test]
    fn nobody_far_away_asks_for_more_than_a_reply_may_hold() {
        let ask = FileAsk::Bytes {
            path: "a".to_owned(),
            offset: 0,
            max_bytes: usize::MAX,
        };
        let FileAsk::Bytes { max_bytes, .. } = ask.within_bounds() else {
            unreachable!("it stays what it is");
        };
        assert_eq!(max_bytes, crate::workspace::MAX_WINDOW);
    }
}
