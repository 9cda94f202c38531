//! A message taken apart before it is read: the arguments of a tool, and the rest.
//!
//! rmcp reads a message by trying every shape it could have, on copies of all it
//! holds: 16 MiB of small values take gigabytes. The arguments of a call are the one
//! part that may be large, so they are cut out and read once, as what they are. What
//! is left is small, or the message is refused before anything is built of it.

use std::borrow::Cow;

use bytes::Bytes;
use portcullis_proto::{Extent, Failure, Reason};
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A message up to this size is read as it is, whatever it holds.
pub(super) const SMALL_MESSAGE: usize = 4 * 1024;
/// Bytes of a message beside the arguments of a tool: the longest of them bring what
/// a client can do, or what a person answered.
const MAX_BESIDE: usize = 1024 * 1024;
/// Values of it.
const MAX_VALUES_BESIDE: usize = 20_000;
/// What stands in for arguments that were cut out.
const CUT_OUT: &[u8] = b"{}";

/// What is looked at to find the arguments. A name twice makes it none.
#[derive(Deserialize)]
struct Outline<'a> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    arguments: &'a RawValue,
}

/// A message in two parts.
pub(super) struct Opened {
    /// The message, with empty arguments where they were cut out.
    pub(super) rest: Bytes,
    /// The arguments that were.
    pub(super) arguments: Option<JsonObject>,
}

/// Takes a message apart whose extent was found to be bearable.
pub(super) fn open(message: Bytes) -> Result<Opened, Failure> {
    if message.len() <= SMALL_MESSAGE {
        return Ok(Opened {
            rest: message,
            arguments: None,
        });
    }
    let (rest, arguments) = match cut(&message) {
        Some((rest, arguments)) => (rest.into(), Some(arguments)),
        None => (message, None),
    };
    if rest.len() > MAX_BESIDE || Extent::within(&rest, MAX_VALUES_BESIDE).is_err() {
        let why = format!(
            "Beside the arguments of a tool, a message has more than {} MiB or {MAX_VALUES_BESIDE} values. Nothing was done.",
            MAX_BESIDE >> 20
        );
        return Err(Failure::new(Reason::TooLarge, why).hint("Send less at once."));
    }
    Ok(Opened { rest, arguments })
}

/// Cuts the arguments out of a call, where they are an object.
fn cut(message: &[u8]) -> Option<(Vec<u8>, JsonObject)> {
    let outline: Outline<'_> = serde_json::from_slice(message).ok()?;
    if outline.method != "tools/call" {
        return None;
    }
    let written = outline.params.arguments.get();
    let from = written.as_ptr().addr() - message.as_ptr().addr();
    let arguments: JsonObject = serde_json::from_str(written).ok()?;
    let (before, behind) = (message.get(..from)?, message.get(from + written.len()..)?);
    Some(([before, CUT_OUT, behind].concat(), arguments))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn opened(message: &str) -> Result<(Value, Option<Value>), Reason> {
        let Opened { rest, arguments } =
            open(Bytes::from(message.to_owned())).map_err(|why| why.reason())?;
        let rest = serde_json::from_slice(&rest).unwrap();
        Ok((rest, arguments.map(Value::Object)))
    }

    fn call(arguments: &Value) -> Value {
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"_meta": {"a": 1}, "arguments": arguments, "name": "stat"}})
    }

    #[test]
    fn arguments_are_cut_out_and_the_rest_is_as_it_was() {
        let large = json!({"content": "\n".repeat(MAX_BESIDE), "list": vec![0; 50_000]});
        let (rest, arguments) = opened(&call(&large).to_string()).unwrap();
        assert_eq!(rest, call(&json!({})));
        assert_eq!(arguments, Some(large));
    }

    #[test]
    fn what_is_small_or_no_call_stays_whole() {
        let small = call(&json!({"path": "a"}));
        assert_eq!(opened(&small.to_string()), Ok((small, None)));
        let text = "x".repeat(SMALL_MESSAGE);
        for other in [
            call(&json!([text])),
            json!({"jsonrpc": "2.0", "id": 1, "result": {"arguments": {"a": text}}}),
            json!([call(&json!({"a": text}))]),
        ] {
            assert_eq!(opened(&other.to_string()), Ok((other, None)));
        }
        // Which of two counts is left to who reads it.
        let twice = format!(
            r#"{{"method":"tools/call","params":{{"arguments":{{}},"arguments":{{"a":"{text}"}}}}}}"#
        );
        assert_eq!(opened(&twice).unwrap().1, None);
    }

    #[test]
    fn little_is_read_beside_the_arguments() {
        let long = "x".repeat(MAX_BESIDE);
        let many = vec![0; MAX_VALUES_BESIDE];
        for beside in [json!(long), json!(many)] {
            for message in [
                json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {"experimental": beside}}}),
                json!({"jsonrpc": "2.0", "id": 1, "result": {"content": beside}}),
                json!({"method": "tools/call", "params": {"_meta": beside, "arguments": {}}}),
                json!({"method": "tools/call", "params": {"arguments": [beside]}}),
                json!([beside]),
            ] {
                assert_eq!(opened(&message.to_string()), Err(Reason::TooLarge));
            }
        }
    }
}
