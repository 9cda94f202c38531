//! Asking a person through the agent's client.
//!
//! The client is operated by the agent's host, so what it answers never lasts:
//! "from now on" is offered and accepted only on the person's own surfaces.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use portcullis_gate::{Answer, Approver, Decision, Question, Reply, Surface};
use rmcp::model::{
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, EnumSchema,
    PrimitiveSchemaDefinition,
};
use rmcp::{Peer, RoleServer};
use serde_json::Value;

/// The name of the one field of the form.
const FIELD: &str = "decision";

/// The form a client shows: one choice out of what is offered.
pub(super) fn form(question: &Question) -> ElicitRequestParams {
    let offered = choices(question);
    let names: Vec<String> = offered
        .iter()
        .map(|decision| decision.as_str().to_owned())
        .collect();
    let titles: Vec<String> = offered
        .iter()
        .map(|decision| title(*decision).to_owned())
        .collect();
    let choice = EnumSchema::builder(names.clone())
        .enum_titles(titles)
        .unwrap_or_else(|_| EnumSchema::builder(names))
        .title("Decision")
        .build();
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message(question),
        requested_schema: ElicitationSchema::new(
            [(FIELD.to_owned(), PrimitiveSchemaDefinition::Enum(choice))].into(),
        )
        .with_required(vec![FIELD.to_owned()]),
    }
}

fn choices(question: &Question) -> Vec<Decision> {
    question
        .offered
        .iter()
        .copied()
        .filter(|decision| match decision {
            Decision::AllowOnce | Decision::AllowSession | Decision::DenyOnce => true,
            Decision::AlwaysAllow | Decision::AlwaysDeny => Surface::Mcp.may_say_always(),
        })
        .collect()
}

fn title(decision: Decision) -> &'static str {
    match decision {
        Decision::AllowOnce => "Allow once",
        Decision::AllowSession => "Allow for this session",
        Decision::AlwaysAllow => "Always allow",
        Decision::DenyOnce => "Deny",
        Decision::AlwaysDeny => "Always deny",
    }
}

fn message(question: &Question) -> String {
    format!(
        "The agent wants to {}. Group: {}. Asked because of {}.",
        question.sentence(),
        question.facts.group(),
        question.source,
    )
}

/// What a client's result says. Anything but an accepted choice is a no.
pub(super) fn answer(result: &ElicitResult) -> Answer {
    // Declined, cancelled, or a word of a later protocol: not a yes.
    let accepted = matches!(result.action, ElicitationAction::Accept);
    let decision = result
        .content
        .as_ref()
        .filter(|_| accepted)
        .and_then(|content| content.get(FIELD))
        .and_then(Value::as_str)
        .and_then(Decision::parse)
        .unwrap_or(Decision::DenyOnce);
    Answer {
        decision,
        surface: Surface::Mcp,
        by: "client".to_owned(),
    }
}

/// Asks in the middle of the call: the handshake era's way.
pub(super) struct Elicit(pub(super) Peer<RoleServer>);

impl Approver for Elicit {
    fn surface(&self) -> Surface {
        Surface::Mcp
    }

    fn ask<'a>(
        &'a self,
        question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>> {
        Box::pin(async move {
            match self.0.create_elicitation(form(question)).await {
                Ok(result) => Reply::Answered(answer(&result)),
                // A client that fails at asking has asked nobody.
                Err(_) => Reply::Unavailable,
            }
        })
    }
}

/// Ends the call and keeps the question, for `input_required`.
#[derive(Default)]
pub(super) struct Suspend(Mutex<Option<Question>>);

impl Suspend {
    pub(super) fn take(&self) -> Option<Question> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Approver for Suspend {
    fn surface(&self) -> Surface {
        Surface::Mcp
    }

    fn ask<'a>(
        &'a self,
        question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(question.clone());
        Box::pin(std::future::ready(Reply::Suspended))
    }
}

/// Leaves a question to whoever opens its page, and ends the call with it
/// unless the answer comes within what the caller waits.
pub(super) struct Leave {
    asked: Suspend,
    wait: Duration,
}

impl Leave {
    pub(super) fn after(wait: Duration) -> Self {
        Self {
            asked: Suspend::default(),
            wait,
        }
    }

    /// The question that was left.
    pub(super) fn take(&self) -> Option<Question> {
        self.asked.take()
    }
}

impl Approver for Leave {
    /// Its answers come from the person's own page, or terminal.
    fn surface(&self) -> Surface {
        Surface::Console
    }

    fn ask<'a>(
        &'a self,
        question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>> {
        Box::pin(async move {
            tokio::time::sleep(self.wait).await;
            self.asked.ask(question).await
        })
    }
}
