//! Tool calls and replies: what every machine speaks, here or far away.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Failure, Group};

/// One call of one tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Which tool.
    pub name: String,
    /// Its arguments, as an object.
    #[serde(default)]
    pub arguments: Value,
}

/// What came of it. Both halves say the same: `structured` completely, `text`
/// for clients that show only text.
///
/// Both are written out as JSON where they are made: a wire passes them on as
/// they are, and a tree of values between would cost more than the deed.
#[derive(Clone, Debug)]
pub struct ToolReply {
    /// The complete result: an object.
    pub structured: Json,
    /// The same, as a person reads it: a string.
    pub text: Json,
    /// Whether it is a failure.
    pub is_error: bool,
    /// What is no text: pictures and files, of machines that return such.
    pub attached: Vec<Attached>,
}

/// Something in a reply beside its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attached {
    /// A picture.
    Image {
        /// Its bytes, in base64.
        data: String,
        /// Its type.
        mime_type: String,
    },
    /// A file.
    Blob {
        /// What it is called.
        uri: String,
        /// Its type, where it is known.
        mime_type: Option<String>,
        /// Its bytes, in base64.
        blob: String,
    },
    /// A word of ours beside the tool's own text, which may be a file's.
    Note {
        /// The word.
        text: String,
    },
}

impl Attached {
    /// How long it is on a wire.
    pub fn len(&self) -> usize {
        match self {
            Self::Image { data, .. } => data.len(),
            Self::Blob { blob, .. } => blob.len(),
            Self::Note { text } => text.len(),
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl ToolReply {
    /// A failure as a typed result: kind, reason, category, message, hint.
    pub fn failed(failure: &Failure) -> Self {
        let mut structured = serde_json::json!({
            "errorKind": failure.kind().as_str(),
            "reason": failure.reason().as_str(),
            "category": failure.category().as_str(),
            "error": failure.message(),
            "status": failure.kind().status(),
        });
        let mut text = failure.message().to_owned();
        if let Some(hint) = failure.next_step() {
            if let Some(object) = structured.as_object_mut() {
                object.insert("hint".into(), hint.into());
            }
            text.push_str("\nhint: ");
            text.push_str(hint);
        }
        Self {
            structured: written(&structured),
            text: written(&text),
            is_error: true,
            attached: Vec::new(),
        }
    }
}

/// A value or a string, which nothing keeps from being written.
fn written(value: &impl Serialize) -> Json {
    Json::of(value).unwrap_or_else(|_| Json("null".to_owned()))
}

/// One value, written out as JSON on one line. It is as good as who wrote it:
/// looking at a page of text once more costs what writing it did, so that is
/// done where debug assertions are on, as they are in every test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json(String);

impl Json {
    /// Writes `value` out.
    pub fn of(value: &(impl Serialize + ?Sized)) -> serde_json::Result<Self> {
        serde_json::to_string(value).map(Self)
    }

    /// Takes over what is written already.
    pub fn vouched(text: String) -> Self {
        debug_assert!(
            serde_json::from_str::<IgnoredAny>(&text).is_ok() && !text.contains('\n'),
            "no JSON on one line: {text}"
        );
        Self(text)
    }

    /// The text itself, for a wire that takes it over.
    pub fn into_string(self) -> String {
        self.0
    }

    /// As it goes over a wire.
    pub fn get(&self) -> &str {
        &self.0
    }
}

/// What a tool does to the world, told truthfully.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolTraits {
    /// It changes nothing.
    pub read_only: bool,
    /// It can lose something.
    pub destructive: bool,
    /// Doing it twice is doing it once.
    pub idempotent: bool,
    /// It reaches beyond this machine.
    pub open_world: bool,
}

impl ToolTraits {
    /// A tool that only looks.
    pub const LOOKS: Self = Self {
        read_only: true,
        destructive: false,
        idempotent: true,
        open_world: false,
    };
}

/// A tool as the catalogue shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolSpec {
    /// Its name on every wire.
    pub name: Cow<'static, str>,
    /// Its name for people.
    pub title: Cow<'static, str>,
    /// What it is for.
    pub description: Cow<'static, str>,
    /// The group a person switches it with.
    pub group: Group,
    /// What it does to the world.
    pub traits: ToolTraits,
    /// The JSON schema of its arguments.
    pub input_schema: Value,
    /// The JSON schema of its structured result; nothing where a machine names none.
    pub output_schema: Option<Value>,
}
