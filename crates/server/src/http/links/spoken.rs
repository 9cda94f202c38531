//! How each dialect wraps what it is told.

use http::StatusCode;
use portcullis_link::Wrapped;
use portcullis_proto::Failure;
use serde::Serialize;
use serde_json::json;

use super::super::reply::{self, Reply};

/// The path n8n's dialect stands below; ours goes on top of it.
const SHIPPED: &str = "/rest/";

/// Which way replies are wrapped: by the path a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Spoken {
    /// As the seed shows them, bare.
    Seed,
    /// As n8n ships them, in `{"data":…}`.
    Shipped,
}

impl Spoken {
    /// By the path of a route.
    pub(in crate::http) fn at(path: &str) -> Self {
        if path.starts_with(SHIPPED) {
            Self::Shipped
        } else {
            Self::Seed
        }
    }

    /// Whether a key may stand in the query.
    pub(super) fn takes_query_key(self) -> bool {
        self == Self::Seed
    }

    /// A success.
    pub(in crate::http) fn done<T: Serialize>(self, body: &T) -> Reply {
        match self {
            Self::Seed => reply::of(StatusCode::OK, body),
            Self::Shipped => reply::of(StatusCode::OK, &Wrapped { data: body }),
        }
    }
}

/// Something that is not to be, in the shape daemons know.
pub(super) fn problem(status: StatusCode, message: &str) -> Reply {
    let body = json!({"code": status.as_u16(), "message": message});
    reply::value(status, &body)
}

/// The same of a failure of ours, with its reason.
pub(super) fn failed(why: &Failure) -> Reply {
    let status = reply::status_of(why);
    let body = json!({
        "code": status.as_u16(),
        "message": why.message(),
        "reason": why.reason().as_str(),
        "hint": why.next_step(),
    });
    reply::value(status, &body)
}

/// Milliseconds of a day.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A time as RFC 3339 writes it, to the millisecond.
pub(in crate::http) fn instant(ms: u64) -> String {
    let (days, rest) = (ms / DAY_MS, ms % DAY_MS);
    // Civil from days, after Howard Hinnant: eras of 400 years from March on.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = era * 400 + year + later;
    let (seconds, ms) = (rest / 1000, rest % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_everybody_writes_it() {
        for (ms, want) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
            (4_102_444_799_999, "2099-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(instant(ms), want);
        }
    }
}
