//! What was confirmed, and on whose behalf calls are made. Fixed before the
//! first word to the server; nothing it says changes it.

use std::sync::Arc;
use std::time::Duration;

use portcullis_gate::{Approver, Caller};
use portcullis_link::{Annotations, Category, Files, Init, Ours, Tool, is_tool_name};
use portcullis_proto::{ConversationId, Group, Principal, RunId, SessionId, Subject, ToolSpec};
use portcullis_tools::Workspace;

/// The longest name of a conversation or a run that a server may give.
const MAX_NAME: usize = 128;

/// What a person confirmed to lend.
#[derive(Clone, Debug)]
pub struct Surface {
    /// The directory, as its owner spells it.
    pub root_path: String,
    /// `user@host`.
    pub host: String,
    /// What the owner calls the machine.
    pub machine: String,
    /// The version of the program.
    pub version: String,
    /// The tools of the groups that are on.
    pub tools: Vec<ToolSpec>,
}

impl Surface {
    /// Whether a tool is lent.
    pub(crate) fn offers(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }

    /// What is said first, of a machine with these workspaces. `instance` names
    /// what remembers the calls.
    pub(crate) fn init(&self, instance: &str, workspaces: &[Workspace]) -> Init {
        let is_on = |group: Group| self.tools.iter().any(|tool| tool.group == group);
        let category = |name: &str, enabled: bool| Category {
            name: name.to_owned(),
            enabled,
            write_access: None,
        };
        Init {
            root_path: self.root_path.clone(),
            tools: self
                .tools
                .iter()
                .filter(|tool| is_tool_name(&tool.name))
                .map(tool)
                .collect(),
            host_identifier: Some(self.host.clone()),
            tool_categories: vec![
                Category {
                    write_access: Some(is_on(Group::FilesystemWrite)),
                    ..category("filesystem", is_on(Group::FilesystemRead))
                },
                category("shell", is_on(Group::Shell)),
                category("screenshot", is_on(Group::Computer)),
                category("mouse-keyboard", is_on(Group::Computer)),
                category("browser", is_on(Group::Browser)),
            ],
            portcullis: Some(Ours {
                protocol: Ours::PROTOCOL,
                machine: self.machine.clone(),
                version: Some(self.version.clone()),
                instance: Some(instance.to_owned()),
                files: workspaces
                    .iter()
                    .find(|workspace| workspace.primary)
                    .map(|workspace| Files {
                        operations: Files::OPERATIONS,
                        root: workspace.root.as_str().to_owned(),
                        kind: workspace.kind.as_str().to_owned(),
                        trusted: workspace.trusted,
                    }),
            }),
        }
    }
}

fn tool(spec: &ToolSpec) -> Tool {
    Tool {
        name: spec.name.clone().into_owned(),
        description: Some(spec.description.clone().into_owned()),
        input_schema: spec.input_schema.clone(),
        annotations: Some(Annotations {
            category: Some(category_of(spec.group).to_owned()),
            read_only_hint: Some(spec.traits.read_only),
            destructive_hint: Some(spec.traits.destructive),
            idempotent_hint: Some(spec.traits.idempotent),
            open_world_hint: Some(spec.traits.open_world),
        }),
    }
}

const fn category_of(group: Group) -> &'static str {
    match group {
        Group::FilesystemRead | Group::FilesystemWrite => "filesystem",
        Group::Shell => "shell",
        Group::Computer => "screenshot",
        Group::Browser => "browser",
    }
}

/// Who is asked where a person has to decide.
#[derive(Clone)]
pub enum Asking {
    /// Somebody at this machine.
    Here(Arc<dyn Approver>),
    /// Whoever the server asks; its owner has allowed that.
    There,
    /// Nobody: what would be asked is denied.
    Nobody,
}

impl std::fmt::Debug for Asking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Here(_) => "Here",
            Self::There => "There",
            Self::Nobody => "Nobody",
        })
    }
}

/// On whose behalf calls are made: the confirmed session's.
#[derive(Clone, Debug)]
pub struct Errands {
    /// Whose machine it is.
    pub principal: Principal,
    /// The confirmed session. What is allowed for it lasts over reconnects.
    pub session: SessionId,
    /// What to call who asks where the server does not say: its origin.
    pub origin: String,
    /// Who is asked.
    pub asking: Asking,
}

impl Errands {
    pub(crate) fn caller(
        &self,
        conversation: Option<&str>,
        run: Option<&str>,
        patience: Duration,
    ) -> Caller {
        let mut subject = Subject::of(self.principal.clone());
        let conversation = match conversation.and_then(plain) {
            Some(name) => format!("{} {name}", self.origin),
            None => self.origin.clone(),
        };
        subject.conversation_id = Some(ConversationId::new(conversation));
        subject.run_id = run.and_then(plain).map(RunId::new);
        let caller = Caller::new(subject, "link")
            .in_session(self.session.clone())
            .patient_for(patience)
            .leaving_trail();
        match &self.asking {
            Asking::Here(approver) => caller.asking(Arc::clone(approver)),
            Asking::There | Asking::Nobody => caller,
        }
    }
}

/// A name a server gave, if it can stand in the audit and in prompts.
fn plain(name: &str) -> Option<&str> {
    let fits = !name.is_empty() && name.len() <= MAX_NAME;
    (fits && name.bytes().all(|byte| byte.is_ascii_graphic())).then_some(name)
}
