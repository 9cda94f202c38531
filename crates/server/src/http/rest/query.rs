//! The query of a request: each parameter once, numbers as digits alone.
//!
//! What a route asks for is declared once, with [`query!`](crate::http::rest::query):
//! the declaration is the parser, and what the OpenAPI document tells.

use portcullis_proto::{Failure, Reason};
use serde_json::{Value, json};

/// The most parameters that are looked at.
const MAX_PARAMETERS: usize = 32;

/// A query, decoded.
pub(crate) struct Query(Vec<(String, String)>);

fn bad(what: String) -> Failure {
    Failure::new(Reason::BadArguments, what)
}

impl Query {
    pub(crate) fn of(uri: &http::Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        Self(
            form_urlencoded::parse(query.as_bytes())
                .take(MAX_PARAMETERS)
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
        )
    }

    /// The parameter, if it is there. One that is there twice could mean
    /// either, so it means nothing.
    fn text(&self, name: &str) -> Result<Option<&str>, Failure> {
        let mut values = self.0.iter().filter(|(named, _)| named == name);
        let first = values.next().map(|(_, value)| value.as_str());
        if values.next().is_some() {
            return Err(bad(format!("`{name}` is there twice.")));
        }
        Ok(first)
    }

    /// A parameter that has to be there and to say something.
    fn required(&self, name: &str) -> Result<String, Failure> {
        match self.text(name) {
            Ok(Some(text)) if !text.is_empty() => Ok(text.to_owned()),
            Ok(Some(_) | None) => Err(bad(format!("The query parameter `{name}` is required."))),
            Err(why) => Err(why),
        }
    }

    /// A number between the two, written in digits alone.
    fn number(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, Failure> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.then(|| text.parse::<u64>().ok()).flatten();
        match number {
            Some(number) if (least..=most).contains(&number) => Ok(Some(number)),
            Some(_) | None if most == EXACT => {
                Err(bad(format!("`{name}` is a whole number from {least} on.")))
            }
            Some(_) | None => Err(bad(format!(
                "`{name}` is a whole number between {least} and {most}."
            ))),
        }
    }
}

/// The largest whole number that every program holds exactly as it is written.
pub(crate) const EXACT: u64 = (1 << 53) - 1;

/// One parameter: how it is read, and how the document tells it.
pub(crate) trait Parameter: Sized {
    /// Whether it has to be there.
    const REQUIRED: bool = false;

    fn read(query: &Query, name: &str) -> Result<Self, Failure>;

    /// Its JSON schema.
    fn schema() -> Value;
}

/// Text that has to be there and to say something.
impl Parameter for String {
    const REQUIRED: bool = true;

    fn read(query: &Query, name: &str) -> Result<Self, Failure> {
        query.required(name)
    }

    fn schema() -> Value {
        json!({"type": "string", "minLength": 1})
    }
}

impl Parameter for Option<String> {
    fn read(query: &Query, name: &str) -> Result<Self, Failure> {
        query.text(name).map(|text| text.map(str::to_owned))
    }

    fn schema() -> Value {
        json!({"type": "string"})
    }
}

/// A whole number, if it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number<const LEAST: u64, const MOST: u64>(pub(crate) Option<u64>);

impl<const LEAST: u64, const MOST: u64> Number<LEAST, MOST> {
    /// As a count of something in memory.
    pub(crate) fn count(self) -> Option<usize> {
        self.0.and_then(|number| usize::try_from(number).ok())
    }
}

impl<const LEAST: u64, const MOST: u64> Parameter for Number<LEAST, MOST> {
    fn read(query: &Query, name: &str) -> Result<Self, Failure> {
        query.number(name, LEAST, MOST).map(Self)
    }

    fn schema() -> Value {
        json!({"type": "integer", "minimum": LEAST, "maximum": MOST})
    }
}

/// A yes or a no, if it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flag(pub(crate) Option<bool>);

