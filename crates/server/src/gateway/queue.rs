//! What waits for a stream: events in their order, bounded by number and by
//! bytes. Who reads too slowly is let go, and hears what still counts over the
//! next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use portcullis_link::{Event, bounds};
use tokio::sync::mpsc;

use crate::http::CutOff;

/// One event on its way to a daemon.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) id: Option<u64>,
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
            data: data.into(),
            is_last: false,
        }
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

/// The end of a queue where events are put.
pub(super) struct Teller {
    send: mpsc::Sender<Outgoing>,
    bytes: Arc<AtomicUsize>,
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
        let bytes = event.data.len();
        let before = self.bytes.fetch_add(bytes, Ordering::AcqRel);
        // One event fits whatever it is: what is asked is bounded elsewhere.
        let fits = before == 0 || before.saturating_add(bytes) <= bounds::MAX_QUEUED_BYTES;
        let told = fits && self.send.try_send(event).is_ok();
        if !told {
            self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        }
        told
    }

    /// Whether nobody reads any more.
    pub(super) fn is_closed(&self) -> bool {
        self.send.is_closed()
    }

    /// Whoever reads is let go of at once, with whatever is on its way to it.
    pub(super) fn cut(self) {
        self.cut_off.cut();
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
