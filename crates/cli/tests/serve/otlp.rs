//! What OTLP written as JSON looks like, as strictly as its specification says:
//! names in lower camel case and no others, ids in lower-case hexadecimal,
//! 64-bit integers as strings, enums as numbers.

use serde_json::{Map, Value};

type Object = Map<String, Value>;

#[track_caller]
fn object<'a>(value: &'a Value, known: &[&str]) -> &'a Object {
    let object = value.as_object().unwrap_or_else(|| panic!("{value}"));
    for name in object.keys() {
        assert!(known.contains(&name.as_str()), "{name} in {value}");
    }
    object
}

#[track_caller]
fn list(value: &Value) -> &[Value] {
    let list = value.as_array().unwrap_or_else(|| panic!("{value}"));
    assert!(!list.is_empty());
    list
}

#[track_caller]
fn hex(value: &Value, bytes: usize) {
    let text = value.as_str().unwrap_or_else(|| panic!("{value}"));
    assert_eq!(text.len(), 2 * bytes, "{text}");
    let is_hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
    assert!(text.chars().all(is_hex), "{text}");
    assert!(text.chars().any(|c| c != '0'), "{text}");
}

/// A 64-bit integer that is not negative.
#[track_caller]
pub(crate) fn long(value: &Value) -> u64 {
    let text = value.as_str().unwrap_or_else(|| panic!("{value}"));
    text.parse().unwrap_or_else(|_| panic!("{value}"))
}

#[track_caller]
fn attributes(value: &Value) {
    let mut seen = Vec::new();
    for attribute in list(value) {
        let attribute = object(attribute, &["key", "value"]);
        let key = attribute["key"].as_str().unwrap();
        assert!(!key.is_empty() && !seen.contains(&key), "{key} twice");
        seen.push(key);
        let one = object(&attribute["value"], &["stringValue", "intValue"]);
        assert_eq!(one.len(), 1, "{key}");
        match one.get("stringValue") {
            Some(text) => assert!(text.is_string()),
            None => drop(long(&one["intValue"])),
        }
    }
}

/// What one attribute says.
#[track_caller]
pub(crate) fn said<'a>(of: &'a Value, key: &str) -> Option<&'a str> {
    let all = of["attributes"].as_array()?;
    let value = &all.iter().find(|one| one["key"] == key)?["value"];
    value["stringValue"].as_str().or(value["intValue"].as_str())
}

#[track_caller]
fn resource_and_scope<'a>(message: &'a Value, signal: &str) -> &'a [Value] {
    let (of_resource, of_scope) = (format!("resource{signal}"), format!("scope{signal}"));
    let all = list(&object(message, &[&of_resource])[&of_resource]);
    assert_eq!(all.len(), 1);
    let one = object(&all[0], &["resource", &of_scope]);
    object(&one["resource"], &["attributes"]);
    attributes(&one["resource"]["attributes"]);
    for name in ["service.name", "service.version", "service.instance.id"] {
        assert!(said(&one["resource"], name).is_some(), "{name}");
    }
    let scopes = list(&one[&of_scope]);
    assert_eq!(scopes.len(), 1);
    let inner = signal.to_lowercase();
    let scope = object(&scopes[0], &["scope", &inner]);
    object(&scope["scope"], &["name", "version"]);
    assert_eq!(scope["scope"]["name"], "portcullis");
    list(&scope[&inner])
}

