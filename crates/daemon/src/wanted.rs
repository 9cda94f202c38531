//! What a server wants: a tool called, or, where it is ours, an operation done.
//!
//! An operation is no second door. It does the work of a tool, and is done where
//! that tool is lent: through the same gate, for the same caller.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use portcullis_gate::{Approver, Caller, Question, Reply};
use portcullis_link::{Far, Operation};
use portcullis_proto::{Failure, Group, Json, Reason, ToolCall, ToolReply};
use portcullis_tools::{Machine, MachineAsk, unknown_tool};
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::surface::Surface;

/// Files that are read whole, as resources: one after the other.
static RESOURCES: Semaphore = Semaphore::const_new(1);
/// How many changes can be undone over the link that made them.
const MAX_DONE: usize = 4_096;

/// What is wanted.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// A tool.
    Tool(Far),
    /// An operation of our own dialect.
    Operation(Operation),
}

impl Wanted {
    /// What it is called, so that no operation passes for a tool.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Tool(far) => far.name.clone(),
            Self::Operation(operation) => format!("operation/{}", operation.operation),
        }
    }

    /// The same name, and nothing that came with it.
    pub(crate) fn without_arguments(self) -> Self {
        match self {
            Self::Tool(far) => Self::Tool(Far {
                arguments: Value::Null,
                ..far
            }),
            Self::Operation(operation) => Self::Operation(Operation {
                args: Value::Null,
                ..operation
            }),
        }
    }

    pub(crate) fn arguments(&self) -> &Value {
        match self {
            Self::Tool(far) => &far.arguments,
            Self::Operation(operation) => &operation.args,
        }
    }

    /// What it means with `arguments`, if that is lent; else why not, on the record.
    pub(crate) fn meant(
        &self,
        arguments: Value,
        surface: &Surface,
        machine: &dyn Machine,
        caller: &Caller,
    ) -> Result<Meant, Failure> {
        match self {
            Self::Tool(far) if !surface.offers(&far.name) => {
                Err(machine.refuse(caller, &far.name, unknown_tool()))
            }
            Self::Tool(far) => Ok(Meant::Tool(ToolCall {
                name: far.name.clone(),
                arguments,
            })),
            Self::Operation(operation) => {
                let Some(ask) = MachineAsk::parse(&operation.operation, &arguments) else {
                    let why =
                        Failure::new(Reason::NotOffered, "This daemon knows no such operation.");
                    return Err(machine.refuse(caller, &self.name(), why));
                };
                // A group that is off here is refused where the act would be; of
                // undoing that would be too late.
                let is_refused_there =
                    machine.is_off(ask.verb().group()) && !matches!(ask, MachineAsk::Undo { .. });
                if !surface.offers(ask.tool()) && !is_refused_there {
                    let why = Reason::DeniedByMode.into();
                    return Err(machine.refuse(caller, ask.about(), why));
                }
                Ok(Meant::Ask(ask))
            }
        }
    }
}

/// What is wanted, understood and lent.
pub(crate) enum Meant {
    Tool(ToolCall),
    Ask(MachineAsk),
}

impl Meant {
    /// Whether it is of the group that changes files.
    pub(crate) fn is_change(&self, machine: &dyn Machine) -> bool {
        let group = match self {
            Self::Tool(call) => machine.group_of(&call.name),
            Self::Ask(ask) => Some(ask.verb().group()),
        };
        group == Some(Group::FilesystemWrite)
    }

    /// Does it. An operation's reply is its text, word for word.
    pub(crate) async fn done(
        self,
        machine: &dyn Machine,
        caller: &Caller,
        done: &Mutex<Done>,
    ) -> ToolReply {
        let ask = match self {
            Self::Tool(call) => return machine.call(caller, call).await,
            Self::Ask(ask) => ask,
        };
        let locked = || done.lock().unwrap_or_else(PoisonError::into_inner);
        if let MachineAsk::Undo { id } = &ask
            && !locked().has(id)
        {
            let why = Failure::new(Reason::NotFound, "No such operation of yours is kept.")
                .hint("GET /undo tells those that are.");
            return ToolReply::failed(&machine.refuse(caller, id, why));
        }
        let is_list = ask == MachineAsk::Undoable {};
        let mut caller = caller.clone();
        if matches!(ask, MachineAsk::Resources { .. }) {
            // A list asks nobody: what would have to be asked about is left out.
            caller.approver = None;
        }
        // One of them takes many times the file it reads.
        let _turn = match &ask {
            MachineAsk::ReadResource { .. } => Some(Turn::taken(&mut caller).await),
            MachineAsk::File(_)
            | MachineAsk::Raw { .. }
            | MachineAsk::Undoable {}
            | MachineAsk::Undo { .. }
            | MachineAsk::Resources { .. } => None,
        };
        let body = ask.done_by(machine, &caller).await;
        let body = body.and_then(|body| {
            if is_list {
                locked().own_in(&body)
            } else {
                Ok(body)
            }
        });
        match body.and_then(|body| replied(&body)) {
            Ok(reply) => reply,
            Err(why) => ToolReply::failed(&why),
        }
    }
}

