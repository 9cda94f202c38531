//! What is denied or secret: the same answer and no look at the disk, whether or not it is there.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use portcullis_gate::{Decision, Reply};
use portcullis_policy::{Effect, PatternSet, Rule};
use portcullis_proto::{Failure, Group, Mode, Outcome, Reason};
use portcullis_testkit::{Scratch, ScriptedApprover, World, WorldBuilder, agent};
use rustix::fs::inotify;

use crate::attempts::{Reading, attempt, block_on, fit_to_be_shown, list_all, refused};

const THERE: &str = "
    open.txt = open
    .env = KEY=SECRET
    keys/server.pem = SECRET
    .ssh/id_ed25519 = SECRET
    .ssh/config = SECRET
    denied/plan.txt = SECRET
    denied/sub/deeper.txt = SECRET
    src/denied.txt = SECRET
    ruled/x.txt = SECRET
";
/// The same directories with nothing secret in them.
const ABSENT: &str = "open.txt = open\n keys/\n src/";

const SECRET: &[&str] = &[
    ".env",
    ".env/",
    "keys/server.pem",
    ".ssh",
    ".ssh/config",
    ".ssh/id_ed25519",
];
const DENIED: &[&str] = &[
    "denied",
    "denied/plan.txt",
    "denied/sub/deeper.txt",
    "src/denied.txt",
    "ruled",
    "ruled/x.txt",
];

fn builder() -> WorldBuilder {
    World::workspace()
        .policy(|policy| {
            policy.denied = PatternSet::compile(&["/denied", "/src/denied.txt"]).unwrap();
        })
        .rules(vec![Rule {
            effect: Effect::Deny,
            group: Group::FilesystemRead,
            root: None,
            pattern: "ruled".into(),
            covers_protected: false,
            exact_path: false,
            source: Arc::from("settings.json:3"),
        }])
}

/// Hears of every look into the tree: opens, reads and listings of every
/// directory there is and of what stands in it.
struct Ears(OwnedFd);

impl Ears {
    fn at(scratch: &Scratch) -> Self {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let ears = Self(inotify::init(flags).unwrap());
        ears.listen(&scratch.root());
        ears
    }

    fn listen(&self, dir: &std::path::Path) {
        let what = inotify::WatchFlags::OPEN
            | inotify::WatchFlags::ACCESS
            | inotify::WatchFlags::CLOSE_NOWRITE;
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                self.listen(&entry.path());
            }
        }
        inotify::add_watch(&self.0, dir, what).unwrap();
        // What setting the watches made itself heard by.
        self.heard();
    }

    fn heard(&self) -> usize {
        let mut buffer = [const { std::mem::MaybeUninit::uninit() }; 4096];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        let mut count = 0;
        while reader.next().is_ok() {
            count += 1;
        }
        count
    }
}

/// Everything a caller can tell about a failure.
fn told(failure: &Failure) -> (Reason, String, Option<String>) {
    (
        failure.reason(),
        failure.message().to_owned(),
        failure.next_step().map(str::to_owned),
    )
}

fn answers_alike(paths: &[&str], mode: Mode) {
    let there = builder().reading(mode).over(Scratch::of(THERE));
    let absent = builder().reading(mode).over(Scratch::of(ABSENT));
    let ears = [Ears::at(&there.scratch), Ears::at(&absent.scratch)];
    for path in paths {
        for how in Reading::ALL {
            let one = block_on(attempt(&there.fs(), how, path)).unwrap_err();
            let other = block_on(attempt(&absent.fs(), how, path)).unwrap_err();
            assert_eq!(told(&one), told(&other), "{how:?} of {path}");
            assert_eq!(
                (ears[0].heard(), ears[1].heard()),
                (0, 0),
                "{how:?} of {path} looked at the disk"
            );
            let lines = (there.lines.last(), absent.lines.last());
            assert_eq!(lines.0.outcome, Outcome::Denied);
            assert_eq!(lines.0.source, lines.1.source);
        }
    }
    // The ears hear, where there is something to hear.
    if mode == Mode::Allow {
        drop(block_on(attempt(&there.fs(), Reading::Bytes, "open.txt")));
        assert!(ears[0].heard() > 0, "the ears are deaf");
    }
}

