//! From attempt to permit: judged lexically, resolved, judged on the facts,
//! and asked about where a person has to say.

use std::sync::Arc;

use portcullis_policy::{
    Asking, Class, Denial, Effect, PatternSet, Remembered, Rule, Source, Standing, Terms, Verdict,
    View, judge,
};
use portcullis_proto::{Digest, Facts, Failure, QuestionId, Reason};

use crate::approve::{Answered, Reply};
use crate::attempt::Attempt;
use crate::deed::Deed;
use crate::grant::{Grant, Granted};
use crate::hook::HookSay;
use crate::permit::Permit;
use crate::question::{Answer, Decision, Question, digest};

impl Attempt {
    /// Judges the attempt and, if it may be done, hands out the permit.
    ///
    /// `resolve` turns the attempted path into a deed. It is called again after
    /// a person said yes: while they think, no handle is held, and if what is
    /// found then differs in any respect from what they were asked about,
    /// nothing is done and the reason is `changed`.
    pub async fn enter<D: Deed>(
        mut self,
        resolve: impl Fn(&Terms) -> Result<D, Failure>,
    ) -> Result<Permit<D>, Failure> {
        match self.judge_and_resolve(&resolve).await {
            Ok((deed, terms, grants)) => Ok(Permit {
                gate: self.gate,
                deed,
                book: self.book,
                terms,
                grants,
                cancel: self.caller.cancel,
            }),
            Err(failure) => Err(self.book.refuse(failure)),
        }
    }

    async fn judge_and_resolve<D: Deed>(
        &mut self,
        resolve: &impl Fn(&Terms) -> Result<D, Failure>,
    ) -> Result<(D, Terms, Vec<Arc<Grant>>), Failure> {
        self.gate.check_open()?;
        let views: Vec<View> = self
            .roots
            .iter()
            .map(|root| self.gate.view(&self.caller, root))
            .collect();
        let terms = Terms::before_judgement(views.first().ok_or(Reason::NoGrant)?);

        // Lexically first: it may only deny, or ask about a secret, so that a
        // path nobody may reach is neither opened nor revealed.
        let lexical = Arc::clone(&self.book.facts);
        let (verdict, _) = self.verdict(&lexical, &views);
        let mut answered_for_secret = false;
        match verdict {
            Verdict::Deny(denial) => return Err(self.denied(denial)),
            Verdict::Ask(asking) if asking.class == Some(Class::Secret) => {
                self.ask(&lexical, asking).await?;
                answered_for_secret = true;
            }
            Verdict::Ask(_) | Verdict::Allow(..) => {}
        }

        let deed = resolve(&terms)?;
        let facts = Arc::new(deed.facts());
        self.book.facts = Arc::clone(&facts);
        let (verdict, grants) = self.verdict(&facts, &views);
        let mut asking = match verdict {
            Verdict::Deny(denial) => return Err(self.denied(denial)),
            Verdict::Ask(asking) => {
                let covered = answered_for_secret
                    && asking.class == Some(Class::Secret)
                    && same_paths(&lexical, &facts);
                (!covered).then_some(asking)
            }
            Verdict::Allow(_, source) => {
                if !answered_for_secret {
                    self.book.source = source;
                }
                None
            }
        };
        if !self.gate.hooks.is_empty() {
            asking = self.ask_hooks(asking).await?;
        }
        let Some(asking) = asking else {
            return Ok((deed, terms, grants));
        };

        // Park: the handles are closed, the digest stays.
        drop(deed);
        let asked_about = self.ask(&facts, asking).await?;
        let deed = resolve(&terms)?;
        let again = Arc::new(deed.facts());
        self.book.facts = Arc::clone(&again);
        if digest(&self.caller.subject, &again) != asked_about {
            return Err(Failure::from(Reason::Changed)
                .hint("Ask for it again; the new question shows what is there now."));
        }
        // Rules and grants may have changed while the question was open. What
        // now denies it wins over the yes.
        let views: Vec<View> = self
            .roots
            .iter()
            .map(|root| self.gate.view(&self.caller, root))
            .collect();
        match self.verdict(&again, &views) {
            (Verdict::Deny(denial), _) => Err(self.denied(denial)),
            (Verdict::Ask(_) | Verdict::Allow(..), grants) => Ok((deed, terms, grants)),
        }
    }

