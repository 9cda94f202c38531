//! The hammer on ourselves, in a round short enough for every run.

use std::process::Command;

#[test]
fn the_hammer_finds_no_escape_in_a_short_round() {
    let out = Command::new(env!("CARGO_BIN_EXE_portcullis"))
        .args(["hammer", "--ops", "6000", "--seconds", "120"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&out.stderr)
    );
    assert!(said.contains("PASS: no escape"), "{said}");
}
