//! Cursors as callers bring them back: ours, to the letter, or refused.
//!
//! Run: `cargo +nightly fuzz run cursor` in the top directory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use portcullis_files::text::Cursor;
use portcullis_proto::Reason;

fuzz_target!(|brought: &str| {
    match brought.parse::<Cursor>() {
        Ok(cursor) => assert_eq!(cursor.to_string(), brought, "one spelling each"),
        Err(failure) => assert_eq!(failure.reason(), Reason::BadCursor),
    }
});