#[test]
fn a_secret_that_exists_answers_like_one_that_does_not() {
    answers_alike(SECRET, Mode::Allow);
    answers_alike(SECRET, Mode::Ask);
}

#[test]
fn a_denied_path_is_not_touched() {
    answers_alike(DENIED, Mode::Allow);
    answers_alike(DENIED, Mode::Ask);
    answers_alike(&["open.txt", "absent", ".env"], Mode::Deny);
}

#[test]
fn a_secret_refused_by_a_person_was_not_looked_at() {
    let there = builder().over(Scratch::of(THERE));
    let absent = builder().over(Scratch::of(ABSENT));
    for reply in [
        Reply::TimedOut,
        Reply::Unavailable,
        Reply::Suspended,
        answered(Decision::DenyOnce),
    ] {
        let ears = [Ears::at(&there.scratch), Ears::at(&absent.scratch)];
        let failures = [&there, &absent].map(|world| {
            let person = Arc::new(ScriptedApprover::replying([reply.clone()]));
            let fs = world.fs_for(&agent().asking(person.clone()));
            let failure = block_on(attempt(&fs, Reading::Bytes, ".env")).unwrap_err();
            assert_eq!(person.asked().len(), 1);
            // What a person is asked about was not looked at either.
            assert_eq!(person.asked()[0].facts.resources[0].identity, None);
            told(&failure)
        });
        assert_eq!(failures[0], failures[1]);
        assert_eq!((ears[0].heard(), ears[1].heard()), (0, 0), "{reply:?}");
    }
}

fn answered(decision: Decision) -> Reply {
    Reply::Answered(portcullis_gate::Answer {
        decision,
        surface: portcullis_gate::Surface::Script,
        by: "ada".into(),
    })
}

#[test]
fn a_secret_is_asked_about_and_without_a_person_refused() {
    let world = builder().over(Scratch::of(THERE));
    for path in [".env", "keys/server.pem", ".ssh/config"] {
        refused(&world, &Reading::ALL, path, Reason::ApprovalUnavailable);
    }
    let person = Arc::new(ScriptedApprover::deciding([Decision::AllowOnce]));
    let fs = world.fs_for(&agent().asking(person.clone()));
    let got = block_on(attempt(&fs, Reading::Bytes, ".env")).unwrap();
    assert_eq!(got.text, "KEY=SECRET");
    assert_eq!(person.asked().len(), 1, "asked once about one file");
    // Once was once.
    let failure = block_on(attempt(&fs, Reading::Bytes, ".env")).unwrap_err();
    assert_eq!(failure.reason(), Reason::ApprovalUnavailable);
    fit_to_be_shown(&failure);
}

#[test]
fn a_rule_covers_what_does_not_exist_yet() {
    let world = builder().over(Scratch::of(ABSENT));
    refused(
        &world,
        &Reading::ALL,
        "denied/new.txt",
        Reason::DeniedByRule,
    );
    world
        .scratch
        .add("denied/new.txt = new\n ruled/later/x = y");
    refused(
        &world,
        &Reading::ALL,
        "denied/new.txt",
        Reason::DeniedByRule,
    );
    refused(&world, &Reading::ALL, "ruled/later/x", Reason::DeniedByRule);
}

