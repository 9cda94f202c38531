//! Names that both ends must agree on.

/// The header a gateway key stands in.
pub const INIT_KEY_HEADER: &str = "x-gateway-key";

/// The header in which a daemon of ours says which it is, as its init did.
pub const INSTANCE_HEADER: &str = "x-portcullis-instance";

/// Where things are, below `/instance-ai` and `/rest/instance-ai`.
pub mod paths {
    /// Where a machine says what it offers.
    pub const INIT: &str = "/gateway/init";
    /// Where it hears what is asked of it.
    pub const EVENTS: &str = "/gateway/events";
    /// The same, for who cannot hold a stream.
    pub const POLL: &str = "/gateway/poll";
    /// Where it replies; a request id follows.
    pub const RESPONSE: &str = "/gateway/response/";
    /// Where it tells how far it is; a request id follows.
    pub const PROGRESS: &str = "/gateway/progress/";
    /// Where it says goodbye.
    pub const DISCONNECT: &str = "/gateway/disconnect";
}

/// The longest name of a tool.
const LONGEST: usize = 64;

/// Whether agents are offered a tool of this name: a letter, then letters,
/// digits, `_` and `-`, at most 64.
pub fn is_tool_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    name.len() <= LONGEST
        && name
            .bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_alphabetic())
        && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_has_a_plain_name() {
        for good in ["read_file", "a", "Z-9", &"a".repeat(64)] {
            assert!(is_tool_name(good), "{good}");
        }
        for bad in ["", "_a", "9a", "a b", "a/b", "é", &"a".repeat(65)] {
            assert!(!is_tool_name(bad), "{bad}");
        }
    }
}
