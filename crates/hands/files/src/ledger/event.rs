//! An event as a line: field names are a superset of those other file
//! servers' audits use.
//!
//! A line that would be too long is written again under a tighter limit: long
//! strings lose their middle, lists their end, and `"clipped":true` says so.
//! The digest over all resources stays, so that what was left out can still be
//! proved.

use portcullis_proto::{Event, Outcome, Phase, Principal, Resource, Subject, Verb};
use sha2::{Digest as _, Sha256};

use super::json::{Json, key};
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
    json.time(key!("timestamp"), event.at);
    json.word(key!("phase"), phase(event.phase));
    json.text(key!("requestId"), event.request_id.as_str());
    json.text(key!("route"), event.route);
    if let Some(called) = event.called {
        json.text(key!("clientRequestId"), called);
    }
    write_subject(&mut json, event.subject);
    json.word(key!("operation"), event.facts.verb.as_str());
    let resources = event.facts.resources.as_slice();
    if let Some(first) = resources.first() {
        write_first(&mut json, first);
        write_others(&mut json, event.facts.verb, first, resources, list);
    }
    if let Some(shown) = &event.facts.shown {
        json.hex(key!("shown"), &shown.0);
    }
    if let Some(alleged) = event.alleged {
        json.text(key!("alleged"), alleged);
    }
    json.word(key!("outcome"), outcome(event.outcome));
    json.text(key!("policySource"), event.policy_source);
    write_hooks(&mut json, event.wrapper_ids, list);
    if let Some(kind) = event.kind {
        json.word(key!("kind"), kind.as_str());
    }
    if let Some(reason) = event.reason {
        json.word(key!("reason"), reason.as_str());
    }
    if let Some(question) = event.question {
        json.text(key!("question"), question.as_str());
    }
    if let Some(answered_by) = event.answered_by {
        json.text(key!("answeredBy"), answered_by);
    }
    if let Some(bytes) = event.bytes {
        json.number(key!("bytes"), bytes);
    }
    if let Some(hash) = &event.hash {
        json.hex(key!("hash"), &hash.0);
    }
    write_counts(&mut json, event);
    if let Some(staged) = &event.staged {
        write_thing(&mut json, key!("stagedRoot"), staged.root.0, staged.root.1);
        if let Some((dev, ino)) = staged.made {
            write_thing(&mut json, key!("staged"), dev, ino);
        }
    }
    json.millis(key!("durationMs"), event.duration_us);
    let cut = json.clipped() || list < MAX_LISTED;
    if cut {
        json.raw("\"clipped\":true,");
    }
    json.no_comma();
    json.raw("}\n");
}

fn write_subject(json: &mut Json<'_>, subject: &Subject) {
    json.raw(key!("subject"));
    json.raw("{");
    match &subject.principal {
        Principal::Core { id } => who(json, "core", id),
        Principal::User { id } => who(json, "user", id),
        Principal::Token { user, id } => {
            who(json, "token", id);
            json.text(key!("user"), user);
        }
        Principal::Extension { id } => {
            who(json, "extension", id);
            if let Some(user) = &subject.on_behalf_of {
                json.text(key!("user"), user);
            }
        }
        Principal::Automation { id } => who(json, "automation", id),
    }
    if let Some(conversation) = &subject.conversation_id {
        json.text(key!("conversationId"), conversation.as_str());
    }
    if let Some(run) = &subject.run_id {
        json.text(key!("runId"), run.as_str());
    }
    json.no_comma();
    json.raw("},");
}

fn who(json: &mut Json<'_>, kind: &str, id: &str) {
    json.word(key!("type"), kind);
    json.text(key!("id"), id);
}

fn write_root(json: &mut Json<'_>, key: &str, resource: &Resource) {
    json.raw(key);
    json.raw("{");
    json.word(key!("kind"), resource.kind.as_str());
    json.word(key!("id"), resource.root.as_str());
    json.no_comma();
    json.raw("},");
}

fn write_first(json: &mut Json<'_>, first: &Resource) {
    json.word(key!("intent"), first.access.as_str());
    write_root(json, key!("root"), first);
    json.text(key!("relativePath"), first.path.shown());
    if let Some(identity) = &first.identity {
        write_thing(json, key!("identity"), identity.dev, identity.ino);
    }
}

fn write_thing(json: &mut Json<'_>, key: &str, dev: u64, ino: u64) {
    json.raw(key);
    json.raw("{");
    json.number(key!("dev"), dev);
    json.number(key!("ino"), ino);
    json.no_comma();
    json.raw("},");
}

/// The destination of a move, a copy or an archive, and the list where there is more than that.
fn write_others(
    json: &mut Json<'_>,
    verb: Verb,
    first: &Resource,
    resources: &[Resource],
    list: usize,
) {
    let mut told = 1;
    if let (Verb::Move | Verb::Copy | Verb::Archive, Some(destination)) = (verb, resources.get(1)) {
        told = 2;
        json.text(key!("destinationPath"), destination.path.shown());
        if destination.root != first.root {
            write_root(json, key!("destinationRoot"), destination);
        }
        if let Some(identity) = &destination.identity {
            write_thing(
                json,
                key!("destinationIdentity"),
                identity.dev,
                identity.ino,
            );
        }
    }
    if resources.len() <= told && list == MAX_LISTED {
        return;
    }
    json.raw(key!("resources"));
    json.raw("{");
    json.number(key!("count"), resources.len() as u64);
    json.hex(key!("digest"), &digest(resources));
    json.raw(key!("first"));
    json.raw("[");
    // What is told above need not be told again.
    let listed = if resources.len() <= told { 0 } else { list };
    for resource in resources.iter().take(listed) {
        json.raw("{");
        json.word(key!("root"), resource.root.as_str());
        json.text(key!("path"), resource.path.shown());
        json.word(key!("access"), resource.access.as_str());
        if let Some(identity) = &resource.identity {
            json.number(key!("dev"), identity.dev);
            json.number(key!("ino"), identity.ino);
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
    json.raw(key!("wrapperIds"));
    json.raw("[");
    for id in ids.iter().take(list) {
        json.string(id);
        json.raw(",");
    }
    json.no_comma();
    json.raw("],");
    if ids.len() > list {
        json.number(key!("wrapperCount"), ids.len() as u64);
    }
}

fn write_counts(json: &mut Json<'_>, event: &Event<'_>) {
    let Some(counts) = event.counts else { return };
    json.raw(key!("counts"));
    json.raw("{");
    for (key, count) in [
        (key!("entries"), counts.entries),
        (key!("denied"), counts.denied),
        (key!("secret"), counts.secret),
        (key!("ignored"), counts.ignored),
        (key!("moved"), counts.moved),
        (key!("unread"), counts.unread),
        (key!("searched"), counts.searched),
        (key!("binary"), counts.binary),
    ] {
        if count != 0 {
            json.number(key, count);
        }
    }
    json.no_comma();
    json.raw("},");
}

const fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Opening => "opening",
        Phase::Staged => "staged",
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
