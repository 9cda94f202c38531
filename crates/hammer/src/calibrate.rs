//! Finds out, in calm, which requests the server answers with something of the inside.
//!
//! Invariant: every binding has worked once before anything was swapped, so a refusal in the race
//! is a refusal of the race, not of the request.

use std::path::Path;

use serde_json::{Value, json};

use crate::marks::{Eye, Sight};
use crate::session::Session;
use crate::verb::{LEAF, PathStyle, Tool};
use crate::{Error, Verb};

/// The id under which servers with named roots know the root.
const ROOT_ID: &str = "workspace";

/// A listing of more pages than this is not a file server's.
const MOST_PAGES: usize = 20;

/// A request that works, ready to be sent again and again.
#[derive(Debug, Clone)]
pub(crate) struct Binding {
    pub(crate) verb: Verb,
    pub(crate) tool: String,
    /// The request after its id, as [`Session::add`] takes it.
    pub(crate) tail: String,
}

/// Every request that works in calm, in the order of [`Verb::ALL`].
pub(crate) fn bind(session: &mut Session, eye: &Eye, root: &Path) -> Result<Vec<Binding>, Error> {
    let tools: Vec<Tool> = listing(session, "tools/list", "tools")?
        .iter()
        .filter_map(Tool::from_listing)
        .collect();
    let mut bindings = Vec::new();
    for tool in &tools {
        for verb in tool.likely_verbs() {
            let candidates = [PathStyle::Relative, PathStyle::Absolute]
                .into_iter()
                .filter_map(|style| tool.arguments(verb, |path| written(root, path, style)))
                .map(|arguments| {
                    let params = json!({ "name": tool.name, "arguments": arguments });
                    format!(r#","method":"tools/call","params":{params}}}"#)
                });
            if let Some(tail) = first_that_works(session, eye, verb, candidates)? {
                bindings.push(Binding {
                    verb,
                    tool: tool.name.clone(),
                    tail,
                });
                break;
            }
        }
    }
    bindings.extend(bind_resource(session, eye, root)?);
    if bindings.is_empty() {
        return Err(Error::NothingToRace {
            tools: tools.into_iter().map(|tool| tool.name).collect(),
        });
    }
    bindings.sort_by_key(|binding| Verb::ALL.iter().position(|verb| *verb == binding.verb));
    Ok(bindings)
}

fn bind_resource(session: &mut Session, eye: &Eye, root: &Path) -> Result<Option<Binding>, Error> {
    if !session.offers("resources") {
        return Ok(None);
    }
    for template in listing(session, "resources/templates/list", "resourceTemplates")? {
        let Some(shape) = template.get("uriTemplate").and_then(Value::as_str) else {
            continue;
        };
        let candidates = [PathStyle::Relative, PathStyle::Absolute].map(|style| {
            let uri = expand(shape, &written(root, LEAF, style));
            format!(
                r#","method":"resources/read","params":{}}}"#,
                json!({ "uri": uri })
            )
        });
        if let Some(tail) = first_that_works(session, eye, Verb::Resource, candidates)? {
            return Ok(Some(Binding {
                verb: Verb::Resource,
                tool: "resources/read".into(),
                tail,
            }));
        }
    }
    Ok(None)
}

fn first_that_works(
    session: &mut Session,
    eye: &Eye,
    verb: Verb,
    candidates: impl IntoIterator<Item = String>,
) -> Result<Option<String>, Error> {
    for tail in candidates {
        let reply = session.ask_raw(&tail)?;
        if !reply.refused && eye.look(&reply.line, verb, None) == Sight::Inside {
            return Ok(Some(tail));
        }
    }
    Ok(None)
}

/// All pages of a listing; an error reply is an empty listing.
fn listing(session: &mut Session, method: &str, key: &str) -> Result<Vec<Value>, Error> {
    let mut entries = Vec::new();
    let mut params = json!({});
    for _ in 0..MOST_PAGES {
        let mut reply = session.ask(method, &params)?;
        let Some(result) = reply.get_mut("result") else {
            break;
        };
        if let Some(Value::Array(page)) = result.get_mut(key).map(Value::take) {
            entries.extend(page);
        }
        match result.get("nextCursor") {
            Some(cursor) if cursor.is_string() => params = json!({ "cursor": cursor }),
            Some(_) | None => break,
        }
    }
    Ok(entries)
}

fn written(root: &Path, path: &str, style: PathStyle) -> String {
    match style {
        PathStyle::Relative => path.to_owned(),
        PathStyle::Absolute => root.join(path).to_string_lossy().into_owned(),
    }
}

/// Fills a URI template: variables that speak of a root get the root's id, all others the path.
fn expand(shape: &str, path: &str) -> String {
    let mut uri = String::new();
    let mut rest = shape;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((variable, beyond)) = after.split_once('}') else {
            break;
        };
        uri.push_str(before);
        // `file:///{path}` already has the slash an absolute path begins with.
        let path = if uri.ends_with('/') && !uri.ends_with("://") {
            path.trim_start_matches('/')
        } else {
            path
        };
        uri.push_str(if variable.contains("root") {
            ROOT_ID
        } else {
            path
        });
        rest = beyond;
    }
    uri.push_str(rest);
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uri_templates_are_filled() {
        assert_eq!(
            expand("portcullis://{root}/{+path}", "a/b"),
            "portcullis://workspace/a/b"
        );
        assert_eq!(
            expand("portcullis://workspace/{path}", "a/b"),
            "portcullis://workspace/a/b"
        );
        assert_eq!(expand("file:///{+path}", "/x/a"), "file:///x/a");
        assert_eq!(expand("file://{+path}", "/x/a"), "file:///x/a");
        assert_eq!(expand("plain", "a"), "plain");
    }
}
