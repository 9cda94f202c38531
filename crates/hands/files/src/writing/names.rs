//! Names we give, and names we let others give.

use portcullis_proto::{Failure, Reason, RequestId};

/// The name of what the deed called `request` makes beside its target. Derived,
/// so that the opening line tells it before it is made.
pub(crate) fn staged_name(request: &RequestId) -> String {
    format!(".portcullis-{}.tmp", request.as_str())
}

/// The name under which somebody else's save is kept beside a target.
pub(crate) fn conflict_name(leaf: &str, request: &RequestId) -> String {
    /// What a file system takes at most.
    const MOST: usize = 255;
    let ending = format!(".conflict-{}", request.as_str());
    let mut room = MOST.saturating_sub(ending.len()).min(leaf.len());
    while !leaf.is_char_boundary(room) {
        room -= 1;
    }
    format!("{}{ending}", leaf.get(..room).unwrap_or_default())
}

/// Names that mean a device on Windows, whatever their ending.
const DEVICES: &[&str] = &["con", "prn", "aux", "nul", "conin$", "conout$"];

/// Windows takes three superscripts for digits here.
fn is_port(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '\u{b9}' | '\u{b2}' | '\u{b3}')
}

/// Whether a new entry may be called `name`: one that every common file system
/// can hold, and that nobody takes for another. Names that exist are not asked.
pub(crate) fn admit_new_name(name: &str) -> Result<(), Failure> {
    let bad = |why: &str| {
        Err(Failure::new(
            Reason::BadArguments,
            format!("A new file or directory cannot have this name: {why}."),
        )
        .hint("Choose a name without it; nothing was created."))
    };
    if name.ends_with(['.', ' ']) {
        return bad("it ends in a dot or a space, which some file systems drop");
    }
    if name.starts_with(' ') {
        return bad("it begins with a space");
    }
    if let Some(sign) = name
        .chars()
        .find(|c| matches!(c, '<' | '>' | ':' | '"' | '|' | '?' | '*' | '\\'))
    {
        return bad(&format!(
            "it holds {sign:?}, which some file systems refuse"
        ));
    }
    let stem = name.split('.').next().unwrap_or(name).trim_end();
    let numbered = |prefix: &str| {
        let (start, end) = (stem.get(..prefix.len()), stem.get(prefix.len()..));
        let mut end = end.unwrap_or_default().chars();
        start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
            && end.next().is_some_and(is_port)
            && end.next().is_none()
    };
    if DEVICES
        .iter()
        .any(|device| stem.eq_ignore_ascii_case(device))
        || numbered("com")
        || numbered("lpt")
    {
        return bad("it means a device on some systems");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portable_names_pass_and_others_say_why() {
        for name in [
            "a.txt",
            ".gitignore",
            "Makefile",
            "com10",
            "console",
            "naïve.md",
            "a b",
        ] {
            assert!(admit_new_name(name).is_ok(), "{name}");
        }
        for name in [
            "a.",
            "a ",
            " a",
            "a:b",
            "a\\b",
            "CON",
            "nul.txt",
            "Com1",
            "lpt9.log",
            "COM\u{b2}.txt",
            "a?",
        ] {
            assert_eq!(
                admit_new_name(name).unwrap_err().reason(),
                Reason::BadArguments,
                "{name}"
            );
        }
    }

    #[test]
    fn a_conflict_name_is_never_too_long_and_never_splits_a_character() {
        let request = RequestId::new("r_0011223344556677_12".to_owned());
        for n in 200..255 {
            let leaf = "ä".repeat(n / 2);
            let name = conflict_name(&leaf, &request);
            assert!(name.len() <= 255 && name.ends_with(request.as_str()));
        }
    }
}
