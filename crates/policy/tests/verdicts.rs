//! The order of decisions, and that single and bulk deeds agree.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::sync::Arc;

use portcullis_policy::{
    Admit, Class, Containment, Effect, Hardlinks, Modes, PatternSet, RootPolicy, Rule, RuleSet,
    Rules, Standing, Terms, Verdict, View, explain, judge,
};
use portcullis_proto::{
    Access, Entity, Facts, Group, Identity, Mode, Reason, RelPath, Resource, RootId, RootKind, Verb,
};
use proptest::prelude::*;

struct Case {
    modes: Modes,
    stored: Vec<Rule>,
    session: Vec<Rule>,
    policy: RootPolicy,
    trusted: bool,
    granted: bool,
}

impl Case {
    fn new() -> Self {
        Self {
            modes: Modes::all(Mode::Allow),
            stored: Vec::new(),
            session: Vec::new(),
            policy: RootPolicy::of(RootKind::Workspace),
            trusted: true,
            granted: true,
        }
    }

    fn view(&self) -> View {
        View {
            rules: Arc::new(Rules {
                modes: self.modes,
                stored: RuleSet::compile(self.stored.clone()).unwrap(),
            }),
            session: Arc::new(RuleSet::compile(self.session.clone()).unwrap()),
            root: RootId::parse("w").unwrap(),
            policy: Arc::new(self.policy.clone()),
            trusted: self.trusted,
        }
    }

    fn judge(&self, verb: Verb, path: &str) -> Verdict {
        let view = self.view();
        let standing = Standing {
            view: &view,
            granted: self.granted,
        };
        judge(&facts(verb, path), &[standing])
    }
}

fn facts(verb: Verb, path: &str) -> Facts {
    Facts {
        verb,
        resources: vec![Resource {
            root: RootId::parse("w").unwrap(),
            kind: RootKind::Workspace,
            path: RelPath::parse(path).unwrap(),
            access: verb.access(),
            identity: Some(Identity {
                dev: 1,
                ino: 2,
                entity: Entity::File,
                owner: 0,
                links: 1,
            }),
            above: None,
        }],
        shown: None,
        shrinks: false,
        below: Vec::new(),
        more_below: 0,
        unkept: false,
    }
}

fn rule(effect: Effect, group: Group, pattern: &str) -> Rule {
    Rule {
        effect,
        group,
        root: None,
        pattern: pattern.into(),
        covers_protected: false,
        exact_path: false,
        source: "t".into(),
    }
}

#[derive(Debug, PartialEq)]
enum Short {
    Allow(String),
    Ask(String),
    Deny(Reason),
}

fn short(verdict: Verdict) -> Short {
    match verdict {
        Verdict::Allow(source) => Short::Allow(source.to_string()),
        Verdict::Ask(asking) => Short::Ask(asking.source.to_string()),
        Verdict::Deny(denial) => Short::Deny(denial.reason),
    }
}

#[track_caller]
fn check(case: &Case, verb: Verb, path: &str, want: Short) {
    assert_eq!(short(case.judge(verb, path)), want, "{verb} {path}");
}

#[test]
fn each_decision_speaks_in_its_turn() {
    let mut case = Case::new();
    check(
        &case,
        Verb::Read,
        "a",
        Short::Allow("mode:filesystemRead=allow".into()),
    );
    check(&case, Verb::Read, ".env", Short::Ask("class:secret".into()));
    check(
        &case,
        Verb::Write,
        ".git/hooks/x",
        Short::Ask("class:auto-exec".into()),
    );
    check(
        &case,
        Verb::Read,
        ".portcullis/audit",
        Short::Deny(Reason::ProtectedState),
    );

    case.modes = Modes::all(Mode::Ask);
    check(
        &case,
        Verb::Read,
        "a",
        Short::Ask("mode:filesystemRead=ask".into()),
    );
    case.session = vec![rule(Effect::Allow, Group::FilesystemRead, "/a")];
    check(&case, Verb::Read, "a/b", Short::Allow("t".into()));
    case.stored = vec![rule(Effect::Deny, Group::FilesystemRead, "/a")];
    check(&case, Verb::Read, "a/b", Short::Deny(Reason::DeniedByRule));
    check(&case, Verb::Write, "a/b", Short::Deny(Reason::DeniedByRule));

    let mut case = Case::new();
    case.trusted = false;
    check(&case, Verb::Write, "a", Short::Deny(Reason::Untrusted));
    check(
        &case,
        Verb::Read,
        "a",
        Short::Allow("mode:filesystemRead=allow".into()),
    );
    case.granted = false;
    check(&case, Verb::Read, "a", Short::Deny(Reason::NoGrant));
    let mut case = Case::new();
    case.modes = Modes::all(Mode::Deny);
    check(&case, Verb::Read, ".env", Short::Deny(Reason::DeniedByMode));
}

