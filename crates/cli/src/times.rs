//! Times as people type them.

use crate::problem::Problem;

/// A time, or how long ago.
pub(crate) fn moment(typed: &str, now: u64) -> Result<u64, Problem> {
    if let Some(ago) = span(typed) {
        return Ok(now.saturating_sub(ago));
    }
    stamp(typed).ok_or_else(|| {
        Problem::usage(format!("{typed:?} is not a time."))
            .hint("Write 2026-11-15T08:00:00Z, or how long ago: 90s, 10m, 2h, 7d.")
    })
}

/// When something ends: at a time, after so long, or never.
pub(crate) fn end(typed: &str, now: u64) -> Result<Option<u64>, Problem> {
    if typed == "never" {
        return Ok(None);
    }
    span(typed)
        .and_then(|after| now.checked_add(after))
        .or_else(|| stamp(typed))
        .filter(|end| *end > now)
        .map(Some)
        .ok_or_else(|| {
            Problem::usage(format!("{typed:?} is not a time to come."))
                .hint("Write how long (12h, 30d), a time (2027-01-31T08:00:00Z), or never.")
        })
}

/// A span in milliseconds: 90s, 10m, 2h, 7d.
fn span(typed: &str) -> Option<u64> {
    let (at, unit) = typed.char_indices().last()?;
    let count: u64 = typed.get(..at)?.parse().ok()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return None,
    };
    count.checked_mul(seconds * 1000)
}

fn stamp(typed: &str) -> Option<u64> {
    let at: jiff::Timestamp = typed.parse().ok()?;
    u64::try_from(at.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000_000_000;

    #[test]
    fn times_are_absolute_or_ago() {
        for (typed, want) in [
            ("90s", NOW - 90_000),
            ("10m", NOW - 600_000),
            ("2h", NOW - 7_200_000),
            ("7d", NOW - 604_800_000),
            ("1970-01-01T00:00:01Z", 1000),
        ] {
            assert_eq!(moment(typed, NOW), Ok(want), "{typed}");
        }
        for bad in ["", "h", "10", "10x", "yesterday", "é"] {
            assert!(moment(bad, NOW).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_end_is_to_come_or_never() {
        for (typed, want) in [
            ("never", None),
            ("90s", Some(NOW + 90_000)),
            ("30d", Some(NOW + 2_592_000_000)),
            ("2100-01-01T00:00:00Z", Some(4_102_444_800_000)),
        ] {
            assert_eq!(end(typed, NOW), Ok(want), "{typed}");
        }
        for bad in [
            "",
            "0s",
            "1970-01-01T00:00:01Z",
            "tomorrow",
            "30",
            "Never",
            "99999999999999d",
        ] {
            assert!(end(bad, NOW).is_err(), "{bad}");
        }
    }
}