impl Parameter for Flag {
    fn read(query: &Query, name: &str) -> Result<Self, Failure> {
        match query.text(name)? {
            None => Ok(Self(None)),
            Some("1" | "true") => Ok(Self(Some(true))),
            Some("0" | "false") => Ok(Self(Some(false))),
            Some(_) => Err(bad(format!(
                "`{name}` is `true` or `false`, or `1` or `0`."
            ))),
        }
    }

    fn schema() -> Value {
        json!({"enum": [true, false, 1, 0], "default": false})
    }
}

/// A yes, where it is `1` or `true`; anything else is a no, as on the wire
/// these routes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Yes(pub(crate) bool);

impl Parameter for Yes {
    fn read(query: &Query, name: &str) -> Result<Self, Failure> {
        Ok(Self(matches!(query.text(name)?, Some("1" | "true"))))
    }

    fn schema() -> Value {
        json!({"type": ["boolean", "string"], "default": false})
    }
}

/// A parameter, as the document tells it.
#[derive(Debug)]
pub(crate) struct ToldParameter {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) required: bool,
    pub(crate) schema: Value,
}

/// What a route asks for in its query.
pub(crate) trait Asks: Sized {
    fn read(uri: &http::Uri) -> Result<Self, Failure>;

    /// Every parameter, as the document tells it.
    fn told() -> Vec<ToldParameter>;
}

/// Declares what a route asks for in its query: the name on the wire, the name
/// here, and its type.
macro_rules! query {
    ($(#[$about:meta])* $vis:vis struct $name:ident {
        $($(#[doc = $doc:literal])+ $wire:literal $field:ident: $kind:ty,)+
    }) => {
        $(#[$about])*
        #[derive(Debug)]
        $vis struct $name {
            $($(#[doc = $doc])+ $field: $kind,)+
        }

        impl $crate::http::rest::Asks for $name {
            fn read(uri: &::http::Uri) -> Result<Self, ::portcullis_proto::Failure> {
                let query = $crate::http::rest::Query::of(uri);
                Ok(Self {
                    $($field: <$kind as $crate::http::rest::Parameter>::read(&query, $wire)?,)+
                })
            }

            fn told() -> Vec<$crate::http::rest::ToldParameter> {
                vec![$($crate::http::rest::ToldParameter {
                    name: $wire,
                    about: concat!($($doc,)+).trim_start(),
                    required: <$kind as $crate::http::rest::Parameter>::REQUIRED,
                    schema: <$kind as $crate::http::rest::Parameter>::schema(),
                },)+]
            }
        }
    };
}
pub(crate) use query;

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::of(&format!("/x?{text}").parse().unwrap())
    }

    #[test]
    fn a_number_is_digits_alone() {
        for (text, want) in [
            ("n=7", Some(Some(7))),
            ("", Some(None)),
            ("n=007", Some(Some(7))),
        ] {
            assert_eq!(query(text).number("n", 1, 10).ok(), want, "{text}");
        }
        for text in [
            "n=",
            "n=+7",
            "n=7.0",
            "n=0",
            "n=11",
            "n=0x7",
            "n=7&n=7",
            "n=99999999999999999999",
        ] {
            assert!(query(text).number("n", 1, 10).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_there_twice_means_nothing() {
        assert!(query("path=a&path=b").required("path").is_err());
        assert!(query("path=").required("path").is_err());
        assert_eq!(query("path=a%2Fb+c").required("path").unwrap(), "a/b c");
    }

    #[test]
    fn a_yes_is_one_or_true_and_a_flag_nothing_unclear() {
        for (text, yes, flag) in [
            ("f=1", true, Some(Some(true))),
            ("f=true", true, Some(Some(true))),
            ("f=0", false, Some(Some(false))),
            ("f=false", false, Some(Some(false))),
            ("", false, Some(None)),
            ("f=yes", false, None),
            ("f", false, None),
        ] {
            let query = query(text);
            assert_eq!(Yes::read(&query, "f").unwrap(), Yes(yes), "{text}");
            let read = Flag::read(&query, "f").ok().map(|flag| flag.0);
            assert_eq!(read, flag, "{text}");
        }
    }
}
