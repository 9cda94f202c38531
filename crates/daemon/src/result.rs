//! What a call came to, as the wire has it.

use bytes::Bytes;
use portcullis_gate::Warrant;
use portcullis_link::{Chunk, Reply, bounds, chunks};
use portcullis_proto::{Category, ErrorKind, Failure, Reason, RequestId, ToolReply};
use serde::{Deserialize, Serialize};

/// What stays free of a body's limit, for what the server puts around it.
const MARGIN: usize = 64 * 1024;

/// On what a call was settled: the same words as its line in the audit here.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Settled<'a> {
    request_id: &'a RequestId,
    policy_source: &'a str,
    wrapper_ids: &'a [String],
}

/// The body of a reply: MCP's result of a tool, complete in both of its halves.
/// One that is larger than the link carries says so instead.
pub(crate) fn body(reply: &ToolReply, warrant: Option<&Warrant>) -> Bytes {
    let written = written(reply, warrant);
    if written.len() <= bounds::MAX_MESSAGE - MARGIN {
        return Bytes::from(written);
    }
    let failure = Failure::new(
        Reason::TooLarge,
        "The reply is larger than a link carries (16 MiB).",
    )
    .hint("Ask for less at once: fewer lines, a smaller window, a narrower search.");
    Bytes::from(self::written(&ToolReply::failed(&failure), warrant))
}

fn written(reply: &ToolReply, warrant: Option<&Warrant>) -> String {
    let (text, structured) = (reply.text.get(), reply.structured.get());
    let mut body = String::with_capacity(text.len() + structured.len() + 512);
    body.push_str(r#"{"result":{"content":[{"type":"text","text":"#);
    body.push_str(text);
    body.push_str(r#"}],"structuredContent":"#);
    body.push_str(structured);
    if reply.is_error {
        body.push_str(r#","isError":true"#);
    }
    let settled = warrant.map(|warrant| Settled {
        request_id: &warrant.request_id,
        policy_source: &warrant.policy_source,
        wrapper_ids: &warrant.wrapper_ids,
    });
    if let Some(settled) = settled.and_then(|settled| serde_json::to_string(&settled).ok()) {
        body.push_str(r#","_meta":{"portcullis/warrant":"#);
        body.push_str(&settled);
        body.push('}');
    }
    body.push_str("}}");
    body
}

/// Whether a reply is a refusal: what policy denied, what cannot be meant, and
/// what is too much. Not what was tried and failed: nothing there, a conflict, a
/// deadline.
pub(crate) fn is_refusal(reply: &ToolReply) -> bool {
    #[derive(Deserialize)]
    struct Told {
        category: Category,
        reason: String,
        #[serde(rename = "errorKind")]
        kind: String,
    }
    if !reply.is_error {
        return false;
    }
    let Ok(told) = serde_json::from_str::<Told>(reply.structured.get()) else {
        return true;
    };
    told.category == Category::Policy
        || told.kind == ErrorKind::ParseError.as_str()
        || told.reason == Reason::Overload.as_str()
}

/// The body of a reply that is no result of a tool.
pub(crate) fn error_body(why: &str) -> Bytes {
    let reply = Reply {
        error: Some(why.to_owned()),
        ..Reply::default()
    };
    serde_json::to_vec(&reply).unwrap_or_default().into()
}

/// The bodies a reply is sent in: itself, or in pieces where it is large and the
/// server takes them.
pub(crate) fn parts(body: &Bytes, takes_pieces: bool) -> Vec<Bytes> {
    if !takes_pieces || body.len() <= bounds::WHOLE {
        return vec![body.clone()];
    }
    let text = String::from_utf8_lossy(body);
    let wrap = |chunk: Chunk| {
        let reply = Reply {
            chunk: Some(chunk),
            ..Reply::default()
        };
        serde_json::to_vec(&reply).unwrap_or_default().into()
    };
    chunks(&text).into_iter().map(wrap).collect()
}

#[cfg(test)]
mod tests {
    use portcullis_link::Gathered;
    use portcullis_proto::Json;
    use serde_json::{Value, json};

    use super::*;

    fn reply(text: &str) -> ToolReply {
        ToolReply {
            structured: Json::of(&json!({"content": text})).unwrap(),
            text: Json::of(text).unwrap(),
            is_error: false,
            attached: Vec::new(),
        }
    }

    #[test]
    fn a_result_is_complete_in_both_halves_and_a_failure_says_that_it_is_one() {
        let body: Value = serde_json::from_slice(&body(&reply("a\n"), None)).unwrap();
        assert_eq!(
            body,
            json!({"result": {"content": [{"type": "text", "text": "a\n"}],
                "structuredContent": {"content": "a\n"}}})
        );
        let failed = ToolReply::failed(&Reason::Cancelled.into());
        let body: Value = serde_json::from_slice(&super::body(&failed, None)).unwrap();
        assert_eq!(body["result"]["isError"], true);
        assert_eq!(body["result"]["structuredContent"]["reason"], "cancelled");
    }

    #[test]
    fn a_refusal_is_told_from_what_was_tried_and_failed() {
        for (reason, want) in [
            (Reason::UnknownTool, true),
            (Reason::BadArguments, true),
            (Reason::Escape, true),
            (Reason::ApprovalDenied, true),
            (Reason::Overload, true),
            (Reason::NotFound, false),
            (Reason::VersionMismatch, false),
            (Reason::Deadline, false),
        ] {
            let reply = ToolReply::failed(&reason.into());
            assert_eq!(is_refusal(&reply), want, "{reason}");
        }
        assert!(!is_refusal(&reply("a")));
    }

    #[test]
    fn what_no_link_carries_is_a_failure_with_a_next_step() {
        let body = body(&reply(&"x".repeat(9 << 20)), None);
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["result"]["isError"], true);
        assert!(body["result"]["structuredContent"]["hint"].is_string());
    }

    #[test]
    fn a_large_reply_comes_together_again_and_is_whole_where_pieces_are_unknown() {
        let body = body(&reply(&"é".repeat(600_000)), None);
        assert_eq!(parts(&body, false).len(), 1);
        let pieces = parts(&body, true);
        assert!(pieces.len() > 2);
        let mut gathered = Gathered::default();
        let whole = pieces.iter().find_map(|piece| {
            let reply: Reply = serde_json::from_slice(piece).unwrap();
            gathered.add(&reply.chunk.unwrap()).unwrap()
        });
        assert_eq!(whole.unwrap().as_bytes(), body);
    }
}
