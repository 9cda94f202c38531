//! Questions that wait for a person, and the answers to them.

use std::sync::Arc;

use http::StatusCode;
use portcullis_gate::{Answer, Decision, Question, Surface};
use portcullis_proto::{Failure, QuestionId, Reason, Scope};
use portcullis_store::Said;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::identity::{Identity, Via};
use super::super::reply::{self, Reply};
use super::super::rest::json_body;
use super::super::server::{Asked, Server};
use super::stream::events;
use super::{caller, not_yours, refuse};
use crate::answers::off_the_reactor;
use crate::issuer::are_of_one_voice;

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
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Question")]
pub(crate) struct ShownQuestion {
    /// What `POST /approvals/{id}` takes.
    id: String,
    /// What is asked, in words.
    sentence: String,
    /// Who wants to do it.
    subject: String,
    /// What would be done.
    operation: &'static str,
    /// The group of tools it belongs to.
    group: &'static str,
    /// To what.
    resources: Vec<ShownResource>,
    /// The protected class it is about, where it is about one.
    class: Option<String>,
    /// Which rule, mode, class or hook asks.
    source: String,
    /// The answers it can be given by who reads this.
    offered: Vec<&'static str>,
    /// When it was asked, in milliseconds since 1970.
    asked_at: u64,
    /// Until when it waits.
    deadline: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "QuestionResource")]
struct ShownResource {
    /// In which root.
    root: String,
    /// Path from the root.
    path: String,
    /// How it would be reached.
    access: &'static str,
}

pub(super) fn shown(question: &Question, voice: Voice) -> ShownQuestion {
    let offered = question
        .offered
        .iter()
        .filter(|decision| match decision {
            Decision::AllowOnce | Decision::AllowSession | Decision::DenyOnce => true,
            Decision::AlwaysAllow | Decision::AlwaysDeny => voice.lasting,
        })
        .map(|decision| decision.as_str())
        .collect();
    let resources = question
        .facts
        .resources
        .iter()
        .map(|resource| ShownResource {
            root: resource.root.as_str().to_owned(),
            path: resource.path.shown().to_owned(),
            access: resource.access.as_str(),
        })
        .collect();
    ShownQuestion {
        id: question.id.as_str().to_owned(),
        sentence: question.sentence(),
        subject: question.subject.label(),
        operation: question.facts.verb.as_str(),
        group: question.facts.group().as_str(),
        resources,
        class: question.class.clone(),
        source: question.source.clone(),
        offered,
        asked_at: question.asked_at,
        deadline: question.deadline,
    }
}

/// The same, as an event tells it.
fn shown_value(question: &Question, voice: Voice) -> Value {
    serde_json::to_value(shown(question, voice)).unwrap_or_default()
}

/// The questions of one person that wait, oldest first.
async fn of_owner(server: &Server, user: &Arc<str>) -> Result<Vec<Question>, Failure> {
    let (user, now) = (Arc::clone(user), server.parts.clock.now_ms());
    off_the_reactor(&server.parts.store, move |store| {
        store.pending_of(&user, MAX_TOLD, now)
    })
    .await
}

/// What `GET /approvals` replies with.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ApprovalsReply {
    /// The questions that wait for you, the oldest first.
    approvals: Vec<ShownQuestion>,
}

pub(crate) async fn list(server: &Server, asked: &Asked) -> Reply {
    match of_owner(server, &asked.identity.user).await {
        Ok(questions) => {
            let approvals = questions
                .iter()
                .map(|question| shown(question, Voice::of(&asked.identity)))
                .collect();
            reply::of(StatusCode::OK, &ApprovalsReply { approvals })
        }
        Err(why) => reply::failure(&why),
    }
}

/// What `POST /approvals/{id}` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AnswerBody {
    /// One of the answers the question offers.
    #[schemars(schema_with = "decisions")]
    decision: String,
}

/// Every answer there is.
fn decisions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": Decision::ALL.map(Decision::as_str)})
}

