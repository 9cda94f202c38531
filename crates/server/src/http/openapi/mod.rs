//! The OpenAPI document: written from the table of routes and the types that
//! handlers read and write, so that neither can say what the other does not.
//!
//! Every route is described where its handler stands, by a match without a `_`
//! arm: a route nobody has described does not compile.

mod described;
mod errors;
mod mcp;
mod shapes;

use std::collections::BTreeSet;
use std::sync::OnceLock;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::door::COOKIE_NAME;
use super::reply::{self, Reply};
use super::routes::{Op, ROUTES, Route};
use super::{desk, links, rest};

pub(crate) use self::described::Described;
pub(crate) use self::shapes::Shapes;

/// What the path of a route is behind, where it names its workspace.
const QUALIFIED: &str = "/workspaces/{workspace}";

/// The document. Written once: it says the same for as long as a process runs.
#[doc(hidden)]
pub fn openapi() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let text = serde_json::to_string_pretty(&document()).unwrap_or_default();
        text + "\n"
    })
}

pub(super) fn tell() -> Reply {
    reply::written(StatusCode::OK, Bytes::from_static(openapi().as_bytes()))
}

fn document() -> Value {
    let mut shapes = Shapes::new();
    let mut paths: Map<String, Value> = Map::new();
    let mut fails = BTreeSet::new();
    for route in ROUTES {
        let described = described(route.op, &mut shapes);
        fails.extend(described.fails.iter().copied());
        let operation = operation(route, described);
        if route.is_of_files() {
            let path = format!("{QUALIFIED}{}", route.path);
            add(&mut paths, path, route, qualified(route, operation.clone()));
        }
        add(&mut paths, route.path.to_owned(), route, operation);
    }
    let mut responses: Map<String, Value> = fails
        .into_iter()
        .map(|status| {
            (
                errors::name(status).to_owned(),
                errors::told(status, &mut shapes),
            )
        })
        .collect();
    let to_daemons = errors::to_daemons(&mut shapes);
    responses.insert(errors::TO_DAEMONS.to_owned(), to_daemons);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Portcullis",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "One guarded gate between agents and machines. docs/PROTOCOL.md tells what the words mean; GET /capabilities tells which routes are there.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "Where this document came from."}],
        "tags": [
            {"name": "files", "description": "Files of a machine. Each route is also below /workspaces/{workspace}."},
            {"name": "desk", "description": "Questions, the record, and the server itself."},
            {"name": "open", "description": "What needs no credential."},
            {"name": "links", "description": "What the daemon of a linked machine asks."},
            {"name": "mcp", "description": "The Model Context Protocol, both eras."},
        ],
        "paths": paths,
        "components": {
            "schemas": shapes.into_definitions(),
            "responses": responses,
            "headers": errors::headers(),
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token: portcullis token create --scope fs:read,fs:write. The names beside it in an operation are the scopes it needs.",
                },
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": COOKIE_NAME,
                    "description": "A person who signed in with a link.",
                },
                "gatewayKey": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "X-Gateway-Key",
                    "description": "The daemon of a linked machine: a pairing token, then the session key it became.",
                },
            },
        },
    })
}

fn described(op: Op, shapes: &mut Shapes) -> Described<'_> {
    match op {
        Op::Open(open) => desk::described_open(open, shapes),
        Op::Desk(desk) => desk::described(desk, shapes),
        Op::Files(files) => rest::described(files, shapes),
        Op::Mcp(mcp) => mcp::described(mcp, shapes),
        Op::Daemon(daemon) => links::described(daemon, shapes),
    }
}

fn add(paths: &mut Map<String, Value>, path: String, route: &Route, operation: Value) {
    let path = paths.entry(path).or_insert_with(|| json!({}));
    if let Some(path) = path.as_object_mut() {
        path.insert(route.method.as_str().to_ascii_lowercase(), operation);
    }
}

