//! Whatever is alleged to be a path: admitted, it is normal and leads nowhere else.
//!
//! Run: `cargo +nightly fuzz run rel_path` in the top directory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use portcullis_proto::RelPath;

fuzz_target!(|alleged: &[u8]| {
    let Ok(path) = RelPath::parse_bytes(alleged) else {
        return;
    };
    let text = path.as_str();
    assert!(text.len() <= 4095 && !text.starts_with('/') && !text.ends_with('/'));
    assert!(!text.chars().any(char::is_control));
    assert!(path.components().count() <= 256);
    for part in path.components() {
        assert!(!matches!(part, "" | "." | "..") && part.len() <= 255);
    }
    assert_eq!(
        RelPath::parse(text).as_ref(),
        Ok(&path),
        "normalising twice is once"
    );
    // Down again from the top, the same path comes out.
    let joined = path
        .components()
        .try_fold(RelPath::root(), |above, name| above.join(name));
    assert_eq!(joined.as_ref(), Ok(&path));
    if let Some(parent) = path.parent() {
        assert!(path.is_under(&parent) && !parent.is_under(&path));
    }
});
