//! Questions that wait for a person, and the answers to them.

use std::sync::Arc;

use http::StatusCode;
use portcullis_gate::{Answer, Decision, Question, Surface};
use portcullis_proto::{Failure, QuestionId, Reason, Scope};
use portcullis_store::Said;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::identity::{Identity, Via};
use super::super::reply::{self, Reply};
use super::super::rest::json_body;
use super::super::server::{Asked, Server};
use super::stream::events;
use super::{not_yours, owner, refuse};

/// How many questions are told at once.
const MAX_TOLD: usize = 1_000;

/// How somebody's answers count.
#[derive(Clone, Copy)]
pub(super) struct Voice {
    surface: Surface,
    /// Whether it may say "from now on": a rule holds for everybody, so only who
    /// administers the server makes one, in person.
    lasting: bool,
}

impl Voice {
    pub(super) fn of(identity: &Identity) -> Self {
        let surface = match identity.via {
            Via::Cookie => Surface::Console,
            Via::Bearer => Surface::Api,
        };
        Self {
            surface,
            lasting: surface.may_say_always() && identity.may(Scope::Admin),
        }
    }
}

/// A question as its owner is shown it.
pub(super) fn shown(question: &Question, voice: Voice) -> Value {
    let offered: Vec<&str> = question
        .offered
        .iter()
        .filter(|decision| match decision {
            Decision::AllowOnce | Decision::AllowSession | Decision::DenyOnce => true,
            Decision::AlwaysAllow | Decision::AlwaysDeny => voice.lasting,
        })
        .map(|decision| decision.as_str())
        .collect();
    let resources: Vec<Value> = question
        .facts
        .resources
        .iter()
        .map(|resource| {
            json!({
                "root": resource.root.as_str(),
                "path": resource.path.shown(),
                "access": resource.access.as_str(),
            })
        })
        .collect();
    json!({
        "id": question.id.as_str(),
        "sentence": question.sentence(),
        "subject": question.subject.principal.label(),
        "operation": question.facts.verb.as_str(),
        "group": question.facts.group().as_str(),
        "resources": resources,
        "class": question.class,
        "source": question.source,
        "offered": offered,
        "askedAt": question.asked_at,
        "deadline": question.deadline,
    })
}

/// The questions of one person that wait, oldest first.
pub(super) fn of_owner(server: &Server, user: &str) -> Result<Vec<Question>, Failure> {
    let (store, now) = (&server.parts.store, server.parts.clock.now_ms());
    let is_own = |question: &Question| owner(&question.subject.principal) == Some(user);
    store
        .pending_of(MAX_TOLD, now, is_own)
        .map_err(|error| Failure::from(Reason::Io).detail(error))
}

pub(crate) fn list(server: &Server, asked: &Asked) -> Reply {
    match of_owner(server, &asked.identity.user) {
        Ok(questions) => {
            let told: Vec<Value> = questions
                .iter()
                .map(|question| shown(question, Voice::of(&asked.identity)))
                .collect();
            reply::value(StatusCode::OK, &json!({"approvals": told}))
        }
        Err(why) => reply::failure(&why),
    }
}

/// What `POST /approvals/{id}` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AnswerBody {
    /// One of the answers the question offers.
    decision: String,
}

pub(crate) async fn answer(server: &Arc<Server>, mut asked: Asked) -> Reply {
    let id = QuestionId::new(asked.id.clone().unwrap_or_default());
    let body: AnswerBody = match json_body(&mut asked).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let question = match server.parts.store.question(&id) {
        Ok(question) => question,
        Err(error) => return reply::failure(&Failure::from(Reason::Io).detail(error)),
    };
    let Some(question) =
        question.filter(|one| owner(&one.subject.principal) == Some(&*asked.identity.user))
    else {
        return not_yours(server, &asked, id.as_str());
    };
    if question.subject.principal == asked.identity.principal && asked.identity.via == Via::Bearer {
        let why = Failure::new(
            Reason::NoGrant,
            "A credential does not answer its own question.",
        )
        .hint("Answer it in a browser, with portcullis approve, or with another credential.");
        return refuse(server, &asked, id.as_str(), why);
    }
    let Some(decision) = Decision::parse(&body.decision) else {
        return refuse(
            server,
            &asked,
            id.as_str(),
            Failure::new(Reason::BadArguments, "There is no such answer.")
                .hint("GET /approvals tells which answers a question offers."),
        );
    };
    let voice = Voice::of(&asked.identity);
    let lasting = matches!(decision, Decision::AlwaysAllow | Decision::AlwaysDeny);
    if lasting && !voice.lasting {
        let why = Failure::new(
            Reason::NoGrant,
            "A lasting answer holds for everybody: it counts only from an administrator, in person.",
        )
        .hint("Answer it once, or have an administrator make a rule.");
        return refuse(server, &asked, id.as_str(), why);
    }
    let answer = Answer {
        decision,
        surface: voice.surface,
        by: asked.identity.principal.label(),
    };
    let store = server.parts.store.clone();
    let now = server.parts.clock.now_ms();
    let said = {
        let id = id.clone();
        tokio::task::spawn_blocking(move || store.answer(&id, &answer, now)).await
    };
    match said {
        Ok(Ok(said)) => told(&id, decision, said),
        Ok(Err(error)) => reply::failure(&Failure::from(Reason::Io).detail(error)),
        Err(panicked) => reply::failure(&Failure::from(Reason::Bug).detail(panicked)),
    }
}

fn told(id: &QuestionId, decision: Decision, said: Said) -> Reply {
    let refused = |status, code: &str, error: &str| reply::refused(status, error, Some(code));
    match said {
        Said::Answered => reply::value(
            StatusCode::OK,
            &json!({"id": id.as_str(), "decision": decision.as_str()}),
        ),
        Said::AlreadyAnswered => refused(
            StatusCode::CONFLICT,
            "already_answered",
            "Somebody answered before.",
        ),
        Said::Expired => refused(
            StatusCode::GONE,
            "expired",
            "Its time is over, or nobody waits for it any more.",
        ),
        Said::NotOffered => refused(
            StatusCode::BAD_REQUEST,
            "not_offered",
            "The question does not offer that answer.",
        ),
        Said::Unknown => refused(
            StatusCode::NOT_FOUND,
            "not_found",
            "There is no such question.",
        ),
    }
}

/// The questions of one person, as they come and go.
pub(crate) fn watch(server: &Arc<Server>, asked: &Asked) -> Reply {
    let (user, voice) = (Arc::clone(&asked.identity.user), Voice::of(&asked.identity));
    let feed = server.feeds.questions(server);
    let first = match of_owner(server, &user) {
        Ok(questions) => questions,
        Err(why) => return reply::failure(&why),
    };
    let first = first
        .iter()
        .map(|question| {
            (
                "question",
                question.id.as_str().to_owned(),
                shown(question, voice),
            )
        })
        .collect();
    events(server, asked.standing(server), first, feed, move |item| {
        (item.owner.as_deref() == Some(&*user)).then(|| {
            let value = match &item.question {
                Some(question) => shown(question, voice),
                None => item.value.clone(),
            };
            (item.event, item.id.clone(), value)
        })
    })
}
