//! Rules as people write them: they load, or the error has a place inside the file.
//!
//! Run: `cargo +nightly fuzz run settings_rules` in the top directory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use portcullis_policy::{RuleSet, parse_rules};
use serde_json::value::RawValue;

fuzz_target!(|text: &str| {
    let Ok(section) = serde_json::from_str::<&RawValue>(text) else {
        return;
    };
    match parse_rules("settings.json", text, section) {
        Ok(rules) => drop(RuleSet::compile(rules).expect("what loads compiles")),
        Err(error) => {
            assert!(error.line >= 1 && error.line <= text.lines().count().max(1) + 1);
            assert!(error.column >= 1 && error.column <= text.len() + 1);
        }
    }
});
