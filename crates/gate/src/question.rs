//! A question to a person, pinned to the digest of what it is about.

use portcullis_policy::{Asking, Class, Effect, PatternSet, Remembered, Rule, triggers};
use portcullis_proto::{
    Access, ConversationId, Digest, Facts, Group, Principal, QuestionId, RelPath, RunId, Subject,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// What a person can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Yes, this once.
    AllowOnce,
    /// Yes, until the session ends.
    AllowSession,
    /// Yes, from now on.
    AlwaysAllow,
    /// No, this once.
    DenyOnce,
    /// No, from now on.
    AlwaysDeny,
}

impl Decision {
    /// Every decision, in the order a prompt shows them.
    pub const ALL: [Self; 5] = [
        Self::AllowOnce,
        Self::AllowSession,
        Self::AlwaysAllow,
        Self::DenyOnce,
        Self::AlwaysDeny,
    ];

    /// The decision as the wire spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AllowOnce => "allow_once",
            Self::AllowSession => "allow_session",
            Self::AlwaysAllow => "always_allow",
            Self::DenyOnce => "deny_once",
            Self::AlwaysDeny => "always_deny",
        }
    }

    /// The decision spelled `word`.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|decision| decision.as_str() == word)
    }

    /// Whether it lets the deed happen.
    pub const fn allows(self) -> bool {
        match self {
            Self::AllowOnce | Self::AllowSession | Self::AlwaysAllow => true,
            Self::DenyOnce | Self::AlwaysDeny => false,
        }
    }
}

/// Where an answer was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Surface {
    /// The person's own terminal.
    Terminal,
    /// The person's own web console.
    Console,
    /// The agent's client, which the agent's host operates.
    Mcp,
    /// A program with a credential to answer.
    Api,
    /// A script, in tests.
    Script,
}

impl Surface {
    /// The surface as the audit spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Console => "console",
            Self::Mcp => "mcp",
            Self::Api => "api",
            Self::Script => "script",
        }
    }

    /// Whether "from now on" may be said there: only where the person, and not
    /// the agent's host, holds the keyboard.
    pub const fn may_say_always(self) -> bool {
        match self {
            Self::Terminal | Self::Console => true,
            Self::Mcp | Self::Api | Self::Script => false,
        }
    }
}

/// A person's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// What they said.
    pub decision: Decision,
    /// Where.
    pub surface: Surface,
    /// Who, as far as the surface knows.
    pub by: String,
}

/// A question: durable, holding no handle, answerable by any process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// Its name.
    pub id: QuestionId,
    /// Digest of verb, subject, every resource's identity and the bytes shown.
    pub digest: Digest,
    /// Who wants it.
    pub subject: Subject,
    /// What, and to what.
    pub facts: Facts,
    /// The protected class that raised it, if one did.
    pub class: Option<String>,
    /// What raised it.
    pub source: String,
    /// Whether a lasting answer covers the subtree or the exact path.
    pub exact_path: bool,
    /// What a linked machine says it is about, where one asks: words of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The answers that count.
    pub offered: Vec<Decision>,
    /// When it was asked, in milliseconds since 1970.
    pub asked_at: u64,
    /// When silence becomes no.
    pub deadline: u64,
}

impl Question {
    pub(crate) fn class_word(asking: &Asking) -> Option<String> {
        asking.class.map(|class| match class {
            Class::Secret | Class::AutoExec => class.as_str().to_owned(),
        })
    }

    pub(crate) fn is_exact(asking: &Asking) -> bool {
        match asking.remembered {
            Remembered::ExactPath | Remembered::Never => true,
            Remembered::Subtree => false,
        }
    }

    /// The rules an answer leaves behind: none, unless it is a lasting one that
    /// was given where the person holds the keyboard.
    pub fn rules_of(&self, answer: &Answer) -> Vec<Rule> {
        let effect = match answer.decision {
            Decision::AlwaysAllow => Effect::Allow,
            Decision::AlwaysDeny => Effect::Deny,
            Decision::AllowOnce | Decision::AllowSession | Decision::DenyOnce => return Vec::new(),
        };
        if !answer.surface.may_say_always() {
            return Vec::new();
        }
        lasting_rules(effect, &self.facts, self.class.is_some(), &self.id).collect()
    }

    /// What would run what is changed, each path with its words. Not kept with
    /// the question: the paths are, and the table of the policy says it again.
    pub fn runs(&self) -> Vec<(&RelPath, &'static str)> {
        triggers(&self.facts)
    }

