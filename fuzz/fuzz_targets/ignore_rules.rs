//! Ignore files as anybody may write them: no panic, no blow-up, the same answer twice.
//!
//! Run: `cargo +nightly fuzz run ignore_rules` in the top directory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use portcullis_files::ignores::{IgnoreKind, IgnoreLayer, IgnoreStack};
use portcullis_proto::RelPath;

fuzz_target!(|data: &[u8]| {
    let mut parts = data.splitn(3, |byte| *byte == 0);
    let (Some(path), Some(outer)) = (parts.next(), parts.next()) else {
        return;
    };
    let Ok(path) = RelPath::parse_bytes(path) else {
        return;
    };
    let top = IgnoreLayer::parse(RelPath::root(), IgnoreKind::Git, outer);
    let mut stack = IgnoreStack::new().with(top);
    if let (Some(inner), Some(dir)) = (parts.next(), path.parent()) {
        stack = stack.with(IgnoreLayer::parse(dir, IgnoreKind::Portcullis, inner));
    }
    for is_dir in [false, true] {
        assert_eq!(stack.matched(&path, is_dir), stack.matched(&path, is_dir));
    }
    assert_eq!(
        stack.matched(&RelPath::root(), true),
        None,
        "the root is never ignored"
    );
});
