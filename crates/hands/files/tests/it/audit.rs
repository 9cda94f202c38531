//! Every attempt ends in exactly one line, with the outcome it had.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use portcullis_files::ByteWindow;
use portcullis_gate::{Hook, HookCall, HookSay};
use portcullis_proto::{Outcome, Reason, Verb};
use portcullis_testkit::{Scratch, World, agent};

use crate::attempts::{Reading, attempt, block_on, glob_all, text_all, tree_all, workspace};

fn verb(how: Reading) -> Verb {
    match how {
        Reading::Bytes | Reading::Text | Reading::Json => Verb::Read,
        Reading::List => Verb::List,
        Reading::Stat => Verb::Stat,
        Reading::Glob => Verb::Glob,
        Reading::Tree => Verb::Tree,
        Reading::Search => Verb::Search,
    }
}

#[test]
fn each_operation_leaves_one_line_with_its_outcome() {
    let world = workspace("f.json = {}\n d/x = y\n l -> f.json\n .env = x");
    for how in Reading::ALL {
        let good = if Reading::OF_DIRECTORIES.contains(&how) {
            "d"
        } else {
            "f.json"
        };
        for (path, outcome, reason) in [
            (good, Outcome::Success, None),
            ("absent", Outcome::Failed, Some(Reason::NotFound)),
            ("l", Outcome::Denied, Some(Reason::Symlink)),
            ("../x", Outcome::Denied, Some(Reason::Escape)),
            (".env", Outcome::Denied, Some(Reason::ApprovalUnavailable)),
        ] {
            world.lines.take();
            let result = block_on(attempt(&world.fs(), how, path));
            assert_eq!(result.is_ok(), outcome == Outcome::Success);
            let lines = world.lines.all();
            assert_eq!(lines.len(), 1, "{how:?} of {path}: {lines:?}");
            assert_eq!(
                (lines[0].verb, lines[0].outcome, lines[0].reason),
                (verb(how), outcome, reason),
                "{how:?} of {path}"
            );
        }
    }
}

#[test]
fn r006_a_file_that_is_no_json_is_a_failure_in_the_audit_too() {
    let world = workspace("bad.json = {");
    drop(block_on(world.fs().read_json("bad.json")));
    let line = world.lines.last();
    assert_eq!(
        (line.outcome, line.reason),
        (Outcome::Failed, Some(Reason::BadJson))
    );
    assert_eq!(world.lines.one_each(), 1);
}

#[test]
fn what_is_refused_on_its_words_is_in_the_audit() {
    let world = workspace("");
    let long = "x".repeat(5000);
    for path in ["../x", "/etc/passwd", "a\0b", long.as_str()] {
        world.lines.take();
        drop(block_on(attempt(&world.fs(), Reading::Bytes, path)));
        let line = world.lines.last();
        assert_eq!(
            line.outcome,
            if path == long {
                Outcome::Failed
            } else {
                Outcome::Denied
            }
        );
        let alleged = line.alleged.unwrap();
        assert!(path.starts_with(&alleged) && alleged.len() <= 512);
    }
}

#[test]
fn a_hostile_name_cannot_forge_a_line() {
    let world = workspace("");
    for path in [
        "a\n{\"outcome\":\"success\"}",
        "\u{1b}[2J",
        "\u{202e}x",
        "\"}\n{",
    ] {
        drop(block_on(attempt(&world.fs(), Reading::Bytes, path)));
        let json = world.lines.last().json;
        assert!(!json.contains('\n') && !json.contains('\u{1b}'), "{json}");
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_ne!(value["outcome"], "success");
    }
}

/// Polls `future` so often and drops it; says whether it had ended.
fn poll_and_drop<T>(future: impl Future<Output = T>, times: usize) -> bool {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    (0..times).any(|_| matches!(future.as_mut().poll(&mut context), Poll::Ready(_)))
}