#[test]
fn a_bulk_deed_shows_what_a_single_read_would_allow() {
    let world = builder().over(Scratch::of(THERE));
    let fs = world.fs();
    for how in Reading::OF_DIRECTORIES {
        let got = block_on(attempt(&fs, how, ".")).unwrap();
        for never in [
            ".env",
            "server.pem",
            ".ssh",
            "id_ed25519",
            "plan.txt",
            "denied",
            "ruled",
        ] {
            assert!(
                !got.text.contains(never),
                "{how:?} names {never}: {}",
                got.text
            );
        }
        let counts = world.lines.last().counts.unwrap();
        assert!(
            counts.secret > 0 && counts.denied > 0,
            "{how:?}: {counts:?}"
        );
    }
    let listed = block_on(fs.list(".", list_all())).unwrap();
    assert_eq!((listed.counts.secret, listed.counts.denied), (2, 2));
    // Entry by entry: what a list shows can be read, and what can be read is shown.
    for entry in listed.entries {
        let path = entry.path.unwrap();
        let stat = block_on(fs.stat(path.as_str()));
        assert!(stat.is_ok(), "{path}: {stat:?}");
    }
}

#[test]
fn r002_an_ignore_file_that_a_rule_denies_is_not_quoted() {
    let tree = "
        .gitignore = *.log
        sub/.gitignore = SECRETWORD
        a.log = a
        sub/SECRETWORD = b
    ";
    let world = World::workspace()
        .policy(|policy| policy.denied = PatternSet::compile(&["sub/.gitignore"]).unwrap())
        .over(Scratch::of(tree));
    let fs = world.fs();
    let reply = block_on(fs.read_text("a.log", crate::attempts::text_all())).unwrap();
    assert_eq!(reply.matched_ignore.as_deref(), Some(".gitignore: *.log"));
    let reply = block_on(fs.read_text("sub/SECRETWORD", crate::attempts::text_all())).unwrap();
    assert_eq!(reply.matched_ignore, None);
}

#[test]
fn r003_an_ignore_file_that_is_anothers_file_linked_in_is_not_quoted() {
    use portcullis_policy::Hardlinks;
    let tree = "
        ../out/words = SECRETWORD
        .gitignore <=> ../out/words
        SECRETWORD = x
    ";
    let world = World::workspace()
        .policy(|policy| policy.hardlinks = Hardlinks::Reject)
        .over(Scratch::of(tree));
    let reply = block_on(
        world
            .fs()
            .read_text("SECRETWORD", crate::attempts::text_all()),
    )
    .unwrap();
    assert_eq!(reply.matched_ignore, None);
}

#[test]
fn a_secret_can_be_read_with_its_values_hidden_and_nobody_is_asked() {
    let world = crate::attempts::workspace(
        ".env = API_KEY=canary-4711 [600]\n sub/.env = {\"password\": \"canary-4711\"}\n \
         key.pem = canary-4711\n plain.txt = API_KEY=canary-4711\n twin/.env = API_KEY=canary-4711",
    );
    let fs = world.fs();
    for path in [".env", "sub/.env", "key.pem"] {
        let shown = block_on(fs.read_redacted(path)).unwrap();
        assert!(!shown.text.contains("4711"), "{path}: {}", shown.text);
        assert!(shown.values > 0);
        let why = block_on(fs.read_text(path, crate::attempts::text_all())).unwrap_err();
        assert_eq!(why.reason(), Reason::ApprovalUnavailable, "{path}");
    }
    let shown = block_on(fs.read_redacted(".env")).unwrap();
    assert!(shown.text.contains("API_KEY"), "{}", shown.text);
    let recorded = format!("{:?}", world.lines.all());
    assert!(!recorded.contains("4711"));
    // Neither a file an agent may write nor another secret tells a guess.
    let why = block_on(fs.read_redacted("plain.txt")).unwrap_err();
    assert_eq!(why.reason(), Reason::BadArguments);
    let twin = block_on(fs.read_redacted("twin/.env")).unwrap();
    assert_ne!(twin.text, shown.text);
}

#[test]
fn what_a_rule_denies_is_not_shown_with_its_values_hidden_either() {
    let world = World::workspace()
        .policy(|policy| policy.denied = PatternSet::compile(&["/.env"]).unwrap())
        .over(Scratch::of(".env = A=b"));
    let why = block_on(world.fs().read_redacted(".env")).unwrap_err();
    assert_eq!(why.reason(), Reason::DeniedByRule);
}
