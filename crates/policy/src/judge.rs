//! The order of decisions, once.
//!
//! own state → stored deny → denied and allowed globs → grant → trust →
//! protected class → mode → stored allow → session allow → ask. The first that
//! speaks decides; deny wins, and absence denies.

use std::sync::Arc;

use portcullis_proto::{
    Access, Entity, Facts, Group, Mode, Reason, RelPath, Resource, RootId, Verb,
};

use crate::explain::{Silent, Trace};
use crate::exposure::is_by_exposure;
use crate::{Class, Remembered, RootPolicy, RuleSet, Rules, Source, Trigger};

/// What a verdict on paths of one root depends on, gathered by the gate.
#[derive(Clone, Debug)]
pub struct View {
    /// Modes and stored rules.
    pub rules: Arc<Rules>,
    /// What was allowed for this session.
    pub session: Arc<RuleSet>,
    /// The root's name.
    pub root: RootId,
    /// The root's policy.
    pub policy: Arc<RootPolicy>,
    /// Whether somebody trusts the root to be changed.
    pub trusted: bool,
}

impl View {
    /// Whether it is by the very rules that `other` is by.
    pub fn is_by_the_rules_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rules, &other.rules) && Arc::ptr_eq(&self.session, &other.session)
    }
}

/// A view, and whether a live grant covers the access asked for.
#[derive(Clone, Debug)]
pub struct Standing<'a> {
    /// The view of the resource's root.
    pub view: &'a View,
    /// Whether a live grant covers it.
    pub granted: bool,
}

/// The verdict on a deed.
#[must_use]
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Yes, on the [`Terms`](crate::Terms) of the views it was judged by.
    Allow(Source),
    /// A person has to say.
    Ask(Asking),
    /// No.
    Deny(Denial),
}

/// Why a person has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asking {
    /// The protected class, if one raised the question.
    pub class: Option<Class>,
    /// What raised it.
    pub source: Source,
    /// How far the answer may be remembered.
    pub remembered: Remembered,
}

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The reason code.
    pub reason: Reason,
    /// What denied it.
    pub source: Source,
}

/// One path's ruling, before terms.
#[derive(Clone, Debug)]
pub(crate) enum Ruling {
    Allow(Source),
    Ask(Asking),
    Deny(Denial),
}