#[test]
fn a_cancelled_call_has_exactly_one_closing_line() {
    let scratch = Scratch::of("d/x = y");
    scratch.file("large.json", format!("[\"{}\"]", "1,".repeat(1_000_000)));
    let world = World::workspace().over(scratch);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let mut tried = 0;
    for times in 0..3 {
        let _inside = runtime.enter();
        for how in Reading::ALL {
            let fs = world.fs();
            let path = if Reading::OF_DIRECTORIES.contains(&how) {
                "d"
            } else {
                "large.json"
            };
            // Never polled, nothing began; polled once, the act may be under way
            // on another thread when the caller goes away.
            poll_and_drop(attempt(&fs, how, path), times);
            tried += usize::from(times > 0);
        }
    }
    // Ending the runtime waits for the acts under way.
    drop(runtime);
    assert_eq!(world.lines.one_each(), tried);
    for line in world.lines.closing() {
        assert!(
            matches!(line.outcome, Outcome::Success | Outcome::Abandoned),
            "{line:?}"
        );
    }
}

/// Never answers.
struct Silent;

impl Hook for Silent {
    fn id(&self) -> &'static str {
        "silent"
    }

    fn before<'a>(
        &'a self,
        _call: &'a HookCall,
    ) -> std::pin::Pin<Box<dyn Future<Output = HookSay> + Send + 'a>> {
        Box::pin(std::future::pending())
    }
}

#[test]
fn a_call_cancelled_while_a_hook_thinks_is_abandoned_in_one_line() {
    let world = World::workspace()
        .hook(Silent)
        .over(Scratch::of("f = x\n d/y"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    for how in Reading::ALL {
        let fs = world.fs();
        let path = if Reading::OF_DIRECTORIES.contains(&how) {
            "d"
        } else {
            "f"
        };
        assert!(!poll_and_drop(attempt(&fs, how, path), 2));
        assert_eq!(world.lines.last().outcome, Outcome::Abandoned);
    }
    assert_eq!(world.lines.one_each(), Reading::ALL.len());
}

#[test]
fn a_panic_has_exactly_one_closing_line() {
    let world = workspace("d/x = y\n e/z = y");
    // The progress of a walk is told by a caller's closure, and this one panics.
    let caller = agent().reporting(Arc::new(|_| panic!("a caller's own defect")));
    let result = block_on(world.fs_for(&caller).glob(".", glob_all()));
    assert_eq!(result.unwrap_err().reason(), Reason::Bug);
    assert_eq!(world.lines.one_each(), 1);
    assert_eq!(world.lines.last().outcome, Outcome::Abandoned);
}

#[test]
fn a_ledger_that_cannot_write_returns_nothing() {
    for how in Reading::ALL {
        let world = workspace("f.json = {}\n d/x = y");
        world.lines.break_down(true);
        let path = if Reading::OF_DIRECTORIES.contains(&how) {
            "d"
        } else {
            "f.json"
        };
        let failure = block_on(attempt(&world.fs(), how, path)).unwrap_err();
        assert_eq!(failure.reason(), Reason::AuditUnavailable, "{how:?}");
        assert!(world.gate.is_sealed());
        world.lines.break_down(false);
        let failure = block_on(attempt(&world.fs(), how, path)).unwrap_err();
        assert_eq!(failure.reason(), Reason::AuditUnavailable, "sealed");
    }
}

#[test]
fn a_line_counts_what_was_returned() {
    let world = workspace("f = 0123456789\n d/a\n d/b\n d/.env");
    let fs = world.fs();
    block_on(fs.read_bytes("f", ByteWindow::Part { offset: 2, max: 3 })).unwrap();
    assert_eq!(world.lines.last().bytes, Some(3));
    block_on(fs.read_text("f", text_all())).unwrap();
    assert_eq!(world.lines.last().bytes, Some(10));
    block_on(fs.tree("d", tree_all())).unwrap();
    let counts = world.lines.last().counts.unwrap();
    assert_eq!((counts.entries, counts.secret), (2, 1));
}
