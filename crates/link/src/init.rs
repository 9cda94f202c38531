//! What a machine says of itself, and what it is told.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a daemon sends first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Init {
    /// The directory it lends.
    pub root_path: String,
    /// The tools it offers.
    #[serde(default)]
    pub tools: Vec<Tool>,
    /// `user@host`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_identifier: Option<String>,
    /// The groups of tools it knows, and which are on.
    #[serde(default)]
    pub tool_categories: Vec<Category>,
    /// What only our own daemon says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub portcullis: Option<Ours>,
}

/// A tool as a daemon offers it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON schema of its arguments.
    pub input_schema: Value,
    /// What it does to the world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
}

/// What a tool does to the world, as its daemon tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// The name of a [`Category`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// It changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// It can lose something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Doing it twice is doing it once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// It reaches beyond the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

/// A group of tools: `filesystem`, `shell`, `screenshot`, `mouse-keyboard`, `browser`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Category {
    /// Which.
    pub name: String,
    /// Whether it is on.
    pub enabled: bool,
    /// Whether files can be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_access: Option<bool>,
}

/// What only our own daemon says in its init.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ours {
    /// The newest protocol it speaks: 1.
    pub protocol: u32,
    /// The name its owner gave the machine.
    pub machine: String,
    /// The version of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What remembers the calls it was sent: another one has done none of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Its files, where they can be asked for beside its tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Files>,
}

/// The files a machine of ours lends: asked for as operations of our own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// The newest operations it knows: 1.
    pub operations: u32,
    /// What its root is called.
    pub root: String,
    /// What kind of root that is.
    pub kind: String,
    /// Whether it may be changed.
    pub trusted: bool,
}

impl Files {
    /// The operations this program knows.
    pub const OPERATIONS: u32 = 1;
}

impl Ours {
    /// The protocol this program speaks.
    pub const PROTOCOL: u32 = 1;
}

/// What init replies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Accepted {
    /// Always.
    pub ok: bool,
    /// The key from now on, where a pairing token was used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// What only our own server says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub portcullis: Option<OursAccepted>,
}

/// What only our own server says to an init.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OursAccepted {
    /// The protocol both speak.
    pub protocol: u32,
    /// The machine's name here.
    pub machine: String,
    /// Its id here.
    pub machine_id: String,
    /// How often the stream says that it is alive.
    pub ping_seconds: u64,
    /// The host of the daemon whose place this one took, which is told so too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<String>,
}

/// What a daemon of the seed's dialect sends first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeedInit {
    /// The directory it lends.
    pub root_path: String,
    /// What is in it.
    #[serde(default)]
    pub tree: Vec<TreeEntry>,
    /// The same, as a person reads it.
    #[serde(default)]
    pub tree_text: Option<String>,
}

/// One entry of an uploaded tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TreeEntry {
    /// Where, from the root.
    pub path: String,
    /// `file` or `directory`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// What create-link replies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Created {
    /// The pairing token.
    pub token: String,
    /// What to type on the machine that is lent.
    pub command: String,
    /// Until when it counts, as RFC 3339.
    pub expires_at: String,
    /// The same, in seconds from now.
    pub ttl_seconds: u64,
}

/// What status replies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Whether a machine is linked.
    pub connected: bool,
    /// Since when, as RFC 3339.
    pub connected_at: Option<String>,
    /// The directory it lends.
    pub directory: Option<String>,
    /// `user@host`.
    pub host_identifier: Option<String>,
    /// Its groups of tools.
    pub tool_categories: Vec<Category>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_init_of_the_shipped_daemon_is_understood_and_told_again_as_it_was() {
        let sent = serde_json::json!({
            "rootPath": "/home/ada/project",
            "tools": [{
                "name": "read_file",
                "description": "Read a file",
                "inputSchema": {"type": "object", "properties": {}},
                "annotations": {"category": "filesystem", "readOnlyHint": true},
            }],
            "hostIdentifier": "ada@laptop",
            "toolCategories": [{"name": "filesystem", "enabled": true, "writeAccess": false}],
        });
        let init: Init = serde_json::from_value(sent.clone()).unwrap();
        assert!(init.portcullis.is_none());
        assert_eq!(serde_json::to_value(&init).unwrap(), sent);
    }

    #[test]
    fn an_init_without_a_root_is_none() {
        assert!(serde_json::from_str::<Init>(r#"{"tools":[]}"#).is_err());
    }

    #[test]
    fn what_other_servers_reply_is_understood() {
        let plain: Accepted = serde_json::from_str(r#"{"ok":true}"#).unwrap();
        assert_eq!((plain.session_key, plain.portcullis), (None, None));
    }
}
