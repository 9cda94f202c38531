//! What is done through every surface, and what comes of it.

use serde_json::json;

use super::deeds::{
    append, copy, create, deed, delete, edits, extract, glob, hex, inspect, list, mkdir, pack,
    post, read, relocate, search, spelled, stat, too_much, tree,
};
use super::{Person, Scenario, Setting};
use crate::client::Ask;
use crate::surfaces::Deed;

fn one(name: &'static str, deed: Deed) -> Scenario {
    Scenario {
        name,
        setting: Setting::Allowed,
        person: Person::Nobody,
        deed,
        verdict: "ok",
        lines: &[],
    }
}

impl Scenario {
    fn under(mut self, setting: Setting) -> Self {
        self.setting = setting;
        self
    }

    fn with(mut self, person: Person) -> Self {
        self.person = person;
        self
    }

    fn comes_to(mut self, verdict: &'static str, lines: &'static [&'static str]) -> Self {
        self.verdict = verdict;
        self.lines = lines;
        self
    }
}

/// Every one.
pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = looking();
    all.extend(changing());
    all.extend(leading_out());
    all.extend(asked_about());
    all.extend(ruled());
    all.extend(going_wrong());
    all
}

fn looking() -> Vec<Scenario> {
    vec![
        one("a file is read", read("notes.txt")).comes_to(
            "ok",
            &["read workspace:notes.txt: success - by mode:filesystemRead=allow"],
        ),
        one(
            "some lines of a large file are read",
            deed(
                Ask::get("/file?path=big.txt&limit=10"),
                "read_file",
                json!({"filePath": "big.txt", "maxLines": 10}),
            ),
        )
        .comes_to(
            "ok",
            &["read workspace:big.txt: success - by mode:filesystemRead=allow"],
        ),
        one(
            "some bytes are read",
            deed(
                Ask::get("/file/bytes?path=raw.bin&maxBytes=2"),
                "read_file",
                json!({"filePath": "raw.bin", "byteOffset": 0, "byteLength": 2}),
            ),
        )
        .comes_to(
            "ok",
            &["read workspace:raw.bin: success - by mode:filesystemRead=allow"],
        ),
        one("a directory is listed", list("src")).comes_to(
            "ok",
            &["list workspace:src: success - by mode:filesystemRead=allow"],
        ),
        one("the root is listed", list(".")).comes_to(
            "ok",
            &["list workspace:.: success - by mode:filesystemRead=allow"],
        ),
        one("a name is looked at", stat("notes.txt")).comes_to(
            "ok",
            &["stat workspace:notes.txt: success - by mode:filesystemRead=allow"],
        ),
        one("names are found by a pattern", glob("**/*.rs")).comes_to(
            "ok",
            &["glob workspace:.: success - by mode:filesystemRead=allow"],
        ),
        one("text is searched for", search("main")).comes_to(
            "ok",
            &["search workspace:.: success - by mode:filesystemRead=allow"],
        ),
        one("a tree is shown", tree(".")).comes_to(
            "ok",
            &["tree workspace:.: success - by mode:filesystemRead=allow"],
        ),
        one(
            "an ignored file is read when it is named",
            read("ignored.txt"),
        )
        .comes_to(
            "ok",
            &["read workspace:ignored.txt: success - by mode:filesystemRead=allow"],
        ),
        one(
            "a file in a directory that is ignored is read",
            read("target/made.txt"),
        )
        .comes_to(
            "ok",
            &["read workspace:target/made.txt: success - by mode:filesystemRead=allow"],
        ),
        one("a hard link of ours is read", read("twin.txt")).comes_to(
            "ok",
            &["read workspace:twin.txt: success - by mode:filesystemRead=allow"],
        ),
    ]
}

