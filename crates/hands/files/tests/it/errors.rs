//! Every reason from every verb that can raise it, and a list of what none can.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use portcullis_gate::{
    Answer, Approver, Caller, CancelFlag, Decision, Hook, HookCall, HookSay, Question, Reply,
    Surface,
};
use portcullis_policy::{Hardlinks, PatternSet};
use portcullis_proto::{ErrorKind, Failure, Mode, Reason, RootKind};
use portcullis_testkit::{Scratch, ScriptedApprover, World, WorldBuilder, agent, is_superuser};

use crate::attempts::{
    Reading, attempt_soon, block_on, fit_to_be_shown, glob_all, is_alone, list_all, not_tried,
    search_all, text_all, tree_all,
};

/// Kinds that no reading can raise. The list may only shrink.
const NOT_BY_READING: &[ErrorKind] = &[
    ErrorKind::FileAlreadyExists,
    ErrorKind::TextNotFound,
    ErrorKind::AmbiguousTextMatch,
    ErrorKind::UntrustedWorkspace,
];

/// Reasons that no test here constructs: a change, a tool, an answer store or a
/// failing disk would have to. The list may only shrink.
const NOT_CONSTRUCTED: &[Reason] = &[
    Reason::OutsideRoots, // `places`: raised before there is a root
    Reason::UnknownRoot,  // `places`
    Reason::VersionMismatch,
    Reason::AlreadyExists,
    Reason::TextNotFound,
    Reason::AmbiguousText,
    Reason::Untrusted,
    Reason::ReadOnly,     // the `writing` tests: `hard`
    Reason::ChangedSince, // the `writing` tests: `undo`
    Reason::AnswerUsed,
    Reason::NotLinked, // raised by the server of a link: `gateway` among its tests
    Reason::MachineGone, // the same
    Reason::LinkLost,  // the same
    Reason::NotOffered, // the same
    Reason::SwitchedOff, // raised before a hand is asked: `toggle` among the tests of `serve`
    Reason::BestEffortOnly, // `fallback`: raised when a root is declared
    Reason::Io,
    Reason::NoSpace,
    Reason::Quota,
    Reason::Busy,
    Reason::Deadline,
    Reason::Overload,
    Reason::UnknownTool,
    Reason::UnsupportedArchive, // the `archive` tests: `hostile`
    Reason::BadArchive,         // the `archive` tests: `hostile`
    Reason::NameCollision,      // the `archive` tests: `hostile`
];

const TREE: &str = "
    f.json = {}
    d/x = y
    l -> f.json
    p |
    .env = x
    .portcullis/x = y
    denied.json = {}
    bad.json = {
    ../out/o.json = {}
    twin.json <=> ../out/o.json
    mnt/
";

type Raised = BTreeMap<Reason, BTreeSet<Reading>>;

fn builder() -> WorldBuilder {
    World::workspace().policy(|policy| {
        policy.denied = PatternSet::compile(&["denied.json"]).unwrap();
        policy.hardlinks = Hardlinks::Reject;
        policy.max_file_bytes = 4096;
    })
}

fn note(raised: &mut Raised, how: Reading, failure: &Failure) {
    fit_to_be_shown(failure);
    raised.entry(failure.reason()).or_default().insert(how);
}

/// Tries `path` by every verb as `caller`, and notes what is raised.
fn all(raised: &mut Raised, world: &World, caller: &Caller, path: &str) {
    let fs = world.fs_for(caller);
    for how in Reading::ALL {
        if let Err(failure) = block_on(attempt_soon(&fs, how, path)) {
            note(raised, how, &failure);
        }
    }
}

/// A path that is there and of the kind the verb wants.
fn good(how: Reading) -> &'static str {
    if Reading::OF_DIRECTORIES.contains(&how) {
        "d"
    } else {
        "f.json"
    }
}

fn on_good(raised: &mut Raised, world: &World, caller: &Caller) {
    let fs = world.fs_for(caller);
    for how in Reading::ALL {
        let failure = block_on(attempt_soon(&fs, how, good(how))).unwrap_err();
        note(raised, how, &failure);
    }
}

struct Saying(HookSay);

