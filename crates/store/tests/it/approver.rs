//! The approver that waits for an answer here or elsewhere.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portcullis_gate::{Answer, Approver, Decision, Question, Reply, Surface};
use portcullis_proto::Principal;
use portcullis_store::{DurableApprover, Said, Stage, Store, Trouble};
use tokio::sync::oneshot;

use crate::kit::{Dir, Hand, NOW, PATIENCE, answer, id, question, raw};

/// Answers what it is told to, when it is told to.
struct Scripted(Mutex<Option<oneshot::Receiver<Reply>>>);

impl Scripted {
    fn new() -> (oneshot::Sender<Reply>, Arc<Self>) {
        let (say, said) = oneshot::channel();
        (say, Arc::new(Self(Mutex::new(Some(said)))))
    }

    fn saying(reply: Reply) -> Arc<Self> {
        let (say, scripted) = Self::new();
        say.send(reply).unwrap();
        scripted
    }
}

impl Approver for Scripted {
    fn surface(&self) -> Surface {
        Surface::Script
    }

    fn ask<'a>(
        &'a self,
        _question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>> {
        let said = self.0.lock().unwrap().take().unwrap();
        Box::pin(async move { said.await.unwrap_or(Reply::TimedOut) })
    }
}

fn here(decision: Decision) -> Answer {
    Answer {
        decision,
        surface: Surface::Script,
        by: "here".to_owned(),
    }
}

fn over(store: &Store, inner: Option<Arc<dyn Approver>>) -> DurableApprover {
    DurableApprover::new(store.clone(), inner, Hand::at(NOW))
}

async fn stage(store: &Store, name: &str, want: Stage) {
    let start = Instant::now();
    loop {
        let stage = store.poll(&id(name), NOW).unwrap();
        if stage == want {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{stage:?}, not {want:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn with_nobody_to_ask_it_says_so_at_once_and_stores_nothing() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    let approver = over(&store, None);
    assert_eq!(approver.surface(), Surface::Terminal);
    assert_eq!(approver.ask(&question("q")).await, Reply::Unavailable);
    assert!(!dir.db().exists());
    // A watcher that went silent counts as nobody.
    store.watcher_heartbeat("w", NOW - 5_000).unwrap();
    assert_eq!(approver.ask(&question("q")).await, Reply::Unavailable);
    assert_eq!(store.poll(&id("q"), NOW).unwrap(), Stage::Unknown);
}

#[tokio::test]
async fn an_answer_given_here_is_recorded_and_used() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    let yes = here(Decision::AllowOnce);
    let approver = over(&store, Some(Scripted::saying(Reply::Answered(yes.clone()))));
    assert_eq!(approver.surface(), Surface::Script);
    let start = Instant::now();
    assert_eq!(
        approver.ask(&question("q")).await,
        Reply::Answered(yes.clone())
    );
    println!("answered here, recorded and used: {:?}", start.elapsed());
    assert_eq!(store.poll(&id("q"), NOW).unwrap(), Stage::Used(yes));
    // The same attempt asks again.
    let no = here(Decision::DenyOnce);
    let approver = over(&store, Some(Scripted::saying(Reply::Answered(no.clone()))));
    assert_eq!(approver.ask(&question("q")).await, Reply::Answered(no));
    assert_eq!(approver.fault(), None);
}

#[tokio::test]
async fn the_first_answer_wins_wherever_it_is_given() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    let (say, scripted) = Scripted::new();
    let approver = over(&store, Some(scripted));
    let asked = question("q");
    let elsewhere = answer(Decision::DenyOnce, "elsewhere");
    let (reply, ()) = tokio::join!(approver.ask(&asked), async {
        stage(&store, "q", Stage::Pending).await;
        let said = store.answer(&id("q"), &elsewhere, NOW).unwrap();
        assert_eq!(said, Said::Answered);
        // Too late, and not heard.
        say.send(Reply::Answered(here(Decision::AllowOnce))).ok();
    });
    assert_eq!(reply, Reply::Answered(elsewhere.clone()));
    assert_eq!(store.poll(&id("q"), NOW).unwrap(), Stage::Used(elsewhere));
}

#[tokio::test]
async fn an_answer_that_was_not_offered_or_came_late_is_a_no() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    let always = Reply::Answered(here(Decision::AlwaysAllow));
    let approver = over(&store, Some(Scripted::saying(always)));
    let Reply::Answered(said) = approver.ask(&question("q")).await else {
        panic!("no answer");
    };
    assert_eq!(said.decision, Decision::DenyOnce);
    assert!(said.by.contains("not offered"), "{}", said.by);
    stage(&store, "q", Stage::Withdrawn).await;

    let mut late = question("late");
    late.deadline = NOW;
    let yes = Reply::Answered(here(Decision::AllowOnce));
    let approver = over(&store, Some(Scripted::saying(yes)));
    assert_eq!(approver.ask(&late).await, Reply::TimedOut);
}

#[tokio::test]
async fn a_suspended_question_stays_for_the_call_that_brings_the_answer() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    let approver = over(&store, Some(Scripted::saying(Reply::Suspended)));
    assert_eq!(approver.ask(&question("q")).await, Reply::Suspended);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let yes = answer(Decision::AllowOnce, "ada");
    assert_eq!(store.answer(&id("q"), &yes, NOW).unwrap(), Said::Answered);
    let taken = store.take(&id("q")).unwrap();
    assert_eq!(taken, Some((question("q").digest, yes)));
}

