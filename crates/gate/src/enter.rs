//! From attempt to permit: judged lexically, resolved, judged on the facts,
//! and asked about where a person has to say.
//!
//! Whatever was waited for, a hook or a person, the judgement that counts is
//! made after the wait: what denies the deed by then wins over any yes.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::time::Duration;

use portcullis_policy::{
    Asking, Class, Denial, Remembered, Source, Standing, Terms, Verdict, View, judge,
    judged_with_read,
};
use portcullis_proto::{Facts, Failure, Reason, Resource};

use crate::attempt::Attempt;
use crate::deed::Deed;
use crate::grant::{Granted, Grants};
use crate::hook::HookSay;
use crate::permit::Permit;
use crate::question::digest;
use crate::root::RootEntry;

/// How long the gate waits for a hook that does not keep to its own deadline.
const HOOK_PATIENCE: Duration = Duration::from_secs(30);

/// How an attempted path becomes a deed.
trait Resolve<D> {
    type Deed: Future<Output = Result<D, Failure>>;

    fn on(&self, terms: &Terms) -> Self::Deed;
}

/// On the spot.
struct AtOnce<R>(R);

impl<D, R: Fn(&Terms) -> Result<D, Failure>> Resolve<D> for AtOnce<R> {
    type Deed = Ready<Result<D, Failure>>;

    fn on(&self, terms: &Terms) -> Self::Deed {
        ready(self.0(terms))
    }
}

/// Elsewhere, while others have their turn.
struct InTime<R>(R);

impl<D, R: Fn(Terms) -> F, F: Future<Output = Result<D, Failure>>> Resolve<D> for InTime<R> {
    type Deed = F;

    fn on(&self, terms: &Terms) -> Self::Deed {
        self.0(terms.clone())
    }
}

/// What a judgement that did not deny came to.
struct Judged {
    /// The question it raises, if any.
    asking: Option<Asking>,
    terms: Terms,
    grants: Grants,
}

impl Attempt {
    /// Judges the attempt and, if it may be done, hands out the permit.
    ///
    /// `resolve` turns the attempted path into a deed. It is called again after
    /// a person said yes: while they think, no handle is held, and if what is
    /// found then differs in any respect from what they were asked about,
    /// nothing is done and the reason is `changed`.
    pub async fn enter<D: Deed>(
        self,
        resolve: impl Fn(&Terms) -> Result<D, Failure>,
    ) -> Result<Permit<D>, Failure> {
        self.enter_with(&AtOnce(resolve)).await
    }

    /// As [`enter`](Self::enter), where resolving takes long: what a person has
    /// to be told may stand deep in what was named.
    pub async fn enter_in_time<D: Deed, F: Future<Output = Result<D, Failure>>>(
        self,
        resolve: impl Fn(Terms) -> F,
    ) -> Result<Permit<D>, Failure> {
        self.enter_with(&InTime(resolve)).await
    }

    async fn enter_with<D: Deed>(
        mut self,
        resolve: &impl Resolve<D>,
    ) -> Result<Permit<D>, Failure> {
        match self.judge_and_resolve(resolve).await {
            Ok((deed, terms, grants)) => Ok(Permit {
                deed,
                book: self.book,
                terms,
                grants,
            }),
            Err(failure) => Err(self.book.refuse(failure)),
        }
    }