impl Hook for Saying {
    fn id(&self) -> &'static str {
        "saying"
    }

    fn before<'a>(
        &'a self,
        _call: &'a HookCall,
    ) -> Pin<Box<dyn Future<Output = HookSay> + Send + 'a>> {
        Box::pin(ready(self.0.clone()))
    }
}

/// Says yes, and meanwhile puts something else where the question was about.
struct Swapping(Arc<Scratch>);

impl Approver for Swapping {
    fn surface(&self) -> Surface {
        Surface::Script
    }

    fn ask<'a>(
        &'a self,
        question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>> {
        let path = question.facts.resources[0].path.as_str();
        let (place, aside) = (self.0.at(path), self.0.at("aside"));
        std::fs::rename(&place, &aside).unwrap();
        if aside.is_dir() {
            std::fs::create_dir(&place).unwrap();
            std::fs::remove_dir_all(&aside).unwrap();
        } else {
            std::fs::copy(&aside, &place).unwrap();
            std::fs::remove_file(&aside).unwrap();
        }
        Box::pin(ready(Reply::Answered(Answer {
            decision: Decision::AllowOnce,
            surface: Surface::Script,
            by: "ada".into(),
        })))
    }
}

fn by_what_is_there(raised: &mut Raised) {
    let world = builder().over(Scratch::of(TREE));
    world.scratch.file("bin", [0, 1, 2, 3].repeat(100));
    world.scratch.file("large.json", "[1]".repeat(4096));
    let paths = [
        "../x",
        "a\0b",
        "l",
        "l/x",
        "absent",
        "p",
        "d",
        "f.json",
        "bad.json",
        "bin",
        "large.json",
        "twin.json",
        ".portcullis/x",
        "denied.json",
        ".env",
    ];
    for path in paths {
        all(raised, &world, &agent(), path);
    }
    all(raised, &world, &agent(), &"x".repeat(300));
    if is_superuser() && world.scratch.bind("../out", "mnt") {
        all(raised, &world, &agent(), "mnt/o.json");
    } else {
        not_tried("mount_boundary: needs the superuser");
        raised.insert(Reason::MountBoundary, Reading::ALL.into());
    }
}

fn by_permission(raised: &mut Raised) {
    let owner = agent().subject.principal.clone();
    let world = World::of_kind(RootKind::Temp)
        .owner(owner)
        .over(Scratch::of(TREE));
    for path in ["f.json", "d"] {
        all(raised, &world, &agent(), path);
    }
    if is_superuser() {
        for path in ["f.json", "d"] {
            world.scratch.chown(path, 12345);
            all(raised, &world, &agent(), path);
        }
        not_tried("os: nothing is closed to the superuser");
        raised.insert(Reason::Os, Reading::ALL.into());
    } else {
        not_tried("not_owned: needs the superuser");
        let bulk_and_files = Reading::ALL.into_iter().filter(|how| *how != Reading::Stat);
        raised.insert(Reason::NotOwned, bulk_and_files.collect());
        let world = builder().over(Scratch::of("shut/x = y\n shut/ [000]"));
        all(raised, &world, &agent(), "shut/x");
        world.scratch.chmod("shut", 0o700);
    }
}

fn by_decision(raised: &mut Raised) {
    let fresh = || Scratch::of(TREE);
    on_good(
        raised,
        &builder().reading(Mode::Deny).over(fresh()),
        &agent(),
    );
    let asking = builder().reading(Mode::Ask).over(fresh());
    for reply in [
        Reply::Answered(Answer {
            decision: Decision::DenyOnce,
            surface: Surface::Script,
            by: "ada".into(),
        }),
        Reply::TimedOut,
        Reply::Suspended,
        Reply::Unavailable,
    ] {
        let person = ScriptedApprover::replying(std::iter::repeat_n(reply, Reading::ALL.len()));
        on_good(raised, &asking, &agent().asking(Arc::new(person)));
    }
    for say in [HookSay::Deny("no".into()), HookSay::Broken("it".into())] {
        on_good(raised, &builder().hook(Saying(say)).over(fresh()), &agent());
    }
    on_good(
        raised,
        &World::of_kind(RootKind::Knowledge).over(fresh()),
        &agent(),
    );
    for how in Reading::ALL {
        let world = builder().reading(Mode::Ask).over(fresh());
        let scratch = Arc::new(world.scratch);
        let person = Arc::new(Swapping(scratch.clone()));
        let fs = world
            .authority
            .scope(&agent().asking(person), None)
            .unwrap();
        let failure = block_on(attempt_soon(&fs, how, good(how))).unwrap_err();
        note(raised, how, &failure);
    }
}

