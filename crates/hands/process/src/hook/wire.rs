//! What is said to a hook program, and how its answer is read.
//!
//! One line of JSON in, one JSON object out. A host path is in neither: a
//! resource is a root's name and a path in it.

use portcullis_gate::{HookCall, HookSay};
use portcullis_proto::{
    Access, Entity, Outcome, RelPath, RequestId, RootId, RootKind, Subject, Verb, read_json,
};
use serde::{Deserialize, Serialize};

/// The version of this wire.
const VERSION: u32 = 1;
/// The largest request. One that is larger is not cut, for a hook must not
/// pass what it was not shown.
const MAX_REQUEST: usize = 1 << 20;
/// The longest reason kept, in characters.
const MAX_REASON: usize = 500;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Told<'a> {
    v: u32,
    event: &'static str,
    request_id: &'a RequestId,
    subject: &'a Subject,
    operation: Verb,
    resources: Vec<Part<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Outcome>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    root: &'a RootId,
    kind: RootKind,
    relative_path: &'a RelPath,
    access: Access,
    /// Null where nothing stands there, or it was not looked at.
    entity: Option<Entity>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    decision: Word,
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Pass,
    Ask,
    Deny,
}

/// The line that asks.
pub(super) fn before(call: &HookCall) -> Result<Vec<u8>, String> {
    line(call, "before", None)
}

/// The line that tells how it ended.
pub(super) fn after(call: &HookCall, outcome: Outcome) -> Result<Vec<u8>, String> {
    line(call, "after", Some(outcome))
}

fn line(call: &HookCall, event: &'static str, outcome: Option<Outcome>) -> Result<Vec<u8>, String> {
    let told = Told {
        v: VERSION,
        event,
        request_id: &call.request_id,
        subject: &call.subject,
        operation: call.facts.verb,
        resources: call
            .facts
            .resources
            .iter()
            .map(|resource| Part {
                root: &resource.root,
                kind: resource.kind,
                relative_path: &resource.path,
                access: resource.access,
                entity: resource.identity.map(|identity| identity.entity),
            })
            .collect(),
        outcome,
    };
    let mut line = serde_json::to_vec(&told).map_err(|error| error.to_string())?;
    line.push(b'\n');
    if line.len() > MAX_REQUEST {
        return Err("the deed is too large to be described to a hook".to_owned());
    }
    Ok(line)
}

/// What the hook said; everything but one whole answer is an error.
pub(super) fn understand(stdout: &[u8]) -> Result<HookSay, String> {
    if stdout.trim_ascii().is_empty() {
        return Err("it said nothing".to_owned());
    }
    let said: Said =
        read_json(stdout).map_err(|error| format!("its answer is not understood: {error}"))?;
    let reason = printable(said.reason.unwrap_or_default().as_bytes());
    Ok(match said.decision {
        Word::Pass => HookSay::Pass,
        Word::Ask => HookSay::Ask(reason),
        Word::Deny => HookSay::Deny(reason),
    })
}

/// Text of a program's, made fit for one line of a log.
pub(super) fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .trim()
        .chars()
        .take(MAX_REASON)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stdout: &str, want: Option<HookSay>) {
        assert_eq!(understand(stdout.as_bytes()).ok(), want, "{stdout:?}");
    }

    #[test]
    fn one_whole_answer_is_understood_and_nothing_else() {
        check(r#"{"decision":"pass"}"#, Some(HookSay::Pass));
        check(" {\"decision\":\"pass\"}\n", Some(HookSay::Pass));
        check(
            r#"{"decision":"deny","reason":"a\nb"}"#,
            Some(HookSay::Deny("a b".to_owned())),
        );
        check(
            r#"{"reason":null,"decision":"ask"}"#,
            Some(HookSay::Ask(String::new())),
        );
        for garbage in [
            "",
            " \n",
            "pass",
            "\"pass\"",
            "[]",
            "{}",
            r#"{"decision":"allow"}"#,
            r#"{"decision":"PASS"}"#,
            r#"{"decision":true}"#,
            r#"{"decision":"pass","decision":"pass"}"#,
            r#"{"decision":"pass","allow":true}"#,
            r#"{"decision":"pass"} x"#,
            r#"{"decision":"pass"}{"decision":"pass"}"#,
            r#"{"decision":"pass""#,
            r#"{"decision":"pass","reason":7}"#,
        ] {
            check(garbage, None);
        }
        assert!(understand(b"{\"decision\":\"pass\",\"reason\":\"\xff\"}").is_err());
        assert!(understand(b"{\"decision\":\"pass\"}\0").is_err());
    }
}
