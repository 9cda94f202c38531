//! What waits for a stream: events in their order, bounded by number and by
//! bytes. Who reads too slowly is let go, and hears what still counts over the
//! next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use portcullis_link::{Event, bounds};
use tokio::sync::mpsc;

use crate::http::CutOff;

/// How long a last word has to be heard by who is in the middle of another.
const LAST_WORD: Duration = Duration::from_secs(1);

/// One event on its way to a daemon.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) id: Option<u64>,
    /// The call it asks for, where no journal knows whether it was sent.
    pub(super) request: Option<Arc<str>>,
    /// Its JSON, on one line.
    pub(crate) data: Arc<str>,
    /// Whether nothing comes after it.
    is_last: bool,
}

impl Outgoing {
    pub(crate) fn of(id: Option<u64>, event: &Event) -> Self {
        let data = serde_json::to_string(event).unwrap_or_default();
        Self {
            id,
            request: None,
            data: data.into(),
            is_last: false,
        }
    }

    /// The event of a call of another dialect than ours, which is sent once.
    pub(super) fn once(request: &str, event: &Event) -> Self {
        let mut once = Self::of(None, event);
        once.request = Some(request.into());
        once
    }

    pub(super) fn is_last(&self) -> bool {
        self.is_last
    }

    /// An event after which there is nothing to be heard.
    pub(crate) fn last(event: &Event) -> Self {
        let mut last = Self::of(None, event);
        last.is_last = true;
        last
    }
}

/// The end of a queue where events are put. Dropped, whoever reads is let go of
/// when it had a moment to hear the end.
pub(super) struct Teller {
    send: mpsc::Sender<Outgoing>,
    bytes: Arc<AtomicUsize>,
    /// Whether a last word was told.
    ends: AtomicBool,
    cut_off: CutOff,
}

/// The end of a queue where events are read.
pub(crate) struct Hearing {
    receive: mpsc::Receiver<Outgoing>,
    bytes: Arc<AtomicUsize>,
    pub(super) cut_off: CutOff,
}

/// A queue, empty.
pub(super) fn queue() -> (Teller, Hearing) {
    let (send, receive) = mpsc::channel(bounds::MAX_QUEUED);
    let (bytes, cut_off) = (Arc::default(), CutOff::default());
    let teller = Teller {
        send,
        bytes: Arc::clone(&bytes),
        ends: AtomicBool::new(false),
        cut_off: cut_off.clone(),
    };
    let hearing = Hearing {
        receive,
        bytes,
        cut_off,
    };
    (teller, hearing)
}

impl Teller {
    /// Puts an event in; whether there was room for it, and somebody to read it.
    pub(super) fn tell(&self, event: Outgoing) -> bool {
        let (bytes, is_last) = (event.data.len(), event.is_last);
        let before = self.bytes.fetch_add(bytes, Ordering::AcqRel);
        // One event fits whatever it is: what is asked is bounded elsewhere.
        let fits = before == 0 || before.saturating_add(bytes) <= bounds::MAX_QUEUED_BYTES;
        let told = fits && self.send.try_send(event).is_ok();
        if !told {
            self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        }
        self.ends.fetch_or(told && is_last, Ordering::AcqRel);
        told
    }

    /// Whether nobody reads any more.
    pub(super) fn is_closed(&self) -> bool {
        self.send.is_closed()
    }

    /// Whoever reads is let go of, with whatever is on its way to it: at once, or
    /// where it was told a last word, when it had a moment to hear that.
    pub(super) fn cut(self) {
        if !self.ends.load(Ordering::Acquire) {
            self.cut_off.cut_in(Duration::ZERO);
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.cut_off.cut_in(LAST_WORD);
    }
}

impl Hearing {
    fn heard(&self, event: Option<Outgoing>) -> Option<Outgoing> {
        let event = event?;
        self.bytes.fetch_sub(event.data.len(), Ordering::AcqRel);
        Some(event)
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outgoing>> {
        let polled = self.receive.poll_recv(cx);
        polled.map(|event| self.heard(event))
    }

    /// The next event, when there is one; nothing where none will come.
    pub(super) async fn next(&mut self) -> Option<Outgoing> {
        let event = self.receive.recv().await;
        self.heard(event)
    }

    /// The next event, where it is there already.
    pub(super) fn next_now(&mut self) -> Option<Outgoing> {
        let event = self.receive.try_recv().ok();
        self.heard(event)
    }

    /// Whether it is over: another reads in its place, or nobody is to.
    pub(super) fn is_over(&self) -> bool {
        self.receive.is_closed()
    }

    /// What is still to be said where it is over. Everything else is for who
    /// reads next.
    pub(super) fn last_word(&mut self) -> Option<Outgoing> {
        loop {
            let event = self.next_now()?;
            if event.is_last {
                return Some(event);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(bytes: usize) -> Outgoing {
        Outgoing {
            id: None,
            request: None,
            data: "x".repeat(bytes).into(),
            is_last: false,
        }
    }

    #[test]
    fn a_queue_is_bounded_by_number_and_by_bytes() {
        let (teller, mut hearing) = queue();
        let most = bounds::MAX_QUEUED_BYTES;
        assert!(teller.tell(event(most + 1)), "one fits, whatever it is");
        assert!(!teller.tell(event(1)));
        assert!(hearing.next_now().is_some());
        // What was read weighs nothing, and neither does what was not taken.
        for _ in 0..2 {
            assert!(teller.tell(event(most / 2)));
        }
        assert!(!teller.tell(event(1)));
        assert!(hearing.next_now().is_some() && hearing.next_now().is_some());
        for _ in 0..bounds::MAX_QUEUED {
            assert!(teller.tell(event(1)));
        }
        assert!(!teller.tell(event(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_let_go_of_has_a_moment_for_a_last_word_and_for_nothing_else() {
        for (last, left) in [(false, Duration::ZERO), (true, LAST_WORD)] {
            let (teller, hearing) = queue();
            assert!(teller.tell(event(9)));
            if last {
                assert!(teller.tell(Outgoing::last(&Event::GatewayDisconnect)));
            }
            assert_eq!(hearing.cut_off.left(), None);
            teller.cut();
            assert_eq!(hearing.cut_off.left(), Some(left));
        }
        let (teller, hearing) = queue();
        drop(teller);
        assert_eq!(hearing.cut_off.left(), Some(LAST_WORD));
    }

    #[test]
    fn what_is_over_has_a_last_word_and_no_more() {
        let (teller, mut hearing) = queue();
        assert!(teller.tell(event(9)));
        assert!(teller.tell(Outgoing::last(&Event::GatewayDisconnect)));
        assert!(!hearing.is_over());
        drop(teller);
        assert!(hearing.is_over());
        let last = hearing.last_word().unwrap();
        assert!(last.data.contains("gateway-disconnect"));
        assert!(hearing.last_word().is_none());
    }
}