fn by_the_machine(raised: &mut Raised) {
    let world = builder().over(Scratch::of(TREE));
    let cancel = CancelFlag::new();
    cancel.cancel();
    on_good(raised, &world, &agent().cancelled_by(cancel));
    world.lines.break_down(true);
    on_good(raised, &world, &agent());
}

fn by_the_request(raised: &mut Raised) {
    let world = builder().over(Scratch::of(TREE));
    let fs = world.fs();
    let mut list = list_all();
    list.after = Some("forged".into());
    note(
        raised,
        Reading::List,
        &block_on(fs.list(".", list)).unwrap_err(),
    );
    let mut text = text_all();
    text.from = portcullis_files::TextFrom::Cursor("forged".into());
    let failure = block_on(fs.read_text("f.json", text)).unwrap_err();
    note(raised, Reading::Text, &failure);
    let mut text = text_all();
    text.encoding = Some("no-such".into());
    let failure = block_on(fs.read_text("f.json", text)).unwrap_err();
    note(raised, Reading::Text, &failure);
    let mut glob = glob_all();
    glob.pattern = Some("a[".into());
    note(
        raised,
        Reading::Glob,
        &block_on(fs.glob(".", glob)).unwrap_err(),
    );
    let mut search = search_all("x");
    search.files = Some("a[".into());
    for search in [search, search_all("(")] {
        let failure = block_on(fs.search(".", search)).unwrap_err();
        note(raised, Reading::Search, &failure);
    }
    let mut tree = tree_all();
    tree.exclude = vec!["a[".into()];
    note(
        raised,
        Reading::Tree,
        &block_on(fs.tree(".", tree)).unwrap_err(),
    );
}

/// What a grant or a caller does in the middle of a walk.
fn in_the_middle(raised: &mut Raised) {
    let world = builder().over(Scratch::of("a/1\n b/2"));
    let gate = world.gate.clone();
    let revoking = agent().reporting(Arc::new(move |_| {
        gate.grants().revoke(|_| true);
    }));
    let failure = block_on(world.fs_for(&revoking).glob(".", glob_all())).unwrap_err();
    note(raised, Reading::Glob, &failure);

    let world = World::of_kind(RootKind::Knowledge).over(Scratch::of("a/1\n b/2"));
    let soon = portcullis_gate::Clock::now_ms(&*world.clock) + 10;
    world.gate.grants().issue(portcullis_gate::Grant::new(
        agent().subject.principal.clone(),
        portcullis_proto::RootId::parse("main").unwrap(),
        portcullis_proto::AccessSet::LOOK,
        Some(soon),
        portcullis_gate::GrantSource::UserApproval,
    ));
    let clock = world.clock.clone();
    let waiting = agent().reporting(Arc::new(move |_| clock.pass(Duration::from_secs(1))));
    let failure = block_on(world.fs_for(&waiting).glob(".", glob_all())).unwrap_err();
    note(raised, Reading::Glob, &failure);

    let broken = agent().reporting(Arc::new(|_| panic!("a caller's own defect")));
    let world = builder().over(Scratch::of("a/1\n b/2"));
    let failure = block_on(world.fs_for(&broken).glob(".", glob_all())).unwrap_err();
    note(raised, Reading::Glob, &failure);
}