fn changing() -> Vec<Scenario> {
    vec![
one("a file is created", create("made.txt")).comes_to("ok", &["write workspace:made.txt: success - by mode:filesystemWrite=allow"]),
one("a file is replaced", deed(post("/file/write", json!({"path": "notes.txt", "content": "x", "mode": "replace", "expectedHash": spelled("some notes")})), "write_file", json!({"filePath": "notes.txt", "content": "x", "mode": "replace", "expectedHash": hex("some notes")}))).comes_to("ok", &["write workspace:notes.txt: success - by mode:filesystemWrite=allow"]),
one("a file is edited", deed(post("/file/edit", json!({"path": "notes.txt", "oldText": "some", "newText": "no", "expectedHash": spelled("some notes")})), "edit_file", json!({"filePath": "notes.txt", "oldString": "some", "newString": "no", "expectedHash": hex("some notes")}))).comes_to("ok", &["edit workspace:notes.txt: success - by mode:filesystemWrite=allow"]),
one("several pieces are edited", edits("notes.txt", "some", "no")).comes_to("ok", &["edit workspace:notes.txt: success - by mode:filesystemWrite=allow"]),
one("something is appended", append("notes.txt")).comes_to("ok", &["append workspace:notes.txt: success - by mode:filesystemWrite=allow"]),
one("a directory is made", mkdir("new/deep")).comes_to("ok", &["mkdir workspace:new/deep: success - by mode:filesystemWrite=allow"]),
one("a file is deleted", delete("notes.txt")).comes_to("ok", &["remove workspace:notes.txt: success - by mode:filesystemWrite=allow"]),
one("a directory is deleted", delete("src")).comes_to("permission_denied/approval_pending", &["remove workspace:src: parked approval_pending by protected-below"]),
one("a file is moved", relocate("notes.txt", "moved.txt")).comes_to("ok", &["move workspace:notes.txt to moved.txt: success - by mode:filesystemWrite=allow"]),
one("a file is copied", copy("notes.txt", "copied.txt")).comes_to("ok", &["copy workspace:notes.txt to copied.txt: success - by mode:filesystemRead=allow"]),
one("a directory is packed", pack("src", "src.zip")).comes_to("ok", &["archive workspace:src to src.zip: success - by mode:filesystemWrite=allow"]),
one("an ignored file is written", create("target/new.txt")).comes_to("ok", &["write workspace:target/new.txt: success - by mode:filesystemWrite=allow"]),
    ]
}

fn leading_out() -> Vec<Scenario> {
    vec![
one("dots lead out of a read", read("../outside/secret.txt")).comes_to("path_outside_workspace/escape", &["read \"../outside/secret.txt\": denied escape by lexical"]),
one("dots lead out of a list", list("..")).comes_to("path_outside_workspace/escape", &["list \"..\": denied escape by lexical"]),
one("dots lead out of a write", create("../outside/made.txt")).comes_to("path_outside_workspace/escape", &["write \"../outside/made.txt\": denied escape by lexical"]),
one("dots in the middle lead out", read("src/../../outside/secret.txt")).comes_to("path_outside_workspace/escape", &["read \"src/../../outside/secret.txt\": denied escape by lexical"]),
one("dots lead out of a move", relocate("notes.txt", "../outside/notes.txt")).comes_to("path_outside_workspace/escape", &["move workspace:notes.txt (\"../outside/notes.txt\"): denied escape by lexical"]),
one("dots lead out of what is moved", relocate("../outside/secret.txt", "stolen.txt")).comes_to("path_outside_workspace/escape", &["move \"../outside/secret.txt\": denied escape by lexical"]),
one("dots lead out of what is copied", copy("../outside/secret.txt", "stolen.txt")).comes_to("path_outside_workspace/escape", &["copy \"../outside/secret.txt\": denied escape by lexical"]),
one("an absolute path leads out", read("/etc/hostname")).comes_to("path_outside_workspace/outside_roots", &["read \"/etc/hostname\": denied outside_roots by lexical"]),
one("an absolute path leads out of a write", create("/tmp/made-by-a-test.txt")).comes_to("path_outside_workspace/outside_roots", &["write \"/tmp/made-by-a-test.txt\": denied outside_roots by lexical"]),
one("a link leads out", read("out.txt")).comes_to("symlink_escape/symlink", &["read workspace:out.txt: denied symlink by mode:filesystemRead=allow"]),
one("a link leads out of a write", deed(post("/file/write", json!({"path": "out.txt", "content": "x", "mode": "replace", "expectedHash": spelled("secret")})), "write_file", json!({"filePath": "out.txt", "content": "x", "mode": "replace", "expectedHash": hex("secret")}))).comes_to("symlink_escape/symlink", &["write workspace:out.txt: denied symlink by mode:filesystemWrite=allow"]),
one("a linked directory leads out", read("outdir/secret.txt")).comes_to("symlink_escape/symlink", &["read workspace:outdir/secret.txt: denied symlink by mode:filesystemRead=allow"]),
one("a linked directory leads a write out", create("outdir/made.txt")).comes_to("symlink_escape/symlink", &["write workspace:outdir/made.txt: denied symlink by mode:filesystemWrite=allow"]),
one("a linked directory is listed", list("outdir")).comes_to("symlink_escape/symlink", &["list workspace:outdir: denied symlink by mode:filesystemRead=allow"]),
one("a link inside is not followed", read("inner.txt")).comes_to("symlink_escape/symlink", &["read workspace:inner.txt: denied symlink by mode:filesystemRead=allow"]),
one("a linked directory leads a deletion out", delete("outdir/secret.txt")).comes_to("symlink_escape/symlink", &["remove workspace:outdir/secret.txt: denied symlink by mode:filesystemWrite=allow"]),
one("a glob leads out", glob("../**")).comes_to("parse_error/bad_glob", &["glob workspace:.: failed bad_glob by mode:filesystemRead=allow"]),
one("what is appended to a file with two names is appended to one of them", append("twin.txt")).comes_to("ok", &["append workspace:twin.txt: success - by mode:filesystemWrite=allow"]),
one("a pipe is not read", read("pipe")).comes_to("permission_denied/special_file", &["read workspace:pipe: denied special_file by mode:filesystemRead=allow"]),
one("our own staging name is refused", create(".portcullis/x")).comes_to("permission_denied/protected_state", &["write workspace:.portcullis/x: denied protected_state by own-state"]),
    ]
}

