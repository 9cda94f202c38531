//! Asking a person, and what becomes of the answer.
//!
//! Only an answer that was offered counts; anything else is a no. A lasting
//! one counts only from a surface where the person holds the keyboard.

use std::sync::Arc;

use portcullis_policy::{Asking, Class, Effect, PatternSet, Remembered, Rule, triggers};
use portcullis_proto::{Access, Digest, Facts, Failure, QuestionId, Reason, Resource, Verb};

use crate::approve::{Answered, Reply};
use crate::attempt::Attempt;
use crate::caller::Brought;
use crate::enter::changed;
use crate::gate::clip;
use crate::question::{Answer, Decision, Question, digest, lasting_rules};

impl Attempt {
    /// Puts the question and returns the digest that was said yes to.
    pub(crate) async fn ask(
        &mut self,
        facts: &Arc<Facts>,
        asking: Asking,
    ) -> Result<Digest, Failure> {
        self.book.source = asking.source.clone();
        let pinned = digest(&self.book.caller.subject, facts);
        if let Some(Brought {
            answered: brought,
            claim,
        }) = self.book.caller.take_answer()
        {
            self.book.question = Some(brought.question.clone());
            if brought.digest != pinned {
                return Err(changed());
            }
            if let Some(claim) = claim {
                claim.take(&brought.question).await?;
            }
            return self
                .settle_brought(facts, &asking, brought)
                .map(|()| pinned);
        }
        let Some(approver) = self.book.caller.approver.clone() else {
            return Err(self.nobody_to_ask(facts, &asking));
        };
        let _parked = self.book.gate.park()?;
        let now = self.book.gate.clock.now_ms();
        let patience = self.book.caller.patience;
        let question = Question {
            id: self.book.next_question(),
            digest: pinned,
            subject: self.book.caller.subject.clone(),
            facts: Facts::clone(facts),
            class: Question::class_word(&asking),
            source: asking.source.to_string(),
            exact_path: Question::is_exact(&asking),
            about: None,
            offered: self.offered(facts, &asking, approver.may_say_always()),
            asked_at: now,
            deadline: now.saturating_add(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX)),
        };
        let reply = tokio::time::timeout(patience, approver.ask(&question)).await;
        // A machine that slept wakes up with its timers behind the clock.
        let late = self.book.gate.clock.now_ms() > question.deadline;
        match reply.unwrap_or(Reply::TimedOut) {
            Reply::Answered(answer) if !late => self
                .settle(facts, &asking, &question.id, &question.offered, answer)
                .map(|()| pinned),
            Reply::Suspended => Err(Reason::ApprovalPending.into()),
            Reply::Unavailable => Err(self.nobody_to_ask(facts, &asking)),
            Reply::Answered(_) | Reply::TimedOut => Err(Failure::from(Reason::ApprovalTimeout)
                .hint(
                    "Ask for it again when somebody is there to answer, or have a rule allow it.",
                )),
        }
    }

    /// The answers that count.
    fn offered(&self, facts: &Facts, asking: &Asking, may_say_always: bool) -> Vec<Decision> {
        // A rule speaks for the whole group: a yes to a look at a secret, kept,
        // would be a yes to its bytes, which nobody was asked about.
        let only_looks = asking.class == Some(Class::Secret)
            && matches!(facts.verb.access(), Access::Metadata | Access::List);
        // One about what an archive is made of would be a yes to changing all of it.
        let packs = facts.verb == Verb::Archive;
        let keeps_a_yes = asking.remembered != Remembered::Never && !only_looks && !packs;
        Decision::ALL
            .into_iter()
            .filter(|decision| match decision {
                Decision::AllowOnce | Decision::DenyOnce => true,
                Decision::AllowSession => keeps_a_yes && self.book.caller.session.is_some(),
                Decision::AlwaysAllow => keeps_a_yes && may_say_always,
                Decision::AlwaysDeny => may_say_always,
            })
            .collect()
    }

    fn settle(
        &mut self,
        facts: &Facts,
        asking: &Asking,
        question: &QuestionId,
        offered: &[Decision],
        answer: Answer,
    ) -> Result<(), Failure> {
        self.book.answered_by = Some(format!("{}:{}", answer.surface.as_str(), clip(&answer.by)));
        let refused = |message: &'static str| Err(Failure::new(Reason::ApprovalDenied, message));
        let lasting = matches!(
            answer.decision,
            Decision::AlwaysAllow | Decision::AlwaysDeny
        );
        if lasting && !answer.surface.may_say_always() {
            return refused(
                "A lasting answer counts only from the person's own terminal or console.",
            );
        }
        if !offered.contains(&answer.decision) {
            return refused("The answer was one that was not offered, which counts as a no.");
        }
        match answer.decision {
            Decision::AllowOnce => Ok(()),
            Decision::DenyOnce => refused("The person asked said no."),
            Decision::AllowSession => {
                let session = self
                    .book
                    .caller
                    .session
                    .as_ref()
                    .ok_or(Reason::ApprovalDenied)?;
                let principal = &self.book.caller.subject.principal;
                lasting_rules(Effect::Allow, facts, asking.class.is_some(), question)
                    .try_for_each(|rule| {
                        self.book.gate.sessions.remember(session, principal, &rule)
                    })
                    .map_err(|bad| Failure::from(Reason::Bug).detail(bad))
            }
            Decision::AlwaysAllow => self.keep(lasting_rules(
                Effect::Allow,
                facts,
                asking.class.is_some(),
                question,
            )),
            Decision::AlwaysDeny => {
                self.keep(lasting_rules(
                    Effect::Deny,
                    facts,
                    asking.class.is_some(),
                    question,
                ))?;
                refused("The person asked said no, and that it stays so.")
            }
        }
    }

    /// Keeps lasting rules, in force at once. One that cannot be stored holds
    /// for this process, and says so; the answer itself stands either way.
    fn keep(&self, kept: impl Iterator<Item = Rule>) -> Result<(), Failure> {
        for mut rule in kept {
            if self.book.gate.keeper.keep(&rule).is_err() {
                rule.source = format!("{} (not stored)", rule.source).into();
            }
            self.book
                .gate
                .add_rule(&rule)
                .map_err(|bad| Failure::from(Reason::Bug).detail(bad))?;
        }
        Ok(())
    }

    /// A no that came with the call holds, even where the rules or the hooks
    /// would by now not have asked.
    pub(crate) fn heed_a_no(&mut self, lexical: &Facts, facts: &Facts) -> Result<(), Failure> {
        let subject = &self.book.caller.subject;
        let pinned = || [digest(subject, lexical), digest(subject, facts)];
        let Some(no) = self.book.caller.take_no(pinned) else {
            return Ok(());
        };
        self.book.question = Some(no.question.clone());
        let asking = Asking {
            class: None,
            source: self.book.source.clone(),
            remembered: Remembered::Never,
        };
        self.settle_brought(facts, &asking, no)
    }

    /// Settles on an answer that came with the call. It was answered on its own
    /// surface, whoever carries it here; and what it says for good was kept when
    /// it was said, so that carrying it again brings back no rule that somebody
    /// has taken back since.
    fn settle_brought(
        &mut self,
        facts: &Facts,
        asking: &Asking,
        brought: Answered,
    ) -> Result<(), Failure> {
        let Answered {
            question,
            mut answer,
            ..
        } = brought;
        if answer.surface.may_say_always() {
            answer.decision = match answer.decision {
                Decision::AlwaysAllow => Decision::AllowOnce,
                Decision::AlwaysDeny => Decision::DenyOnce,
                once @ (Decision::AllowOnce | Decision::AllowSession | Decision::DenyOnce) => once,
            };
        }
        let offered = self.offered(facts, asking, answer.surface.may_say_always());
        self.settle(facts, asking, &question, &offered, answer)
    }

    /// The refusal where nobody can be asked: it names the rule that would allow it.
    pub(crate) fn nobody_to_ask(&mut self, facts: &Facts, asking: &Asking) -> Failure {
        self.book.source = asking.source.clone();
        unavailable(facts, asking)
    }
}