    async fn judge_and_resolve<D: Deed>(
        &mut self,
        resolve: &impl Resolve<D>,
    ) -> Result<(D, Terms, Grants), Failure> {
        self.book.gate.check_open()?;

        // Lexically first: it may only deny, or ask about a secret, so that a
        // path nobody may reach is neither opened nor revealed.
        let lexical = Arc::clone(&self.book.facts);
        let Judged {
            asking: mut raised,
            mut terms,
            ..
        } = self.judged(&lexical, None)?;
        if let Some(asking) = &raised
            && !self.book.caller.can_be_asked()
        {
            return Err(self.nobody_to_ask(&lexical, asking));
        }
        let secret = raised.take_if(|asking| asking.class == Some(Class::Secret));
        // An answer to the question that comes after this one says yes to more
        // than this one asks. One to anything else must not tell what is there.
        let answers_the_next = secret.is_some()
            && lexical.verb.mutates()
            && self.brings_answer_to(&lexical) == Some(false);
        let mut asked_about_secret = false;
        match secret {
            Some(asking) if answers_the_next => raised = Some(asking),
            Some(asking) => {
                self.ask(&lexical, asking).await?;
                terms = self.judged(&lexical, None)?.terms;
                asked_about_secret = true;
            }
            None => {}
        }

        let resolved = self.resolved(&lexical, resolve, &terms).await;
        if answers_the_next && resolved.is_err() {
            return Err(self.answered_another());
        }
        let deed = resolved?;
        let facts = self.facts_of(&deed)?;
        if answers_the_next && self.brings_answer_to(&facts) != Some(true) {
            return Err(self.answered_another());
        }
        let mut judged = self.judged(&facts, Some(terms))?;
        if !self.book.gate.hooks.is_empty() {
            let by_hook = self.ask_hooks().await?;
            raised = raised.or(by_hook);
            judged = self.judged(&facts, Some(judged.terms))?;
        }
        // A yes to the secret path answers for the same path resolved, unless
        // something comes there that it did not name, there is more below it or
        // more is lost than it says. What the path as written would be asked
        // about, is asked wherever it leads.
        let covered = asked_about_secret
            && same_paths(&lexical, &facts)
            && facts.shown == lexical.shown
            && facts.below.is_empty()
            && !facts.shrinks
            && !facts.unkept;
        let asking = judged
            .asking
            .filter(|asking| !(covered && asking.class == Some(Class::Secret)))
            .or(raised);
        let Some(asking) = asking else {
            self.heed_a_no(&lexical, &facts)?;
            return Ok((deed, judged.terms, judged.grants));
        };

        // Park: the handles are closed, the digest stays.
        drop(deed);
        let asked_about = self.ask(&facts, asking).await?;
        let judged = self.judged(&facts, None)?;
        let deed = self.resolved(&lexical, resolve, &judged.terms).await?;
        let again = self.facts_of(&deed)?;
        // Equal digests: what was asked about is what is there now.
        if digest(&self.book.caller.subject, &again) != asked_about {
            return Err(changed());
        }
        self.book.answered_whole = true;
        // Resolving may have waited for its turn, too.
        let judged = self.judged(&again, Some(judged.terms))?;
        Ok((deed, judged.terms, judged.grants))
    }

    /// Whether the answer that came with the call, if one did, is one to `facts`.
    fn brings_answer_to(&self, facts: &Facts) -> Option<bool> {
        let caller = &self.book.caller;
        caller.answers(|| digest(&caller.subject, facts))
    }

    /// The refusal when the answer that came with the call was to something else.
    fn answered_another(&mut self) -> Failure {
        let brought = self.book.caller.take_answer();
        self.book.question = brought.map(|brought| brought.answered.question);
        changed()
    }

    /// Judges `facts` by the rules, grants and trust of this moment. The terms of
    /// an earlier judgement save making the view anew while nothing has changed.
    fn judged(&mut self, facts: &Facts, earlier: Option<Terms>) -> Result<Judged, Failure> {
        let mut grants = Grants::new();
        // Nearly every deed touches one thing, and is judged without a heap.
        if let ([root], [resource]) = (&*self.roots, &*facts.resources) {
            let view = match earlier {
                Some(terms) => {
                    self.book
                        .gate
                        .view_after(terms.into_view(), &self.book.caller, root)
                }
                None => self.book.gate.view(&self.book.caller, root),
            };
            if judged_with_read(facts, std::slice::from_ref(&view)).is_none() {
                let granted = self.granted(root, resource, &mut grants);
                let standing = Standing {
                    view: &view,
                    granted,
                };
                let verdict = judge(facts, &[standing]);
                return self.concluded(verdict, [view], grants);
            }
        }
        let mut views: Vec<View> = self
            .roots
            .iter()
            .map(|root| self.book.gate.view(&self.book.caller, root))
            .collect();
        let with_read = judged_with_read(facts, &views);
        let also_read = with_read.as_ref().map(|(_, read)| *read);
        let also_read = also_read.and_then(|read| self.roots.get(read).zip(views.get(read)));
        let roots = self.roots.iter().chain(also_read.map(|(root, _)| root));
        let of_read = also_read.map(|(_, view)| view.clone());
        views.extend(of_read);
        let facts = with_read.as_ref().map_or(facts, |(facts, _)| facts);
        let standing: Vec<Standing<'_>> = facts
            .resources
            .iter()
            .zip(roots.zip(&views))
            .map(|(resource, (root, view))| Standing {
                view,
                granted: self.granted(root, resource, &mut grants),
            })
            .collect();
        let verdict = judge(facts, &standing);
        self.concluded(verdict, views, grants)
    }

