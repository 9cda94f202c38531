//! Deeds as each wire spells them, and what they are done to.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use portcullis_files::sha256;
use portcullis_testkit::Scratch;
use serde_json::{Value, json};

use crate::client::Ask;
use crate::surfaces::Deed;

/// What the scenarios are played in; `World` has put some files there.
pub(super) fn plant(scratch: &Scratch) {
    scratch.add(
        "
        target/made.txt = made
        src/lib.rs = // lib
        src/a.key = key
        ignored.txt = ignored
        .env = KEY=1 [600]
        .git/hooks/
        .vscode/
        pipe |
        twin.txt = twins
        twin-too.txt <=> twin.txt
        inner.txt -> notes.txt
        ../outside/secret.txt = secret
        out.txt -> ../outside/secret.txt
        outdir -> ../outside
        ",
    );
    scratch.file(".gitignore", "target/\nignored.txt\n");
    scratch.file("big.txt", "a line\n".repeat(60_000));
    scratch.file("raw.bin", [0, 159, 146, 150]);
}

pub(super) fn deed(rest: Ask, tool: &'static str, arguments: Value) -> Deed {
    Deed {
        rest,
        tool,
        arguments,
    }
}

/// A request of a query: `{}` in it is `text`, as a query spells it.
fn get(target: &str, text: &str) -> Ask {
    let spelled = utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    Ask::get(&target.replace("{}", &spelled))
}

pub(super) fn post(target: &str, body: Value) -> Ask {
    Ask::post(target, &body)
}

/// More than one write may bring.
pub(super) fn too_much() -> String {
    "x".repeat(5 * 1024 * 1024 + 1)
}

pub(super) fn hex(content: &str) -> String {
    sha256(content.as_bytes()).hex()
}

/// A hash, as the workspace routes spell it.
pub(super) fn spelled(content: &str) -> String {
    format!("sha256:{}", hex(content))
}

pub(super) fn read(path: &str) -> Deed {
    deed(
        get("/file?path={}", path),
        "read_file",
        json!({"filePath": path}),
    )
}

pub(super) fn stat(path: &str) -> Deed {
    deed(get("/stat?path={}", path), "stat", json!({"path": path}))
}

pub(super) fn list(path: &str) -> Deed {
    deed(
        get("/list?limit=100&path={}", path),
        "list_files",
        json!({"dirPath": path}),
    )
}

pub(super) fn glob(pattern: &str) -> Deed {
    deed(
        get("/glob?pattern={}", pattern),
        "glob",
        json!({"pattern": pattern}),
    )
}

pub(super) fn search(query: &str) -> Deed {
    deed(
        get("/search?query={}", query),
        "search_files",
        json!({"query": query}),
    )
}

pub(super) fn tree(path: &str) -> Deed {
    deed(
        get("/tree?path={}", path),
        "get_file_tree",
        json!({"dirPath": path}),
    )
}

pub(super) fn inspect(path: &str) -> Deed {
    deed(
        get("/archive?path={}", path),
        "inspect_archive",
        json!({"archivePath": path}),
    )
}

pub(super) fn create(path: &str) -> Deed {
    deed(
        post(
            "/file/write",
            json!({"path": path, "content": "x", "mode": "create"}),
        ),
        "write_file",
        json!({"filePath": path, "content": "x", "mode": "create"}),
    )
}

pub(super) fn append(path: &str) -> Deed {
    deed(
        post("/file/append", json!({"path": path, "content": "x"})),
        "append_file",
        json!({"filePath": path, "content": "x"}),
    )
}

pub(super) fn edits(path: &str, old: &str, new: &str) -> Deed {
    deed(
        post(
            "/file/edits",
            json!({"path": path, "edits": [{"oldText": old, "newText": new}]}),
        ),
        "edit_file",
        json!({"filePath": path, "edits": [{"oldString": old, "newString": new}]}),
    )
}

pub(super) fn delete(path: &str) -> Deed {
    deed(
        post("/file/delete", json!({"path": path})),
        "delete",
        json!({"path": path}),
    )
}

pub(super) fn mkdir(path: &str) -> Deed {
    deed(
        post("/directory", json!({"path": path})),
        "create_directory",
        json!({"dirPath": path}),
    )
}

pub(super) fn relocate(from: &str, to: &str) -> Deed {
    let arguments = json!({"sourcePath": from, "destinationPath": to});
    deed(
        post("/file/move", json!({"from": from, "to": to})),
        "move",
        arguments,
    )
}

pub(super) fn copy(from: &str, to: &str) -> Deed {
    let arguments = json!({"sourcePath": from, "destinationPath": to});
    deed(
        post("/file/copy", json!({"from": from, "to": to})),
        "copy_file",
        arguments,
    )
}

pub(super) fn extract(from: &str, to: &str) -> Deed {
    let arguments = json!({"archivePath": from, "destinationPath": to});
    deed(
        post("/archive/extract", json!({"from": from, "to": to})),
        "extract_archive",
        arguments,
    )
}

pub(super) fn pack(from: &str, to: &str) -> Deed {
    let arguments = json!({"dirPath": from, "archivePath": to});
    deed(
        post("/archive/create", json!({"from": from, "to": to})),
        "create_archive",
        arguments,
    )
}
