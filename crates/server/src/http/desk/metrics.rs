//! How the server does, as Prometheus reads it.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};

use super::super::reply::{self, Reply};
use super::super::routes::ROUTES;
use super::super::server::{Seen, Server};

/// Upper ends of how long requests took, in microseconds.
const BUCKETS: [u64; 8] = [
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

    fn write(&self, out: &mut String) {
        let name = |at: usize| ROUTES.get(at).map_or("none", |route| route.name);
        head(
            out,
            "portcullis_http_requests_total",
            "counter",
            "Requests answered.",
        );
        for (at, counts) in self.routes.iter().enumerate() {
            for (class, count) in counts.by_class.iter().enumerate() {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    row(
                        out,
                        "portcullis_http_requests_total",
                        &format!("route=\"{}\",status=\"{class}xx\"", name(at)),
                        &count.to_string(),
                    );
                }
            }
        }
        let histogram = "portcullis_http_request_duration_seconds";
        head(out, histogram, "histogram", "Time until a reply begins.");
        for (at, counts) in self.routes.iter().enumerate() {
            let total: u64 = counts
                .by_class
                .iter()
                .map(|count| count.load(Ordering::Relaxed))
                .sum();
            if total == 0 {
                continue;
            }
            let route = name(at);
            for (end, bucket) in BUCKETS.iter().zip(&counts.buckets) {
                let labels = format!("route=\"{route}\",le=\"{}\"", seconds(*end));
                let count = bucket.load(Ordering::Relaxed).to_string();
                row(out, &format!("{histogram}_bucket"), &labels, &count);
            }
            let labels = format!("route=\"{route}\",le=\"+Inf\"");
            row(
                out,
                &format!("{histogram}_bucket"),
                &labels,
                &total.to_string(),
            );
            let labels = format!("route=\"{route}\"");
            let sum = seconds(counts.duration_us.load(Ordering::Relaxed));
            row(out, &format!("{histogram}_sum"), &labels, &sum);
            row(
                out,
                &format!("{histogram}_count"),
                &labels,
                &total.to_string(),
            );
        }
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

fn gauge(out: &mut String, name: &str, help: &str, value: u64) {
    head(out, name, "gauge", help);
    row(out, name, "", &value.to_string());
}

pub(crate) fn tell(server: &Server) -> Reply {
    let mut out = String::with_capacity(8 * 1024);
    server.metrics.write(&mut out);
    let now = server.parts.clock.now_ms();
    let pending = server.parts.store.pending(10_000, now);
    gauge(
        &mut out,
        "portcullis_questions_pending",
        "Questions that wait for a person.",
        pending.map_or(0, |pending| pending.len() as u64),
    );
    gauge(
        &mut out,
        "portcullis_deeds_under_way",
        "Attempts whose closing line is not written yet.",
        server.parts.gate.under_way() as u64,
    );
    gauge(
        &mut out,
        "portcullis_gate_sealed",
        "1 when the audit failed and nothing is let through.",
        u64::from(server.parts.gate.is_sealed()),
    );
    let mut reply = reply::written(StatusCode::OK, out);
    reply.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
    );
    reply
}