#[test]
fn a_protected_path_is_settled_only_by_a_rule_for_that_very_path() {
    let mut case = Case::new();
    case.stored = vec![rule(Effect::Allow, Group::FilesystemRead, "/app")];
    check(
        &case,
        Verb::Read,
        "app/.env",
        Short::Ask("class:secret".into()),
    );
    case.stored[0].covers_protected = true;
    check(
        &case,
        Verb::Read,
        "app/.env",
        Short::Ask("class:secret".into()),
    );
    case.stored[0].pattern = PatternSet::exact(&RelPath::parse("app/.env").unwrap());
    check(&case, Verb::Read, "app/.env", Short::Allow("t".into()));
}

#[test]
fn a_yes_to_the_very_path_covers_nothing_below_it() {
    let mut case = Case::new();
    case.modes = Modes::all(Mode::Ask);
    case.stored = vec![rule(Effect::Allow, Group::FilesystemWrite, "/src")];
    case.stored[0].exact_path = true;
    let asks = || Short::Ask("mode:filesystemWrite=ask".into());
    check(&case, Verb::Write, "src", Short::Allow("t".into()));
    check(&case, Verb::Write, "src/x", asks());
    case.stored[0].exact_path = false;
    check(&case, Verb::Write, "src/x", Short::Allow("t".into()));
}

#[test]
fn a_denied_glob_covers_what_does_not_exist_yet() {
    let mut case = Case::new();
    case.policy.denied = PatternSet::compile(&["**/private"]).unwrap();
    check(
        &case,
        Verb::Write,
        "x/private/new/file",
        Short::Deny(Reason::DeniedByRule),
    );
    case.policy.allowed = PatternSet::compile(&["/src/**"]).unwrap();
    check(
        &case,
        Verb::Read,
        "README",
        Short::Deny(Reason::DeniedByRule),
    );
    check(
        &case,
        Verb::Read,
        "src/a",
        Short::Allow("mode:filesystemRead=allow".into()),
    );
}

#[test]
fn a_move_is_judged_as_its_strictest_end() {
    let case = Case::new();
    let view = case.view();
    let standing = Standing {
        view: &view,
        granted: true,
    };
    let mut both = facts(Verb::Move, "notes.txt");
    both.resources.push(Resource {
        access: Access::Write,
        ..facts(Verb::Write, ".git/hooks/post-merge").resources[0].clone()
    });
    assert!(matches!(
        judge(&both, &[standing.clone(), standing.clone()]),
        Verdict::Ask(asking) if asking.class == Some(Class::AutoExec)
    ));
    for too_few_or_many in [vec![standing.clone()], vec![standing; 3]] {
        assert!(
            matches!(judge(&both, &too_few_or_many), Verdict::Deny(_)),
            "what has no standing is neither allowed nor asked about"
        );
    }
}

#[test]
fn one_question_for_two_ends_is_the_stricter_ones() {
    let mut case = Case::new();
    case.modes = Modes::all(Mode::Ask);
    let view = case.view();
    let standing = [true, true].map(|granted| Standing {
        view: &view,
        granted,
    });
    for ends in [
        ["notes.txt", ".env"],
        [".env", "notes.txt"],
        [".env", ".git/x"],
    ] {
        let mut both = facts(Verb::Move, ends[0]);
        both.resources.extend(facts(Verb::Move, ends[1]).resources);
        assert!(
            matches!(judge(&both, &standing), Verdict::Ask(asking) if asking.class == Some(Class::Secret)),
            "{ends:?}"
        );
    }
}

