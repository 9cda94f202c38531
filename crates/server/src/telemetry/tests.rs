//! What is noted, and what is not.

use std::sync::atomic::AtomicU64;

use portcullis_proto::{Facts, Outcome, Principal, RequestId, Subject, Verb};

use super::*;
use http::HeaderValue;

/// A clock that is set by hand.
#[derive(Default)]
struct Hands {
    now_ms: AtomicU64,
    monotonic_us: AtomicU64,
}

impl Clock for Hands {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    fn monotonic_us(&self) -> u64 {
        self.monotonic_us.load(Ordering::Relaxed)
    }
}

fn telemetry() -> (Arc<Telemetry>, Arc<Hands>) {
    let clock = Arc::new(Hands::default());
    clock.now_ms.store(1_000_000, Ordering::Relaxed);
    (Telemetry::new(Arc::clone(&clock) as Arc<dyn Clock>), clock)
}

fn seen() -> Seen<'static> {
    Seen {
        request_id: "h_1",
        attempt: None,
        method: "GET",
        route: Some("GET /file"),
        status: 200,
        duration_us: 70,
        bytes: None,
        identity: None,
    }
}

fn facts() -> Facts {
    Facts {
        verb: Verb::Read,
        resources: Vec::new(),
        shown: None,
        shrinks: false,
        below: Vec::new(),
        more_below: 0,
        unkept: false,
    }
}

fn dropped(telemetry: &Telemetry) -> [u64; 3] {
    telemetry.dropped().map(|(_, count)| count)
}

#[test]
fn what_does_not_fit_is_dropped_and_counted_and_the_rest_is_kept() {
    let (telemetry, _) = telemetry();
    let traced = telemetry.begin(&HeaderMap::new()).unwrap();
    for _ in 0..QUEUE + 10 {
        telemetry.answered(&traced, &seen(), "http");
    }
    assert_eq!(dropped(&telemetry), [10, 0, 0]);
    assert_eq!(telemetry.take().len(), QUEUE);
    // There is room again.
    telemetry.answered(&traced, &seen(), "http");
    assert_eq!(telemetry.take().len(), 1);
    assert_eq!(dropped(&telemetry), [10, 0, 0]);
}

#[test]
fn a_client_that_wants_no_trace_gets_none_and_ids_are_never_the_same() {
    let (telemetry, _) = telemetry();
    let mut headers = HeaderMap::new();
    let said = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    headers.insert("traceparent", HeaderValue::from_static(said));
    assert!(telemetry.begin(&headers).is_none());
    let mut ids = std::collections::HashSet::new();
    for _ in 0..10_000 {
        let traced = telemetry.begin(&HeaderMap::new()).unwrap();
        assert!(traced.parent.is_none());
        assert!(ids.insert(traced.trace.id) && traced.trace.span != [0; 8]);
    }
}

#[test]
fn an_attempt_is_noted_below_its_request_and_only_when_it_ends() {
    struct Kept;
    impl Ledger for Kept {
        fn append(&self, _event: &Event<'_>) -> Result<(), LedgerDown> {
            Err(LedgerDown("full".to_owned()))
        }
    }
    let (telemetry, clock) = telemetry();
    let ledger = telemetry.watching(Arc::new(Kept));
    let traced = telemetry.begin(&HeaderMap::new()).unwrap();
    let (request, facts) = (RequestId::new("r_1_1"), facts());
    let subject = Subject::of(Principal::User { id: "ada".into() });
    let mut event = Event {
        phase: Phase::Opening,
        at: 0,
        request_id: &request,
        route: "GET /file",
        called: None,
        trace: Some(traced.trace),
        subject: &subject,
        facts: &facts,
        alleged: Some("pathCanary"),
        outcome: Outcome::Begun,
        policy_source: "settings:/etc/pathCanary",
        wrapper_ids: &[],
        kind: None,
        reason: None,
        question: None,
        answered_by: Some("ada"),
        bytes: None,
        hash: None,
        counts: None,
        staged: None,
        duration_us: 40,
    };
    clock.monotonic_us.store(100, Ordering::Relaxed);
    // What the ledger says is what the gate hears.
    ledger.append(&event).unwrap_err();
    assert!(telemetry.take().is_empty(), "it has begun");
    event.phase = Phase::Closing;
    event.outcome = Outcome::Denied;
    ledger.append(&event).unwrap_err();
    event.trace = None;
    ledger.append(&event).unwrap_err();
    let [span]: [Span; 1] = telemetry.take().try_into().unwrap();
    assert_eq!(span.trace.id, traced.trace.id);
    assert_eq!(span.parent, Some(traced.trace.span));
    assert_eq!((span.start_us, span.end_us), (1_000_000_060, 1_000_000_100));
    let written = serde_json::to_string(&span).unwrap();
    assert!(written.contains(r#"{"key":"portcullis.outcome","value":{"stringValue":"denied"}}"#));
    assert!(
        !written.contains("Canary") && !written.contains("ada"),
        "{written}"
    );
}

#[test]
fn the_time_is_the_clocks_again_once_somebody_set_it() {
    let (telemetry, clock) = telemetry();
    assert_eq!(telemetry.now_us(), 1_000_000_000);
    // Whole milliseconds are no reason to jump.
    clock.monotonic_us.store(1_999, Ordering::Relaxed);
    clock.now_ms.store(1_000_001, Ordering::Relaxed);
    telemetry.follow_clock();
    assert_eq!(telemetry.now_us(), 1_000_001_999);
    clock.now_ms.store(5_000_000, Ordering::Relaxed);
    telemetry.follow_clock();
    assert_eq!(telemetry.now_us(), 5_000_000_000);
}
