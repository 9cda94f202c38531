//! Hooks that behave, and every way in which one does not.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use portcullis_gate::{Hook, HookCall, HookSay};
use portcullis_process::{BadHook, Events, ProgramHook};
use portcullis_proto::{
    Access, Entity, Facts, Identity, Outcome, Principal, RelPath, RequestId, Resource, RootId,
    RootKind, Subject, Verb,
};
use portcullis_testkit::{PATIENCE, promised};

const LONG: Duration = PATIENCE;
const SHORT: Duration = Duration::from_millis(400);
/// On a busy machine, how much later than its time a hook may be told off.
const SLACK: Duration = Duration::from_secs(3);

fn call() -> HookCall {
    HookCall {
        request_id: RequestId::new("r_1"),
        subject: Subject::of(Principal::User { id: "ada".into() }),
        facts: Arc::new(Facts {
            verb: Verb::Read,
            resources: vec![Resource {
                root: RootId::parse("work").unwrap(),
                kind: RootKind::Workspace,
                path: RelPath::parse("src/main.rs").unwrap(),
                access: Access::Read,
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
        }),
    }
}

fn sh(script: &str, time: Duration) -> ProgramHook {
    let argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    ProgramHook::new("sh", argv, time).unwrap()
}

fn scratch(name: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let path = std::env::temp_dir().join(format!(
        "portcullis-hook-{}-{}-{name}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    ));
    std::fs::remove_file(&path).ok();
    path
}

/// How many processes have `marker` in their command line.
fn running(marker: &str) -> usize {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .filter(|line| String::from_utf8_lossy(line).contains(marker))
        .count()
}

#[track_caller]
fn gone(marker: &str) {
    let start = Instant::now();
    while running(marker) > 0 {
        assert!(start.elapsed() < PATIENCE, "{marker} is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[track_caller]
fn broken(say: &HookSay, why: &str) {
    assert!(
        matches!(say, HookSay::Broken(said) if said.contains(why)),
        "{say:?} does not say {why:?}"
    );
}

async fn check_broken(script: &str, why: &str) {
    broken(&sh(script, LONG).before(&call()).await, why);
}

#[tokio::test]
async fn what_a_hook_says_counts() {
    for (answer, want) in [
        (r#"{"decision":"pass"}"#, HookSay::Pass),
        (
            r#"{"decision":"ask","reason":"late"}"#,
            HookSay::Ask("late".to_owned()),
        ),
        (
            r#"{"decision":"deny","reason":"no"}"#,
            HookSay::Deny("no".to_owned()),
        ),
    ] {
        let hook = sh(&format!("read line; echo '{answer}'"), LONG);
        assert_eq!(hook.before(&call()).await, want);
    }
}

#[tokio::test]
async fn a_hook_is_told_one_line_without_a_host_path_in_a_clean_environment() {
    let file = scratch("told");
    let script = format!(
        "cat > {0}; env | sort >> {0}; pwd >> {0}; ls /proc/$$/fd | tr '\\n' ' ' >> {0}; \
         ps -o pgid= -p $$ | tr -d ' ' | sed \"s/^$$\\$/own group/\" >> {0}; \
         echo '{{\"decision\":\"pass\"}}'",
        file.display()
    );
    let held = std::fs::File::open("/dev/null").unwrap();
    assert_eq!(sh(&script, LONG).before(&call()).await, HookSay::Pass);
    drop(held);
    let told = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let (line, rest) = told.split_once('\n').unwrap();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(line).unwrap(),
        serde_json::json!({
            "v": 1,
            "event": "before",
            "requestId": "r_1",
            "subject": {"principal": {"type": "user", "id": "ada"}},
            "operation": "read",
            "resources": [{
                "root": "work",
                "kind": "workspace",
                "relativePath": "src/main.rs",
                "access": "read",
                "entity": "file",
            }],
        })
    );
    // PWD, OLDPWD and _ are the shell's own.
    let set: Vec<&str> = rest
        .lines()
        .filter(|line| {
            !["PWD=", "_=", "OLDPWD=", "SHLVL="]
                .iter()
                .any(|own| line.starts_with(own))
        })
        .collect();
    assert_eq!(
        set.get(..3),
        Some(["LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin", "/"].as_slice()),
        "{rest}"
    );
    assert!(rest.contains("own group"), "{rest}");
    // Its own three, and what the shell opened to run this very line.
    let fds = set.get(3).copied().unwrap_or_default();
    let open = fds
        .split_whitespace()
        .filter(|fd| fd.parse::<u32>().is_ok());
    assert!(open.count() <= 4, "{fds}");
}

#[tokio::test]
async fn a_hook_that_crashes_denies() {
    check_broken("read line; exit 1", "exit status: 1").await;
    check_broken(
        "read line; echo '{\"decision\":\"pass\"}'; exit 3",
        "exit status: 3",
    )
    .await;
    check_broken(
        "read line; echo '{\"decision\":\"pass\"}'; kill -SEGV $$",
        "signal: 11",
    )
    .await;
    check_broken("read line; echo oops >&2; exit 1", "it complained: oops").await;
}

#[tokio::test]
async fn a_hook_that_says_garbage_denies() {
    check_broken("read line", "said nothing").await;
    check_broken("read line; echo yes", "not understood").await;
    check_broken("read line; head -c 1000 /dev/urandom", "not understood").await;
    check_broken(
        "read line; echo '{\"decision\":\"pass\"}'; echo '{\"decision\":\"pass\"}'",
        "trailing",
    )
    .await;
    check_broken(
        "read line; echo '{\"decision\":\"allow\"}'",
        "unknown variant",
    )
    .await;
}

#[tokio::test]
async fn a_hook_that_says_too_much_denies_at_once() {
    let start = Instant::now();
    check_broken("read line; cat /dev/zero", "more than 64 KiB").await;
    check_broken(
        "read line; yes '{\"decision\":\"pass\"}'",
        "more than 64 KiB",
    )
    .await;
    assert!(start.elapsed() < LONG);
    // Much on stderr is neither kept nor in the way.
    let hook = sh(
        "read line; head -c 3000000 /dev/zero >&2; echo '{\"decision\":\"pass\"}'",
        LONG,
    );
    assert_eq!(hook.before(&call()).await, HookSay::Pass);
}

#[tokio::test]
async fn a_hook_that_does_not_read_what_it_is_asked_denies() {
    for _ in 0..20 {
        check_broken("echo '{\"decision\":\"pass\"}'", "did not read").await;
        check_broken("exec <&-; echo '{\"decision\":\"pass\"}'", "did not read").await;
    }
    // A request larger than a pipe, unread, holds up nothing.
    let mut large = call();
    let one = large.facts.resources.first().unwrap().clone();
    large.facts = Arc::new(Facts {
        verb: Verb::Read,
        resources: vec![one; 2_000],
        shown: None,
        shrinks: false,
        below: Vec::new(),
        more_below: 0,
        unkept: false,
    });
    let hook = sh("echo '{\"decision\":\"pass\"}'", LONG);
    broken(&hook.before(&large).await, "did not read");
    let hook = sh("cat >/dev/null; echo '{\"decision\":\"pass\"}'", LONG);
    assert_eq!(hook.before(&large).await, HookSay::Pass);
}

#[tokio::test]
async fn a_hook_that_is_missing_or_no_program_denies() {
    for path in ["/nonexistent/hook", "/etc/passwd", "/etc"] {
        let hook = ProgramHook::new("x", vec![path.to_owned()], LONG).unwrap();
        broken(&hook.before(&call()).await, "cannot be started");
    }
}

#[test]
fn a_hook_that_makes_no_sense_is_not_declared() {
    let new = |argv: &[&str], time| {
        ProgramHook::new("x", argv.iter().map(|&arg| arg.to_owned()).collect(), time).err()
    };
    assert_eq!(new(&[], LONG), Some(BadHook::NoProgram));
    assert_eq!(new(&["sh"], LONG), Some(BadHook::NotAbsolute));
    assert_eq!(new(&["./sh"], LONG), Some(BadHook::NotAbsolute));
    assert_eq!(new(&["/bin/sh", "a\0b"], LONG), Some(BadHook::Nul));
    assert_eq!(new(&["/bin/sh"], Duration::ZERO), Some(BadHook::NoTime));
}

#[tokio::test]
async fn a_hook_that_hangs_or_is_slow_denies_when_its_time_is_over_and_is_killed() {
    for script in [
        "read line; echo '{\"decision\":\"pass\"}'; sleep 98761",
        "sleep 98761",
        "trap '' TERM INT HUP; read line; sleep 98761; sleep 98761",
        "read line; exec >&-; sleep 98761",
    ] {
        let start = Instant::now();
        broken(&sh(script, SHORT).before(&call()).await, "in time");
        assert!(start.elapsed() >= SHORT && start.elapsed() < SHORT + promised(SLACK));
    }
    gone("98761");
}

#[tokio::test]
async fn what_a_hook_leaves_behind_is_killed_and_not_waited_for() {
    // Many, in the background, holding stdout and stderr.
    let script = "read line; i=0; while [ $i -lt 50 ]; do sleep 98762 & i=$((i+1)); done; \
                  echo '{\"decision\":\"pass\"}'";
    let start = Instant::now();
    assert_eq!(sh(script, LONG).before(&call()).await, HookSay::Pass);
    assert!(start.elapsed() < promised(SLACK));
    gone("98762");

    // One that forks for ever, until its time is over.
    let script = "f() { sleep 98763 & g & }; g() { sleep 0.01; f; }; read line; f; sleep 98763";
    broken(&sh(script, SHORT).before(&call()).await, "in time");
    gone("98763");

    // One that left the group: not ours to kill, and not waited for either.
    let script = "read line; left=$(mktemp); setsid sh -c \"echo >$left; exec sleep 30\" & \
                  while [ ! -s $left ]; do sleep 0.01; done; rm $left; \
                  echo '{\"decision\":\"pass\"}'";
    let start = Instant::now();
    broken(&sh(script, LONG).before(&call()).await, "left behind");
    assert!(start.elapsed() < promised(Duration::from_secs(25)));
}

#[tokio::test]
async fn a_caller_who_gives_up_leaves_no_process() {
    let hook = sh("read line; sleep 98764 & sleep 98764", LONG);
    let call = call();
    for _ in 0..20 {
        let wait = Duration::from_millis(50);
        assert!(
            tokio::time::timeout(wait, hook.before(&call))
                .await
                .is_err()
        );
    }
    gone("98764");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_broken_hooks_at_once_deny_and_leave_nothing() {
    let start = Instant::now();
    let mut calls = Vec::new();
    // Sixteen turns at once; each holds its turn for 100 ms at least.
    let hook = Arc::new(sh("read line; sleep 98765 & sleep 0.1; exit 1", LONG));
    for _ in 0..200 {
        let hook = Arc::clone(&hook);
        calls.push(tokio::spawn(async move { hook.before(&call()).await }));
    }
    let mut denied = 0;
    for one in calls {
        broken(&one.await.unwrap(), "exit status: 1");
        denied += 1;
    }
    assert_eq!(denied, 200);
    gone("98765");
    println!("200 crashing hooks: 200 denied in {:?}", start.elapsed());

    // Hanging: those who get no turn in time are denied as well.
    let start = Instant::now();
    let hook = Arc::new(sh("read line; sleep 98766", SHORT));
    let calls: Vec<_> = (0..200)
        .map(|_| {
            let hook = Arc::clone(&hook);
            tokio::spawn(async move { hook.before(&call()).await })
        })
        .collect();
    for one in calls {
        assert!(matches!(one.await.unwrap(), HookSay::Broken(_)));
    }
    assert!(
        start.elapsed() < SHORT + promised(SLACK),
        "{:?}",
        start.elapsed()
    );
    gone("98766");
    println!("200 hanging hooks: 200 denied in {:?}", start.elapsed());
}

#[tokio::test]
async fn a_python_hook_that_decides_by_path_works() {
    let script = "import sys, json\n\
                  q = json.load(sys.stdin)\n\
                  bad = any(r['relativePath'].endswith('.rs') for r in q['resources'])\n\
                  print(json.dumps({'decision': 'deny' if bad else 'pass', 'reason': 'rust'}))";
    let argv = ["/usr/bin/env", "python3", "-c", script].map(str::to_owned);
    let hook = ProgramHook::new("py", argv.to_vec(), LONG).unwrap();
    assert_eq!(hook.before(&call()).await, HookSay::Deny("rust".to_owned()));
}

#[tokio::test]
async fn who_wants_to_be_told_afterwards_is_and_nobody_waits_for_it() {
    let file = scratch("after");
    let script = format!("cat >> {}", file.display());
    sh(&script, LONG).after(&call(), Outcome::Success);
    let hook = sh(&script, LONG).events(Events::Both);
    let start = Instant::now();
    // The best of five: others run here too, and may have the processor meanwhile.
    let took = [(); 5].map(|()| {
        let start = Instant::now();
        hook.after(&call(), Outcome::Success);
        hook.after(&call(), Outcome::Denied);
        start.elapsed()
    });
    assert!(*took.iter().min().unwrap() < promised(Duration::from_millis(50)));
    let told = loop {
        let told = std::fs::read_to_string(&file).unwrap_or_default();
        if told.lines().count() == 10 {
            break told;
        }
        assert!(start.elapsed() < LONG, "{told}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    std::fs::remove_file(&file).unwrap();
    let outcomes: Vec<_> = told
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| (line["event"].clone(), line["outcome"].clone()))
        .collect();
    let expected: Vec<_> = [("after", "success"), ("after", "denied")]
        .repeat(5)
        .into_iter()
        .map(|(event, outcome)| (event.into(), outcome.into()))
        .collect();
    assert_eq!(outcomes, expected);
    assert_eq!(hook.dropped(), 0);
}

#[tokio::test]
async fn a_hook_too_far_behind_is_not_told_and_that_is_counted() {
    let hook = sh("sleep 98767", SHORT).events(Events::Both);
    for _ in 0..200 {
        hook.after(&call(), Outcome::Success);
    }
    assert_eq!(hook.dropped(), 200 - 128);
}

#[test]
fn without_a_runtime_an_event_is_dropped_and_counted() {
    let hook = sh("cat", SHORT).events(Events::Both);
    hook.after(&call(), Outcome::Success);
    assert_eq!(hook.dropped(), 1);
}
