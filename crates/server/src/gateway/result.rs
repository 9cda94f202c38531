//! What a tool of a linked machine returned: checked before anybody sees it.

use portcullis_link::Confirmation;
use portcullis_proto::{Attached, Failure, Json, Reason, ToolReply};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A result, of shapes that are known.
#[derive(Debug)]
pub(crate) struct Returned {
    /// Its texts, one below the other.
    text: String,
    structured: Option<Map<String, Value>>,
    attached: Vec<Attached>,
    is_error: bool,
}

/// A result as MCP spells it, as far as daemons do.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spelled {
    content: Vec<Content>,
    #[serde(default)]
    structured_content: Option<Map<String, Value>>,
    #[serde(default)]
    is_error: bool,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Content {
    Text {
        text: String,
    },
    Image {
        data: String,
        #[serde(rename = "mimeType")]
        mime_type: String,
    },
    Resource {
        resource: Box<Resource>,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    uri: String,
    #[serde(default)]
    mime_type: Option<String>,
    #[serde(default)]
    blob: Option<String>,
    #[serde(default)]
    text: Option<String>,
}

impl Returned {
    /// A result in words of MCP: text, image and resource, and nothing else.
    pub(crate) fn parse(result: Value) -> Result<Self, String> {
        let spelled: Spelled =
            serde_json::from_value(result).map_err(|error| format!("result: {error}."))?;
        let mut texts = Vec::new();
        let mut attached = Vec::new();
        for content in spelled.content {
            match content {
                Content::Text { text } => texts.push(text),
                Content::Image { data, mime_type } => {
                    attached.push(Attached::Image { data, mime_type });
                }
                Content::Resource { resource } => {
                    let Resource {
                        uri,
                        mime_type,
                        blob,
                        text,
                    } = *resource;
                    match (blob, text) {
                        (Some(blob), _) => attached.push(Attached::Blob {
                            uri,
                            mime_type,
                            blob,
                        }),
                        (None, Some(text)) => texts.push(text),
                        (None, None) => {
                            return Err("result: a resource has neither blob nor text.".to_owned());
                        }
                    }
                }
            }
        }
        Ok(Self {
            text: texts.join("\n"),
            structured: spelled.structured_content,
            attached,
            is_error: spelled.is_error,
        })
    }

    /// Whether it is a failure.
    pub(crate) fn is_error(&self) -> bool {
        self.is_error
    }

    /// What the machine wants its owner asked, where it does.
    pub(crate) fn question(&self) -> Option<Confirmation> {
        if !self.is_error {
            return None;
        }
        let error = self.structured.as_ref().and_then(|one| one.get("error"));
        let error = error.and_then(Value::as_str).and_then(Confirmation::parse);
        error.or_else(|| {
            let written: Option<Value> = serde_json::from_str(&self.text).ok();
            let said = written.as_ref().and_then(|one| one.get("error")?.as_str());
            Confirmation::parse(said.unwrap_or(&self.text))
        })
    }

    /// How many bytes it is for whoever asked.
    pub(crate) fn bytes(&self) -> u64 {
        let attached: usize = self.attached.iter().map(Attached::len).sum();
        u64::try_from(self.text.len() + attached).unwrap_or(u64::MAX)
    }

    /// As a tool of this machine would reply.
    pub(crate) fn into_reply(mut self) -> Result<ToolReply, Failure> {
        let bug = |error| Failure::from(Reason::Bug).detail(error);
        if self.is_error {
            self.type_failure();
        }
        let structured = match &self.structured {
            Some(structured) => Json::of(structured),
            None => Json::of(&json!({"text": self.text})),
        };
        Ok(ToolReply {
            structured: structured.map_err(bug)?,
            text: Json::of(&self.text).map_err(bug)?,
            is_error: self.is_error,
            attached: self.attached,
        })
    }

    /// A failure says what every failure says: of what kind it is. What the
    /// machine said of it stays.
    fn type_failure(&mut self) {
        let told = self.structured.get_or_insert_default();
        if told.contains_key("errorKind") {
            return;
        }
        let reason = Reason::Io;
        told.entry("error")
            .or_insert_with(|| self.text.as_str().into());
        for (name, value) in [
            ("errorKind", Value::from(reason.kind().as_str())),
            ("reason", reason.as_str().into()),
            ("category", reason.category().as_str().into()),
            ("status", reason.kind().status().into()),
        ] {
            told.insert(name.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_text_images_and_resources_and_nothing_else() {
        let good = json!({
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image", "data": "AA==", "mimeType": "image/png"},
                {"type": "resource", "resource": {"uri": "file:x", "blob": "AA=="}},
                {"type": "text", "text": "b"},
            ],
            "structuredContent": {"n": 1},
        });
        let returned = Returned::parse(good).unwrap();
        assert_eq!(
            (returned.text.as_str(), returned.attached.len()),
            ("a\nb", 2)
        );
        let reply = returned.into_reply().unwrap();
        assert_eq!(reply.structured.get(), "{\"n\":1}");
        for bad in [
            json!({}),
            json!([]),
            json!("x"),
            json!({"content": "x"}),
            json!({"content": [{"type": "audio", "data": "", "mimeType": ""}]}),
            json!({"content": [{"type": "text"}]}),
            json!({"content": [{"type": "resource", "resource": {"uri": "x"}}]}),
            json!({"content": [], "structuredContent": []}),
            json!({"content": [], "isError": "yes"}),
        ] {
            assert!(Returned::parse(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_has_no_structure_is_told_as_text() {
        let plain = json!({"content": [{"type": "text", "text": "ok"}]});
        let reply = Returned::parse(plain).unwrap().into_reply().unwrap();
        assert_eq!(reply.structured.get(), "{\"text\":\"ok\"}");
        assert!(!reply.is_error);
    }

    #[test]
    fn a_failure_has_the_shape_of_every_failure() {
        let failed = json!({
            "content": [{"type": "text", "text": "x"}],
            "structuredContent": {"error": "no such file"}, "isError": true,
        });
        let reply = Returned::parse(failed).unwrap().into_reply().unwrap();
        let told: Value = serde_json::from_str(reply.structured.get()).unwrap();
        assert_eq!(told["error"], "no such file");
        assert_eq!(
            (&told["reason"], &told["status"]),
            (&json!("io"), &json!(503))
        );
        let ours = json!({
            "content": [], "structuredContent": {"errorKind": "path_not_found"}, "isError": true,
        });
        let reply = Returned::parse(ours).unwrap().into_reply().unwrap();
        assert_eq!(reply.structured.get(), "{\"errorKind\":\"path_not_found\"}");
    }

    #[test]
    fn a_question_is_found_in_a_failure_alone() {
        let asks = Confirmation {
            tool_group: "shell".into(),
            resource: "ls".into(),
            description: "Run ls".into(),
            options: vec!["allowOnce".into()],
        };
        let error = json!({"error": asks.text()});
        let failed = json!({
            "content": [{"type": "text", "text": error.to_string()}],
            "structuredContent": error,
            "isError": true,
        });
        assert_eq!(
            Returned::parse(failed.clone()).unwrap().question(),
            Some(asks.clone())
        );
        let text_alone = json!({"content": failed["content"], "isError": true});
        assert_eq!(Returned::parse(text_alone).unwrap().question(), Some(asks));
        let mut read = failed;
        read["isError"] = false.into();
        assert_eq!(Returned::parse(read).unwrap().question(), None);
    }
}
