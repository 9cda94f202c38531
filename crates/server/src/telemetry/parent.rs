//! The span a request belongs to, as its client says: W3C `traceparent`.
//!
//! Whoever can reach us can say anything there, so it is taken for what it is:
//! two ids and a wish. What is not well formed was not said.

use http::{HeaderMap, HeaderName};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// `00-<32>-<16>-<2>`: what the first version has, and every later one begins with.
const LENGTH: usize = 55;

/// A span of the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) trace: [u8; 16],
    pub(super) span: [u8; 8],
    /// Whether the client records it, and wants us to.
    pub(super) sampled: bool,
}

impl Parent {
    /// As `headers` say, if they say it once and well.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let value = values.next()?;
        if values.next().is_some() {
            return None;
        }
        Self::parse(value.as_bytes())
    }

    fn parse(said: &[u8]) -> Option<Self> {
        let (head, rest) = said.split_at_checked(LENGTH)?;
        let [version, trace, span, flags] = fields(head)?;
        let [version]: [u8; 1] = hex(version)?;
        let is_known = match version {
            0 => rest.is_empty(),
            // What a later version adds stands behind another dash.
            1..=0xfe => rest.is_empty() || rest.starts_with(b"-"),
            0xff => false,
        };
        if !is_known {
            return None;
        }
        let (trace, span): ([u8; 16], [u8; 8]) = (hex(trace)?, hex(span)?);
        let [flags]: [u8; 1] = hex(flags)?;
        if trace == [0; 16] || span == [0; 8] {
            return None;
        }
        Some(Self {
            trace,
            span,
            sampled: flags & 1 == 1,
        })
    }
}

fn fields(head: &[u8]) -> Option<[&[u8]; 4]> {
    let mut parts = head.split(|byte| *byte == b'-');
    let fields = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
    parts.next().is_none().then_some(fields)
}

/// `N` bytes in lower-case hexadecimal, and nothing else.
fn hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        for digit in pair {
            let value = match digit {
                b'0'..=b'9' => digit - b'0',
                b'a'..=b'f' => digit - b'a' + 10,
                _ => return None,
            };
            *byte = *byte << 4 | value;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[track_caller]
    fn check(said: &[&str], want: Option<bool>) {
        let mut headers = HeaderMap::new();
        for value in said {
            headers.append(TRACEPARENT, HeaderValue::from_str(value).unwrap());
        }
        let want = want.map(|sampled| Parent {
            trace: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128.to_be_bytes(),
            span: 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes(),
            sampled,
        });
        assert_eq!(Parent::of(&headers), want, "{said:?}");
    }

    #[test]
    fn a_parent_is_taken_when_it_is_well_formed_and_the_only_one() {
        check(&[&format!("00-{TRACE}-{SPAN}-01")], Some(true));
        check(&[&format!("00-{TRACE}-{SPAN}-00")], Some(false));
        // Other flags are for others.
        check(&[&format!("00-{TRACE}-{SPAN}-03")], Some(true));
        check(&[&format!("00-{TRACE}-{SPAN}-fe")], Some(false));
        // A later version says what this one says, and more.
        check(&[&format!("cc-{TRACE}-{SPAN}-01")], Some(true));
        check(&[&format!("cc-{TRACE}-{SPAN}-01-what-ever")], Some(true));
        for bad in [
            String::new(),
            "00".to_owned(),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{TRACE}-{SPAN}-01-"),
            format!("cc-{TRACE}-{SPAN}-01.more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{TRACE}-{SPAN}-0"),
            format!("00-{TRACE}-{SPAN}-0g"),
            format!("00-{TRACE}{SPAN}--01"),
            format!("00_{TRACE}_{SPAN}_01"),
            format!("0-0{TRACE}-{SPAN}-01"),
            format!(" 00-{TRACE}-{SPAN}-01"),
            "-".repeat(LENGTH),
            "0".repeat(10_000),
        ] {
            check(&[&bad], None);
        }
        let good = format!("00-{TRACE}-{SPAN}-01");
        check(&[&good, &good], None);
        check(&[], None);
    }

    #[test]
    fn what_is_taken_is_what_was_said_whichever_byte_is_another() {
        let good = format!("00-{TRACE}-{SPAN}-01");
        let mut taken = 0;
        for at in 0..good.len() {
            for byte in 0..=u8::MAX {
                let mut said = good.clone().into_bytes();
                said[at] = byte;
                let Some(parent) = Parent::parse(&said) else {
                    continue;
                };
                taken += 1;
                let said = String::from_utf8(said).unwrap();
                let trace = u128::from_be_bytes(parent.trace);
                let span = u64::from_be_bytes(parent.span);
                assert_eq!(
                    said.get(2..53).unwrap(),
                    format!("-{trace:032x}-{span:016x}-")
                );
                let flags = u8::from_str_radix(said.get(53..).unwrap(), 16).unwrap();
                assert_eq!(parent.sampled, flags & 1 == 1);
            }
        }
        // Each of 52 digits can be any of sixteen, each of three dashes a dash.
        assert_eq!(taken, 52 * 16 + 3);
    }
}
