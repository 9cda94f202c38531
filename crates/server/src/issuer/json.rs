//! JSON of strangers, read strictly: no name twice, no deep nesting.
//!
//! A parser that takes the last of two `aud` and one that takes the first would
//! read two tokens in one. So whoever writes a name twice has written nothing.

use std::fmt;

use portcullis_proto::Extent;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// How deep objects and lists may lie in each other: claims of the issuers there
/// are have three levels.
const MAX_DEPTH: usize = 8;

/// The object `bytes` spell.
pub(super) fn object(bytes: &[u8]) -> Option<Map<String, Value>> {
    Extent::of(bytes).ok()?;
    let mut reading = serde_json::Deserializer::from_slice(bytes);
    let value = Strict { left: MAX_DEPTH }.deserialize(&mut reading).ok()?;
    reading.end().ok()?;
    match value {
        Value::Object(object) => Some(object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            None
        }
    }
}

/// Reads a value with so many levels left.
#[derive(Clone, Copy)]
struct Strict {
    left: usize,
}

impl Strict {
    fn below<E: serde::de::Error>(self) -> Result<Self, E> {
        let left = self.left.checked_sub(1);
        left.map(|left| Self { left })
            .ok_or_else(|| E::custom("nested too deep"))
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reading: D) -> Result<Value, D::Error> {
        reading.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without a name twice")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut values = Vec::new();
        while let Some(value) = seq.next_element_seed(below)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut object = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value_seed(below)?;
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a name twice"));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: bool) {
        assert_eq!(object(text.as_bytes()).is_some(), want, "{text}");
    }

    #[test]
    fn a_name_twice_is_nothing_at_any_level() {
        check(r#"{"a":1,"b":{"a":2}}"#, true);
        check(r#"{"a":1,"a":1}"#, false);
        check(r#"{"a":1,"\u0061":2}"#, false);
        check(r#"{"b":[{"a":1,"a":2}]}"#, false);
    }

    #[test]
    fn only_one_object_and_nothing_behind_it() {
        for bad in [
            "",
            "1",
            "[]",
            "null",
            "{}{}",
            "{} x",
            "{\"a\":}",
            "\u{feff}{}",
        ] {
            check(bad, false);
        }
        check(" {} ", true);
        assert_eq!(object(b"{\"a\":\"\xff\"}"), None);
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |levels: usize| {
            let (open, close) = ("[".repeat(levels), "]".repeat(levels));
            format!("{{\"a\":{open}{close}}}")
        };
        check(&nested(MAX_DEPTH - 1), true);
        check(&nested(MAX_DEPTH), false);
        check(&nested(100_000), false);
    }

    #[test]
    fn what_is_read_is_what_serde_reads() {
        let text = r#"{"a":[1,-2,1.5,"x",null,true],"b":{"c":{}}}"#;
        let want: Value = serde_json::from_str(text).unwrap();
        assert_eq!(object(text.as_bytes()).map(Value::Object), Some(want));
    }
}