pub(crate) fn unavailable(facts: &Facts, asking: &Asking) -> Failure {
    let raised = |one: &Resource| Class::of(&one.classed(&one.path), one.access) == asking.class;
    let Some(resource) = facts
        .resources
        .iter()
        .find(|resource| raised(resource))
        .or(facts.resources.first())
    else {
        return Reason::ApprovalUnavailable.into();
    };
    let path = &resource.path;
    let group = facts.group();
    // Literally this path: a name with a `*` in it must not talk an operator
    // into a rule for everything.
    let pattern = serde_json::Value::from(PatternSet::exact(path));
    let of_class = asking.class.map_or_else(String::new, |class| {
        format!(" is of the {} class, which", class.as_str())
    });
    let would_run = triggers(facts)
        .first()
        .map(|(path, runs)| format!(" What would run {}: {runs}.", path.shown()))
        .unwrap_or_default();
    let message =
        format!("{path}{of_class} needs a person's yes, and nobody can be asked here.{would_run}");
    let rule = match asking.class {
        Some(_) => format!("{{\"pattern\": {pattern}, \"coversProtected\": true}}"),
        None => pattern.to_string(),
    };
    if facts.unkept && asking.class.is_none() {
        return Failure::new(
            Reason::ApprovalUnavailable,
            format!("{path}: what was displaced within the last 24 hours fills the undo store, so a change that displaces more needs a person's yes, and nobody can be asked here."),
        )
        .hint("The operator frees it with `portcullis undo prune`, or answers with `portcullis approve --watch`.");
    }
    let answer = "The operator can answer with `portcullis approve --watch`";
    Failure::new(Reason::ApprovalUnavailable, message).hint(match asking.remembered {
        // No rule answers what is asked about every time.
        Remembered::Never => format!("{answer}."),
        Remembered::Subtree | Remembered::ExactPath => format!(
            "{answer}, or allow it for good: {rule} under resourcePermissions.{group}.allow in settings.json."
        ),
    })
}
