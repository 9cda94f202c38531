//! Archives of any bytes: a manifest, bounded, and nothing in it that may not be
//! made.
//!
//! Run: `cargo +nightly fuzz run archive` in the top directory.
#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use portcullis_files::archive::{ItemKind, limits, manifest_of};

fuzz_target!(|archive: &[u8]| {
    let manifest = manifest_of(archive);
    assert!(manifest.items.len() <= limits::MAX_ENTRIES);
    assert!(manifest.refused.len() <= limits::MAX_REFUSED);
    assert!(manifest.bytes <= limits::MAX_TOTAL || !manifest.refused.is_empty());
    assert!(manifest.complete || !manifest.refused.is_empty(), "cut, and not said");
    let mut files = BTreeSet::new();
    let mut sum = 0;
    for item in &manifest.items {
        let path = item.path.as_str();
        assert!(!path.is_empty() && !path.starts_with('/') && !path.contains('\\'));
        assert!(path.split('/').all(|part| !matches!(part, "" | "." | "..")));
        assert!(path.split('/').count() <= limits::MAX_COMPONENTS);
        if item.kind == ItemKind::File {
            assert!(files.insert(path.to_lowercase()), "{path} twice");
        } else {
            assert_eq!(item.size, 0);
        }
        sum += item.size;
    }
    assert_eq!(sum, manifest.bytes);
    for file in &files {
        let mut above = file.as_str();
        while let Some((parent, _)) = above.rsplit_once('/') {
            assert!(!files.contains(parent), "{parent} is a file and a directory");
            above = parent;
        }
    }
});
