//! What is told of one route.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::super::rest::Asks;
use super::errors;
use super::shapes::Shapes;

/// What is told of one route, beside what its row in the table says.
pub(crate) struct Described<'a> {
    pub(super) summary: &'static str,
    pub(super) about: Option<&'static str>,
    pub(super) parameters: Vec<Value>,
    pub(super) body: Option<Value>,
    /// By status.
    pub(super) gives: Map<String, Value>,
    pub(super) fails: BTreeSet<u16>,
    headers: &'static [&'static str],
    shapes: &'a mut Shapes,
}

impl<'a> Described<'a> {
    /// A route that needs a credential.
    pub(crate) fn of(shapes: &'a mut Shapes, summary: &'static str) -> Self {
        Self::open(shapes, summary).failing(&[401, 429])
    }

    /// A route that needs none.
    pub(crate) fn open(shapes: &'a mut Shapes, summary: &'static str) -> Self {
        Self {
            summary,
            about: None,
            parameters: Vec::new(),
            body: None,
            gives: Map::new(),
            // A Host or an Origin that is not allowed.
            fails: BTreeSet::from([403]),
            headers: &[],
            shapes,
        }
    }

    /// What else to know.
    pub(crate) fn about(mut self, about: &'static str) -> Self {
        self.about = Some(about);
        self
    }

    /// Every reply to it says on what it was settled.
    pub(crate) fn judged(mut self) -> Self {
        self.headers = errors::JUDGED;
        self
    }

    /// Takes what `Q` declares in its query.
    pub(crate) fn asking<Q: Asks>(mut self) -> Self {
        self.parameters.extend(Q::told().into_iter().map(|one| {
            json!({
                "name": one.name,
                "in": "query",
                "required": one.required,
                "description": one.about,
                "schema": one.schema,
            })
        }));
        self
    }

    /// Takes a header.
    pub(crate) fn header(mut self, name: &str, about: &str, schema: Value) -> Self {
        self.parameters.push(json!({
            "name": name,
            "in": "header",
            "required": false,
            "description": about,
            "schema": schema,
        }));
        self
    }

    /// Takes a body of JSON.
    pub(crate) fn taking<B: JsonSchema>(self) -> Self {
        let schema = self.shapes.read::<B>();
        self.taking_as("application/json", schema)
            .failing(&[400, 408, 413])
    }

    /// Takes a body of another kind.
    pub(crate) fn taking_as(mut self, media: &str, schema: Value) -> Self {
        let content = Map::from_iter([(media.to_owned(), json!({"schema": schema}))]);
        self.body = Some(json!({"required": true, "content": content}));
        self
    }

    /// Gives JSON.
    pub(crate) fn giving<R: JsonSchema>(self, status: u16, about: &str) -> Self {
        let schema = self.shapes.written::<R>();
        self.giving_as(status, about, &[("application/json", schema)])
    }

    /// Gives something else, or nothing at all.
    pub(crate) fn giving_as(mut self, status: u16, about: &str, media: &[(&str, Value)]) -> Self {
        let content: Map<String, Value> = media
            .iter()
            .map(|(media, schema)| ((*media).to_owned(), json!({"schema": schema})))
            .collect();
        let mut response = json!({
            "description": about,
            "headers": errors::carried(self.headers),
        });
        if let Some(object) = response.as_object_mut()
            && !content.is_empty()
        {
            object.insert("content".to_owned(), content.into());
        }
        self.gives.insert(status.to_string(), response);
        self
    }

    /// Gives events, for as long as somebody listens.
    pub(crate) fn streaming(self, about: &str) -> Self {
        let events = json!({"type": "string"});
        self.giving_as(200, about, &[("text/event-stream", events)])
    }

    /// Gives the same as events, to who asks for them.
    pub(crate) fn or_streaming(mut self) -> Self {
        let content = self
            .gives
            .get_mut("200")
            .and_then(|response| response.get_mut("content"))
            .and_then(Value::as_object_mut);
        if let Some(content) = content {
            content.insert(
                "text/event-stream".to_owned(),
                json!({"schema": {"type": "string"}}),
            );
        }
        self
    }

    /// May fail so.
    pub(crate) fn failing(mut self, statuses: &[u16]) -> Self {
        self.fails.extend(statuses);
        self
    }
}