/// An `ExportTraceServiceRequest`; its spans.
#[track_caller]
pub(crate) fn traces(message: &Value) -> &[Value] {
    let spans = resource_and_scope(message, "Spans");
    for span in spans {
        let known = [
            "traceId",
            "spanId",
            "parentSpanId",
            "flags",
            "name",
            "kind",
            "startTimeUnixNano",
            "endTimeUnixNano",
            "attributes",
            "status",
        ];
        let all = object(span, &known);
        hex(&all["traceId"], 16);
        hex(&all["spanId"], 8);
        if let Some(parent) = all.get("parentSpanId") {
            hex(parent, 8);
        }
        assert!(all["flags"].is_u64() && !all["name"].as_str().unwrap().is_empty());
        assert!(matches!(all["kind"].as_u64(), Some(1 | 2)), "{span}");
        let (start, end) = (&all["startTimeUnixNano"], &all["endTimeUnixNano"]);
        // After this was written, and no time at all is no time.
        assert!(long(start) > 1_700_000_000_000_000_000, "{span}");
        assert!(long(start) <= long(end), "{span}");
        attributes(&all["attributes"]);
        if let Some(status) = all.get("status") {
            assert_eq!(object(status, &["code"])["code"], 2, "{span}");
        }
    }
    spans
}

#[track_caller]
fn times(point: &Value) {
    let (start, now) = (&point["startTimeUnixNano"], &point["timeUnixNano"]);
    assert!(long(start) > 1_700_000_000_000_000_000, "{point}");
    assert!(long(start) <= long(now), "{point}");
    if let Some(all) = point.get("attributes") {
        attributes(all);
    }
}

const NUMBER: [&str; 4] = ["attributes", "startTimeUnixNano", "timeUnixNano", "asInt"];

/// An `ExportMetricsServiceRequest`; its metrics.
#[track_caller]
pub(crate) fn metrics(message: &Value) -> &[Value] {
    let metrics = resource_and_scope(message, "Metrics");
    for metric in metrics {
        let known = ["name", "description", "unit", "sum", "gauge", "histogram"];
        let all = object(metric, &known);
        assert!(all["name"].as_str().unwrap().starts_with("portcullis."));
        let kinds = ["sum", "gauge", "histogram"];
        let kinds: Vec<_> = kinds.iter().filter_map(|kind| all.get(*kind)).collect();
        assert_eq!(kinds.len(), 1, "{metric}");
        let points = list(&kinds[0]["dataPoints"]);
        points.iter().for_each(times);
        if let Some(sum) = all.get("sum") {
            let sum = object(
                sum,
                &["dataPoints", "aggregationTemporality", "isMonotonic"],
            );
            assert_eq!(sum["aggregationTemporality"], 2, "{metric}");
            assert_eq!(sum["isMonotonic"], true, "{metric}");
        }
        if let Some(gauge) = all.get("gauge") {
            object(gauge, &["dataPoints"]);
        }
        match all.get("histogram") {
            Some(histogram) => {
                let histogram = object(histogram, &["dataPoints", "aggregationTemporality"]);
                assert_eq!(histogram["aggregationTemporality"], 2, "{metric}");
                points.iter().for_each(bucketed);
            }
            None => {
                for point in points {
                    long(&object(point, &NUMBER)["asInt"]);
                }
            }
        }
    }
    metrics
}

fn bucketed(point: &Value) {
    let known = [
        "attributes",
        "startTimeUnixNano",
        "timeUnixNano",
        "count",
        "sum",
        "bucketCounts",
        "explicitBounds",
    ];
    let all = object(point, &known);
    let counts: Vec<u64> = list(&all["bucketCounts"]).iter().map(long).collect();
    let bounds: Vec<f64> = list(&all["explicitBounds"])
        .iter()
        .map(|bound| bound.as_f64().unwrap())
        .collect();
    assert_eq!(counts.len(), bounds.len() + 1);
    assert!(bounds.is_sorted());
    assert_eq!(counts.iter().sum::<u64>(), long(&all["count"]));
    assert!(all["sum"].as_f64().unwrap() > 0.0, "{point}");
}

/// The points of one metric, whatever its kind.
#[track_caller]
pub(crate) fn points<'a>(metrics: &'a [Value], name: &str) -> &'a [Value] {
    let metric = metrics.iter().find(|metric| metric["name"] == name);
    let metric = metric.unwrap_or_else(|| panic!("{name}: {metrics:#?}"));
    let kinds = ["sum", "gauge", "histogram"];
    let kind = kinds.iter().find_map(|kind| metric.get(*kind)).unwrap();
    list(&kind["dataPoints"])
}
