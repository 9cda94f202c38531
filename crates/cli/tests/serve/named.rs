//! What `serve` was given by its flags and its settings, as agents reach it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::sandbox::Sandbox;
use crate::served::{Served, token};
use crate::signer::{Signer, key_set};

#[test]
fn key_files_in_the_directory_served_are_neither_read_nor_changed() {
    let sandbox = Sandbox::new();
    let keys = key_set(&[&Signer::ec("k")]);
    sandbox.file("keys.json", &keys);
    sandbox.file("gateway.key", "0123456789abcdef0123\n");
    let server = Served::start(
        &sandbox,
        &[
            "--write",
            "--oauth-issuer",
            "https://login.example",
            "--oauth-keys",
            "keys.json",
            "--gateway-key-file",
            "gateway.key",
        ],
    );
    let both = token(&sandbox, "fs:read,fs:write");
    for path in ["keys.json", "gateway.key"] {
        let read = server.get(&both, &format!("/file?path={path}")).with(403);
        assert_eq!(read.json()["reason"], "protected_state");
        let write = json!({"path": path, "content": "mine", "mode": "create"});
        let append = json!({"path": path, "content": "mine"});
        let over = json!({"from": "a.txt", "to": path});
        for (route, body) in [
            ("/file/write", write),
            ("/file/append", append),
            ("/file/delete", json!({"path": path})),
            ("/file/move", over),
        ] {
            let told = server.post(&both, route, &body.to_string()).with(403);
            assert_eq!(told.json()["reason"], "protected_state", "{route} {path}");
        }
    }
    assert_eq!(sandbox.text("keys.json"), keys);
    let log = server.end();
    assert!(
        log.contains("the issuer's key file stands inside the root"),
        "{log}"
    );
}

#[test]
fn a_grant_in_the_settings_counts_over_http_until_it_expires() {
    let sandbox = Sandbox::new();
    let root = |id: &str, until: &str| {
        let dir = sandbox.data().join("..").join(id);
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(dir.join("f.txt"), "known").unwrap();
        json!({"kind": "knowledge", "id": id, "path": dir.canonicalize().unwrap(), "grants": [{
            "to": {"type": "user", "id": "admin"},
            "access": ["filesystem:knowledge:read"],
            "expiresAt": until,
        }]})
    };
    let roots = [
        root("past", "2020-01-01T00:00:00Z"),
        root("present", "2999-01-01T00:00:00Z"),
    ];
    sandbox.settings(&json!({ "roots": roots }).to_string());
    let server = Served::start(&sandbox, &["--write"]);
    let both = token(&sandbox, "fs:read,fs:write");
    let told = server.get(&both, "/capabilities").with(200).json();
    let named: Vec<_> = told["workspaces"].as_array().unwrap().iter().collect();
    let of = |root: &str| named.iter().find(|one| one["root"] == root);
    assert!(of("past").is_none(), "{told}");
    let present = of("present").unwrap()["id"].as_str().unwrap();
    let at = format!("/workspaces/{present}");
    server
        .get(&both, &format!("{at}/file?path=f.txt"))
        .with(200);
    let write = json!({"path": "g.txt", "content": "x", "mode": "create"});
    let told = server.post(&both, &format!("{at}/file/write"), &write.to_string());
    assert_eq!(told.with(403).json()["reason"], "no_grant");
    server.end();
}
