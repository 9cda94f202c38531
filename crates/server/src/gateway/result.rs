//! What a tool of a linked machine returned: checked before anybody sees it.

use std::borrow::Cow;

use portcullis_link::{Confirmation, bounds};
use portcullis_proto::{Attached, Failure, Json, Reason, Scope, ToolReply, misfit};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::by_tools::typed;
use super::failing::{clipped, said};

/// A result, of shapes that are known.
#[derive(Debug)]
pub(crate) struct Returned {
    /// Its texts, one below the other.
    text: String,
    structured: Option<Map<String, Value>>,
    attached: Vec<Attached>,
    is_error: bool,
    /// What a file route replies with that asked for it by tools.
    body: Option<String>,
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

/// The text of a failure, where it is JSON: whatever else is in it is passed over.
#[derive(Deserialize)]
struct Worded<'a> {
    #[serde(borrow)]
    error: Cow<'a, str>,
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
    pub(crate) fn parse(result: &str) -> Result<Self, String> {
        let spelled: Spelled =
            serde_json::from_str(result).map_err(|error| format!("result: {}.", misfit(&error)))?;
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
        // A text that is alone, which may be large, is not copied.
        let text = match (texts.pop(), texts.is_empty()) {
            (Some(only), true) => only,
            (Some(last), false) => {
                texts.push(last);
                texts.join("\n")
            }
            (None, _) => String::new(),
        };
        Ok(Self {
            text,
            structured: spelled.structured_content,
            attached,
            is_error: spelled.is_error,
            body: None,
        })
    }

    /// The same, for a file route that replies with `body` where it went well.
    pub(super) fn for_body(mut self, body: Option<String>) -> Self {
        self.body = body;
        self
    }

    /// Whether a file route asked for it by tools.
    pub(super) fn is_of_tools(&self) -> bool {
        self.body.is_some()
    }

    /// Data that is no result of MCP's: its `content` or `tree` where that is a
    /// text, and all of it.
    pub(crate) fn of_data(data: Value) -> Self {
        let told = ["content", "tree"]
            .iter()
            .find_map(|name| data.get(name)?.as_str());
        Self {
            text: told.map_or_else(|| data.to_string(), str::to_owned),
            structured: Some(match data {
                Value::Object(object) => object,
                other @ (Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::String(_)
                | Value::Array(_)) => Map::from_iter([("data".to_owned(), other)]),
            }),
            attached: Vec::new(),
            is_error: false,
            body: None,
        }
    }

