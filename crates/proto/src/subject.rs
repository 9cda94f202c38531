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
    /// What it is, without saying which.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Core { .. } => "core",
            Self::User { .. } => "user",
            Self::Token { .. } => "token",
            Self::Extension { .. } => "extension",
            Self::Automation { .. } => "automation",
        }
    }

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
    /// The person an extension acts for, where the surface knows: its name does
    /// not say so, and can be another person's later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf_of: Option<Arc<str>>,
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
            on_behalf_of: None,
            conversation_id: None,
            run_id: None,
        }
    }

    /// Acting for `user`, who approved it.
    #[must_use]
    pub fn on_behalf_of(mut self, user: Arc<str>) -> Self {
        self.on_behalf_of = Some(user);
        self
    }

    /// The person it is, or acts for: whose its questions and its lines are.
    pub fn owner(&self) -> Option<&str> {
        match &self.principal {
            Principal::User { id } => Some(id),
            Principal::Token { user, .. } => Some(user),
            Principal::Extension { .. } => self.on_behalf_of.as_deref(),
            Principal::Core { .. } | Principal::Automation { .. } => None,
        }
    }

    /// A short label for people, and for what is kept of it: the principal's,
    /// with the person an extension acts for (`extension:ada/notes`).
    pub fn label(&self) -> String {
        match (&self.principal, &self.on_behalf_of) {
            (Principal::Extension { id }, Some(user)) => format!("extension:{user}/{id}"),
            (
                Principal::Core { .. }
                | Principal::User { .. }
                | Principal::Token { .. }
                | Principal::Extension { .. }
                | Principal::Automation { .. },
                _,
            ) => self.principal.label(),
        }
    }

    /// An agent's run on behalf of `principal`.
    pub fn agent_run(principal: Principal, conversation: ConversationId, run: RunId) -> Self {
        Self {
            principal,
            on_behalf_of: None,
            conversation_id: Some(conversation),
            run_id: Some(run),
        }
    }
}
