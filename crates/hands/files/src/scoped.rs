//! The whole of it for callers: attempt, enter, act, in one place.

use std::sync::Arc;

use portcullis_gate::{Attempt, Caller, Deed, Gate, Permit};
use portcullis_policy::Terms;
use portcullis_proto::{Failure, Reason, RelPath, Verb};

use crate::authority::Declared;
use crate::deeds::{
    ByteWindow, BytesPage, Found, GlobRequest, ListRequest, Listed, Listing, Looking, Reading,
    Searching, StatReply, TextReply, TextRequest, Tree, TreeRequest, Treeing, glob, list,
    read_bytes, read_json, read_text, stat, tree,
};
use crate::hiding::Hiding;

/// What one caller may do in one root. Every method is attempt, enter, act.
#[derive(Clone, Debug)]
pub struct ScopedFs {
    gate: Arc<Gate>,
    caller: Caller,
    declared: Arc<Declared>,
}

/// Up to here a deed runs on the thread that asked: a hop to another costs as
/// much as ten small reads.
const INLINE_BYTES: u64 = 1024 * 1024;
/// A directory larger than this on disk is listed elsewhere.
const INLINE_DIRECTORY: u64 = 256 * 1024;

impl ScopedFs {
    pub(crate) fn new(gate: Arc<Gate>, caller: Caller, declared: Arc<Declared>) -> Self {
        Self {
            gate,
            caller,
            declared,
        }
    }

    /// The root it is a scope of.
    pub fn declared(&self) -> &Arc<Declared> {
        &self.declared
    }

    /// Reads bytes.
    pub async fn read_bytes(&self, path: &str, window: ByteWindow) -> Result<BytesPage, Failure> {
        let (permit, size) = self.reading(path).await?;
        let wanted = match window {
            ByteWindow::Whole => size,
            ByteWindow::Part { max, .. } => size.min(max as u64),
        };
        if wanted <= INLINE_BYTES {
            return read_bytes(permit, window);
        }
        elsewhere(move || read_bytes(permit, window)).await
    }

    /// Reads a page of text.
    pub async fn read_text(&self, path: &str, request: TextRequest) -> Result<TextReply, Failure> {
        let (permit, size) = self.reading(path).await?;
        let matched = request
            .classify
            .then(|| self.matched_ignore(&permit))
            .flatten();
        if size <= INLINE_BYTES {
            return read_text(permit, &request, matched);
        }
        elsewhere(move || read_text(permit, &request, matched)).await
    }

    /// Reads a whole file as JSON.
    pub async fn read_json(&self, path: &str) -> Result<serde_json::Value, Failure> {
        let (permit, size) = self.reading(path).await?;
        if size <= INLINE_BYTES {
            return read_json(permit);
        }
        elsewhere(move || read_json(permit)).await
    }

    /// Lists a directory.
    pub async fn list(&self, path: &str, request: ListRequest) -> Result<Listed, Failure> {
        let entry = self.declared.entry.clone();
        let root = self.declared.root.clone();
        let size = std::sync::atomic::AtomicU64::new(0);
        let permit = self
            .enter(Verb::List, path, |path, terms| {
                let listing = Listing::resolve(&entry, &root, path, terms)?;
                size.store(listing.size_hint(), std::sync::atomic::Ordering::Relaxed);
                Ok(listing)
            })
            .await?;
        if size.into_inner() <= INLINE_DIRECTORY {
            return list(permit, &request);
        }
        elsewhere(move || list(permit, &request)).await
    }

    /// Looks at one entry.
    pub async fn stat(&self, path: &str) -> Result<StatReply, Failure> {
        let (entry, root) = (&self.declared.entry, &self.declared.root);
        let permit = self
            .enter(Verb::Stat, path, |path, terms| {
                Looking::resolve(entry, root, path, terms)
            })
            .await?;
        stat(permit)
    }

    /// Finds names below a directory.
    pub async fn glob(&self, path: &str, request: GlobRequest) -> Result<Found, Failure> {
        let (entry, root) = (&self.declared.entry, &self.declared.root);
        let permit = self
            .enter(Verb::Glob, path, |path, terms| {
                Searching::resolve(entry, root, path, terms)
            })
            .await?;
        elsewhere(move || glob(permit, &request)).await
    }

    /// Shows a shallow tree.
    pub async fn tree(&self, path: &str, request: TreeRequest) -> Result<Tree, Failure> {
        let (entry, root) = (&self.declared.entry, &self.declared.root);
        let permit = self
            .enter(Verb::Tree, path, |path, terms| {
                Treeing::resolve(entry, root, path, terms)
            })
            .await?;
        elsewhere(move || tree(permit, &request)).await
    }

    /// The ignore file that names the file about to be read.
    fn matched_ignore(&self, permit: &Permit<Reading>) -> Option<String> {
        let path = &permit.deed().path;
        Hiding::at(&self.declared.root, &path.parent()?, permit.terms()).named_by(path)
    }

    async fn reading(&self, path: &str) -> Result<(Permit<Reading>, u64), Failure> {
        let (entry, root) = (&self.declared.entry, &self.declared.root);
        let size = std::sync::atomic::AtomicU64::new(0);
        let permit = self
            .enter(Verb::Read, path, |path, terms| {
                let reading = Reading::resolve(entry, root, path, terms)?;
                size.store(reading.meta.size, std::sync::atomic::Ordering::Relaxed);
                Ok(reading)
            })
            .await?;
        Ok((permit, size.into_inner()))
    }

    async fn enter<D: Deed>(
        &self,
        verb: Verb,
        alleged: &str,
        resolve: impl Fn(&RelPath, &Terms) -> Result<D, Failure>,
    ) -> Result<Permit<D>, Failure> {
        let attempt: Attempt =
            self.gate
                .attempt(&self.caller, verb, &self.declared.entry, alleged)?;
        let path = attempt.path();
        attempt.enter(|terms| resolve(&path, terms)).await
    }
}

/// Runs a whole act on a thread that may block. The permit travels with it: if
/// the caller goes away the act still ends with its line.
async fn elsewhere<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(act)
        .await
        .unwrap_or_else(|panicked| Err(Failure::from(Reason::Bug).detail(panicked)))
}