    /// A failure that is told in words alone.
    pub(crate) fn of_error(error: String) -> Self {
        Self {
            structured: Some(Map::from_iter([(
                "error".to_owned(),
                Value::from(error.as_str()),
            )])),
            text: error,
            attached: Vec::new(),
            is_error: true,
            body: None,
        }
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
            // What a text holds was counted by nobody: only a short one is read,
            // and of it one word.
            let may_ask =
                self.text.len() <= bounds::MAX_QUESTION && self.text.contains(Confirmation::PREFIX);
            if !may_ask {
                return None;
            }
            let written: Option<Worded<'_>> = serde_json::from_str(&self.text).ok();
            let said = written.as_ref().map(|one| &*one.error);
            Confirmation::parse(said.unwrap_or(&self.text))
        })
    }

    /// How many bytes it is for whoever asked.
    pub(crate) fn bytes(&self) -> u64 {
        let attached: usize = self.attached.iter().map(Attached::len).sum();
        u64::try_from(self.text.len() + attached).unwrap_or(u64::MAX)
    }

    /// Puts a text that came alone under the name our own tools tell it by.
    pub(crate) fn name_text(&mut self, name: &str) {
        if self.structured.is_none() {
            let text = Value::from(self.text.as_str());
            let told = ["text", name].map(|name| (name.to_owned(), text.clone()));
            self.structured = Some(Map::from_iter(told));
        }
    }

    /// What it says under a name, where it is more than text.
    pub(crate) fn told(&self, name: &str) -> Option<&Value> {
        self.structured.as_ref()?.get(name)
    }

    /// The body a file route replies with: what was made for it, or the text of
    /// an operation of ours, which has to be an object of JSON on one line.
    pub(crate) fn into_body(self) -> Result<Json, Failure> {
        if let Some(body) = self.body {
            return Ok(Json::vouched(body));
        }
        let is_object = self.text.starts_with('{')
            && !self.text.contains(['\n', '\r'])
            && serde_json::from_str::<IgnoredAny>(&self.text).is_ok();
        if !is_object {
            return Err(Failure::new(
                Reason::Io,
                "The machine's reply does not say what was asked.",
            ));
        }
        Ok(Json::vouched(self.text))
    }

    /// Why it failed, in a word that is known: its reason, or the first of the
    /// kind it names.
    fn reason(&self) -> Option<Reason> {
        let told = |name: &str| self.told(name)?.as_str();
        let all = || Reason::ALL.iter().copied();
        let reason = told("reason").and_then(|word| all().find(|one| one.as_str() == word));
        let of_kind = |word: &str| all().find(|one| one.kind().as_str() == word);
        reason.or_else(|| told("errorKind").and_then(of_kind))
    }

    /// The failure it tells: as typed as the machine told it.
    pub(crate) fn failure(&self) -> Failure {
        let told = |name: &str| self.told(name)?.as_str();
        let Some(reason) = self.reason() else {
            return said(told("error").unwrap_or(&self.text));
        };
        let message = told("error").map_or_else(|| reason.sentence().to_owned(), clipped);
        let why = Failure::new(reason, message);
        match told("hint") {
            Some(hint) => why.hint(clipped(hint)),
            None => why,
        }
    }

    /// A failure about files that its machine tells in words alone, as one of ours
    /// would tell it: of a kind, and with no path of its host.
    pub(super) fn typed_below(mut self, root: &str, took: Scope) -> Self {
        let is_of_files = matches!(took, Scope::FsRead | Scope::FsWrite);
        if is_of_files && self.is_error && self.reason().is_none() {
            let why = typed(&self);
            self.fail_as(&why, root);
        }
        self
    }

    /// Says of a failure what `why` does where that is more than that it failed, and
    /// else what the machine says, without the path of `root`, which is nobody's
    /// business.
    fn fail_as(&mut self, why: &Failure, root: &str) {
        let own = self.told("error").and_then(Value::as_str);
        let words = if why.reason() == Reason::Io {
            own.unwrap_or(&self.text)
        } else {
            why.message()
        };
        let message = below(words, root.trim_end_matches(['/', '\\']));
        self.structured = Some(Map::from_iter([
            ("error".to_owned(), Value::from(message.as_str())),
            ("reason".to_owned(), why.reason().as_str().into()),
        ]));
        self.text = message;
        self.attached.clear();
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

    /// A failure says what every failure says: of what kind it is, in words that
    /// are known. What else the machine said of it stays.
    fn type_failure(&mut self) {
        let reason = self.reason().unwrap_or(Reason::Io);
        let told = self.structured.get_or_insert_default();
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

/// Some words, with the paths in them that begin with `root` told from there.
fn below(words: &str, root: &str) -> String {
    if root.is_empty() {
        return words.to_owned();
    }
    let is_name =
        |sign: char| sign.is_alphanumeric() || matches!(sign, '/' | '\\' | '.' | '_' | '-');
    let (mut told, mut rest) = (String::with_capacity(words.len()), words);
    while let Some((before, after)) = rest.split_once(root) {
        told.push_str(before);
        let begins = !told.ends_with(is_name);
        let path = after.strip_prefix(['/', '\\']);
        rest = match path {
            Some(path) if begins && path.starts_with(is_name) => path,
            Some(_) if begins => {
                told.push('.');
                after
            }
            None if begins && !after.starts_with(is_name) => {
                told.push('.');
                after
            }
            Some(_) | None => {
                told.push_str(root);
                after
            }
        };
    }
    told.push_str(rest);
    told
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
        let returned = Returned::parse(&good.to_string()).unwrap();
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
            assert!(Returned::parse(&bad.to_string()).is_err(), "{bad}");
        }
    }

    #[test]
    fn paths_are_told_from_the_root_and_what_only_looks_like_it_stays() {
        for (words, root, want) in [
            ("stat '/home/ada/w/x'", "/home/ada/w", "stat 'x'"),
            ("at /home/ada/w", "/home/ada/w", "at ."),
            ("at /home/ada/w/ now", "/home/ada/w", "at ./ now"),
            ("/home/ada/w/a -> /home/ada/w/b", "/home/ada/w", "a -> b"),
            ("/home/adam/x", "/home/ada", "/home/adam/x"),
            ("src/app/main.rs of /app/x", "/app", "src/app/main.rs of x"),
            ("C:\\w\\x", "C:\\w", "x"),
            ("anything", "", "anything"),
        ] {
            assert_eq!(below(words, root), want, "{words}");
        }
    }

    #[test]
    fn what_has_no_structure_is_told_as_text() {
        let plain = json!({"content": [{"type": "text", "text": "ok"}]});
        let reply = Returned::parse(&plain.to_string())
            .unwrap()
            .into_reply()
            .unwrap();
        assert_eq!(reply.structured.get(), "{\"text\":\"ok\"}");
        assert!(!reply.is_error);
    }

    #[test]
    fn a_failure_has_the_shape_of_every_failure() {
        let failed = json!({
            "content": [{"type": "text", "text": "x"}],
            "structuredContent": {"error": "no such file"}, "isError": true,
        });
        let reply = Returned::parse(&failed.to_string())
            .unwrap()
            .into_reply()
            .unwrap();
        let told: Value = serde_json::from_str(reply.structured.get()).unwrap();
        assert_eq!(told["error"], "no such file");
        assert_eq!(
            (&told["reason"], &told["status"]),
            (&json!("io"), &json!(503))
        );
        let ours = json!({
            "content": [], "structuredContent": {"errorKind": "path_not_found"}, "isError": true,
        });
        let reply = Returned::parse(&ours.to_string())
            .unwrap()
            .into_reply()
            .unwrap();
        let told: Value = serde_json::from_str(reply.structured.get()).unwrap();
        assert_eq!(
            (&told["errorKind"], &told["reason"], &told["status"]),
            (&json!("path_not_found"), &json!("not_found"), &json!(404))
        );
    }

    #[test]
    fn a_machine_picks_neither_a_kind_nor_a_status_of_its_own() {
        for (said, want) in [
            (json!({"errorKind": "x", "status": 200}), ("io", 503)),
            (json!({"errorKind": "io_error", "status": 101}), ("io", 503)),
            (
                json!({"reason": "not_found", "errorKind": "x", "status": 999}),
                ("not_found", 404),
            ),
            (
                json!({"reason": "x", "errorKind": 7, "status": "200"}),
                ("io", 503),
            ),
        ] {
            let failed = json!({"content": [], "structuredContent": said, "isError": true});
            let reply = Returned::parse(&failed.to_string())
                .unwrap()
                .into_reply()
                .unwrap();
            let told: Value = serde_json::from_str(reply.structured.get()).unwrap();
            assert_eq!(
                (told["reason"].as_str().unwrap(), &told["status"]),
                (want.0, &json!(want.1)),
                "{told}"
            );
        }
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
            Returned::parse(&failed.to_string()).unwrap().question(),
            Some(asks.clone())
        );
        let text_alone = json!({"content": failed["content"], "isError": true});
        assert_eq!(
            Returned::parse(&text_alone.to_string()).unwrap().question(),
            Some(asks)
        );
        let mut read = failed;
        read["isError"] = false.into();
        assert_eq!(Returned::parse(&read.to_string()).unwrap().question(), None);
    }
}
