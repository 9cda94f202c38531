//! `get_file_tree`: a shallow tree, each child under its own parent.

use std::fmt::Write as _;

use portcullis_files::{Authority, Tree, TreeNode, TreeRequest};
use portcullis_gate::Caller;
use portcullis_proto::{Entity, Failure, Verb};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::arguments::{parse, scope};
use crate::limits::LIMITS;
use crate::shown::{Skipped, containment, on_one_line};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Arguments {
    /// Directory to show, from the root. Default: the root itself.
    #[serde(default = "here")]
    dir_path: String,
    /// How deep to go. Default 2, at most 5.
    max_depth: Option<usize>,
    /// How many entries to show. Default 200, at most 1,000.
    max_entries: Option<usize>,
    /// Patterns of what to leave out besides, as in .gitignore.
    #[serde(default)]
    exclude: Vec<String>,
    /// Also show what ignore files and the default exclusions hide.
    #[serde(default)]
    include_ignored: bool,
    /// Which root; the workspace where none is named.
    root: Option<String>,
}

pub(crate) fn here() -> String {
    ".".to_owned()
}

/// What `get_file_tree` replies with.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TreeReply")]
pub struct Reply {
    /// The directory shown.
    path: String,
    /// The tree as indented text; directories end in `/`.
    tree: String,
    /// The same, structured.
    children: Vec<Node>,
    /// Whether everything down to the depth is shown.
    complete: bool,
    /// Whether a limit asked for was over the maximum.
    clamped: bool,
    /// What was left out.
    skipped: Skipped,
    /// kernel_atomic or best_effort.
    containment: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TreeNode")]
struct Node {
    /// Name.
    name: String,
    /// file, directory, symlink, mount or special.
    r#type: String,
    /// What is below it, as far as shown.
    children: Vec<Node>,
    /// Whether more is below it than shown.
    cut: bool,
}

pub(crate) async fn call(
    authority: &Authority,
    caller: &Caller,
    arguments: Value,
) -> Result<(Reply, String), Failure> {
    let arguments: Arguments = parse(authority, caller, Verb::Tree, arguments)?;
    let (scope, path) = scope(
        authority,
        caller,
        Verb::Tree,
        arguments.root.as_deref(),
        &arguments.dir_path,
    )?;
    let (max_depth, deep) = LIMITS.depth.of(arguments.max_depth);
    let (max_entries, many) = LIMITS.tree_entries.of(arguments.max_entries);
    let request = TreeRequest {
        max_depth,
        max_entries,
        exclude: arguments.exclude,
        include_ignored: arguments.include_ignored,
        sizes: false,
        patience_us: LIMITS.walk_ms.default as u64 * 1_000,
    };
    let tree = scope.tree(&path, request).await?;
    let drawn = draw(&tree);
    let reply = Reply {
        path: tree.path.shown().to_owned(),
        children: tree.children.into_iter().map(node).collect(),
        complete: tree.complete,
        clamped: deep || many,
        skipped: tree.counts.into(),
        containment: containment(tree.containment),
        tree: drawn,
    };
    let mut text = reply.tree.clone();
    if let Some(left_out) = reply.skipped.sentence() {
        let _ = write!(text, "\n({left_out})");
    }
    if !reply.complete {
        text.push_str("\n(not complete: ask for a directory of it)");
    }
    Ok((reply, text))
}

fn node(from: TreeNode) -> Node {
    Node {
        name: from.name,
        r#type: from.entity.as_str().to_owned(),
        children: from.children.into_iter().map(node).collect(),
        cut: from.cut,
    }
}

fn draw(tree: &Tree) -> String {
    let mut text = format!("{}/", tree.path.shown());
    for child in &tree.children {
        draw_node(child, 1, &mut text);
    }
    text
}

fn draw_node(node: &TreeNode, depth: usize, text: &mut String) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
    text.push_str(&on_one_line(&node.name, node.path.is_some()));
    match node.entity {
        Entity::Directory => text.push('/'),
        Entity::Symlink => text.push_str(" (symlink)"),
        Entity::Mount => text.push_str(" (mount)"),
        Entity::Special => text.push_str(" (special)"),
        Entity::File => {}
    }
    for child in &node.children {
        draw_node(child, depth + 1, text);
    }
    if node.cut && !node.children.is_empty() {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", depth + 1));
        text.push('…');
    }
}
