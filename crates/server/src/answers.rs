//! A call and its question: how long it waits, and the answer a later call
//! brings, whichever surface it comes by.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use portcullis_gate::{Answered, Caller, Clock};
use portcullis_proto::{Failure, QuestionId, Reason};
use portcullis_store::{Stage, Store, StoreError};

/// The longest a call waits for an answer, in seconds.
const MAX_WAIT: u64 = 55;
/// The longest name of a question.
const MAX_ID: usize = 256;
/// What to do about an answer that does not count any more.
const AGAIN: &str = "Call it again without the answer to be asked anew.";

/// How long the caller waits for an answer: `Prefer: wait=N`, in seconds. Not
/// at all where it does not say so.
pub(crate) fn waits(headers: &HeaderMap) -> Duration {
    let seconds = headers
        .get_all("prefer")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|line| line.split([',', ';']))
        .filter_map(|wish| wish.trim().split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("wait"))
        .and_then(|(_, seconds)| seconds.trim().trim_matches('"').parse::<u64>().ok())
        .unwrap_or(0);
    Duration::from_secs(seconds.min(MAX_WAIT))
}

/// The caller, bringing the answer to the question it names. Only the principal
/// that was asked about brings it; it is used up where it counts, once.
pub(crate) async fn bring(
    store: &Store,
    clock: &Arc<dyn Clock>,
    caller: Caller,
    question: &str,
) -> Result<Caller, Failure> {
    let unknown = || {
        Failure::new(Reason::BadArguments, "There is no such question of yours.")
            .hint("Name none, and the question is asked anew.")
    };
    if !(1..=MAX_ID).contains(&question.len()) {
        return Err(unknown());
    }
    let id = QuestionId::new(question);
    let now = clock.now_ms();
    let (asked, stage) = {
        let id = id.clone();
        off_the_reactor(store, move |store| {
            Ok((store.question(&id)?, store.poll(&id, now)?))
        })
        .await?
    };
    // Another's is not told from one that never was, and loses nothing by being named.
    let Some(asked) = asked.filter(|asked| asked.subject.principal == caller.subject.principal)
    else {
        return Err(unknown());
    };
    match stage {
        Stage::Answered(answer) => {
            let answered = Answered {
                question: id,
                digest: asked.digest,
                answer,
            };
            Ok(caller.bringing_untaken(answered, Arc::new(store.clone())))
        }
        Stage::Pending => Err(Failure::from(Reason::ApprovalPending)
            .hint("Call it again, the same way, when somebody has answered.")),
        Stage::Used(_) => Err(Failure::from(Reason::AnswerUsed).hint(AGAIN)),
        Stage::Withdrawn | Stage::Expired | Stage::Unknown => {
            Err(Failure::from(Reason::ApprovalTimeout).hint(AGAIN))
        }
    }
}

/// Asks the store where it may wait for the disk.
pub(crate) async fn off_the_reactor<T: Send + 'static>(
    store: &Store,
    act: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Failure> {
    let store = store.clone();
    match tokio::task::spawn_blocking(move || act(&store)).await {
        Ok(done) => done.map_err(Failure::from),
        Err(panicked) => Err(Failure::from(Reason::Bug).detail(panicked)),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_call_waits_as_long_as_it_says_and_not_for_ever() {
        for (said, want) in [
            ("wait=5", 5),
            ("respond-async, wait=10", 10),
            ("Wait = 7", 7),
            ("wait=9999", MAX_WAIT),
            ("wait=-1", 0),
            ("wait", 0),
            ("", 0),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("prefer", HeaderValue::from_str(said).unwrap());
            assert_eq!(waits(&headers), Duration::from_secs(want), "{said}");
        }
    }
}
