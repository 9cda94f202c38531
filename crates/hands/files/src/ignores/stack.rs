//! The ignore files that hold in a directory, from the root down.
//!
//! Each kind is judged on its own, as git judges `.gitignore`: the deepest file
//! with a matching rule decides, in it the last such rule, `!` keeps, and what
//! is below an ignored directory is ignored whatever deeper files say. A path
//! is ignored when any kind ignores it, so a `!` in a `.gitignore` undoes no
//! rule of a `.portcullisignore`.

use std::sync::Arc;

use portcullis_proto::RelPath;

use super::layer::{IgnoreKind, IgnoreLayer, MAX_WEIGHT, Said};

/// The ignore files of a directory and of all above it.
///
/// Cheap to extend and to clone: a directory's stack points to its parent's.
#[derive(Clone, Debug, Default)]
pub struct IgnoreStack(Option<Arc<Node>>);

#[derive(Debug)]
struct Node {
    layer: Arc<IgnoreLayer>,
    above: Option<Arc<Node>>,
    /// Of this layer and those above.
    weight: usize,
}

/// Whether the path itself or a directory above it matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchedBy {
    /// The path itself.
    Itself,
    /// A directory it stands in.
    Parent,
}

/// The rule that ignores a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matched {
    /// Whose rule.
    pub kind: IgnoreKind,
    /// The rule, as its file spells it.
    pub pattern: String,
    /// The directory of the file it is in.
    pub dir: RelPath,
    /// What it matched.
    pub by: MatchedBy,
}

impl IgnoreStack {
    /// No ignore files.
    pub fn new() -> Self {
        Self(None)
    }

    /// This stack and one more file. Files of a directory come after those of
    /// the directories above it.
    #[must_use]
    pub fn with(&self, layer: impl Into<Arc<IgnoreLayer>>) -> Self {
        let layer = layer.into();
        let weight = self.weight().saturating_add(layer.weight());
        if weight > MAX_WEIGHT {
            return self.clone();
        }
        Self(Some(Arc::new(Node {
            layer,
            above: self.0.clone(),
            weight,
        })))
    }

    /// Whether there is no ignore file at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether no further file can say anything, so that none need be read.
    pub(crate) fn is_full(&self) -> bool {
        self.weight() >= MAX_WEIGHT
    }

    fn weight(&self) -> usize {
        self.0.as_deref().map_or(0, |node| node.weight)
    }

    /// The rule that ignores `path`, looking at every directory above it too.
    ///
    /// The root itself is never ignored.
    pub fn matched(&self, path: &RelPath, is_dir: bool) -> Option<Matched> {
        if self.is_empty() {
            return None;
        }
        let text = path.as_str();
        // Outermost first: an ignored directory settles all below it.
        for (at, _) in text.match_indices('/') {
            let found = text.get(..at).and_then(|above| self.entry(above, true));
            if let Some(found) = found {
                return Some(Matched {
                    by: MatchedBy::Parent,
                    ..found
                });
            }
        }
        self.matched_entry(path, is_dir)
    }

    /// The rule that ignores `path`, given that no directory above it is
    /// ignored: what a walk that never enters ignored directories needs.
    pub fn matched_entry(&self, path: &RelPath, is_dir: bool) -> Option<Matched> {
        self.entry(path.as_str(), is_dir)
    }

    fn entry(&self, path: &str, is_dir: bool) -> Option<Matched> {
        if path.is_empty() {
            return None;
        }
        let mut settled = [false; IgnoreKind::ALL.len()];
        let mut node = self.0.as_deref();
        while let Some(Node { layer, above, .. }) = node {
            node = above.as_deref();
            let settled = &mut settled[layer.kind() as usize];
            if *settled {
                continue;
            }
            match layer.says(path, is_dir) {
                None => {}
                Some(Said::Kept) => *settled = true,
                Some(Said::Ignored(pattern)) => {
                    return Some(Matched {
                        kind: layer.kind(),
                        pattern: pattern.to_owned(),
                        dir: layer.dir().clone(),
                        by: MatchedBy::Itself,
                    });
                }
            }
        }
        None
    }
}
