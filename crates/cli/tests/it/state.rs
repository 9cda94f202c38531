//! Trust, the doctor and the demonstration.

use std::fs;
use std::os::unix::fs::symlink;
use std::thread;

use portcullis_testkit::{Answer, answer_openat2_with};

use crate::sandbox::Sandbox;

#[test]
fn trust_is_added_listed_and_taken_back() {
    let sandbox = Sandbox::new();
    sandbox
        .run(&["trust", "list"])
        .with(0)
        .out_has("No directory is trusted");
    sandbox
        .run(&["trust", "add", "."])
        .with(0)
        .out_has("✓ trusted");
    sandbox.run(&["trust", "list"]).with(0).out_has("✓ holds");
    // Another directory under the same name is not the one that was trusted.
    fs::rename(sandbox.dir(), sandbox.data().join("moved")).unwrap();
    fs::create_dir(sandbox.dir()).unwrap();
    sandbox
        .run(&["trust", "list"])
        .with(0)
        .out_has("✗ another directory");
    sandbox.run(&["trust", "remove", "."]).with(0);
    sandbox
        .run(&["trust", "remove", "."])
        .with(1)
        .err_has("was not trusted");
    sandbox.run(&["trust", "add", "nowhere"]).with(1);
}

#[test]
fn the_doctor_finds_a_sound_machine_ready() {
    let sandbox = Sandbox::new();
    sandbox
        .run(&["doctor"])
        .with(0)
        .out_has("Linux")
        .out_has("openat2")
        .out_has("✓ ready");
}

#[test]
fn behind_a_filter_nothing_is_served_unless_the_operator_names_the_walk() {
    // The filter holds for one thread, and for what it starts.
    thread::spawn(|| {
        answer_openat2_with(Answer::Eperm);
        let sandbox = Sandbox::new();
        sandbox
            .run(&["doctor"])
            .with(1)
            .out_has("openat2 is forbidden by a filter")
            .out_has("--resolver best-effort");
        sandbox
            .run(&["mcp", "--dir", "."])
            .with(1)
            .err_has("forbids openat2")
            .err_has("portcullis doctor");
        sandbox.run(&["trust", "add", "."]).with(0);
        sandbox
            .run(&["mcp", "--dir", ".", "--resolver", "best-effort"])
            .err_has("best_effort");
    })
    .join()
    .unwrap();
}

#[test]
fn the_doctor_names_what_is_missing() {
    let sandbox = Sandbox::new();
    sandbox.settings("{\"hooks\": [{\"id\": \"gone\", \"command\": [\"/nowhere/hook\"]}]}");
    sandbox
        .run(&["doctor"])
        .with(1)
        .out_has("gone does not answer")
        .out_has("fix:");
    sandbox.settings("{nonsense");
    sandbox
        .run(&["doctor"])
        .with(1)
        .out_has("settings.json:1:2")
        .out_has("✗ not ready");
    sandbox.settings("{}");
    sandbox
        .run(&["doctor", "--dir", "nowhere"])
        .with(1)
        .out_has("✗ missing");
    fs::write(sandbox.data().join("state.db"), "not a database").unwrap();
    Sandbox::mode(&sandbox.data().join("state.db"), 0o600);
    sandbox.run(&["doctor"]).with(1).out_has("state database");
}

#[test]
fn the_demonstration_fits_a_screen_and_shows_each_refusal() {
    let sandbox = Sandbox::new();
    symlink("/etc/hostname", sandbox.dir().join("way-out")).unwrap();
    let came = sandbox
        .run(&["demo"])
        .with(0)
        .out_has("✓ done     list_files .")
        .out_has("read_file a.txt")
        .out_has("../../etc/passwd")
        .out_has("way-out")
        .out_has(".env")
        .out_has("✗ denied")
        .out_has("portcullis mcp --dir .");
    assert!(came.out.lines().count() <= 40, "{}", came.out);
    sandbox
        .run(&["demo", "--dir", "nowhere"])
        .with(1)
        .err_has("hint:");
}
