//! Extensions: they ask, their owner says, and every step is on the record.

use portcullis_proto::{Mode, Scope};
use serde_json::{Value, json};

use crate::client::{Answer, Ask};
use crate::isolation::cookie;
use crate::world::{Running, World};

pub(crate) const READS: &str = "filesystem:workspace:read";
pub(crate) const BOTH: &str = "filesystem:workspace:readwrite";
pub(crate) const STORAGE: &str = "filesystem:extension-storage:readwrite";

pub(crate) fn register(id: &str, permissions: &[&str]) -> Ask {
    Ask::post(
        "/extensions",
        &json!({"id": id, "permissions": permissions}),
    )
}

pub(crate) fn approve(id: &str, permissions: &[&str]) -> Ask {
    Ask::post(
        &format!("/extensions/{id}/approve"),
        &json!({"permissions": permissions}),
    )
}

/// `token` or `revoke` of an extension.
pub(crate) fn step(id: &str, what: &str) -> Ask {
    Ask::post(&format!("/extensions/{id}/{what}"), &json!({}))
}

fn forget(id: &str) -> Ask {
    Ask::new("DELETE", &format!("/extensions/{id}"))
}

/// What was answered, with the audit's closing lines it left.
struct Step<'a> {
    world: &'a World,
    server: &'a Running,
}

impl Step<'_> {
    /// Asks, and checks that exactly one closing line tells the same, for `owner`.
    #[track_caller]
    fn takes(&self, ask: &Ask, owner: &str, status: u16) -> Answer {
        let before = self.world.closings().len();
        let answer = self.server.ask(ask).expect(status);
        let lines = self.world.closings().split_off(before);
        assert_eq!(lines.len(), 1, "{ask:?}: {lines:?}");
        let line = &lines[0];
        let subject = line.subject.as_ref().unwrap();
        let whose = subject.user.as_ref().unwrap_or(&subject.id);
        assert_eq!(whose, owner, "{line:?}");
        let outcome = line.outcome.as_deref();
        assert_eq!(outcome == Some("success"), status == 200, "{line:?}");
        assert!(line.route.as_deref().unwrap().contains("/extensions"));
        // Which policy decided, and under which name the record has it.
        assert_eq!(
            answer.header("portcullis-request-id"),
            line.request_id.as_deref(),
            "{ask:?}"
        );
        assert_eq!(
            answer.header("portcullis-policy"),
            line.policy_source.as_deref(),
            "{ask:?}"
        );
        answer
    }
}

fn listed(server: &Running, cookie: &str) -> Value {
    let ask = Ask::get("/extensions").cookie(cookie);
    server.ask(&ask).expect(200).json()["extensions"].clone()
}

#[test]
fn an_extension_asks_and_its_owner_says() {
    let world = World::new(Mode::Allow);
    let agent = world.token("bob", &[Scope::FsRead]);
    let bob = cookie(&world, "bob");
    let server = world.start();
    let step_by_step = Step {
        world: &world,
        server: &server,
    };
    let asked = register("notes", &[STORAGE, READS]).bearer(&agent);
    let told = step_by_step.takes(&asked, "bob", 200).json();
    assert_eq!(told["state"], "pending", "{told}");
    assert_eq!(
        listed(&server, &bob)[0]["permissions"],
        json!([STORAGE, READS])
    );

    let token = step("notes", "token");
    step_by_step.takes(&token.clone().cookie(&bob), "bob", 409);
    // Approved is what was shown, and nothing else.
    for other in [&[READS][..], &[STORAGE, BOTH], &[]] {
        step_by_step.takes(&approve("notes", other).cookie(&bob), "bob", 409);
    }
    let yes = approve("notes", &[STORAGE, READS]);
    step_by_step.takes(&yes.clone().cookie(&bob), "bob", 200);
    let made = step_by_step.takes(&token.clone().cookie(&bob), "bob", 200);
    let first = made.json()["token"].as_str().unwrap().to_owned();
    let status = |secret: &str| server.ask(&Ask::get("/status").bearer(secret)).status;
    assert_eq!(status(&first), 200);

    // The next one ends the one before, and both are on no line.
    let made = step_by_step.takes(&token.clone().cookie(&bob), "bob", 200);
    let second = made.json()["token"].as_str().unwrap().to_owned();
    assert_eq!((status(&first), status(&second)), (401, 200));
    let record = format!("{:?}", world.closings());
    let secret = second.splitn(3, '_').nth(2).unwrap();
    assert!(!record.contains(secret), "the record holds a token");
    assert!(record.contains("approve notes"), "{record}");

    // What works is stopped, narrowed or removed by itself or in person, not by
    // whatever else its owner's agents hold.
    let desk = world.token("bob", &[Scope::FsRead, Scope::Approve]);
    for ask in [register("notes", &[]), forget("notes")] {
        step_by_step.takes(&ask.bearer(&desk), "bob", 403);
    }
    assert_eq!(status(&second), 200);

    // Asking for more, it waits again, its token with it; it speaks for itself.
    let more = register("notes", &[STORAGE, BOTH]).bearer(&second);
    let told = step_by_step.takes(&more, "bob", 200).json();
    assert_eq!(told["state"], "pending");
    assert_eq!(status(&second), 401);
    let yes = approve("notes", &[STORAGE, BOTH]);
    step_by_step.takes(&yes.clone().cookie(&bob), "bob", 200);
    assert_eq!(status(&second), 200);
    let other = register("other", &[READS]).bearer(&second);
    step_by_step.takes(&other, "bob", 403);

    step_by_step.takes(&step("notes", "revoke").cookie(&bob), "bob", 200);
    assert_eq!(status(&second), 401);
    assert_eq!(listed(&server, &bob)[0]["state"], "revoked");
    step_by_step.takes(&forget("notes").cookie(&bob), "bob", 200);
    assert_eq!(listed(&server, &bob), json!([]));
    step_by_step.takes(&forget("notes").cookie(&bob), "bob", 404);
}

