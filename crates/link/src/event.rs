//! What a server sends a machine.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One event of the stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "payload", rename_all = "kebab-case")]
pub enum Event {
    /// Do this. Called so for every tool.
    FilesystemRequest(Request),
    /// Nobody waits for that any more. Ours only.
    Cancel {
        /// Which request.
        #[serde(rename = "requestId")]
        request_id: String,
    },
    /// The session is over.
    GatewayDisconnect,
    /// Another daemon stands for this machine now. Ours only.
    Replaced {
        /// Its host.
        by: String,
    },
}

/// One call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// What the reply is sent to.
    #[serde(rename = "requestId")]
    pub id: String,
    /// The tool to call: n8n's dialect and ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<Far>,
    /// The operation to do: the seed's dialect, and ours for what is no tool.
    #[serde(flatten)]
    pub operation: Option<Operation>,
    /// What only our own server says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub portcullis: Option<Addition>,
}

/// A tool and its arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Far {
    /// Which tool.
    pub name: String,
    /// An object.
    #[serde(default)]
    pub arguments: Value,
}

/// An operation: the seed's `read-file` and `search-files`, or one of ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Which.
    pub operation: String,
    /// An object.
    #[serde(default)]
    pub args: Value,
}

/// What only our own server says with a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Addition {
    /// How long the caller still waits.
    pub deadline_ms: u64,
    /// In which conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// In which run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Who asks, as a person reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_dialects_request_is_spelled_as_it_spells_it() {
        let shipped = json!({"type": "filesystem-request", "payload": {
            "requestId": "gw_1", "toolCall": {"name": "read_file", "arguments": {"filePath": "a"}},
        }});
        let seed = json!({"type": "filesystem-request", "payload": {
            "requestId": "gw_2", "operation": "read-file", "args": {"filePath": "a"},
        }});
        let ours = json!({"type": "filesystem-request", "payload": {
            "requestId": "gw_3", "toolCall": {"name": "read_file", "arguments": {}},
            "portcullis": {"deadlineMs": 59_000, "run": "r"},
        }});
        let operation = json!({"type": "filesystem-request", "payload": {
            "requestId": "gw_4", "operation": "file", "args": {"stat": {"path": "a"}},
            "portcullis": {"deadlineMs": 59_000},
        }});
        let cancel = json!({"type": "cancel", "payload": {"requestId": "gw_3"}});
        let replaced = json!({"type": "replaced", "payload": {"by": "ada@desk"}});
        let end = json!({"type": "gateway-disconnect"});
        for event in [shipped, seed, ours, operation, cancel, replaced, end] {
            let read: Event = serde_json::from_value(event.clone()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), event);
        }
    }

    #[test]
    fn an_event_nobody_knows_is_no_event() {
        for text in [r#"{"type":"rm"}"#, "{}", "[]", r#"{"type":"cancel"}"#] {
            assert!(serde_json::from_str::<Event>(text).is_err(), "{text}");
        }
    }
}
