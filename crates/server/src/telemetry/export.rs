//! Sends what was noted, at its own pace, and gives up what nobody takes.
//!
//! Two tasks, one for spans and one for numbers, so that neither waits for the
//! other's collector. Each holds a bounded amount, tries a bounded number of
//! times, and is given a bounded time at the end.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval_at, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::endpoint::Endpoint;
use super::health::Health;
use super::json::Teller;
use super::post::{Poster, Trouble};
use super::span::Span;
use super::{BATCH, Dropped, Telemetry, metrics};
use crate::http::{Readings, Server};

/// How long a span waits for others at most.
const SPANS_EVERY: Duration = Duration::from_secs(1);
/// How often a batch is sent before it is given up.
const TRIES: u32 = 5;
/// How long to wait before the second try; twice as long before each next one.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// How long what is left has at the end.
const FLUSH_PATIENCE: Duration = Duration::from_secs(2);

/// What connects to a collector: the future of a connection.
pub type Dialling<'a> = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send + 'a>>;

/// What an exporter needs of the world: this crate makes no connection and
/// writes no log by itself.
pub trait Outside: Send + Sync {
    /// Connects.
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> Dialling<'a>;
    /// Something has begun to go wrong, in words.
    fn warn(&self, what: &str);
    /// Something goes well again, in words.
    fn info(&self, what: &str);
}

/// What is reported, to whom, and how often.
#[derive(Debug)]
pub struct Reporting {
    /// Where the collector is.
    pub endpoint: Endpoint,
    /// What the service is called there.
    pub service: String,
    /// How often numbers are sent.
    pub metrics_every: Duration,
}

/// An exporter at work.
pub struct Exporting {
    ending: CancellationToken,
    tasks: [JoinHandle<()>; 2],
    outside: Arc<dyn Outside>,
}

impl std::fmt::Debug for Exporting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exporting").finish_non_exhaustive()
    }
}

impl Exporting {
    /// Begins, in the runtime it is called in; nothing where the server takes
    /// no note of anything.
    pub fn start(
        server: &Arc<Server>,
        reporting: Reporting,
        outside: Arc<dyn Outside>,
    ) -> Option<Self> {
        let telemetry = server.parts.telemetry.as_ref()?;
        let teller = Teller {
            service: reporting.service,
            instance: server.parts.gate.tag().to_owned(),
        };
        let ending = CancellationToken::new();
        let to = &reporting.endpoint;
        let sending = |signal: &'static str, path: &Uri| Sending {
            signal,
            shown: to.to_string(),
            poster: Poster::new(to.clone(), path.clone(), Arc::clone(&outside)),
            health: Health::default(),
            telemetry: Arc::clone(telemetry),
            teller: teller.clone(),
            ending: ending.clone(),
            outside: Arc::clone(&outside),
        };
        let traces = sending("traces", &to.traces);
        let numbers = sending("metrics", &to.metrics);
        let spans = tokio::spawn(traces.send_spans());
        let numbers = numbers.send_numbers(Arc::clone(server), reporting.metrics_every);
        Some(Self {
            ending,
            tasks: [spans, tokio::spawn(numbers)],
            outside,
        })
    }

    /// Sends what is left, as far as it is taken within two seconds.
    pub async fn finish(self) {
        self.ending.cancel();
        let [spans, numbers] = self.tasks;
        let aborts = [spans.abort_handle(), numbers.abort_handle()];
        let both = async { drop((spans.await, numbers.await)) };
        if timeout(FLUSH_PATIENCE, both).await.is_err() {
            for abort in aborts {
                abort.abort();
            }
            let seconds = FLUSH_PATIENCE.as_secs();
            self.outside.warn(&format!(
                "the OpenTelemetry collector did not take within {seconds} s what was left to tell, and is not waited for"
            ));
        }
    }
}

/// Sends messages of one kind.
struct Sending {
    signal: &'static str,
    shown: String,
    poster: Poster,
    health: Health,
    telemetry: Arc<Telemetry>,
    teller: Teller,
    ending: CancellationToken,
    outside: Arc<dyn Outside>,
}

impl Sending {
    async fn send_spans(mut self) {
        let mut tick = interval_at(tokio::time::Instant::now() + SPANS_EVERY, SPANS_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let telemetry = Arc::clone(&self.telemetry);
        loop {
            tokio::select! {
                () = self.ending.cancelled() => break,
                _ = tick.tick() => {}
                () = telemetry.full.notified() => {}
            }
            self.send_all().await;
        }
        // What was noted while the last batch was sent.
        self.send_all().await;
    }

    async fn send_all(&mut self) {
        let taken = self.telemetry.take();
        for batch in taken.chunks(BATCH) {
            self.send_batch(batch).await;
        }
    }

    /// Sends one batch, or gives it up and counts it.
    async fn send_batch(&mut self, batch: &[Span]) {
        let message = Bytes::from(self.teller.traces(batch));
        let size = batch.len() as u64;
        for again in 0..TRIES {
            match self.poster.post(message.clone()).await {
                Ok(left_out) => {
                    self.went_well();
                    let left_out = left_out.min(size);
                    self.telemetry.count_dropped(Dropped::Rejected, left_out);
                    return;
                }
                Err(trouble) => {
                    self.failed(&trouble);
                    // At the end there is no time for another.
                    if !trouble.may_pass() || self.ending.is_cancelled() {
                        break;
                    }
                    if again + 1 < TRIES {
                        let wait = self.pause(again).max(trouble.wait().unwrap_or_default());
                        tokio::select! {
                            // Once more, and at once.
                            () = self.ending.cancelled() => {}
                            () = sleep(wait) => {}
                        }
                    }
                }
            }
        }
        self.telemetry.count_dropped(Dropped::NotDelivered, size);
    }

    /// Longer each time, and not the same for all who wait for a collector.
    fn pause(&self, again: u32) -> Duration {
        let whole = FIRST_WAIT * 2_u32.pow(again.min(TRIES));
        let [chance]: [u8; 1] = self.telemetry.id();
        whole / 2 + whole / 2 * u32::from(chance) / u32::from(u8::MAX)
    }

    /// Numbers are told whole each time: what one message lost, the next has.
    async fn send_numbers(mut self, server: Arc<Server>, every: Duration) {
        let mut tick = interval_at(tokio::time::Instant::now() + every, every);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let ends = tokio::select! {
                () = self.ending.cancelled() => true,
                _ = tick.tick() => false,
            };
            self.telemetry.follow_clock();
            let readings = Readings::of(&server).await;
            let message = metrics::message(&self.teller, &self.telemetry, &readings);
            match self.poster.post(message.into()).await {
                Ok(_) => self.went_well(),
                Err(trouble) => self.failed(&trouble),
            }
            if ends {
                return;
            }
        }
    }

    fn failed(&mut self, trouble: &Trouble) {
        if self.health.failed() {
            let (signal, shown) = (self.signal, &self.shown);
            self.outside.warn(&format!(
                "OpenTelemetry {signal} are not delivered to {shown}: {trouble}. Requests are served as before; what cannot be delivered is dropped and counted"
            ));
        }
    }

    fn went_well(&mut self) {
        if self.health.went_well() {
            let (signal, shown) = (self.signal, &self.shown);
            self.outside.info(&format!(
                "OpenTelemetry {signal} are delivered to {shown} again"
            ));
        }
    }
}