/// What `POST /approvals/{id}` replies with.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AnswerReply {
    /// The question.
    id: String,
    /// What was answered.
    #[schemars(schema_with = "decisions")]
    decision: &'static str,
}

pub(crate) async fn answer(server: &Arc<Server>, mut asked: Asked) -> Reply {
    let id = QuestionId::new(asked.id.clone().unwrap_or_default());
    let body: AnswerBody = match json_body(&mut asked).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let named = id.clone();
    let question = off_the_reactor(&server.parts.store, move |store| store.question(&named)).await;
    let question = match question {
        Ok(question) => question,
        Err(why) => return refuse(server, &asked, id.as_str(), why),
    };
    let Some(question) = question.filter(|one| one.subject.owner() == Some(&*asked.identity.user))
    else {
        return not_yours(server, &asked, id.as_str());
    };
    let (asker, answerer) = (&question.subject.principal, &asked.identity.principal);
    let own = asker == answerer || are_of_one_voice(asker, answerer);
    if own && asked.identity.via == Via::Bearer {
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
    let (gate, asker) = (Arc::clone(&server.parts.gate), caller(&asked));
    let now = server.parts.clock.now_ms();
    let said = off_the_reactor(&server.parts.store, move |store| {
        let what = format!("{id} {}", decision.as_str());
        let mut void = None;
        let settled = gate.administer(&asker, &what, || {
            void = not_counted(store.answer(&id, &answer, now)?);
            void.map_or(Ok(()), |void| Err(Failure::new(void.reason, void.error)))
        });
        Ok((id, void, settled))
    });
    match said.await {
        Ok((id, _, Ok(()))) => reply::of(
            StatusCode::OK,
            &AnswerReply {
                id: id.as_str().to_owned(),
                decision: decision.as_str(),
            },
        ),
        Ok((_, Some(void), Err(_))) => reply::refused(void.status, void.error, Some(void.code)),
        Ok((_, None, Err(why))) | Err(why) => reply::failure(&why),
    }
}

/// Why an answer does not count, in the words of the wire and of the record.
#[derive(Clone, Copy)]
struct Void {
    status: StatusCode,
    code: &'static str,
    reason: Reason,
    error: &'static str,
}

fn not_counted(said: Said) -> Option<Void> {
    let (status, code, reason, error) = match said {
        Said::Answered => return None,
        Said::AlreadyAnswered => (
            StatusCode::CONFLICT,
            "already_answered",
            Reason::AnswerUsed,
            "Somebody answered before.",
        ),
        Said::Expired => (
            StatusCode::GONE,
            "expired",
            Reason::ApprovalTimeout,
            "Its time is over, or nobody waits for it any more.",
        ),
        Said::NotOffered => (
            StatusCode::BAD_REQUEST,
            "not_offered",
            Reason::BadArguments,
            "The question does not offer that answer.",
        ),
        Said::Unknown => (
            StatusCode::NOT_FOUND,
            "not_found",
            Reason::NotFound,
            "There is no such question.",
        ),
    };
    Some(Void {
        status,
        code,
        reason,
        error,
    })
}

/// The questions of one person, as they come and go.
pub(crate) async fn watch(server: &Arc<Server>, asked: &Asked) -> Reply {
    let (user, voice) = (Arc::clone(&asked.identity.user), Voice::of(&asked.identity));
    let feed = server.feeds.questions(server).await;
    let first = match of_owner(server, &user).await {
        Ok(questions) => questions,
        Err(why) => return reply::failure(&why),
    };
    let first = first
        .iter()
        .map(|question| {
            (
                "question",
                question.id.as_str().to_owned(),
                shown_value(question, voice),
            )
        })
        .collect();
    events(server, asked.standing(server), first, feed, move |item| {
        (item.owner.as_deref() == Some(&*user)).then(|| {
            let value = match &item.question {
                Some(question) => shown_value(question, voice),
                None => item.value.clone(),
            };
            (item.event, item.id.clone(), value)
        })
    })
}