fn asked_about() -> Vec<Scenario> {
    vec![
one("a secret is asked about, and nobody is there", read(".env")).comes_to("permission_denied/approval_pending", &["read workspace:.env: parked approval_pending by class:secret"]),
one("a secret is asked about, and the answer is yes", read(".env")).with(Person::Yes).comes_to("ok", &["read workspace:.env: success - by class:secret"]),
one("a secret is asked about, and the answer is no", read(".env")).with(Person::No).comes_to("permission_denied/approval_denied", &["read workspace:.env: denied approval_denied by class:secret"]),
one("a secret is asked about, and nobody answers in time", read(".env")).with(Person::Silent).comes_to("permission_denied/approval_timeout", &["read workspace:.env: denied approval_timeout by class:secret"]),
one("a secret is asked about, and answered later", read(".env")).with(Person::Later).comes_to("ok", &["read workspace:.env: parked approval_pending by class:secret", "read workspace:.env: success - by class:secret"]),
one("an answer is brought twice", read(".env")).with(Person::LaterTwice).comes_to("permission_denied/answer_used", &["read workspace:.env: parked approval_pending by class:secret", "read workspace:.env: success - by class:secret", "read \"\": denied answer_used by lexical"]),
one("a look at a secret is asked about", stat(".env")).with(Person::No).comes_to("permission_denied/approval_denied", &["stat workspace:.env: denied approval_denied by class:secret"]),
one("what git runs is asked about", append(".git/hooks/pre-commit")).with(Person::No).comes_to("permission_denied/approval_denied", &["append workspace:.git/hooks/pre-commit: denied approval_denied by class:auto-exec"]),
one("what git runs is written after a yes", append(".git/hooks/pre-commit")).with(Person::Yes).comes_to("ok", &["append workspace:.git/hooks/pre-commit: success - by class:auto-exec"]),
one("an editor's task is asked about", append(".vscode/tasks.json")).with(Person::Silent).comes_to("permission_denied/approval_timeout", &["append workspace:.vscode/tasks.json: denied approval_timeout by class:auto-exec"]),
one("what runs is moved into place", relocate("notes.txt", ".envrc")).with(Person::No).comes_to("permission_denied/approval_denied", &["move workspace:notes.txt to .envrc: denied approval_denied by class:secret"]),
one("a write is asked about, and the answer is yes", create("made.txt")).under(Setting::Asked).with(Person::Yes).comes_to("ok", &["write workspace:made.txt: success - by mode:filesystemWrite=ask"]),
one("a write is asked about, and the answer is no", create("made.txt")).under(Setting::Asked).with(Person::No).comes_to("permission_denied/approval_denied", &["write workspace:made.txt: denied approval_denied by mode:filesystemWrite=ask"]),
one("a write is asked about, and nobody answers in time", create("made.txt")).under(Setting::Asked).with(Person::Silent).comes_to("permission_denied/approval_timeout", &["write workspace:made.txt: denied approval_timeout by mode:filesystemWrite=ask"]),
one("a deletion is asked about, and the answer is no", delete("notes.txt")).under(Setting::Asked).with(Person::No).comes_to("permission_denied/approval_denied", &["remove workspace:notes.txt: denied approval_denied by mode:filesystemWrite=ask"]),
one("a move is asked about, and answered later", relocate("notes.txt", "moved.txt")).under(Setting::Asked).with(Person::Later).comes_to("ok", &["move workspace:notes.txt to moved.txt: parked approval_pending by mode:filesystemWrite=ask", "move workspace:notes.txt to moved.txt: success - by mode:filesystemWrite=ask"]),
one("a read is asked about, and the answer is yes", read("notes.txt")).under(Setting::ReadsAsked).with(Person::Yes).comes_to("ok", &["read workspace:notes.txt: success - by mode:filesystemRead=ask"]),
one("a list is asked about, and the answer is no", list("src")).under(Setting::ReadsAsked).with(Person::No).comes_to("permission_denied/approval_denied", &["list workspace:src: denied approval_denied by mode:filesystemRead=ask"]),
    ]
}