#[test]
fn a_resource_is_judged_by_the_view_of_its_own_root_or_not_at_all() {
    let case = Case::new();
    let mut view = case.view();
    view.root = RootId::parse("other").unwrap();
    let standing = Standing {
        view: &view,
        granted: true,
    };
    let verdict = judge(&facts(Verb::Read, "a"), &[standing]);
    assert_eq!(short(verdict), Short::Deny(Reason::NoGrant));
}

#[test]
fn the_terms_of_two_roots_are_the_stricter_ones() {
    let lax = Case::new().view();
    let mut case = Case::new();
    case.policy.hardlinks = Hardlinks::Reject;
    case.policy.containment = Containment::KernelAtomic;
    case.policy.max_file_bytes = 7;
    let strict = case.view();
    for views in [[lax.clone(), strict.clone()], [strict, lax]] {
        let terms = Terms::under(views).unwrap();
        assert_eq!(terms.hardlinks(), Hardlinks::Reject);
        assert_eq!(terms.containment(), Containment::KernelAtomic);
        assert_eq!(terms.max_file_bytes(), 7);
    }
    assert!(Terms::under([]).is_none());
}

#[test]
fn a_directory_is_not_taken_away_from_around_what_is_denied_or_our_own() {
    fn taken(case: &Case, verb: Verb, path: &str, entity: Entity) -> Short {
        let view = case.view();
        let standing = Standing {
            view: &view,
            granted: true,
        };
        let mut facts = facts(verb, path);
        if let Some(identity) = &mut facts.resources[0].identity {
            identity.entity = entity;
        }
        short(judge(&facts, &[standing]))
    }
    let mut case = Case::new();
    case.stored = vec![rule(Effect::Deny, Group::FilesystemRead, "/home/keys")];
    case.policy.denied = PatternSet::compile(&["/src/*/private", "*.log"]).unwrap();
    case.policy.own_state = vec![RelPath::parse("var/lib/own").unwrap()];
    for verb in [Verb::Move, Verb::Remove] {
        for (path, want) in [
            ("home", Some(Reason::DeniedByRule)),
            ("src", Some(Reason::DeniedByRule)),
            ("src/a", Some(Reason::DeniedByRule)),
            ("var", Some(Reason::ProtectedState)),
            ("docs", None),
        ] {
            let got = taken(&case, verb, path, Entity::Directory);
            let allowed = Short::Allow("mode:filesystemWrite=allow".into());
            assert_eq!(got, want.map_or(allowed, Short::Deny), "{verb} {path}");
        }
        let file = taken(&case, verb, "src/a", Entity::File);
        assert!(matches!(file, Short::Allow(_)), "nothing is below a file");
    }
}

#[test]
fn what_would_change_a_verdict_is_told_of_the_end_that_decides() {
    let mut case = Case::new();
    case.stored = vec![rule(Effect::Deny, Group::FilesystemWrite, "/shut")];
    let view = case.view();
    let standing = [true, true].map(|granted| Standing {
        view: &view,
        granted,
    });
    let mut both = facts(Verb::Move, "open");
    both.resources.extend(facts(Verb::Move, "shut").resources);
    let told = explain(&both, &standing);
    assert!(matches!(told.verdict, Verdict::Deny(_)));
    assert!(
        told.change.starts_with("decided by t; removing"),
        "{}",
        told.change
    );
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("src".into()),
        Just("a".into()),
        Just("b.rs".into()),
        Just(".env".into()),
        Just(".git".into()),
        Just("hooks".into()),
        Just("x.pem".into()),
        Just(".portcullis".into()),
        Just(".ssh".into()),
        "[a-c]{1,2}",
    ]
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(name(), 1..4).prop_map(|parts| parts.join("/"))
}

fn pattern() -> impl Strategy<Value = String> {
    prop_oneof![
        path().prop_map(|p| format!("/{p}")),
        path(),
        Just("*.rs".into()),
        Just("**/a".into()),
        Just("/src/**".into())
    ]
}

