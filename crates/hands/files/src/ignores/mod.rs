//! Which paths are ignored, by ignore files somebody else has read.
//!
//! Nothing here opens a path: contents come in as bytes and paths as
//! `RelPath`. Ignoring classifies and filters; it is no permission, and
//! nothing is denied because of it.

mod layer;
mod stack;
mod wild;

#[cfg(test)]
mod tests;

pub use layer::{IgnoreKind, IgnoreLayer, MAX_IGNORE_BYTES};
pub use stack::{IgnoreStack, Matched, MatchedBy};

/// The directories that no list, tree or search descends into, by name.
pub const EXCLUDED_DIRS: [&str; 16] = [
    "node_modules",
    ".git",
    "dist",
    "build",
    "coverage",
    "__pycache__",
    ".venv",
    "venv",
    ".vscode",
    ".idea",
    ".next",
    ".nuxt",
    ".cache",
    ".turbo",
    ".output",
    ".svelte-kit",
];

/// Whether a directory of this name is left out everywhere.
pub fn is_excluded_dir(name: &str) -> bool {
    EXCLUDED_DIRS.contains(&name)
}