#[test]
fn every_reason_comes_from_every_verb_that_can_raise_it() {
    use Reading::{Bytes, Glob, Json, List, Search, Stat, Text, Tree};
    let mut raised = Raised::new();
    by_what_is_there(&mut raised);
    by_permission(&mut raised);
    by_decision(&mut raised);
    by_the_machine(&mut raised);
    by_the_request(&mut raised);
    in_the_middle(&mut raised);

    let every = Reading::ALL.to_vec();
    let of_files = vec![Bytes, Text, Json];
    let of_directories = vec![List, Glob, Tree];
    let not_stat = vec![Bytes, Text, Json, List, Glob, Tree, Search];
    let want: BTreeMap<Reason, Vec<Reading>> = BTreeMap::from([
        (Reason::Escape, every.clone()),
        (Reason::MountBoundary, every.clone()),
        (Reason::Symlink, every.clone()),
        (Reason::NotFound, every.clone()),
        (Reason::Binary, vec![Text]),
        (Reason::TooLarge, vec![Bytes, Json]),
        (Reason::Changed, every.clone()),
        (Reason::ProtectedState, every.clone()),
        (Reason::DeniedByRule, every.clone()),
        (Reason::DeniedByMode, every.clone()),
        (Reason::DeniedByHook, every.clone()),
        (Reason::HookFailed, every.clone()),
        (Reason::NoGrant, every.clone()),
        (Reason::Revoked, vec![Glob]),
        (Reason::Expired, vec![Glob]),
        (Reason::ApprovalDenied, every.clone()),
        (Reason::ApprovalTimeout, every.clone()),
        (Reason::ApprovalUnavailable, every.clone()),
        (Reason::ApprovalPending, every.clone()),
        (Reason::Hardlink, vec![Bytes, Text, Json, Stat, Search]),
        (Reason::SpecialFile, vec![Bytes, Text, Json, Search]),
        (Reason::NotOwned, not_stat.clone()),
        (Reason::InsecurePermissions, not_stat),
        (Reason::Os, every.clone()),
        (Reason::NameTooLong, every.clone()),
        (Reason::Cancelled, every.clone()),
        (Reason::AuditUnavailable, every),
        (Reason::Bug, vec![Glob]),
        (Reason::BadName, Reading::ALL.to_vec()),
        (Reason::BadCursor, vec![Text, List]),
        (Reason::BadArguments, vec![Search]),
        (Reason::BadGlob, vec![Glob, Tree, Search]),
        (Reason::BadJson, vec![Json]),
        (Reason::BadEncoding, vec![Text]),
        (Reason::IsDirectory, of_files),
        (Reason::NotDirectory, of_directories),
        (Reason::TooManyOpen, Vec::new()), // in a process of its own, below
    ]);
    for (reason, verbs) in &want {
        let got: BTreeSet<_> = raised.remove(reason).unwrap_or_default();
        let verbs: BTreeSet<_> = verbs.iter().copied().collect();
        assert_eq!(got, verbs, "{reason}");
    }
    assert!(
        raised.is_empty(),
        "raised, and not in the table: {raised:?}"
    );

    // Complete: what is not in the table stands on a list that may only shrink.
    for reason in Reason::ALL {
        assert_ne!(
            want.contains_key(reason),
            NOT_CONSTRUCTED.contains(reason),
            "{reason} belongs in the table or on the list"
        );
    }
    for kind in ErrorKind::ALL {
        let constructed = want.keys().any(|reason| reason.kind() == kind);
        assert_ne!(constructed, NOT_BY_READING.contains(&kind), "{kind}");
    }
}

/// Runs in a process of its own: the limit is the process's.
#[test]
fn too_few_handles_are_an_io_error_from_every_verb() {
    if !is_alone("errors::too_few_handles_are_an_io_error_from_every_verb") {
        return;
    }
    for best_effort in [false, true] {
        let mut building = builder();
        if best_effort {
            building = building.best_effort();
        }
        let world = building.over(Scratch::of(TREE));
        let fs = world.fs();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let mut held = Vec::new();
        rustix::process::setrlimit(
            rustix::process::Resource::Nofile,
            rustix::process::Rlimit {
                current: Some(64),
                maximum: Some(4096),
            },
        )
        .unwrap();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            held.push(file);
        }
        for how in Reading::ALL {
            let failure = runtime
                .block_on(attempt_soon(&fs, how, good(how)))
                .unwrap_err();
            assert_eq!(
                failure.reason(),
                Reason::TooManyOpen,
                "{how:?}: {failure:?}"
            );
        }
        drop(held);
        for how in Reading::ALL {
            runtime.block_on(attempt_soon(&fs, how, good(how))).unwrap();
        }
    }
}