fn any_rule() -> impl Strategy<Value = Rule> {
    (pattern(), prop::bool::ANY, prop::bool::ANY).prop_map(|(pattern, deny, covers)| Rule {
        covers_protected: covers,
        exact_path: false,
        ..rule(
            if deny { Effect::Deny } else { Effect::Allow },
            Group::FilesystemRead,
            &pattern,
        )
    })
}

fn any_case() -> impl Strategy<Value = Case> {
    let rules = || prop::collection::vec(any_rule(), 0..4);
    (
        rules(),
        rules(),
        prop::collection::vec(pattern(), 0..2),
        prop::collection::vec(pattern(), 0..2),
    )
        .prop_map(|(stored, session, denied, allowed)| {
            let mut case = Case::new();
            case.stored = stored;
            case.session = session;
            case.policy.denied = PatternSet::compile(&denied).unwrap();
            case.policy.allowed = PatternSet::compile(&allowed).unwrap();
            case
        })
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:?} {:?}", self.stored, self.session, self.policy)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bulk_terms_admit_a_file_exactly_where_a_single_read_is_allowed(case in any_case(), path in path()) {
        // The terms of any allowed deed of this case are the case's terms.
        let is_allowed = |path: &str| matches!(case.judge(Verb::Read, path), Verdict::Allow(_));
        if ["zz-top", "src/zz.rs", "a/zz"].into_iter().any(is_allowed) {
            let terms = Terms::under([case.view()]).unwrap();
            let single = is_allowed(&path);
            let bulk = terms.admits(&RelPath::parse(&path).unwrap(), Entity::File) == Admit::Yes;
            prop_assert_eq!(single, bulk, "{}", path);
        }
    }

    #[test]
    fn deny_beats_allow_in_any_order(mut rules in prop::collection::vec(any_rule(), 1..5), path in path(), seed in 0usize..24) {
        let mut case = Case::new();
        case.stored = rules.clone();
        let before = short(case.judge(Verb::Read, &path));
        let len = rules.len();
        rules.rotate_left(seed % len);
        rules.reverse();
        case.stored = rules;
        prop_assert_eq!(before, short(case.judge(Verb::Read, &path)));
    }

    #[test]
    fn adding_a_deny_never_allows_more(case in any_case(), path in path(), extra in pattern()) {
        let before = matches!(case.judge(Verb::Read, &path), Verdict::Allow(_));
        let mut more = Case { ..case };
        more.stored.push(rule(Effect::Deny, Group::FilesystemRead, &extra));
        let after = matches!(more.judge(Verb::Read, &path), Verdict::Allow(_));
        prop_assert!(before || !after);
    }
}

#[test]
fn what_the_operator_named_is_read_and_changed_by_nobody() {
    let mut case = Case::new();
    case.policy.fixed = vec![RelPath::parse("tools/hook.sh").unwrap()];
    case.policy.own_state = vec![RelPath::parse("tls/key.pem").unwrap()];
    let denied = || Short::Deny(Reason::ProtectedState);
    let allowed = |group: &str| Short::Allow(format!("mode:{group}=allow"));
    let changes = [
        Verb::Write,
        Verb::Edit,
        Verb::Append,
        Verb::Mkdir,
        Verb::Chmod,
        Verb::Extract,
        Verb::Archive,
        Verb::Undo,
        Verb::Remove,
        Verb::Move,
    ];
    for verb in changes {
        check(&case, verb, "tools/hook.sh", denied());
        check(&case, verb, "tls/key.pem", denied());
        check(&case, verb, "tools/hook.sh.old", allowed("filesystemWrite"));
    }
    // A directory above is not taken away, and nothing is put in its place.
    for verb in [Verb::Extract, Verb::Undo, Verb::Remove, Verb::Move] {
        check(&case, verb, "tools", denied());
        check(&case, verb, "tls", denied());
    }
    check(&case, Verb::Mkdir, "tools", allowed("filesystemWrite"));
    for verb in [Verb::Read, Verb::Stat, Verb::Search] {
        check(&case, verb, "tools/hook.sh", allowed("filesystemRead"));
        check(&case, verb, "tls/key.pem", denied());
    }
}
