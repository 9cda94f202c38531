//! Who acts, and the ids that stand for them.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Names it.
            pub fn new(id: impl Into<Arc<str>>) -> Self {
                Self(id.into())
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

ids! {
    /// One conversation with an agent.
    ConversationId;
    /// One run inside a conversation.
    RunId;
    /// From a confirmed connection until somebody ends it.
    SessionId;
    /// One attempt; every audit line of it carries this.
    RequestId;
    /// One question put to a person.
    QuestionId;
}

/// Who a credential stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Principal {
    /// Portcullis itself, in the part named.
    Core {
        /// Which part.
        id: Arc<str>,
    },
    /// A person.
    User {
        /// Who.
        id: Arc<str>,
    },
    /// An agent's token, on behalf of a person.
    Token {
        /// Whose.
        user: Arc<str>,
        /// Which.
        id: Arc<str>,
    },
    /// An extension.
    Extension {
        /// Which.
        id: Arc<str>,
    },
    /// A task that runs with nobody watching.
    Automation {
        /// Which.
        id: Arc<str>,
    },
}

impl Principal {
    /// A short label for people: `user:ada`, `extension:notes`.
    pub fn label(&self) -> String {
        match self {
            Self::Core { id } => format!("core:{id}"),
            Self::User { id } => format!("user:{id}"),
            Self::Token { user, id } => format!("token:{user}/{id}"),
            Self::Extension { id } => format!("extension:{id}"),
            Self::Automation { id } => format!("automation:{id}"),
        }
    }
}

/// Who acts, as the audit names them: the principal and, for agents, the
/// conversation and run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// Whose credential it is.
    pub principal: Principal,
    /// In which conversation, if the surface knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    /// In which run, if the surface knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
}

impl Subject {
    /// A subject with no conversation.
    pub fn of(principal: Principal) -> Self {
        Self {
            principal,
            conversation_id: None,
            run_id: None,
        }
    }

    /// An agent's run on behalf of `principal`.
    pub fn agent_run(principal: Principal, conversation: ConversationId, run: RunId) -> Self {
        Self {
            principal,
            conversation_id: Some(conversation),
            run_id: Some(run),
        }
    }
}