fn operation(route: &Route, described: Described<'_>) -> Value {
    let (tag, open) = match route.op {
        Op::Open(_) => ("open", true),
        Op::Desk(_) => ("desk", false),
        Op::Files(_) => ("files", false),
        Op::Mcp(_) => ("mcp", false),
        Op::Daemon(_) => ("links", false),
    };
    let scopes: Vec<&str> = route.scope.iter().map(|scope| scope.as_str()).collect();
    let security = if matches!(route.op, Op::Daemon(_)) {
        json!([{"gatewayKey": []}])
    } else if open {
        json!([])
    } else {
        json!([{"bearer": scopes}, {"cookie": scopes}])
    };
    let mut parameters = described.parameters;
    if route.path.contains("{id}") {
        parameters.insert(
            0,
            json!({
                "name": "id", "in": "path", "required": true,
                "description": "Which one.",
                "schema": {"type": "string", "minLength": 1},
            }),
        );
    }
    let mut responses = described.gives;
    for status in described.fails {
        let name = match route.op {
            Op::Daemon(_) => errors::TO_DAEMONS,
            Op::Open(_) | Op::Desk(_) | Op::Files(_) | Op::Mcp(_) => errors::name(status),
        };
        let response = format!("#/components/responses/{name}");
        responses.insert(status.to_string(), json!({"$ref": response}));
    }
    let mut operation = json!({
        "operationId": id(route),
        "tags": [tag],
        "summary": described.summary,
        "security": security,
        "parameters": parameters,
        "responses": responses,
    });
    if let Some(object) = operation.as_object_mut() {
        if let Some(about) = described.about {
            object.insert("description".to_owned(), about.into());
        }
        if let Some(body) = described.body {
            object.insert("requestBody".to_owned(), body);
        }
        if let Some(tag) = route.tag {
            object.insert("x-capability".to_owned(), tag.into());
        }
    }
    operation
}

/// The same, of the workspace that the path names.
fn qualified(route: &Route, mut operation: Value) -> Value {
    if let Some(object) = operation.as_object_mut() {
        object.insert(
            "operationId".to_owned(),
            format!("{}OfWorkspace", id(route)).into(),
        );
    }
    if let Some(parameters) = operation
        .get_mut("parameters")
        .and_then(Value::as_array_mut)
    {
        parameters.insert(
            0,
            json!({
                "name": "workspace", "in": "path", "required": true,
                "description": "An `id` or a `cwd` that GET /capabilities tells; another is 400 workspace_mismatch.",
                "schema": {"type": "string", "minLength": 1},
            }),
        );
    }
    operation
}

/// `GET /file/bytes` is `getFileBytes`.
fn id(route: &Route) -> String {
    let mut id = route.method.as_str().to_ascii_lowercase();
    for word in route.path.split(|c: char| !c.is_ascii_alphanumeric()) {
        let mut letters = word.chars();
        id.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        id.extend(letters);
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Method and path of every operation in the document.
    fn told(document: &Value) -> BTreeSet<(String, String)> {
        let paths = document["paths"].as_object().unwrap();
        let methods = |(path, operations): (&String, &Value)| {
            let names = operations.as_object().unwrap().keys();
            names
                .map(|method| (method.to_ascii_uppercase(), path.clone()))
                .collect::<Vec<_>>()
        };
        paths.iter().flat_map(methods).collect()
    }

    #[test]
    fn every_route_is_in_the_document_and_nothing_else() {
        let document = document();
        let mut routes = BTreeSet::new();
        for route in ROUTES {
            routes.insert((route.method.to_string(), route.path.to_owned()));
            if route.is_of_files() {
                let path = format!("/workspaces/{{workspace}}{}", route.path);
                routes.insert((route.method.to_string(), path));
            }
        }
        assert_eq!(told(&document), routes);
    }

    #[test]
    fn an_operation_has_a_name_of_its_own_and_says_what_it_is_for() {
        let document = document();
        let mut names = BTreeSet::new();
        for operations in document["paths"].as_object().unwrap().values() {
            for operation in operations.as_object().unwrap().values() {
                let name = operation["operationId"].as_str().unwrap();
                assert!(names.insert(name), "{name} twice");
                assert!(
                    operation["summary"]
                        .as_str()
                        .is_some_and(|words| words.len() > 5)
                );
                let gives = operation["responses"].as_object().unwrap();
                assert!(gives.keys().any(|status| status.starts_with('2')), "{name}");
            }
        }
        assert!(names.len() > 60, "{}", names.len());
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn check(value: &Value, document: &Value) {
            match value {
                Value::Object(object) => {
                    if let Some(Value::String(to)) = object.get("$ref") {
                        let at = to.strip_prefix('#').unwrap();
                        assert!(document.pointer(at).is_some(), "{to}");
                    }
                    object.values().for_each(|value| check(value, document));
                }
                Value::Array(list) => list.iter().for_each(|value| check(value, document)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        let document = document();
        check(&document, &document);
    }
}