    fn verdict(&self, facts: &Facts, views: &[View]) -> (Verdict, Vec<Arc<Grant>>) {
        let now = self.gate.clock.now_ms();
        let mut grants = Vec::with_capacity(views.len());
        let standing: Vec<Standing<'_>> = facts
            .resources
            .iter()
            .zip(views)
            .map(|(resource, view)| {
                let found = self.gate.grants().find(
                    &self.caller.subject.principal,
                    &resource.root,
                    resource.access,
                    now,
                );
                let granted = match found {
                    Granted::By(grant) => {
                        grants.push(grant);
                        true
                    }
                    Granted::No => false,
                };
                Standing { view, granted }
            })
            .collect();
        (judge(facts, &standing), grants)
    }

    fn denied(&mut self, denial: Denial) -> Failure {
        self.book.source = denial.source;
        refusal(denial.reason, &self.book.source)
    }

    /// Asks every hook, in order. One may raise a yes to a question, or refuse.
    async fn ask_hooks(&mut self, mut asking: Option<Asking>) -> Result<Option<Asking>, Failure> {
        let call = self.book.hook_call();
        for hook in &self.gate.hooks {
            self.book.wrappers.push(hook.id().to_owned());
            let source = || Source::Rule(format!("hook:{}", hook.id()).into());
            match hook.before(&call).await {
                HookSay::Pass => {}
                HookSay::Ask(_) => {
                    asking.get_or_insert(Asking {
                        class: None,
                        source: source(),
                        remembered: Remembered::ExactPath,
                    });
                }
                HookSay::Deny(why) => {
                    self.book.source = source();
                    return Err(Failure::new(
                        Reason::DeniedByHook,
                        format!("The hook {:?} denied it.", hook.id()),
                    )
                    .detail(why));
                }
                HookSay::Broken(why) => {
                    self.book.source = source();
                    return Err(Failure::new(
                        Reason::HookFailed,
                        format!(
                            "The hook {:?} did not answer as it should, which counts as a no.",
                            hook.id()
                        ),
                    )
                    .hint("Run `portcullis doctor`; it tries every hook.")
                    .detail(why));
                }
            }
        }
        Ok(asking)
    }

    /// Puts the question and returns the digest that was said yes to.
    async fn ask(&mut self, facts: &Arc<Facts>, asking: Asking) -> Result<Digest, Failure> {
        self.book.source = asking.source.clone();
        let pinned = digest(&self.caller.subject, facts);
        if let Some(Answered {
            question,
            digest,
            answer,
        }) = self.caller.take_answer()
        {
            self.book.question = Some(question.clone());
            if digest != pinned {
                return Err(Failure::from(Reason::Changed)
                    .hint("Ask for it again; the new question shows what is there now."));
            }
            return self
                .settle(facts, &asking, &question, answer)
                .map(|()| pinned);
        }
        let Some(approver) = self.caller.approver.clone() else {
            return Err(unavailable(facts, &asking));
        };
        let now = self.gate.clock.now_ms();
        let patience = self.caller.patience;
        let mut offered = vec![Decision::AllowOnce];
        if self.caller.session.is_some() {
            offered.push(Decision::AllowSession);
        }
        offered.extend([
            Decision::AlwaysAllow,
            Decision::DenyOnce,
            Decision::AlwaysDeny,
        ]);
        let question = Question {
            id: QuestionId::new(format!(
                "q_{}",
                self.book.request.as_str().trim_start_matches("r_")
            )),
            digest: pinned,
            subject: self.caller.subject.clone(),
            facts: Facts::clone(facts),
            class: Question::class_word(&asking),
            source: asking.source.to_string(),
            exact_path: Question::is_exact(&asking),
            offered,
            asked_at: now,
            deadline: now.saturating_add(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX)),
        };
        self.book.question = Some(question.id.clone());
        match tokio::time::timeout(patience, approver.ask(&question)).await {
            Ok(Reply::Answered(answer)) => self
                .settle(facts, &asking, &question.id, answer)
                .map(|()| pinned),
            Ok(Reply::Suspended) => Err(Reason::ApprovalPending.into()),
            Ok(Reply::Unavailable) => Err(unavailable(facts, &asking)),
            Ok(Reply::TimedOut) | Err(_) => Err(Failure::from(Reason::ApprovalTimeout).hint(
                "Ask for it again when somebody is there to answer, or have a rule allow it.",
            )),
        }
    }

    /// Takes an answer: remembers what it says to remember, refuses what it refuses.
    fn settle(
        &mut self,
        facts: &Facts,
        asking: &Asking,
        question: &QuestionId,
        answer: Answer,
    ) -> Result<(), Failure> {
        self.book.answered_by = Some(format!("{}:{}", answer.surface.as_str(), answer.by));
        let refused = |message: &'static str| Failure::new(Reason::ApprovalDenied, message);
        match answer.decision {
            Decision::AllowOnce => Ok(()),
            Decision::DenyOnce => Err(refused("The person asked said no.")),
            Decision::AllowSession => {
                let Some(session) = self.caller.session.clone() else {
                    return Err(refused(
                        "The answer was one that was not offered, which counts as a no.",
                    ));
                };
                for rule in rules(Effect::Allow, facts, asking, question) {
                    self.gate
                        .sessions
                        .remember(&session, &rule)
                        .map_err(|bad| Failure::from(Reason::Bug).detail(bad))?;
                }
                Ok(())
            }
            Decision::AlwaysAllow | Decision::AlwaysDeny if !answer.surface.may_say_always() => {
                Err(refused(
                    "A lasting answer counts only from the person's own terminal or console.",
                ))
            }
            Decision::AlwaysAllow => {
                self.keep(&rules(Effect::Allow, facts, asking, question));
                Ok(())
            }
            Decision::AlwaysDeny => {
                self.keep(&rules(Effect::Deny, facts, asking, question));
                Err(refused("The person asked said no, and that it stays so."))
            }
        }
    }

    /// Keeps lasting rules, in force at once. One that cannot be stored holds
    /// for this process; the answer itself stands either way.
    fn keep(&self, kept: &[Rule]) {
        for rule in kept {
            let mut source = rule.source.to_string();
            if let Err(why) = self.gate.keeper.keep(rule) {
                source = format!("{source} (not stored: {why})");
            }
            let mut rules = portcullis_policy::Rules::clone(&self.gate.rules());
            let rule = Rule {
                source: source.into(),
                ..rule.clone()
            };
            if let Ok(stored) = rules.stored.with(rule) {
                rules.stored = stored;
                self.gate.replace_rules(rules);
            }
        }
    }
}

