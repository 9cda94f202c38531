//! The query of a request: each parameter once, numbers as digits alone.

use portcullis_proto::{Failure, Reason};

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
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, Failure> {
        let mut values = self.0.iter().filter(|(named, _)| named == name);
        let first = values.next().map(|(_, value)| value.as_str());
        if values.next().is_some() {
            return Err(bad(format!("`{name}` is there twice.")));
        }
        Ok(first)
    }

    /// A parameter that has to be there and to say something.
    pub(crate) fn required(&self, name: &str) -> Result<String, Failure> {
        match self.text(name) {
            Ok(Some(text)) if !text.is_empty() => Ok(text.to_owned()),
            Ok(Some(_) | None) => Err(bad(format!("The query parameter `{name}` is required."))),
            Err(why) => Err(why),
        }
    }

    /// A number between the two, written in digits alone.
    pub(crate) fn number(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, Failure> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.then(|| text.parse::<u64>().ok()).flatten();
        match number {
            Some(number) if (least..=most).contains(&number) => Ok(Some(number)),
            Some(_) | None if most == u64::MAX => {
                Err(bad(format!("`{name}` is a whole number from {least} on.")))
            }
            Some(_) | None => Err(bad(format!(
                "`{name}` is a whole number between {least} and {most}."
            ))),
        }
    }

    /// Whether it is `1` or `true`.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Failure> {
        Ok(matches!(self.text(name)?, Some("1" | "true")))
    }
}

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
    fn a_flag_is_one_or_true() {
        for (text, want) in [
            ("f=1", true),
            ("f=true", true),
            ("f=yes", false),
            ("f", false),
        ] {
            assert_eq!(query(text).flag("f").unwrap(), want, "{text}");
        }
    }
}