fn ruled() -> Vec<Scenario> {
    vec![
        one("a write while changes are off", create("made.txt"))
            .under(Setting::ChangesOff)
            .comes_to(
                "permission_denied/denied_by_mode",
                &["write \"\": denied denied_by_mode by lexical"],
            ),
        one("a deletion while changes are off", delete("notes.txt"))
            .under(Setting::ChangesOff)
            .comes_to(
                "permission_denied/denied_by_mode",
                &["remove \"\": denied denied_by_mode by lexical"],
            ),
        one("a read while changes are off", read("notes.txt"))
            .under(Setting::ChangesOff)
            .comes_to(
                "ok",
                &["read workspace:notes.txt: success - by mode:filesystemRead=allow"],
            ),
        one("a read while all is off", read("notes.txt"))
            .under(Setting::Off)
            .comes_to(
                "permission_denied/denied_by_mode",
                &["read \"\": denied denied_by_mode by lexical"],
            ),
        one("a search while all is off", search("main"))
            .under(Setting::Off)
            .comes_to(
                "permission_denied/denied_by_mode",
                &["search \"\": denied denied_by_mode by lexical"],
            ),
        one("a read where nobody trusts", read("notes.txt"))
            .under(Setting::Untrusted)
            .comes_to(
                "ok",
                &["read workspace:notes.txt: success - by mode:filesystemRead=allow"],
            ),
        one("a write where nobody trusts", create("made.txt"))
            .under(Setting::Untrusted)
            .comes_to(
                "untrusted_workspace/untrusted",
                &["write workspace:made.txt: denied untrusted by trust"],
            ),
        one("a deletion where nobody trusts", delete("notes.txt"))
            .under(Setting::Untrusted)
            .comes_to(
                "untrusted_workspace/untrusted",
                &["remove workspace:notes.txt: denied untrusted by trust"],
            ),
        one("a rule denies a read", read("src/main.rs"))
            .under(Setting::RuleDenies)
            .comes_to(
                "permission_denied/denied_by_rule",
                &["read workspace:src/main.rs: denied denied_by_rule by a rule"],
            ),
        one("a rule denies a write", create("src/made.rs"))
            .under(Setting::RuleDenies)
            .comes_to(
                "permission_denied/denied_by_rule",
                &["write workspace:src/made.rs: denied denied_by_rule by a rule"],
            ),
        one(
            "a rule denies a move from there",
            relocate("src/main.rs", "main.rs"),
        )
        .under(Setting::RuleDenies)
        .comes_to(
            "permission_denied/denied_by_rule",
            &["move workspace:src/main.rs to main.rs: denied denied_by_rule by a rule"],
        ),
        one("a rule denies a directory around it", delete("src"))
            .under(Setting::RuleDenies)
            .comes_to(
                "permission_denied/denied_by_rule",
                &["remove workspace:src: denied denied_by_rule by mode:filesystemWrite=allow"],
            ),
        one("what a rule denies is left out of a search", search("main"))
            .under(Setting::RuleDenies)
            .comes_to(
                "ok",
                &["search workspace:.: success - by mode:filesystemRead=allow"],
            ),
        one("a rule allows a write", append("src/main.rs"))
            .under(Setting::RuleAllows)
            .comes_to("ok", &["append workspace:src/main.rs: success - by a rule"]),
        one("a rule allows nothing beside it", append("notes.txt"))
            .under(Setting::RuleAllows)
            .with(Person::No)
            .comes_to(
                "permission_denied/approval_denied",
                &["append workspace:notes.txt: denied approval_denied by mode:filesystemWrite=ask"],
            ),
        one("a rule allows nothing that runs", append("src/.envrc"))
            .under(Setting::RuleAllows)
            .with(Person::No)
            .comes_to(
                "permission_denied/approval_denied",
                &["append workspace:src/.envrc: denied approval_denied by class:secret"],
            ),
        one("a root serves only what it says", read("notes.txt"))
            .under(Setting::Globs)
            .comes_to(
                "permission_denied/denied_by_rule",
                &["read workspace:notes.txt: denied denied_by_rule by root:allowedGlobs"],
            ),
        one("a root serves what it says", read("src/main.rs"))
            .under(Setting::Globs)
            .comes_to(
                "ok",
                &["read workspace:src/main.rs: success - by mode:filesystemRead=allow"],
            ),
        one("a root denies some of it", read("src/a.key"))
            .under(Setting::Globs)
            .comes_to(
                "permission_denied/denied_by_rule",
                &["read workspace:src/a.key: denied denied_by_rule by root:deniedGlobs"],
            ),
    ]
}