/// Judges a deed on its facts. `standing` says how things stand for each
/// resource, in the order of the facts; the strictest ruling is the verdict.
pub fn judge(facts: &Facts, standing: &[Standing<'_>]) -> Verdict {
    let nobody_can_say = || {
        Verdict::Deny(Denial {
            reason: Reason::NoGrant,
            source: Source::Builtin("default:deny"),
        })
    };
    if facts.resources.len() != standing.len() {
        return nobody_can_say();
    }
    let mut asked: Option<Asking> = None;
    let mut allowed: Option<Source> = None;
    for (resource, standing) in facts.resources.iter().zip(standing) {
        if resource.root != standing.view.root {
            return nobody_can_say();
        }
        match rule_on(facts.verb, resource, standing, &mut Silent) {
            Ruling::Deny(denial) => return Verdict::Deny(denial),
            Ruling::Ask(mut asking) => {
                if is_by_exposure(facts.verb, resource) {
                    asking.remembered = Remembered::Never;
                }
                asked = Some(stricter(asked, asking));
            }
            Ruling::Allow(source) => allowed = Some(allowed.unwrap_or(source)),
        }
    }
    if facts.shrinks || facts.unkept {
        let guarded = || Asking {
            class: None,
            source: Source::Builtin(match (facts.shrinks, &*facts.below) {
                (false, _) => "undo-full",
                (true, []) => "loss-guard",
                (true, [..]) => "protected-below",
            }),
            remembered: Remembered::Never,
        };
        // Whatever else asks about it: a yes to this loss is none to the next.
        asked = Some(Asking {
            remembered: Remembered::Never,
            ..asked.unwrap_or_else(guarded)
        });
    }
    match (asked, allowed) {
        (Some(asking), _) => Verdict::Ask(asking),
        (None, Some(source)) => Verdict::Allow(source),
        (None, None) => nobody_can_say(),
    }
}

/// One question stands for every resource, so it is asked as the strictest: a
/// secret behind a plain file is still asked about as a secret.
fn stricter(before: Option<Asking>, next: Asking) -> Asking {
    let weight = |asking: &Asking| match asking.class {
        None => 0,
        Some(Class::AutoExec) => 1,
        Some(Class::Secret) => 2,
    };
    let never = |asking: &Asking| asking.remembered == Remembered::Never;
    let is_kept = !never(&next) && !before.as_ref().is_some_and(never);
    let asked = match before {
        Some(before) if weight(&before) >= weight(&next) => before,
        Some(_) | None => next,
    };
    Asking {
        remembered: if is_kept {
            asked.remembered
        } else {
            Remembered::Never
        },
        ..asked
    }
}

pub(crate) fn rule_on(
    verb: Verb,
    resource: &Resource,
    standing: &Standing<'_>,
    trace: &mut impl Trace,
) -> Ruling {
    let entity = resource.identity.map(|identity| identity.entity);
    // What a copy reads is judged as any read of it; what an archive is made of,
    // as any search through it.
    let is_read = matches!(resource.access, Access::Read | Access::List) && verb.mutates();
    let verb = match (is_read, verb == Verb::Archive) {
        (true, true) => Verb::Search,
        (true, false) => Verb::Read,
        (false, _) => verb,
    };
    rule_on_path(
        verb,
        &resource.path,
        resource.access,
        entity,
        standing,
        trace,
    )
}

pub(crate) fn rule_on_path(
    verb: Verb,
    path: &RelPath,
    access: Access,
    entity: Option<Entity>,
    standing: &Standing<'_>,
    trace: &mut impl Trace,
) -> Ruling {
    let group = verb.group();
    let view = standing.view;
    let policy = &view.policy;
    let deny = |reason, source| Ruling::Deny(Denial { reason, source });

    // What takes a directory away takes away all that is below it.
    let takes_away = matches!(access, Access::Delete | Access::Move);
    let takes_directory = takes_away && entity == Some(Entity::Directory);

    // So does what puts something else in its place.
    let replaces =
        takes_away || matches!(verb, Verb::Move | Verb::Copy | Verb::Extract | Verb::Undo);
    if policy.is_own_state(path) || (replaces && policy.holds_own_state(path)) {
        trace.step("own state", || "it is Portcullis's own".into());
        return deny(Reason::ProtectedState, Source::Builtin("own-state"));
    }
    if policy.is_fixed(path) && (access.mutates() || verb.mutates()) {
        trace.step("own state", || {
            "the operator named it to be run or trusted".into()
        });
        return deny(Reason::ProtectedState, Source::Builtin("operator-file"));
    }
    trace.step("own state", || "no".into());

    if let Some(rule) = view
        .rules
        .stored
        .denies(group, &view.root, path, takes_directory)
    {
        trace.step("stored deny", || {
            format!("{:?} at {}", rule.pattern, rule.source)
        });
        return deny(Reason::DeniedByRule, Source::Rule(Arc::clone(&rule.source)));
    }
    trace.step("stored deny", || "no rule covers it".into());

    if policy.denied.covers(path) || (takes_directory && policy.denied.holds_below(path)) {
        trace.step("root's denied globs", || "one covers it".into());
        return deny(Reason::DeniedByRule, Source::Builtin("root:deniedGlobs"));
    }
    if !admitted_by_globs(policy, path, verb, access, entity) {
        trace.step("root's allowed globs", || "none covers it".into());
        return deny(Reason::DeniedByRule, Source::Builtin("root:allowedGlobs"));
    }
    trace.step("root's globs", || "they admit it".into());

    if !standing.granted {
        trace.step("grant", || format!("no live grant for {}", access.as_str()));
        return deny(Reason::NoGrant, Source::Builtin("grant:none"));
    }
    trace.step("grant", || format!("covers {}", access.as_str()));

    if access.mutates() && !view.trusted {
        trace.step("trust", || "nobody has trusted this root".into());
        return deny(Reason::Untrusted, Source::Builtin("trust"));
    }

    let classed = policy.classed(path);
    let class = Class::of(&classed, access).filter(|class| match class {
        // What hides every value tells no secret.
        Class::Secret => verb.reveals(),
        // An empty directory holds nothing to run.
        Class::AutoExec => verb != Verb::Mkdir,
    });
    trace.step("protected class", || {
        let runs = class
            .filter(|_| access.mutates())
            .and_then(|_| Trigger::of(&classed));
        match (class, runs) {
            (None, _) => "none".into(),
            (Some(class), None) => class.as_str().into(),
            (Some(class), Some(trigger)) => format!("{}: {}", class.as_str(), trigger.runs),
        }
    });

    let mode = view.rules.modes.of(group);
    trace.step("mode", || format!("{group} is {mode}"));
    match (mode, class) {
        (Mode::Deny, _) => return deny(Reason::DeniedByMode, mode_source(group, mode)),
        (Mode::Allow, None) => return Ruling::Allow(mode_source(group, mode)),
        (Mode::Allow, Some(_)) | (Mode::Ask, _) => {}
    }
    for (name, rules) in [
        ("stored allow", &view.rules.stored),
        ("session allow", &*view.session),
    ] {
        if let Some(rule) = rules.allows(group, &view.root, path, class) {
            trace.step(name, || format!("{:?} at {}", rule.pattern, rule.source));
            return Ruling::Allow(Source::Rule(Arc::clone(&rule.source)));
        }
        trace.step(name, || "no rule covers it".into());
    }
    trace.step("ask", || "a person has to say".into());
    Ruling::Ask(Asking {
        class,
        source: match class {
            Some(Class::Secret) => Source::Builtin("class:secret"),
            Some(Class::AutoExec) => Source::Builtin("class:auto-exec"),
            None => mode_source(group, mode),
        },
        remembered: match class {
            Some(_) => Remembered::ExactPath,
            None => Remembered::Subtree,
        },
    })
}

/// Allowed globs say which files exist for the agent; directories on the way
/// to one may be listed and looked at.
fn admitted_by_globs(
    policy: &RootPolicy,
    path: &RelPath,
    verb: Verb,
    access: Access,
    entity: Option<Entity>,
) -> bool {
    if policy.allowed.is_empty() || policy.allowed.covers(path) {
        return true;
    }
    // A search reads, and looks into directories for what to read.
    let looks = matches!(
        access,
        Access::List | Access::Metadata | Access::Watch | Access::Archive
    ) || verb == Verb::Search;
    let looks_at_directory = looks && matches!(entity, None | Some(Entity::Directory));
    looks_at_directory && policy.allowed.may_lead_to(path)
}

fn mode_source(group: Group, mode: Mode) -> Source {
    Source::Builtin(match (group, mode) {
        (Group::FilesystemRead, Mode::Deny) => "mode:filesystemRead=deny",
        (Group::FilesystemRead, Mode::Ask) => "mode:filesystemRead=ask",
        (Group::FilesystemRead, Mode::Allow) => "mode:filesystemRead=allow",
        (Group::FilesystemWrite, Mode::Deny) => "mode:filesystemWrite=deny",
        (Group::FilesystemWrite, Mode::Ask) => "mode:filesystemWrite=ask",
        (Group::FilesystemWrite, Mode::Allow) => "mode:filesystemWrite=allow",
        (Group::Shell, Mode::Deny) => "mode:shell=deny",
        (Group::Shell, Mode::Ask) => "mode:shell=ask",
        (Group::Shell, Mode::Allow) => "mode:shell=allow",
        (Group::Computer, Mode::Deny) => "mode:computer=deny",
        (Group::Computer, Mode::Ask) => "mode:computer=ask",
        (Group::Computer, Mode::Allow) => "mode:computer=allow",
        (Group::Browser, Mode::Deny) => "mode:browser=deny",
        (Group::Browser, Mode::Ask) => "mode:browser=ask",
        (Group::Browser, Mode::Allow) => "mode:browser=allow",
    })
}
