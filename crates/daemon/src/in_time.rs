//! How long is waited for what comes of a call.

use std::future::Future;
use std::time::Duration;

use portcullis_gate::CancelFlag;
use portcullis_link::bounds;
use portcullis_proto::{Failure, Reason, ToolReply};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// How long a change that was cancelled has to end by itself. A question that
/// is open for it goes with it.
const CANCELLED_CHANGE: Duration = Duration::from_secs(2);

/// When a call is over, whatever came of it.
pub(crate) struct Until<'a> {
    pub(crate) deadline: Instant,
    pub(crate) cancelled: &'a CancellationToken,
}

/// What comes of `work`, or that it took too long.
///
/// A change that has begun is not taken back when its time is over: what is
/// remembered of it, for who asks again and for undoing it, is what came of it.
pub(crate) async fn in_time(
    until: Until<'_>,
    work: impl Future<Output = ToolReply>,
    is_change: bool,
    flag: &CancelFlag,
) -> ToolReply {
    let mut work = std::pin::pin!(work);
    let (why, patience) = tokio::select! {
        biased;
        () = until.cancelled.cancelled() => (Reason::Cancelled, CANCELLED_CHANGE),
        () = sleep_until(until.deadline) => (Reason::Deadline, bounds::GRACE),
        reply = &mut work => return reply,
    };
    flag.cancel();
    if !is_change {
        return ToolReply::failed(&why.into());
    }
    timeout(patience, work).await.unwrap_or_else(|_| {
        let unknown = "It was ended while it was done: whether it was done is not known.";
        ToolReply::failed(&Failure::new(why, unknown))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a call comes to that takes so long; done in the end, unless it is
    /// cancelled before it begins.
    async fn check(took: u64, is_change: bool, want: &str) {
        let (flag, cancelled) = (CancelFlag::new(), CancellationToken::new());
        let until = Until {
            deadline: Instant::now() + Duration::from_mins(1),
            cancelled: &cancelled,
        };
        let work = async {
            tokio::time::sleep(Duration::from_secs(took)).await;
            ToolReply::failed(&Failure::new(Reason::NotFound, "what came of it"))
        };
        let reply = in_time(until, work, is_change, &flag).await;
        let said = reply.structured.get();
        assert!(said.contains(want), "{took} s: {said}");
        assert_eq!(flag.is_cancelled(), took > 60);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_that_ends_late_is_remembered_as_done() {
        check(59, true, "what came of it").await;
        check(69, true, "what came of it").await;
        check(71, true, "whether it was done is not known").await;
        check(59, false, "what came of it").await;
        check(61, false, "\"deadline\"").await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_that_is_cancelled_has_a_moment_to_end() {
        for (took, want) in [(1, "what came of it"), (3, "is not known")] {
            let (flag, cancelled) = (CancelFlag::new(), CancellationToken::new());
            cancelled.cancel();
            let until = Until {
                deadline: Instant::now() + Duration::from_mins(1),
                cancelled: &cancelled,
            };
            let work = async {
                tokio::time::sleep(Duration::from_secs(took)).await;
                ToolReply::failed(&Failure::new(Reason::NotFound, "what came of it"))
            };
            let reply = in_time(until, work, true, &flag).await;
            assert!(reply.structured.get().contains(want), "{took} s");
        }
    }
}
