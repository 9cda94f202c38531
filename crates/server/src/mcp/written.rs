//! Results of tools, written out once and passed on as they are.
//!
//! rmcp carries a result as a tree of values and writes it when it is sent.
//! For a page of text that costs more than reading it did. So a result travels
//! as the text it will be on the wire, in the place of its structured content:
//! a string stands there for what is written already. No tool has a string for
//! a result, so nothing else can look like it, and only [`line`] reads it back.
//!
//! Over HTTP rmcp writes the message itself, so there a result is the tree.

use portcullis_gate::Warrant;
use portcullis_proto::{Attached, ToolReply};
use rmcp::RoleServer;
use rmcp::model::{
    CallToolResult, ContentBlock, JsonRpcMessage, JsonRpcResponse, MetaObject, ResourceContents,
    ServerResult,
};
use rmcp::service::TxJsonRpcMessage;
use serde::Serialize;
use serde_json::Value;

/// On what a call was settled: the same words as its line in the audit.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Settled<'a> {
    request_id: &'a portcullis_proto::RequestId,
    policy_source: &'a str,
    wrapper_ids: &'a [String],
}

impl<'a> Settled<'a> {
    fn on(warrant: &'a Warrant) -> Self {
        Self {
            request_id: &warrant.request_id,
            policy_source: &warrant.policy_source,
            wrapper_ids: &warrant.wrapper_ids,
        }
    }
}

/// Who writes a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    /// Our own wire, by [`line`].
    Us,
    /// rmcp, value by value.
    Rmcp,
}

/// The key of what a call was settled on.
const WARRANT: &str = "portcullis/warrant";

/// A reply, and in its metadata on what it was settled.
pub(super) fn result(
    reply: &ToolReply,
    warrant: Option<Warrant>,
    writer: Writer,
) -> CallToolResult {
    match writer {
        Writer::Us => written(reply, warrant.as_ref()),
        Writer::Rmcp => tree(reply, warrant.as_ref()),
    }
}

fn tree(reply: &ToolReply, warrant: Option<&Warrant>) -> CallToolResult {
    // What a tool wrote is JSON: nothing else can stand there.
    let text = serde_json::from_str::<String>(reply.text.get()).unwrap_or_default();
    let mut content = vec![ContentBlock::text(text)];
    content.extend(reply.attached.iter().map(attached));
    let mut result = CallToolResult::success(content);
    result.structured_content = serde_json::from_str(reply.structured.get()).ok();
    result.is_error = Some(reply.is_error);
    result.meta = warrant
        .and_then(|warrant| serde_json::to_value(Settled::on(warrant)).ok())
        .map(|settled| {
            let mut meta = MetaObject::new();
            meta.insert(WARRANT.to_owned(), settled);
            meta
        });
    result
}

/// What stands beside the text, in MCP's shapes.
fn attached(one: &Attached) -> ContentBlock {
    match one {
        Attached::Note { text } => ContentBlock::text(text),
        Attached::Image { data, mime_type } => ContentBlock::image(data, mime_type),
        Attached::Blob {
            uri,
            mime_type,
            blob,
        } => ContentBlock::resource(ResourceContents::BlobResourceContents {
            uri: uri.clone(),
            mime_type: mime_type.clone(),
            blob: blob.clone(),
            meta: None,
        }),
    }
}

fn written(reply: &ToolReply, warrant: Option<&Warrant>) -> CallToolResult {
    let (text, structured) = (reply.text.get(), reply.structured.get());
    let mut fields = String::with_capacity(text.len() + structured.len() + 512);
    fields.push_str(r#""content":[{"type":"text","text":"#);
    fields.push_str(text);
    fields.push('}');
    for one in &reply.attached {
        if let Ok(one) = serde_json::to_string(&attached(one)) {
            fields.push(',');
            fields.push_str(&one);
        }
    }
    fields.push_str(r#"],"structuredContent":"#);
    fields.push_str(structured);
    fields.push_str(r#","isError":"#);
    fields.push_str(if reply.is_error { "true" } else { "false" });
    let settled = warrant.and_then(|warrant| serde_json::to_string(&Settled::on(warrant)).ok());
    if let Some(settled) = settled {
        fields.push_str(r#","_meta":{""#);
        fields.push_str(WARRANT);
        fields.push_str(r#"":"#);
        fields.push_str(&settled);
        fields.push('}');
    }
    let mut result = CallToolResult::success(Vec::new());
    result.structured_content = Some(Value::String(fields));
    result
}

/// A message as it goes over the wire, its line end included.
pub(super) fn line(message: &TxJsonRpcMessage<RoleServer>) -> Result<Vec<u8>, serde_json::Error> {
    if let JsonRpcMessage::Response(JsonRpcResponse { id, result, .. }) = message
        && let ServerResult::CallToolResult(result) = result
        && let Some(Value::String(fields)) = &result.structured_content
    {
        let mut line = Vec::with_capacity(fields.len() + 128);
        line.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        serde_json::to_writer(&mut line, id)?;
        line.extend_from_slice(br#","result":{"#);
        // Which era the client is of, rmcp knows; it has struck this out or not.
        if let Some(kind) = &result.result_type {
            line.extend_from_slice(br#""resultType":"#);
            serde_json::to_writer(&mut line, kind)?;
            line.push(b',');
        }
        line.extend_from_slice(fields.as_bytes());
        line.extend_from_slice(b"}}\n");
        return Ok(line);
    }
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use portcullis_proto::{Failure, Reason, RequestId};
    use rmcp::model::NumberOrString;
    use serde_json::json;

    use super::*;

    fn sent(result: CallToolResult) -> Value {
        let id = NumberOrString::String("seven \"7\"".into());
        let message = JsonRpcMessage::response(ServerResult::CallToolResult(result), id);
        let line = line(&message).unwrap();
        let end = line.iter().position(|byte| *byte == b'\n');
        assert_eq!(end, Some(line.len() - 1));
        serde_json::from_slice(&line).unwrap()
    }

    #[test]
    fn what_is_written_already_is_what_rmcp_would_have_written() {
        let reply = ToolReply::failed(
            &Failure::new(Reason::NotFound, "No \"such\" \\file\\.\n\u{1}ü\u{2028}")
                .hint("Look elsewhere."),
        );
        let warrant = Warrant {
            request_id: RequestId::new("r_1"),
            policy_source: "mode:\"allow\"".to_owned(),
            wrapper_ids: vec!["a\nb".to_owned()],
        };
        for legacy in [false, true] {
            let mut plain = CallToolResult::error(vec![ContentBlock::text(
                serde_json::from_str::<String>(reply.text.get()).unwrap(),
            )]);
            plain.structured_content = serde_json::from_str(reply.structured.get()).unwrap();
            let mut meta = MetaObject::new();
            meta.insert(
                "portcullis/warrant".to_owned(),
                json!({"requestId": "r_1", "policySource": "mode:\"allow\"", "wrapperIds": ["a\nb"]}),
            );
            plain.meta = Some(meta);
            if legacy {
                plain.result_type = None;
            }
            for writer in [Writer::Us, Writer::Rmcp] {
                let mut ours = result(&reply, Some(warrant.clone()), writer);
                if legacy {
                    ours.result_type = None;
                }
                assert_eq!(sent(ours), sent(plain.clone()), "{writer:?}");
            }
        }
    }
}
