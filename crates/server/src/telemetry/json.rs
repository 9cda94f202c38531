//! The words OTLP is made of, in its encoding as JSON: names in lower camel
//! case, ids in hexadecimal, 64-bit integers as strings, enums as numbers.

use serde::ser::{Serialize, Serializer};

/// An id, in lower-case hexadecimal.
#[derive(Debug)]
pub(super) struct Hex<'a>(pub(super) &'a [u8]);

/// The longest id, that of a trace, has so many digits.
const MAX_DIGITS: usize = 32;

impl Serialize for Hex<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Digit by digit: most of what there is to write is ids.
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; MAX_DIGITS];
        let halves = self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let mut length = 0;
        for (digit, half) in text.iter_mut().zip(halves) {
            *digit = DIGITS[usize::from(half)];
            length += 1;
        }
        let text = text.get(..length).unwrap_or_default();
        serializer.serialize_str(std::str::from_utf8(text).unwrap_or_default())
    }
}

/// Microseconds, written as nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nanos(pub(super) u64);

impl Serialize for Nanos {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0.saturating_mul(1_000))
    }
}

/// A 64-bit integer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Long(pub(super) i64);

impl Long {
    /// What no counter of ours comes near is cut.
    pub(super) fn of(count: u64) -> Self {
        Self(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl Serialize for Long {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Something that is told of a span, a number or us.
#[derive(Debug, serde::Serialize)]
pub(super) struct Attribute<'a> {
    pub(super) key: &'static str,
    pub(super) value: Value<'a>,
}

impl<'a> Attribute<'a> {
    pub(super) fn text(key: &'static str, text: &'a str) -> Self {
        let value = Text::Words(text).into();
        Self { key, value }
    }

    pub(super) fn int(key: &'static str, number: i64) -> Self {
        let value = Value::IntValue(Long(number));
        Self { key, value }
    }
}

#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Value<'a> {
    StringValue(Text<'a>),
    IntValue(Long),
}

impl<'a> From<Text<'a>> for Value<'a> {
    fn from(text: Text<'a>) -> Self {
        Self::StringValue(text)
    }
}

/// Words, or a number that is a word.
#[derive(Debug)]
pub(super) enum Text<'a> {
    Words(&'a str),
    Number(u16),
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Words(words) => serializer.serialize_str(words),
            Self::Number(number) => serializer.collect_str(number),
        }
    }
}

#[derive(Debug, serde::Serialize)]
pub(super) struct Status {
    pub(super) code: u8,
}

/// Who tells: the same in every message.
#[derive(Clone, Debug)]
pub(super) struct Teller {
    /// What the service is called.
    pub(super) service: String,
    /// Which of the processes that are called so.
    pub(super) instance: String,
}

const OURS: &str = "portcullis";
const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(serde::Serialize)]
struct Resource<'a> {
    attributes: [Attribute<'a>; 3],
}

#[derive(serde::Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

const SCOPE: Scope = Scope {
    name: OURS,
    version: VERSION,
};

impl Teller {
    fn resource(&self) -> Resource<'_> {
        Resource {
            attributes: [
                Attribute::text("service.name", &self.service),
                Attribute::text("service.version", VERSION),
                Attribute::text("service.instance.id", &self.instance),
            ],
        }
    }

    /// An `ExportTraceServiceRequest`.
    pub(super) fn traces(&self, spans: &[super::Span]) -> Vec<u8> {
        #[derive(serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Message<'a> {
            resource_spans: [OfResource<'a>; 1],
        }
        #[derive(serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        struct OfResource<'a> {
            resource: Resource<'a>,
            scope_spans: [OfScope<'a>; 1],
        }
        #[derive(serde::Serialize)]
        struct OfScope<'a> {
            scope: Scope,
            spans: &'a [super::Span],
        }
        written(&Message {
            resource_spans: [OfResource {
                resource: self.resource(),
                scope_spans: [OfScope {
                    scope: SCOPE,
                    spans,
                }],
            }],
        })
    }

    /// An `ExportMetricsServiceRequest`.
    pub(super) fn metrics<M: Serialize>(&self, metrics: &[M]) -> Vec<u8> {
        #[derive(serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Message<'a, M> {
            resource_metrics: [OfResource<'a, M>; 1],
        }
        #[derive(serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        struct OfResource<'a, M> {
            resource: Resource<'a>,
            scope_metrics: [OfScope<'a, M>; 1],
        }
        #[derive(serde::Serialize)]
        struct OfScope<'a, M> {
            scope: Scope,
            metrics: &'a [M],
        }
        written(&Message {
            resource_metrics: [OfResource {
                resource: self.resource(),
                scope_metrics: [OfScope {
                    scope: SCOPE,
                    metrics,
                }],
            }],
        })
    }
}

/// Maps of ours have strings for keys and no value refuses to be written.
fn written(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).unwrap_or_default()
}
