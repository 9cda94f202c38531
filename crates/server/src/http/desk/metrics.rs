//! How the server does, as Prometheus reads it.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};

use super::super::reply::{self, Reply};
use super::super::routes::ROUTES;
use super::super::server::{Seen, Server};
use crate::answers::off_the_reactor;

/// What the count of dropped spans says of itself.
pub(crate) const SPANS_DROPPED: &str = "Spans that no OpenTelemetry collector took.";
/// Upper ends of how long requests took, in microseconds.
pub(crate) const BUCKETS: [u64; 8] = [
    100, 500, 1_000, 5_000, 25_000, 100_000, 1_000_000, 10_000_000,
];
/// Statuses are counted by their first digit.
const CLASSES: usize = 6;

/// What is counted for one route. Nothing of what was asked is kept.
#[derive(Debug, Default)]
struct Counts {
    by_class: [AtomicU64; CLASSES],
    buckets: [AtomicU64; BUCKETS.len()],
    duration_us: AtomicU64,
}

/// Counts requests, a route at a time, without a lock.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// One for every route, and one for what is none.
    routes: Vec<Counts>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            routes: (0..=ROUTES.len()).map(|_| Counts::default()).collect(),
        }
    }
}

impl Metrics {
    /// Counts one request.
    pub(crate) fn count(&self, seen: &Seen<'_>) {
        let at = ROUTES
            .iter()
            .position(|route| Some(route.name) == seen.route)
            .unwrap_or(ROUTES.len());
        let Some(counts) = self.routes.get(at) else {
            return;
        };
        let class = usize::from(seen.status / 100).min(CLASSES - 1);
        if let Some(count) = counts.by_class.get(class) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        for (end, bucket) in BUCKETS.iter().zip(&counts.buckets) {
            if seen.duration_us <= *end {
                bucket.fetch_add(1, Ordering::Relaxed);
            }
        }
        counts
            .duration_us
            .fetch_add(seen.duration_us, Ordering::Relaxed);
    }

    /// The routes that were asked for, as they stand now.
    fn measured(&self) -> Vec<Measured> {
        self.routes
            .iter()
            .enumerate()
            .map(|(at, counts)| {
                let route = ROUTES.get(at).map_or("none", |route| route.name);
                counts.measured(route)
            })
            .filter(|measured| measured.total > 0)
            .collect()
    }
}

/// What was counted for one route up to a moment. Counts are taken one by one
/// while others go on; what is here adds up all the same.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) route: &'static str,
    pub(crate) by_class: [u64; CLASSES],
    /// How many took at most as long as each of [`BUCKETS`].
    pub(crate) within: [u64; BUCKETS.len()],
    pub(crate) total: u64,
    pub(crate) duration_us: u64,
}

impl Counts {
    fn measured(&self, route: &'static str) -> Measured {
        // The narrow ones first: each can only have grown by what was counted
        // in between, and is held to those before it.
        let mut within = [0; BUCKETS.len()];
        let mut least = 0;
        for (now, bucket) in within.iter_mut().zip(&self.buckets) {
            least = bucket.load(Ordering::Relaxed).max(least);
            *now = least;
        }
        let by_class = self
            .by_class
            .each_ref()
            .map(|count| count.load(Ordering::Relaxed));
        Measured {
            route,
            by_class,
            within,
            total: by_class.iter().sum::<u64>().max(least),
            duration_us: self.duration_us.load(Ordering::Relaxed),
        }
    }
}

fn write(out: &mut String, routes: &[Measured]) {
    let requests = "portcullis_http_requests_total";
    head(out, requests, "counter", "Requests answered.");
    for measured in routes {
        for (class, count) in measured.by_class.iter().enumerate() {
            if *count > 0 {
                let labels = format!("route=\"{}\",status=\"{class}xx\"", measured.route);
                row(out, requests, &labels, &count.to_string());
            }
        }
    }
    let histogram = "portcullis_http_request_duration_seconds";
    head(out, histogram, "histogram", "Time until a reply begins.");
    let bucket = format!("{histogram}_bucket");
    for measured in routes {
        let (route, total) = (measured.route, measured.total.to_string());
        for (end, count) in BUCKETS.iter().zip(&measured.within) {
            let labels = format!("route=\"{route}\",le=\"{}\"", seconds(*end));
            row(out, &bucket, &labels, &count.to_string());
        }
        let labels = format!("route=\"{route}\",le=\"+Inf\"");
        row(out, &bucket, &labels, &total);
        let labels = format!("route=\"{route}\"");
        let sum = seconds(measured.duration_us);
        row(out, &format!("{histogram}_sum"), &labels, &sum);
        row(out, &format!("{histogram}_count"), &labels, &total);
    }
}

/// Microseconds as seconds, written out without rounding.
fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn row(out: &mut String, name: &str, labels: &str, value: &str) {
    let _ = if labels.is_empty() {
        writeln!(out, "{name} {value}")
    } else {
        writeln!(out, "{name}{{{labels}}} {value}")
    };
}

/// Something that goes up and down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gauge {
    /// Its name for Prometheus.
    name: &'static str,
    /// Its name for OpenTelemetry, which Prometheus would turn into the other.
    pub(crate) dotted: &'static str,
    pub(crate) help: &'static str,
    pub(crate) value: u64,
}

/// All there is to tell, at one moment.
#[derive(Debug)]
pub(crate) struct Readings {
    pub(crate) routes: Vec<Measured>,
    pub(crate) gauges: [Gauge; 3],
}

impl Readings {
    pub(crate) async fn of(server: &Server) -> Self {
        let now = server.parts.clock.now_ms();
        let counted = off_the_reactor(&server.parts.store, move |store| store.count_pending(now));
        let pending = counted.await;
        let gate = &server.parts.gate;
        Self {
            routes: server.metrics.measured(),
            gauges: [
                Gauge {
                    name: "portcullis_questions_pending",
                    dotted: "portcullis.questions.pending",
                    help: "Questions that wait for a person.",
                    value: pending.unwrap_or(0),
                },
                Gauge {
                    name: "portcullis_deeds_under_way",
                    dotted: "portcullis.deeds.under_way",
                    help: "Attempts whose closing line is not written yet.",
                    value: gate.under_way() as u64,
                },
                Gauge {
                    name: "portcullis_gate_sealed",
                    dotted: "portcullis.gate.sealed",
                    help: "1 when the audit failed and nothing is let through.",
                    value: u64::from(gate.is_sealed()),
                },
            ],
        }
    }
}

pub(crate) async fn tell(server: &Server) -> Reply {
    let mut out = String::with_capacity(8 * 1024);
    let readings = Readings::of(server).await;
    write(&mut out, &readings.routes);
    for gauge in readings.gauges {
        head(&mut out, gauge.name, "gauge", gauge.help);
        row(&mut out, gauge.name, "", &gauge.value.to_string());
    }
    if let Some(telemetry) = &server.parts.telemetry {
        let name = "portcullis_otlp_spans_dropped_total";
        head(&mut out, name, "counter", SPANS_DROPPED);
        for (why, count) in telemetry.dropped() {
            let labels = format!("reason=\"{}\"", why.as_str());
            row(&mut out, name, &labels, &count.to_string());
        }
    }
    let mut reply = reply::written(StatusCode::OK, out);
    reply.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
    );
    reply
}