fn going_wrong() -> Vec<Scenario> {
    vec![
one("a file is not there", read("nothing.txt")).comes_to("path_not_found/not_found", &["read workspace:nothing.txt: failed not_found by mode:filesystemRead=allow"]),
one("a directory is not there", list("nothing")).comes_to("path_not_found/not_found", &["list workspace:nothing: failed not_found by mode:filesystemRead=allow"]),
one("nothing is there to delete", delete("nothing.txt")).comes_to("path_not_found/not_found", &["remove workspace:nothing.txt: failed not_found by mode:filesystemWrite=allow"]),
one("nothing is there to move", relocate("nothing.txt", "moved.txt")).comes_to("path_not_found/not_found", &["move workspace:nothing.txt to moved.txt: failed not_found by mode:filesystemWrite=allow"]),
one("a file is in the way", read("notes.txt/below")).comes_to("path_not_found/not_found", &["read workspace:notes.txt/below: failed not_found by mode:filesystemRead=allow"]),
one("a directory is no file", read("src")).comes_to("parse_error/is_directory", &["read workspace:src: failed is_directory by mode:filesystemRead=allow"]),
one("a file is no directory", list("notes.txt")).comes_to("parse_error/not_directory", &["list workspace:notes.txt: failed not_directory by mode:filesystemRead=allow"]),
one("something is there already", create("notes.txt")).comes_to("file_already_exists/already_exists", &["write workspace:notes.txt: failed already_exists by mode:filesystemWrite=allow"]),
one("it is another version", deed(post("/file/write", json!({"path": "notes.txt", "content": "x", "mode": "replace", "expectedHash": spelled("other")})), "write_file", json!({"filePath": "notes.txt", "content": "x", "mode": "replace", "expectedHash": hex("other")}))).comes_to("hash_mismatch/version_mismatch", &["write workspace:notes.txt: failed version_mismatch by mode:filesystemWrite=allow"]),
one("an edit of another version", deed(post("/file/edit", json!({"path": "notes.txt", "oldText": "some", "newText": "no", "expectedHash": spelled("other")})), "edit_file", json!({"filePath": "notes.txt", "oldString": "some", "newString": "no", "expectedHash": hex("other")}))).comes_to("hash_mismatch/version_mismatch", &["edit workspace:notes.txt: failed version_mismatch by mode:filesystemWrite=allow"]),
one("the text to edit is not there", edits("notes.txt", "none", "no")).comes_to("text_not_found/text_not_found", &["edit workspace:notes.txt: failed text_not_found by mode:filesystemWrite=allow"]),
one("the text to edit is there twice", edits("notes.txt", "e", "no")).comes_to("ambiguous_text_match/ambiguous_text", &["edit workspace:notes.txt: failed ambiguous_text by mode:filesystemWrite=allow"]),
one("a file is no text", read("raw.bin")).comes_to("binary_file/binary", &["read workspace:raw.bin: failed binary by mode:filesystemRead=allow"]),
one("a file that is no text is not edited", edits("raw.bin", "a", "b")).comes_to("binary_file/binary", &["edit workspace:raw.bin: failed binary by mode:filesystemWrite=allow"]),
one("a file is in another case", read("NOTES.txt")).comes_to("path_not_found/not_found", &["read workspace:NOTES.txt: failed not_found by mode:filesystemRead=allow"]),
one("a write in another case is another file", create("Notes.txt")).comes_to("ok", &["write workspace:Notes.txt: success - by mode:filesystemWrite=allow"]),
one("more than a write may bring", deed(post("/file/write", json!({"path": "made.txt", "content": too_much(), "mode": "create"})), "write_file", json!({"filePath": "made.txt", "content": too_much(), "mode": "create"}))).comes_to("file_too_large/too_large", &["write \"made.txt\": failed too_large by lexical"]),
one("more than may be appended", deed(post("/file/append", json!({"path": "made.txt", "content": too_much()})), "append_file", json!({"filePath": "made.txt", "content": too_much()}))).comes_to("file_too_large/too_large", &["append \"made.txt\": failed too_large by lexical"]),
one("a name holds a NUL", read("a\0b")).comes_to("parse_error/bad_name", &["read \"a\\0b\": denied bad_name by lexical"]),
one("a written name holds a NUL", create("a\0b")).comes_to("parse_error/bad_name", &["write \"a\\0b\": denied bad_name by lexical"]),
one("a name is longer than a name may be", create(&"n".repeat(300))).comes_to("io_error/name_too_long", &["write \"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn\": failed name_too_long by lexical"]),
one("a name no other system takes", create("CON")).comes_to("parse_error/bad_arguments", &["write workspace:CON: failed bad_arguments by mode:filesystemWrite=allow"]),
one("a name with a colon", create("a:b")).comes_to("parse_error/bad_arguments", &["write workspace:a:b: failed bad_arguments by mode:filesystemWrite=allow"]),
one("a name that ends in a dot", create("a.")).comes_to("parse_error/bad_arguments", &["write workspace:a.: failed bad_arguments by mode:filesystemWrite=allow"]),
one("an encoding nobody knows", deed(post("/file/write", json!({"path": "made.txt", "content": "x", "mode": "create", "encoding": "klingon"})), "write_file", json!({"filePath": "made.txt", "content": "x", "mode": "create", "encoding": "klingon"}))).comes_to("parse_error/bad_encoding", &["write \"made.txt\": failed bad_encoding by lexical"]),
one("a glob that is none", glob("[")).comes_to("parse_error/bad_glob", &["glob workspace:.: failed bad_glob by mode:filesystemRead=allow"]),
one("an expression that is none", search("(")).comes_to("parse_error/bad_arguments", &["search workspace:.: failed bad_arguments by mode:filesystemRead=allow"]),
one("a cursor that is none", deed(Ask::get("/list?path=src&limit=1&cursor=nonsense"), "list_files", json!({"dirPath": "src", "maxResults": 1, "cursor": "nonsense"}))).comes_to("parse_error/bad_cursor", &["list workspace:src: failed bad_cursor by mode:filesystemRead=allow"]),
one("what is no archive can be inspected", inspect("notes.txt")).comes_to("ok", &["inspect workspace:notes.txt: success - by mode:filesystemRead=allow"]),
one("an archive that is not there", inspect("nothing.zip")).comes_to("path_not_found/not_found", &["inspect workspace:nothing.zip: failed not_found by mode:filesystemRead=allow"]),
one("a file that is no archive is not unpacked", extract("notes.txt", "out")).comes_to("parse_error/unsupported_archive", &["extract workspace:out: failed unsupported_archive by mode:filesystemWrite=allow"]),
one("no path at all", deed(Ask::get("/file"), "read_file", json!({}))).comes_to("parse_error/bad_arguments", &["read \"\": failed bad_arguments by lexical"]),
one("an empty path", create("")).comes_to("parse_error/bad_arguments", &["write \"\": failed bad_arguments by lexical"]),
one("a path that is a number", deed(post("/file/delete", json!({"path": 7})), "delete", json!({"path": 7}))).comes_to("parse_error/bad_arguments", &["remove \"\": failed bad_arguments by lexical"]),
one("a word the route does not know", deed(post("/file/delete", json!({"path": "notes.txt", "force": true})), "delete", json!({"path": "notes.txt", "force": true}))).comes_to("parse_error/bad_arguments", &["remove \"\": failed bad_arguments by lexical"]),
one("nothing to move to", deed(post("/file/move", json!({"from": "notes.txt"})), "move", json!({"sourcePath": "notes.txt"}))).comes_to("parse_error/bad_arguments", &["move \"\": failed bad_arguments by lexical"]),
one("a directory onto itself", relocate("src", "src/inner")).comes_to("parse_error/bad_arguments", &["move workspace:src to src/inner: failed bad_arguments by mode:filesystemWrite=allow"]),
one("the root is deleted", delete(".")).comes_to("permission_denied/protected_state", &["remove workspace:.: denied protected_state by mode:filesystemWrite=allow"]),
    ]
}
