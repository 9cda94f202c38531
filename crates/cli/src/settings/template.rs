//! The settings a first start leaves behind: the recommended ones, spelled out,
//! so that there is something to change.

use portcullis_files::{OwnPlace, PrivateDir, write_own_text};
use portcullis_proto::{Failure, Group};
use serde_json::{Map, Value, json};

/// What the file is called in the data directory.
pub(super) const NAME: &str = "settings.json";

/// The recommended settings. No directory: an empty one would mean the working
/// directory to every command, and a server that an agent's client starts
/// somewhere is not to serve it unasked.
pub(super) fn template() -> String {
    let modes: Map<String, Value> = Group::ALL
        .into_iter()
        .map(|group| (group.as_str().into(), group.recommended().as_str().into()))
        .collect();
    let settings = json!({ "permissions": modes, "resourcePermissions": {} });
    let mut text = serde_json::to_string_pretty(&settings).unwrap_or_default();
    text.push('\n');
    text
}

/// Whether a text is what a first start leaves behind, untouched.
pub(crate) fn is_template(text: &str) -> bool {
    text == template()
}

/// Writes the recommended settings where there are none; whether it did.
pub(crate) fn write_template(data: &PrivateDir) -> Result<bool, Failure> {
    write_own_text(data, NAME, &template(), OwnPlace::Free)
}

#[cfg(test)]
mod tests {
    use portcullis_policy::Modes;

    use super::super::file;
    use super::*;

    #[test]
    fn the_template_says_what_holds_without_it() {
        let written = file::parse(NAME, &template()).unwrap();
        let modes = Modes::recommended();
        let said: Vec<_> = written.permissions.said().collect();
        assert_eq!(said, Group::ALL.map(|group| (group, modes.of(group))));
        assert!(written.filesystem_dir.is_none() && written.rules.is_empty());
    }
}
