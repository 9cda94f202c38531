//! The scan of a whole workspace that is handed over when a machine is lent in
//! the seed's dialect: one deed, with what a tree would leave out left out.

use std::collections::VecDeque;

use portcullis_files::{Authority, TreeNode, TreeRequest};
use portcullis_gate::Caller;
use portcullis_proto::{Entity, Failure, Verb};

use crate::arguments::scope;
use crate::shown::on_one_line;

/// One file or directory of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedEntry {
    /// Its path from the root.
    pub path: String,
    /// Whether it is a directory.
    pub directory: bool,
    /// Its size, where it is a file and may be told.
    pub size: Option<u64>,
}

/// What a scan found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// The top before the depth; in a directory, its directories first.
    pub entries: Vec<ScannedEntry>,
    /// The same as indented text, each entry below its own directory.
    pub text: String,
    /// Whether everything down to the depth is there.
    pub complete: bool,
}

pub(crate) async fn scan(authority: &Authority, caller: &Caller) -> Result<Scanned, Failure> {
    let (scope, path) = scope(authority, caller, Verb::Tree, None, ".")?;
    let tree = scope.tree(&path, TreeRequest::scan()).await?;
    let mut scanned = Scanned {
        complete: tree.complete,
        ..Scanned::default()
    };
    draw(&tree.children, 0, &mut scanned.text);
    let mut left: VecDeque<&[TreeNode]> = VecDeque::from([tree.children.as_slice()]);
    while let Some(nodes) = left.pop_front() {
        for node in nodes {
            let directory = match node.entity {
                Entity::Directory => true,
                Entity::File => false,
                // Nothing that is read here.
                Entity::Symlink | Entity::Mount | Entity::Special => continue,
            };
            let Some(path) = &node.path else { continue };
            scanned.entries.push(ScannedEntry {
                path: path.shown().to_owned(),
                directory,
                size: node.size,
            });
            left.push_back(&node.children);
        }
    }
    Ok(scanned)
}

fn draw(nodes: &[TreeNode], depth: usize, text: &mut String) {
    for node in nodes {
        let sign = match node.entity {
            Entity::Directory => "/",
            Entity::File => "",
            Entity::Symlink | Entity::Mount | Entity::Special => continue,
        };
        if !text.is_empty() {
            text.push('\n');
        }
        text.extend(std::iter::repeat_n("  ", depth));
        text.push_str(&on_one_line(&node.name, node.path.is_some()));
        text.push_str(sign);
        draw(&node.children, depth + 1, text);
    }
}