    /// Whether a live grant covers `resource`; the grant is remembered.
    fn granted(&self, root: &RootEntry, resource: &Resource, grants: &mut Grants) -> bool {
        match self
            .book
            .gate
            .granted(&self.book.caller, root, resource.access)
        {
            Granted::By(grant) => {
                grants.push(grant);
                true
            }
            Granted::No => false,
        }
    }

    fn concluded(
        &mut self,
        verdict: Verdict,
        views: impl IntoIterator<Item = View>,
        grants: Grants,
    ) -> Result<Judged, Failure> {
        let asking = match verdict {
            Verdict::Deny(denial) => return Err(self.denied(denial)),
            Verdict::Ask(asking) => Some(asking),
            Verdict::Allow(source) => {
                // Where a person answered, what they were asked about decided.
                if self.book.answered_by.is_none() {
                    self.book.source = source;
                }
                None
            }
        };
        Ok(Judged {
            asking,
            terms: Terms::under(views).ok_or(Reason::NoGrant)?,
            grants,
        })
    }

    fn denied(&mut self, denial: Denial) -> Failure {
        self.book.source = denial.source;
        refusal(denial.reason, &self.book.source)
    }

    async fn resolved<D: Deed>(
        &mut self,
        lexical: &Facts,
        resolve: &impl Resolve<D>,
        terms: &Terms,
    ) -> Result<D, Failure> {
        let resolved = resolve.on(terms).await;
        let only_leads = || {
            let lead = lexical.resources.first();
            lead.is_some_and(|resource| terms.only_leads(&resource.path))
        };
        if resolved.is_err() && only_leads() {
            // A file there would be denied: that none is there is not told either.
            return Err(self.denied(Denial {
                reason: Reason::DeniedByRule,
                source: Source::Builtin("root:allowedGlobs"),
            }));
        }
        resolved
    }

    /// Takes the facts of a deed, once. They may say more than was attempted
    /// (what stands there, where a link led), never something else.
    fn facts_of<D: Deed>(&mut self, deed: &D) -> Result<Arc<Facts>, Failure> {
        let facts = Arc::new(deed.facts());
        if !same_shape(&self.book.facts, &facts) {
            return Err(Failure::from(Reason::Bug)
                .detail("the deed a hand resolved is not the one that was attempted"));
        }
        self.book.facts = Arc::clone(&facts);
        Ok(facts)
    }

    /// Asks every hook, in order. One may raise a question, or refuse.
    async fn ask_hooks(&mut self) -> Result<Option<Asking>, Failure> {
        let mut raised = None;
        let call = self.book.hook_call();
        let gate = Arc::clone(&self.book.gate);
        for hook in &gate.hooks {
            self.book.wrappers.push(hook.id().to_owned());
            let source = || Source::Rule(format!("hook:{}", hook.id()).into());
            let said = tokio::time::timeout(HOOK_PATIENCE, hook.before(&call)).await;
            match said.unwrap_or_else(|_| HookSay::Broken("it did not end".into())) {
                HookSay::Pass => {}
                HookSay::Ask(_) => {
                    raised.get_or_insert(Asking {
                        class: None,
                        source: source(),
                        remembered: Remembered::Never,
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
        Ok(raised)
    }
}

/// The refusal when what a person said yes to is not what is there.
pub(crate) fn changed() -> Failure {
    Failure::from(Reason::Changed)
        .hint("Ask for it again; the new question shows what is there now.")
}

fn same_shape(attempted: &Facts, resolved: &Facts) -> bool {
    attempted.verb == resolved.verb
        && attempted.resources.len() == resolved.resources.len()
        && attempted
            .resources
            .iter()
            .zip(&resolved.resources)
            .all(|(a, b)| a.root == b.root && a.kind == b.kind && a.access == b.access)
}

fn same_paths(a: &Facts, b: &Facts) -> bool {
    a.resources
        .iter()
        .zip(&b.resources)
        .all(|(a, b)| a.path == b.path)
}

/// The refusal for `reason`, with the next step where there is one.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "few reasons of a verdict have a next step"
)]
pub(crate) fn refusal(reason: Reason, source: &Source) -> Failure {
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
        Reason::ProtectedState if *source == Source::Builtin("operator-file") => Failure::new(
            reason,
            "The operator named this file to be run or trusted (a hook program, a certificate); no agent changes it.",
        )
        .hint("The operator changes it outside of Portcullis."),
        Reason::Untrusted => failure.hint("The operator trusts it with `portcullis trust add`."),
        _ => failure,
    }
}
