//! Resources a client listens to, in both eras.

use std::time::{Duration, Instant};

use portcullis_proto::Mode;
use serde_json::{Value, json};

use crate::client::{Client, World};

const ROOT: &str = "portcullis://workspace/";
const FILE: &str = "portcullis://workspace/src/main.rs";

impl Client {
    /// The next update: of which URI, and its `_meta`.
    async fn update(&mut self) -> (String, Value) {
        loop {
            let mut message = self.receive().await;
            if message["method"] == "notifications/resources/updated" {
                let uri = message["params"]["uri"].as_str().unwrap().to_owned();
                return (uri, message["params"]["_meta"].take());
            }
        }
    }
}

fn changed(path: &str, change: &str) -> Value {
    json!({"uri": format!("{ROOT}{path}"), "change": change})
}

async fn until_ended(world: &World, count: usize) -> Vec<String> {
    let until = Instant::now() + portcullis_testkit::PATIENCE;
    while world.outcomes().len() < count && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    world.outcomes()
}

#[tokio::test]
async fn a_client_of_the_handshake_subscribes_to_a_directory_and_a_file() {
    let world = World::new(Mode::Allow);
    let mut client = world.connect();
    let hello = client
        .request(
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
        )
        .await;
    assert_eq!(
        hello["result"]["capabilities"]["resources"]["subscribe"],
        true
    );
    client.notify("notifications/initialized", json!({})).await;
    for _ in 0..2 {
        // Twice is once.
        let reply = client
            .request("resources/subscribe", json!({"uri": ROOT}))
            .await;
        assert!(reply.get("result").is_some(), "{reply}");
    }
    std::fs::write(world.path(".env"), "KEY=other-canary").unwrap();
    std::fs::write(world.path("src/new.rs"), "").unwrap();
    let (uri, meta) = client.update().await;
    assert_eq!(uri, ROOT);
    assert_eq!(
        meta["portcullis/changes"],
        json!([changed("src/new.rs", "created")])
    );
    assert!(!meta.to_string().contains("env"), "{meta}");

    client
        .request("resources/unsubscribe", json!({"uri": ROOT}))
        .await;
    assert_eq!(until_ended(&world, 1).await, ["success"]);
    client
        .request("resources/subscribe", json!({"uri": FILE}))
        .await;
    std::fs::write(world.path("src/new.rs"), "1").unwrap();
    std::fs::write(world.path("src/main.rs"), "2").unwrap();
    let (uri, meta) = client.update().await;
    assert_eq!(uri, FILE);
    assert_eq!(
        meta["portcullis/changes"],
        json!([changed("src/main.rs", "modified")])
    );
    // The client goes, and what it listened to ends with it.
    drop(client);
    assert_eq!(until_ended(&world, 2).await, ["success", "success"]);
}

#[tokio::test]
async fn a_client_of_the_newest_era_listens_until_it_cancels() {
    let world = World::new(Mode::Allow);
    let mut client = world.connect().stateless(json!({}));
    let secret = "portcullis://workspace/.env";
    let filter = json!({"notifications": {"resourceSubscriptions": [ROOT, FILE, secret]}});
    let id = client.start("subscriptions/listen", filter).await;
    let mut first = [
        client.update().await,
        client.update().await,
        client.update().await,
    ];
    first.sort_by(|a, b| a.0.cmp(&b.0));
    let uris = first.each_ref().map(|(uri, _)| uri.as_str());
    assert_eq!(uris, [ROOT, secret, FILE]);
    let [(_, whole), (_, refused), (_, one)] = first;
    assert_eq!(
        refused["portcullis/ended"]["reason"],
        "approval_unavailable"
    );
    for begun in [whole, one] {
        assert_eq!(begun["portcullis/begun"], true, "{begun}");
        assert_eq!(begun["portcullis/complete"], true, "{begun}");
    }
    // By one call, which makes one notice.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(world.path("src/main.rs"), mode).unwrap();
    let mut told = vec![client.update().await, client.update().await];
    told.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!((told[0].0.as_str(), told[1].0.as_str()), (ROOT, FILE));
    for (_, meta) in &told {
        assert_eq!(
            meta["portcullis/changes"],
            json!([changed("src/main.rs", "modified")])
        );
        assert_eq!(meta["io.modelcontextprotocol/subscriptionId"], id);
    }
    client
        .notify("notifications/cancelled", json!({"requestId": id}))
        .await;
    let outcomes = until_ended(&world, 3).await;
    assert_eq!(outcomes, ["denied", "success", "success"]);
}

#[tokio::test]
async fn what_cannot_be_watched_is_refused_with_its_reason() {
    let world = World::new(Mode::Allow);
    let mut client = world.connect().handshake(json!({"elicitation": {}})).await;
    for (uri, reason) in [
        ("portcullis://workspace/.env", "approval_unavailable"),
        ("portcullis://workspace/absent", "not_found"),
        ("portcullis://workspace/../state", "escape"),
        ("portcullis://elsewhere/x", "unknown_root"),
        ("file:///etc/passwd", "unknown_root"),
    ] {
        let reply = client
            .request("resources/subscribe", json!({"uri": uri}))
            .await;
        assert_eq!(reply["error"]["data"]["reason"], reason, "{uri}: {reply}");
    }
    assert_eq!(world.outcomes().len(), 5, "each is recorded");
    let off = World::new(Mode::Deny);
    let mut client = off.connect().handshake(json!({})).await;
    let reply = client
        .request("resources/subscribe", json!({"uri": ROOT}))
        .await;
    assert_eq!(
        reply["error"]["data"]["reason"], "denied_by_mode",
        "{reply}"
    );
}

#[tokio::test]
async fn a_client_hears_that_what_it_listened_to_is_gone() {
    let world = World::new(Mode::Allow);
    let mut client = world.connect().handshake(json!({})).await;
    let uri = "portcullis://workspace/src";
    client
        .request("resources/subscribe", json!({"uri": uri}))
        .await;
    std::fs::rename(world.path("src"), world.path("other")).unwrap();
    let (told, meta) = client.update().await;
    assert_eq!(told, uri);
    assert_eq!(meta["portcullis/ended"]["reason"], "not_found", "{meta}");
    // What ended can be begun anew.
    std::fs::create_dir(world.path("src")).unwrap();
    client
        .request("resources/subscribe", json!({"uri": uri}))
        .await;
    std::fs::write(world.path("src/again"), "").unwrap();
    let (_, meta) = client.update().await;
    assert_eq!(
        meta["portcullis/changes"],
        json!([changed("src/again", "created")])
    );
}