/// A turn at reading a resource. It is another's while a person is asked: that may
/// take as long as a call does, and nothing is read meanwhile.
struct Turn {
    held: Mutex<Option<SemaphorePermit<'static>>>,
}

impl Turn {
    /// Waits for a turn, which is given back around whatever `caller` is asked.
    async fn taken(caller: &mut Caller) -> Arc<Self> {
        let turn = Arc::new(Self {
            held: Mutex::new(RESOURCES.acquire().await.ok()),
        });
        if let Some(asked) = caller.approver.take() {
            let turn = Arc::clone(&turn);
            caller.approver = Some(Arc::new(Aside { turn, asked }));
        }
        turn
    }

    fn hold(&self, permit: Option<SemaphorePermit<'static>>) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = permit;
    }
}

/// Who is asked by one who steps aside for it.
struct Aside {
    turn: Arc<Turn>,
    asked: Arc<dyn Approver>,
}

impl Approver for Aside {
    fn surface(&self) -> portcullis_gate::Surface {
        self.asked.surface()
    }

    fn may_say_always(&self) -> bool {
        self.asked.may_say_always()
    }

    fn ask<'a>(
        &'a self,
        question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>> {
        Box::pin(async {
            self.turn.hold(None);
            let reply = self.asked.ask(question).await;
            // A no reads nothing, and waits for nobody.
            if matches!(&reply, Reply::Answered(answer) if answer.decision.allows()) {
                self.turn.hold(RESOURCES.acquire().await.ok());
            }
            reply
        })
    }
}

fn replied(body: &Json) -> Result<ToolReply, Failure> {
    let bug = |error| Failure::from(Reason::Bug).detail(error);
    Ok(ToolReply {
        structured: Json::of(&serde_json::Map::new()).map_err(bug)?,
        text: Json::of(body.get()).map_err(bug)?,
        is_error: false,
        attached: Vec::new(),
    })
}

/// What was changed over this link, by the name it is undone under. What its
/// owner changed otherwise, a server neither sees nor takes back.
#[derive(Default)]
pub(crate) struct Done(VecDeque<String>);

impl Done {
    pub(crate) fn note(&mut self, id: &str) {
        if self.0.len() >= MAX_DONE {
            self.0.pop_front();
        }
        self.0.push_back(id.to_owned());
    }

    fn has(&self, id: &str) -> bool {
        self.0.iter().any(|one| one == id)
    }

    /// A list of what can be undone, as far as it was done here.
    fn own_in(&self, list: &Json) -> Result<Json, Failure> {
        let bug = |error: serde_json::Error| Failure::from(Reason::Bug).detail(error);
        let mut list: Value = serde_json::from_str(list.get()).map_err(bug)?;
        if let Some(operations) = list["operations"].as_array_mut() {
            operations.retain(|one| one["id"].as_str().is_some_and(|id| self.has(id)));
        }
        // How many others there are is nobody's business there.
        list["more"] = 0.into();
        Json::of(&list).map_err(bug)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_tells_what_was_done_here_and_no_more() {
        let mut done = Done::default();
        done.note("r_1");
        let list = json!({"operations": [{"id": "r_2"}, {"id": "r_1"}], "more": 7});
        let own = done.own_in(&Json::of(&list).unwrap()).unwrap();
        assert_eq!(own.get(), r#"{"more":0,"operations":[{"id":"r_1"}]}"#);
        for n in 0..MAX_DONE {
            done.note(&n.to_string());
        }
        assert!(!done.has("r_1") && done.has("0") && done.0.len() == MAX_DONE);
    }

    #[test]
    fn no_operation_passes_for_a_tool() {
        let operation = Wanted::Operation(Operation {
            operation: "write_file".to_owned(),
            args: Value::Null,
        });
        assert!(!portcullis_link::is_tool_name(&operation.name()));
    }
}
