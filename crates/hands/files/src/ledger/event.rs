//! An event as a line: field names are a superset of those other file
//! servers' audits use.
//!
//! A line that would be too long is written again under a tighter limit: long
//! strings lose their middle, lists their end, and `"clipped":true` says so.
//! The digest over all resources stays, so that what was left out can still be
//! proved.

use portcullis_proto::{Event, Outcome, Phase, Principal, Resource, Subject, Verb};
use sha2::{Digest as _, Sha256};

use super::json::Json;
use super::line::{Line, MAX_REST};

/// How many resources, or hooks, a line lists at most.
const MAX_LISTED: usize = 100;
/// How long a string and how long a list may be, tried in this order. The last
/// pair fits whatever the event holds.
const LIMITS: [(usize, usize); 4] = [(usize::MAX, MAX_LISTED), (1024, 16), (256, 4), (64, 2)];

/// Writes `event` as the rest of `line`.
pub(crate) fn write_event(line: &mut Line, event: &Event<'_>) {
    for (string, list) in LIMITS {
        write_within(line, event, string, list);
        if line.rest_len() <= MAX_REST {
            return;
        }
    }
}

fn write_within(line: &mut Line, event: &Event<'_>, string: usize, list: usize) {
    let mut json = line.rest(string);
    json.time("timestamp", event.at);
    json.word("phase", phase(event.phase));
    json.text("requestId", event.request_id.as_str());
    json.text("route", event.route);
    write_subject(&mut json, event.subject);
    json.word("operation", event.facts.verb.as_str());
    let resources = event.facts.resources.as_slice();
    if let Some(first) = resources.first() {
        write_first(&mut json, first);
        write_others(&mut json, event.facts.verb, first, resources, list);
    }
    if let Some(shown) = &event.facts.shown {
        json.hex("shown", &shown.0);
    }
    if let Some(alleged) = event.alleged {
        json.text("alleged", alleged);
    }
    json.word("outcome", outcome(event.outcome));
    json.text("policySource", event.policy_source);
    write_hooks(&mut json, event.wrapper_ids, list);
    if let Some(kind) = event.kind {
        json.word("kind", kind.as_str());
    }
    if let Some(reason) = event.reason {
        json.word("reason", reason.as_str());
    }
    if let Some(question) = event.question {
        json.text("question", question.as_str());
    }
    if let Some(answered_by) = event.answered_by {
        json.text("answeredBy", answered_by);
    }
    if let Some(bytes) = event.bytes {
        json.number("bytes", bytes);
    }
    if let Some(hash) = &event.hash {
        json.hex("hash", &hash.0);
    }
    write_counts(&mut json, event);
    json.millis("durationMs", event.duration_us);
    let cut = json.clipped() || list < MAX_LISTED;
    if cut {
        json.raw("\"clipped\":true,");
    }
    json.no_comma();
    json.raw("}\n");
}

fn write_subject(json: &mut Json<'_>, subject: &Subject) {
    json.name("subject");
    json.raw("{");
    match &subject.principal {
        Principal::Core { id } => who(json, "core", id),
        Principal::User { id } => who(json, "user", id),
        Principal::Token { user, id } => {
            who(json, "token", id);
            json.text("user", user);
        }
        Principal::Extension { id } => who(json, "extension", id),
        Principal::Automation { id } => who(json, "automation", id),
    }
    if let Some(conversation) = &subject.conversation_id {
        json.text("conversationId", conversation.as_str());
    }
    if let Some(run) = &subject.run_id {
        json.text("runId", run.as_str());
    }
    json.no_comma();
    json.raw("},");
}

fn who(json: &mut Json<'_>, kind: &str, id: &str) {
    json.word("type", kind);
    json.text("id", id);
}

fn write_root(json: &mut Json<'_>, name: &str, resource: &Resource) {
    json.name(name);
    json.raw("{");
    json.word("kind", resource.kind.as_str());
    json.word("id", resource.root.as_str());
    json.no_comma();
    json.raw("},");
}

fn write_first(json: &mut Json<'_>, first: &Resource) {
    json.word("intent", first.access.as_str());
    write_root(json, "root", first);
    json.text("relativePath", first.path.shown());
    if let Some(identity) = &first.identity {
        json.name("identity");
        json.raw("{");
        json.number("dev", identity.dev);
        json.number("ino", identity.ino);
        json.no_comma();
        json.raw("},");
    }
}

/// The destination of a move, and the list where there is more than that.
fn write_others(
    json: &mut Json<'_>,
    verb: Verb,
    first: &Resource,
    resources: &[Resource],
    list: usize,
) {
    let mut told = 1;
    if let (Verb::Move, Some(destination)) = (verb, resources.get(1)) {
        told = 2;
        json.text("destinationPath", destination.path.shown());
        if destination.root != first.root {
            write_root(json, "destinationRoot", destination);
        }
    }
    if resources.len() <= told && list == MAX_LISTED {
        return;
    }
    json.name("resources");
    json.raw("{");
    json.number("count", resources.len() as u64);
    json.hex("digest", &digest(resources));
    json.name("first");
    json.raw("[");
    // What is told above need not be told again.
    let listed = if resources.len() <= told { 0 } else { list };
    for resource in resources.iter().take(listed) {
        json.raw("{");
        json.word("root", resource.root.as_str());
        json.text("path", resource.path.shown());
        json.word("access", resource.access.as_str());
        if let Some(identity) = &resource.identity {
            json.number("dev", identity.dev);
            json.number("ino", identity.ino);
        }
        json.no_comma();
        json.raw("},");
    }
    json.no_comma();
    json.raw("]},");
}

/// SHA-256 over root, path and access of every resource, each ended by a NUL,
/// which none of them can hold.
fn digest(resources: &[Resource]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for resource in resources {
        for part in [
            resource.root.as_str(),
            resource.path.as_str(),
            resource.access.as_str(),
        ] {
            hasher.update(part.as_bytes());
            hasher.update([0]);
        }
    }
    hasher.finalize().into()
}

fn write_hooks(json: &mut Json<'_>, ids: &[String], list: usize) {
    if ids.is_empty() {
        return;
    }
    json.name("wrapperIds");
    json.raw("[");
    for id in ids.iter().take(list) {
        json.string(id);
        json.raw(",");
    }
    json.no_comma();
    json.raw("],");
    if ids.len() > list {
        json.number("wrapperCount", ids.len() as u64);
    }
}

fn write_counts(json: &mut Json<'_>, event: &Event<'_>) {
    let Some(counts) = event.counts else { return };
    json.name("counts");
    json.raw("{");
    for (name, count) in [
        ("entries", counts.entries),
        ("denied", counts.denied),
        ("secret", counts.secret),
        ("ignored", counts.ignored),
        ("moved", counts.moved),
    ] {
        if count != 0 {
            json.number(name, count);
        }
    }
    json.no_comma();
    json.raw("},");
}

const fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Opening => "opening",
        Phase::Closing => "closing",
    }
}

/// How an outcome is spelled.
pub(crate) const fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Begun => "begun",
        Outcome::Success => "success",
        Outcome::Denied => "denied",
        Outcome::Failed => "failed",
        Outcome::Parked => "parked",
        Outcome::Abandoned => "abandoned",
    }
}

#[cfg(test)]
mod tests;
