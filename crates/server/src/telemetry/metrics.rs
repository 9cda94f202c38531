//! The numbers of `/metrics`, as OTLP writes them.
//!
//! Names and labels are such that a collector which hands them to Prometheus
//! calls them as `/metrics` does.

use serde::Serialize;

use super::Telemetry;
use super::json::{Attribute, Long, Nanos, Teller, Text};
use crate::http::{BUCKETS, Measured, Readings, SPANS_DROPPED};

/// The number OTLP has for "since the beginning".
const CUMULATIVE: u8 = 2;

/// How many finite numbers end a bucket, and how many buckets there are.
const ENDS: usize = BUCKETS.len();

#[derive(Serialize)]
struct Metric<'a> {
    name: &'static str,
    description: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    unit: &'static str,
    #[serde(flatten)]
    points: Points<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Points<'a> {
    Sum(Summed<Point<'a>>),
    Gauge(Shown<'a>),
    Histogram(Spread<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summed<P> {
    data_points: Vec<P>,
    aggregation_temporality: u8,
    is_monotonic: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spread<'a> {
    data_points: Vec<Bucketed<'a>>,
    aggregation_temporality: u8,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    data_points: [Point<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Point<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attributes: Vec<Attribute<'a>>,
    start_time_unix_nano: Nanos,
    time_unix_nano: Nanos,
    as_int: Long,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bucketed<'a> {
    attributes: [Attribute<'a>; 1],
    start_time_unix_nano: Nanos,
    time_unix_nano: Nanos,
    count: Long,
    sum: f64,
    bucket_counts: [Long; ENDS + 1],
    explicit_bounds: [f64; ENDS],
}

/// An `ExportMetricsServiceRequest` with all there is to tell.
pub(super) fn message(teller: &Teller, telemetry: &Telemetry, readings: &Readings) -> Vec<u8> {
    let (start, now) = (Nanos(telemetry.began_us), Nanos(telemetry.now_us()));
    let point = |attributes, count| Point {
        attributes,
        start_time_unix_nano: start,
        time_unix_nano: now,
        as_int: Long::of(count),
    };
    let counted = |data_points| {
        Points::Sum(Summed {
            data_points,
            aggregation_temporality: CUMULATIVE,
            is_monotonic: true,
        })
    };
    let requests = readings.routes.iter().flat_map(|measured| {
        let classes = CLASSES.iter().zip(&measured.by_class);
        classes
            .filter(|(_, count)| **count > 0)
            .map(|(class, count)| {
                let attributes = vec![
                    Attribute::text("route", measured.route),
                    Attribute::text("status", class),
                ];
                point(attributes, *count)
            })
    });
    let dropped = telemetry.dropped().map(|(why, count)| {
        let reason = Attribute::text("reason", why.as_str());
        point(vec![reason], count)
    });
    let mut metrics = vec![Metric {
        name: "portcullis.otlp.spans.dropped",
        description: SPANS_DROPPED,
        unit: "{span}",
        points: counted(dropped.into()),
    }];
    // A metric without points is none.
    if !readings.routes.is_empty() {
        metrics.push(Metric {
            name: "portcullis.http.requests",
            description: "Requests answered.",
            unit: "{request}",
            points: counted(requests.collect()),
        });
        let spread = |measured| bucketed(measured, start, now);
        metrics.push(Metric {
            name: "portcullis.http.request.duration",
            description: "Time until a reply begins.",
            unit: "s",
            points: Points::Histogram(Spread {
                data_points: readings.routes.iter().map(spread).collect(),
                aggregation_temporality: CUMULATIVE,
            }),
        });
    }
    metrics.extend(readings.gauges.iter().map(|gauge| Metric {
        name: gauge.dotted,
        description: gauge.help,
        unit: "",
        points: Points::Gauge(Shown {
            data_points: [point(Vec::new(), gauge.value)],
        }),
    }));
    teller.metrics(&metrics)
}

/// Statuses by their first digit, as `/metrics` names them.
const CLASSES: [&str; 6] = ["0xx", "1xx", "2xx", "3xx", "4xx", "5xx"];

fn bucketed(measured: &Measured, start: Nanos, now: Nanos) -> Bucketed<'_> {
    let mut counts = [Long(0); ENDS + 1];
    let mut before = 0;
    // What `/metrics` adds up stands alone here, and the last has no end.
    let ends = measured
        .within
        .iter()
        .chain(std::iter::once(&measured.total));
    for (count, upto) in counts.iter_mut().zip(ends) {
        *count = Long::of(upto.saturating_sub(before));
        before = *upto;
    }
    Bucketed {
        attributes: [Attribute {
            key: "route",
            value: Text::Words(measured.route).into(),
        }],
        start_time_unix_nano: start,
        time_unix_nano: now,
        count: Long::of(measured.total),
        sum: seconds(measured.duration_us),
        bucket_counts: counts,
        explicit_bounds: BUCKETS.map(seconds),
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "2^53 microseconds are 285 years"
)]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_prometheus_adds_up_stands_alone_in_otlp() {
        let measured = Measured {
            route: "GET /file",
            by_class: [0, 0, 9, 0, 1, 0],
            within: [1, 1, 4, 4, 4, 8, 9, 9],
            total: 10,
            duration_us: 2_500_000,
        };
        let told = bucketed(&measured, Nanos(1), Nanos(2));
        let counts = told.bucket_counts.map(|count| count.0);
        assert_eq!(counts, [1, 0, 3, 0, 0, 4, 1, 0, 1]);
        assert_eq!(counts.iter().sum::<i64>(), told.count.0);
        assert!((told.sum - 2.5).abs() < 1e-9);
        assert!(told.explicit_bounds.is_sorted());
    }
}