fn rules(effect: Effect, facts: &Facts, asking: &Asking, question: &QuestionId) -> Vec<Rule> {
    facts
        .resources
        .iter()
        .map(|resource| Rule {
            effect,
            group: facts.group(),
            root: Some(resource.root.clone()),
            pattern: PatternSet::exact(&resource.path),
            covers_protected: asking.class.is_some(),
            source: format!("answer:{question}").into(),
        })
        .collect()
}

fn same_paths(a: &Facts, b: &Facts) -> bool {
    a.verb == b.verb
        && a.resources.len() == b.resources.len()
        && a.resources
            .iter()
            .zip(&b.resources)
            .all(|(a, b)| a.root == b.root && a.path == b.path && a.access == b.access)
}

/// The refusal for `reason`, with the next step where there is one.
fn refusal(reason: Reason, source: &Source) -> Failure {
    let failure = Failure::from(reason);
    match reason {
        Reason::DeniedByRule => Failure::new(reason, format!("A rule denies it ({source})."))
            .hint("Run `portcullis policy explain` with the same path to see the rule."),
        Reason::DeniedByMode => {
            failure.hint("The operator can switch the group on with `--permission-<group> ask`.")
        }
        Reason::NoGrant => {
            failure.hint("The operator grants access to a root in the settings file.")
        }
        Reason::Untrusted => failure.hint("The operator trusts it with `portcullis trust add`."),
        _ => failure,
    }
}

fn unavailable(facts: &Facts, asking: &Asking) -> Failure {
    let path = facts
        .resources
        .first()
        .map(|resource| resource.path.shown().to_owned())
        .unwrap_or_default();
    let group = facts.group();
    let (message, rule) = match asking.class {
        Some(class) => (
            format!(
                "{path} is of the {} class, which needs a person's yes, and nobody can be asked here.",
                class.as_str()
            ),
            format!("{{\"pattern\": \"/{path}\", \"coversProtected\": true}}"),
        ),
        None => (
            format!("{path} needs a person's yes, and nobody can be asked here."),
            format!("\"/{path}\""),
        ),
    };
    Failure::new(Reason::ApprovalUnavailable, message).hint(format!(
        "The operator can answer with `portcullis approve --watch`, or allow it for good: {rule} under resourcePermissions.{group}.allow in settings.json."
    ))
}