#[test]
fn an_unknown_permission_is_named_with_those_there_are() {
    let world = World::new(Mode::Allow);
    let bob = cookie(&world, "bob");
    let server = world.start();
    for bad in [
        "filesystem:home:read",
        "filesystem:workspace:execute",
        "network:all",
        "",
        "filesystem:workspace:read\nfilesystem:secret:read",
    ] {
        let ask = register("notes", &[READS, bad]).cookie(&bob);
        let told = server.ask(&ask).expect(400).json();
        let error = told["error"].as_str().unwrap();
        assert!(error.contains(&format!("{bad:?}")), "{error}");
        for known in ["workspace", "extension-storage", "readwrite", "metadata"] {
            assert!(error.contains(known), "{error}");
        }
    }
    for id in ["", "../notes", "Notes", "a/b", ".hidden", &"n".repeat(65)] {
        server.ask(&register(id, &[READS]).cookie(&bob)).expect(400);
    }
    assert_eq!(listed(&server, &bob), json!([]));
}

#[test]
fn anothers_extension_is_not_there() {
    let world = World::new(Mode::Allow);
    let (ada, bob) = (cookie(&world, "ada"), cookie(&world, "bob"));
    // She administers the server, and still approves only what is hers.
    let admin = world.token("ada", &Scope::ALL);
    let server = world.start();
    server
        .ask(&register("notes", &[READS]).cookie(&bob))
        .expect(200);
    assert_eq!(listed(&server, &ada), json!([]));
    let step_by_step = Step {
        world: &world,
        server: &server,
    };
    for what in [
        approve("notes", &[READS]),
        step("notes", "token"),
        step("notes", "revoke"),
        forget("notes"),
    ] {
        for ask in [what.clone().cookie(&ada), what.clone().bearer(&admin)] {
            let told = step_by_step.takes(&ask, "ada", 404).json();
            let nowhere = format!("{ask:?}").replace("notes", "none");
            assert!(!told.to_string().contains("notes"), "{nowhere}: {told}");
        }
    }
    step_by_step.takes(&register("notes", &[READS]).cookie(&ada), "ada", 409);
    assert_eq!(listed(&server, &bob)[0]["state"], "pending");
    // Her record holds her tries, and his his own.
    let of = |cookie: &str| {
        let ask = Ask::get("/audit").cookie(cookie);
        server.ask(&ask).expect(200).json()["lines"].to_string()
    };
    assert!(of(&bob).contains("register notes"));
    assert!(!of(&bob).contains("ada"), "{}", of(&bob));
}

#[test]
fn a_credential_makes_none_that_outlives_it() {
    let world = World::new(Mode::Allow);
    let desk = world.token("bob", &[Scope::FsRead, Scope::FsWrite, Scope::Approve]);
    let adas = world.token("ada", &[Scope::FsRead, Scope::Approve, Scope::Admin]);
    let bob = cookie(&world, "bob");
    let server = world.start();
    let step_by_step = Step {
        world: &world,
        server: &server,
    };
    step_by_step.takes(&register("notes", &[READS]).bearer(&desk), "bob", 200);
    step_by_step.takes(&approve("notes", &[READS]).bearer(&desk), "bob", 403);
    step_by_step.takes(&approve("notes", &[READS]).cookie(&bob), "bob", 200);
    step_by_step.takes(&step("notes", "token").bearer(&desk), "bob", 403);
    // Taking back needs nobody in person.
    step_by_step.takes(&step("notes", "revoke").bearer(&desk), "bob", 200);
    // Who administers makes credentials anyway.
    step_by_step.takes(&register("mine", &[READS]).bearer(&adas), "ada", 200);
    step_by_step.takes(&approve("mine", &[READS]).bearer(&adas), "ada", 200);
    step_by_step.takes(&step("mine", "token").bearer(&adas), "ada", 200);
}
