//! A session is for who opened it, and there are only so many.

use http::{Method, StatusCode};
use portcullis_proto::Mode;
use serde_json::json;

use crate::client::World;
use crate::http_client::Visitor;

#[tokio::test]
async fn another_principals_session_is_not_there_and_asking_for_it_is_on_the_record() {
    let world = World::new(Mode::Allow);
    let http = world.http();
    let mine = Visitor::new(&http, "mine", "fs:read").handshake().await;
    let mut other = Visitor::new(&http, "other", "fs:read");
    other.session.clone_from(&mine.session);
    let listing = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let tries = [
        (Method::GET, None),
        (Method::POST, Some(listing.clone())),
        (Method::DELETE, None),
    ];
    let mut unknown = Visitor::new(&http, "other", "fs:read");
    unknown.session = Some("4ae57cc0-0000-4000-8000-000000000000".to_owned());
    for (method, body) in tries {
        let mut refused = other.ask(method.clone(), body.clone()).await;
        assert_eq!(refused.status, StatusCode::NOT_FOUND, "{method}");
        let mut absent = unknown.ask(method, body).await;
        assert_eq!(absent.status, StatusCode::NOT_FOUND);
        assert_eq!(refused.message().await, absent.message().await);
    }
    let lines = world.lines_of("mcp/session");
    assert_eq!(lines.len(), 6, "{lines:?}");
    for pair in lines.chunks(2) {
        let said: Vec<_> = pair.iter().map(|line| (&*line.who, line.reason)).collect();
        let who = "token:me/other";
        // Which it was is told to whoever reads the record, and to nobody else.
        assert_eq!(said, [(who, Some("no_grant")), (who, Some("not_found"))]);
        assert_eq!(pair[0].outcome, "denied");
    }
    // Nothing came of it: who opened it goes on, and ends it.
    let listed = mine.request("tools/list", json!({})).await;
    assert!(listed["result"]["tools"].is_array(), "{listed}");
    let stream = mine.ask(Method::GET, None).await;
    assert_eq!(stream.status, StatusCode::OK);
    let ended = mine.ask(Method::DELETE, None).await;
    assert_eq!(ended.status, StatusCode::ACCEPTED);
    let gone = mine.ask(Method::POST, Some(listing)).await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_principal_has_sixteen_sessions_and_is_told_so() {
    let world = World::new(Mode::Allow);
    let http = world.http();
    let mut open = Vec::new();
    for _ in 0..16 {
        open.push(Visitor::new(&http, "many", "fs:read").handshake().await);
    }
    let mut one_more = Visitor::new(&http, "many", "fs:read");
    let mut refused = one_more.initialize().await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers["retry-after"], "60");
    assert_eq!(one_more.session, None);
    let told = refused.message().await.unwrap();
    assert_eq!(told["error"]["data"]["reason"], "overload", "{told}");
    assert_eq!(world.lines_of("mcp/session").len(), 1);
    // Others have their own, and the newer era needs none.
    Visitor::new(&http, "another", "fs:read").handshake().await;
    let listed = Visitor::new(&http, "many", "fs:read")
        .request("tools/list", json!({}))
        .await;
    assert!(listed["result"]["tools"].is_array(), "{listed}");
    // An ended one makes room for one.
    let ended = open.pop().unwrap().ask(Method::DELETE, None).await;
    assert_eq!(ended.status, StatusCode::ACCEPTED);
    let again = one_more.initialize().await;
    assert_eq!(again.status, StatusCode::OK);
    let full = Visitor::new(&http, "many", "fs:read").initialize().await;
    assert_eq!(full.status, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn there_are_a_thousand_sessions_at_most() {
    let world = World::new(Mode::Allow);
    let http = world.http();
    let mut opened = 0;
    for n in 0..1_016 {
        let mut one = Visitor::new(&http, &format!("t{}", n / 16), "fs:read");
        match one.initialize().await.status {
            StatusCode::OK => opened += 1,
            status => assert_eq!(status, StatusCode::TOO_MANY_REQUESTS),
        }
    }
    assert_eq!(opened, 1_000);
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_ends_and_makes_room() {
    let world = World::new(Mode::Allow);
    let http = world.http();
    let mut first = None;
    for _ in 0..16 {
        let one = Visitor::new(&http, "many", "fs:read").handshake().await;
        first.get_or_insert(one);
    }
    tokio::time::sleep(std::time::Duration::from_mins(16)).await;
    let gone = first.unwrap().ask(Method::GET, None).await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND);
    Visitor::new(&http, "many", "fs:read").handshake().await;
}

/// Clients of 2025-06-18 and older read every event as a message: an empty one
/// ends their connection. Later versions resume from it.
#[tokio::test]
async fn only_clients_from_2025_11_25_on_get_an_event_without_a_message() {
    let world = World::new(Mode::Allow);
    let http = world.http();
    for (version, want) in [
        ("2024-11-05", false),
        ("2025-03-26", false),
        ("2025-06-18", false),
        ("2025-11-25", true),
    ] {
        let mut one = Visitor::new(&http, version, "fs:read");
        let mut opened = one.initialize_at(version).await;
        let first = opened.first_event().await;
        assert!(
            first.contains(&format!("\"protocolVersion\":\"{version}\"")),
            "{first}"
        );
        let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        one.ask(Method::POST, Some(begun)).await;
        let mut called = one.post(2, "tools/list", json!({})).await;
        let first = called.first_event().await;
        assert_eq!(first.starts_with("data: \n"), want, "{version}: {first}");
        // What follows is the reply, whatever came first.
        let reply = called.message().await.unwrap();
        assert_eq!(reply["id"], 2, "{version}");
        let mut listening = one.ask(Method::GET, None).await;
        if want {
            assert!(listening.first_event().await.starts_with("data: \n"));
        } else {
            let waiting = std::time::Duration::from_millis(200);
            let first = tokio::time::timeout(waiting, listening.first_event()).await;
            assert!(first.is_err(), "{version}: {first:?}");
        }
    }
}
