//! Files as resources.

use portcullis_proto::Mode;
use serde_json::json;

use crate::client::World;

#[tokio::test]
async fn files_are_listed_and_read_as_resources() {
    let world = World::new(Mode::Allow);
    let mut client = world.connect().handshake(json!({})).await;
    let listed = client.request("resources/list", json!({})).await;
    let uris: Vec<&str> = listed["result"]["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["uri"].as_str().unwrap())
        .collect();
    assert_eq!(
        uris,
        [
            "portcullis://workspace/raw.bin",
            "portcullis://workspace/src"
        ],
        "the secret is not named"
    );
    let templates = client.request("resources/templates/list", json!({})).await;
    assert_eq!(
        templates["result"]["resourceTemplates"][0]["uriTemplate"],
        "portcullis://{root}/{+path}"
    );
    let text = client
        .request(
            "resources/read",
            json!({"uri": "portcullis://workspace/src/main.rs"}),
        )
        .await;
    assert_eq!(
        text["result"]["contents"][0]["text"], "fn main() {}\n",
        "{text}"
    );
    let bytes = client
        .request(
            "resources/read",
            json!({"uri": "portcullis://workspace/raw.bin"}),
        )
        .await;
    assert_eq!(
        bytes["result"]["contents"][0]["blob"], "AJ+Slg==",
        "{bytes}"
    );
}

#[tokio::test]
async fn a_uri_that_leads_out_is_refused_and_recorded() {
    let world = World::new(Mode::Allow);
    let mut client = world.connect().handshake(json!({})).await;
    for uri in [
        "portcullis://workspace/../state/x",
        "portcullis://workspace/%2e%2e/state/x",
        "portcullis://workspace//etc/passwd",
        "portcullis://workspace/~/x",
        "portcullis://nope/x",
        "file:///etc/passwd",
        "portcullis://workspace/.env",
        "portcullis://workspace/%00",
    ] {
        let reply = client.request("resources/read", json!({"uri": uri})).await;
        assert!(
            reply["error"]["data"]["reason"].is_string(),
            "{uri}: {reply}"
        );
        assert!(!reply.to_string().contains("canary"), "{uri}: {reply}");
    }
    assert_eq!(world.outcomes().len(), 8);
}
