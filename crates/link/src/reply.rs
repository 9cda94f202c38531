//! What a machine sends back.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{Chunk, bounds};

/// The body of a reply in n8n's dialect and in ours. One of the three.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// What the tool returned, as MCP spells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why there is no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// A piece of either. Ours only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Chunk>,
}

/// The same as it is read: the result where it stands, not taken apart yet.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Received<'a> {
    /// What the tool returned, as MCP spells it.
    #[serde(default, borrow)]
    pub result: Option<&'a RawValue>,
    /// Why there is no result.
    #[serde(default)]
    pub error: Option<String>,
    /// A piece of either. Ours only.
    #[serde(default)]
    pub chunk: Option<Chunk>,
}

/// The body of a reply in the seed's dialect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeedReply {
    /// What the operation returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How far a call is. Ours only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Entries come across.
    #[serde(default)]
    pub entries: u64,
    /// Files of them that were searched.
    #[serde(default)]
    pub searched: u64,
    /// Matches found.
    #[serde(default)]
    pub matches: u64,
}

/// A success, as n8n wraps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrapped<T> {
    /// The reply itself.
    pub data: T,
}

/// What a daemon that wants its person asked by the server replies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Confirmation {
    /// The group of the tool.
    pub tool_group: String,
    /// What it is about to touch.
    pub resource: String,
    /// What it is about to do.
    pub description: String,
    /// The answers it takes.
    pub options: Vec<String>,
}

impl Confirmation {
    /// How the text of such a reply begins.
    pub const PREFIX: &'static str = "GATEWAY_CONFIRMATION_REQUIRED::";
    /// The argument the answer comes in.
    pub const ARGUMENT: &'static str = "_confirmation";

    /// The question in the text of a failed result, if it is one. What nobody
    /// would read to its end is none.
    pub fn parse(text: &str) -> Option<Self> {
        let asked = text.strip_prefix(Self::PREFIX)?;
        if text.len() > bounds::MAX_QUESTION {
            return None;
        }
        serde_json::from_str(asked).ok()
    }

    /// The text of a result that asks this.
    pub fn text(&self) -> String {
        let body = serde_json::to_string(self).unwrap_or_default();
        format!("{}{body}", Self::PREFIX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_understood_as_it_was_written() {
        let question = Confirmation {
            tool_group: "filesystemWrite".into(),
            resource: "a.txt".into(),
            description: "Write a.txt".into(),
            options: vec!["denyOnce".into(), "allowOnce".into()],
        };
        assert_eq!(
            Confirmation::parse(&question.text()),
            Some(question.clone())
        );
        let long = Confirmation {
            description: "x".repeat(bounds::MAX_QUESTION),
            ..question
        };
        assert_eq!(Confirmation::parse(&long.text()), None);
        assert_eq!(
            Confirmation::parse("GATEWAY_CONFIRMATION_REQUIRED::{"),
            None
        );
        assert_eq!(Confirmation::parse("no question"), None);
    }
}