    /// One sentence for a prompt: what would be done, to what, and what would
    /// run it.
    pub fn sentence(&self) -> String {
        if let Some(about) = &self.about {
            return format!("{} {about}", self.facts.verb);
        }
        let paths: Vec<String> = self
            .facts
            .resources
            .iter()
            .map(|resource| format!("{} (root {})", resource.path, resource.root))
            .collect();
        let class = self
            .class
            .as_deref()
            .map(|class| format!(", a path of the {class} class"))
            .unwrap_or_default();
        let runs: Vec<String> = self
            .runs()
            .into_iter()
            .map(|(path, runs)| format!("; {}: {runs}", path.shown()))
            .collect();
        let more = match self.facts.more_below {
            0 => String::new(),
            more => format!("; and {more} more below it that are protected"),
        };
        format!(
            "{} {}{class}{}{more}{}",
            self.facts.verb,
            paths.join(" → "),
            runs.concat(),
            if self.facts.unkept { UNDO_FULL } else { "" }
        )
    }
}

/// What is said of a deed that displaces more than the undo store has room for.
const UNDO_FULL: &str = "; the undo store is full of what was displaced within the last 24 hours (`portcullis undo prune` frees it)";

/// What a lasting answer to a question about `facts` says from then on.
pub(crate) fn lasting_rules(
    effect: Effect,
    facts: &Facts,
    covers_protected: bool,
    question: &QuestionId,
) -> impl Iterator<Item = Rule> {
    facts.resources.iter().map(move |resource| Rule {
        effect,
        group: match (effect, resource.access) {
            // What is only read on the way is judged as a read, and so it is
            // remembered: nobody was asked to let it be changed.
            (Effect::Allow, Access::Read | Access::List) => Group::FilesystemRead,
            (Effect::Allow | Effect::Deny, _) => facts.group(),
        },
        root: Some(resource.root.clone()),
        pattern: PatternSet::exact(&resource.path),
        covers_protected,
        exact_path: covers_protected,
        source: format!("answer:{question}").into(),
    })
}

/// The digest a question is pinned to. Every field that a person's yes rests
/// on goes in, length-prefixed, so that no two deeds share one.
pub(crate) fn digest(subject: &Subject, facts: &Facts) -> Digest {
    let mut hash = Sha256::new();
    let mut put = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    put(facts.verb.as_str().as_bytes());
    // Part by part: the label of a token would let `a/b` + `c` pass for `a` + `b/c`.
    let (kind, user, id) = match &subject.principal {
        Principal::Core { id } => ("core", "", id),
        Principal::User { id } => ("user", "", id),
        Principal::Token { user, id } => ("token", &**user, id),
        Principal::Extension { id } => {
            let user = subject.on_behalf_of.as_deref();
            ("extension", user.unwrap_or_default(), id)
        }
        Principal::Automation { id } => ("automation", "", id),
    };
    for part in [kind, user, id] {
        put(part.as_bytes());
    }
    let conversation = subject.conversation_id.as_ref().map(ConversationId::as_str);
    let run = subject.run_id.as_ref().map(RunId::as_str);
    for id in [conversation, run] {
        put(&[u8::from(id.is_some())]);
        put(id.unwrap_or_default().as_bytes());
    }
    put(&facts.resources.len().to_le_bytes());
    for resource in &facts.resources {
        put(resource.root.as_str().as_bytes());
        put(resource.path.as_str().as_bytes());
        put(resource.access.as_str().as_bytes());
        match resource.identity {
            None => put(b"unresolved"),
            Some(id) => {
                put(&id.dev.to_le_bytes());
                put(&id.ino.to_le_bytes());
                put(id.entity.as_str().as_bytes());
                put(&id.owner.to_le_bytes());
                put(&id.links.to_le_bytes());
            }
        }
    }
    match facts.shown {
        None => put(b"nothing shown"),
        Some(shown) => put(&shown.0),
    }
    put(&[u8::from(facts.shrinks), u8::from(facts.unkept)]);
    put(&facts.below.len().to_le_bytes());
    for below in &facts.below {
        put(below.as_str().as_bytes());
    }
    put(&facts.more_below.to_le_bytes());
    Digest(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use portcullis_proto::Verb;

    use super::*;

    #[test]
    fn whatever_a_question_tells_is_in_its_digest() {
        let told = || Facts {
            verb: Verb::Write,
            resources: Vec::new(),
            shown: None,
            shrinks: false,
            below: Vec::new(),
            more_below: 0,
            unkept: false,
        };
        let path = |path| RelPath::parse(path).unwrap();
        let others = [
            told(),
            Facts {
                verb: Verb::Edit,
                ..told()
            },
            Facts {
                shown: Some(Digest::ZERO),
                ..told()
            },
            Facts {
                shrinks: true,
                ..told()
            },
            Facts {
                unkept: true,
                ..told()
            },
            Facts {
                more_below: 1,
                ..told()
            },
            Facts {
                below: vec![path("a")],
                ..told()
            },
            Facts {
                below: vec![path("a"), path("b")],
                ..told()
            },
            Facts {
                below: vec![path("a/b")],
                ..told()
            },
        ];
        let subject = Subject::of(Principal::User { id: "ada".into() });
        for (n, one) in others.iter().enumerate() {
            for other in &others[..n] {
                assert_ne!(digest(&subject, one), digest(&subject, other), "{one:?}");
            }
        }
    }
}