#[tokio::test]
async fn nobody_here_but_a_watcher_elsewhere_is_somebody() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    let approver = over(&store, Some(Scripted::saying(Reply::Unavailable)));
    assert_eq!(approver.ask(&question("q")).await, Reply::Unavailable);
    store.watcher_heartbeat("w", NOW).unwrap();
    let approver = over(&store, Some(Scripted::saying(Reply::Unavailable)));
    let yes = answer(Decision::AllowOnce, "ada");
    let asked = question("q2");
    let (reply, ()) = tokio::join!(approver.ask(&asked), async {
        stage(&store, "q2", Stage::Pending).await;
        assert_eq!(store.answer(&id("q2"), &yes, NOW).unwrap(), Said::Answered);
    });
    assert_eq!(reply, Reply::Answered(yes.clone()));
}

#[tokio::test]
async fn a_caller_who_gives_up_withdraws_the_question() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    store.watcher_heartbeat("w", NOW).unwrap();
    let approver = over(&store, None);
    // At whichever moment: before, while and after it is written.
    for at in 0..40u64 {
        let asked = question(&format!("q{at}"));
        let wait = Duration::from_micros(at * 200);
        assert!(
            tokio::time::timeout(wait, approver.ask(&asked))
                .await
                .is_err()
        );
    }
    let start = Instant::now();
    while !store.pending(100, NOW).unwrap().is_empty() {
        assert!(start.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(store.pending(100, NOW).unwrap(), []);
}

#[test]
fn when_the_runtime_ends_questions_are_withdrawn() {
    let dir = Dir::new();
    let store = Store::new(dir.path());
    store.watcher_heartbeat("w", NOW).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let approver = Arc::new(over(&store, None));
    runtime.block_on(async {
        for at in 0..20 {
            let approver = Arc::clone(&approver);
            let asked = question(&format!("q{at}"));
            drop(tokio::spawn(async move { approver.ask(&asked).await }));
        }
        while store.pending(100, NOW).unwrap().len() < 20 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    drop(runtime);
    assert_eq!(store.pending(100, NOW).unwrap(), []);
}

#[tokio::test]
async fn a_store_that_fails_makes_nobody_available_and_says_why() {
    let dir = Dir::new();
    std::fs::write(dir.db(), "noise, and nothing like a database at all").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(dir.db(), mode).unwrap();
    let store = Store::new(dir.path());
    let yes = Reply::Answered(here(Decision::AllowOnce));
    let approver = over(&store, Some(Scripted::saying(yes)));
    assert_eq!(approver.ask(&question("q")).await, Reply::Unavailable);
    assert_eq!(
        approver.fault().map(|fault| fault.trouble()),
        Some(Trouble::Damaged)
    );
}

#[tokio::test]
async fn a_no_that_cannot_be_recorded_is_a_no_and_a_yes_is_none() {
    for (decision, counts) in [
        (Decision::AlwaysDeny, true),
        (Decision::DenyOnce, true),
        (Decision::AlwaysAllow, false),
        (Decision::AllowOnce, false),
    ] {
        let dir = Dir::new();
        let store = Store::new(dir.path());
        let (say, scripted) = Scripted::new();
        let approver = over(&store, Some(scripted));
        let mut asked = question("q");
        asked.offered = Decision::ALL.to_vec();
        let (reply, ()) = tokio::join!(approver.ask(&asked), async {
            stage(&store, "q", Stage::Pending).await;
            // What an answer is counted by: none can be written any more.
            raw(&dir).execute("DROP TABLE counters", []).unwrap();
            say.send(Reply::Answered(here(decision))).unwrap();
        });
        let want = if counts {
            Reply::Answered(here(decision))
        } else {
            Reply::Unavailable
        };
        assert_eq!(reply, want, "{decision:?}");
        assert!(approver.fault().is_some());
    }
}

/// How many questions are parked at once.
pub(crate) const MANY: usize = 10_000;

/// What answer the question number `at` gets.
pub(crate) fn half_and_half(at: usize) -> Decision {
    [Decision::AllowOnce, Decision::DenyOnce][at % 2]
}

/// Parks ten thousand questions and waits until another process has answered
/// them all. Runs in a process of its own, whose handles and threads it counts.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn park_many(store: Store) {
    let count = |what: &str| {
        std::fs::read_dir(format!("/proc/self/{what}"))
            .unwrap()
            .count()
    };
    store.watcher_heartbeat("w", NOW).unwrap();
    assert!(store.has_watcher(NOW).unwrap());
    let approver = Arc::new(over(&store, None));
    let (fds, threads) = (count("fd"), count("task"));
    let start = Instant::now();
    let waiting: Vec<_> = (0..MANY)
        .map(|at| {
            let approver = Arc::clone(&approver);
            let mut asked = question(&format!("q{at}"));
            // Of ten callers: more than a thousand of one are not kept.
            asked.subject.principal = Principal::User {
                id: format!("u{}", at % 10).into(),
            };
            tokio::spawn(async move { approver.ask(&asked).await })
        })
        .collect();
    let mut most = (fds, threads);
    while store.pending(MANY, NOW).unwrap().len() < MANY {
        assert!(start.elapsed() < PATIENCE, "{:?}", approver.fault());
        most = (most.0.max(count("fd")), most.1.max(count("task")));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!(
        "said:parked in {:?}, {} more handles, {} more threads",
        start.elapsed(),
        most.0 - fds,
        most.1 - threads
    );
    assert!(most.0 <= fds, "handles: {fds} before, {} at most", most.0);
    assert!(
        most.1 <= threads + 2,
        "threads: {threads} before, {} at most",
        most.1
    );
    let mut yes = 0;
    for (at, one) in waiting.into_iter().enumerate() {
        let Reply::Answered(said) = one.await.unwrap() else {
            panic!("q{at}: {:?}", approver.fault());
        };
        assert_eq!(said.decision, half_and_half(at));
        yes += usize::from(said.decision.allows());
    }
    assert_eq!(count("fd"), fds);
    println!("said:{yes} yes of {MANY}");
}
