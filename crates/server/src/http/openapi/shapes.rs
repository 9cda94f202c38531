//! The schemas of what is read and of what is written, each under its name.

use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value};

/// Gathers schemas. A type is told as it is read, or as it is written: what may
/// be left out is not the same for both.
pub(crate) struct Shapes {
    read: SchemaGenerator,
    written: SchemaGenerator,
}

impl Shapes {
    pub(super) fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        Self {
            read: settings().for_deserialize().into_generator(),
            written: settings().for_serialize().into_generator(),
        }
    }

    /// What a handler reads.
    pub(super) fn read<T: JsonSchema>(&mut self) -> Value {
        self.read.subschema_for::<T>().to_value()
    }

    /// What a handler writes.
    pub(super) fn written<T: JsonSchema>(&mut self) -> Value {
        self.written.subschema_for::<T>().to_value()
    }

    /// Every schema that was referred to.
    pub(super) fn into_definitions(mut self) -> Map<String, Value> {
        let mut all = self.read.take_definitions(true);
        for (name, schema) in self.written.take_definitions(true) {
            let before = all.insert(name.clone(), schema.clone());
            debug_assert!(
                before.is_none_or(|before| before == schema),
                "two shapes are called {name}: rename one with #[schemars(rename = …)]"
            );
        }
        all.values_mut().for_each(without_formats);
        all
    }
}

/// Rust's number formats mean nothing to validators, which say so loudly.
fn without_formats(value: &mut Value) {
    match value {
        Value::Object(object) => {
            // A member may be called so too; then it is no text.
            if object.get("format").is_some_and(Value::is_string) {
                object.remove("format");
            }
            object.values_mut().for_each(without_formats);
        }
        Value::Array(list) => list.iter_mut().for_each(without_formats),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
