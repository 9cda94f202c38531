//! The first state of the guard: something is about to be tried.

use std::sync::Arc;

use portcullis_proto::{Access, Digest, Failure, RelPath, RequestId, Resource};
use smallvec::{SmallVec, smallvec};

use crate::book::Book;
use crate::gate::clip;
use crate::root::RootEntry;

/// Something is about to be tried. Exists before anything is resolved, so that
/// what is refused on the way is in the audit. Proves that the path is
/// lexically inside its root; proves nothing about permission.
#[must_use = "dropped, it leaves a line that says `abandoned`"]
pub struct Attempt {
    /// The root of each resource, in the order of the facts.
    pub(crate) roots: SmallVec<[Arc<RootEntry>; 1]>,
    pub(crate) book: Box<Book>,
}

impl Attempt {
    pub(crate) fn new(root: Arc<RootEntry>, book: Box<Book>) -> Self {
        Self {
            roots: smallvec![root],
            book,
        }
    }

    /// The path attempted; the root itself if there is none.
    pub fn path(&self) -> RelPath {
        self.book
            .facts
            .resources
            .first()
            .map_or_else(RelPath::root, |resource| resource.path.clone())
    }

    /// Names the attempt in every line of it.
    pub fn request_id(&self) -> &RequestId {
        &self.book.request
    }

    /// Adds a second thing the same act touches, as a move touches two.
    pub fn and(
        mut self,
        root: &Arc<RootEntry>,
        alleged: &str,
        access: Access,
    ) -> Result<Self, Failure> {
        match RelPath::parse(alleged) {
            Ok(path) => {
                let facts = Arc::make_mut(&mut self.book.facts);
                facts.resources.push(Resource {
                    root: root.id().clone(),
                    kind: root.kind(),
                    path,
                    access,
                    identity: None,
                    above: root.policy().above.clone(),
                });
                self.roots.push(Arc::clone(root));
                Ok(self)
            }
            Err(bad) => {
                self.book.alleged = Some(clip(alleged));
                Err(self.book.refuse(bad.into()))
            }
        }
    }

    /// With the digest of what would be written, where that is known before
    /// anything is resolved: a yes to the path alone would be one to any content.
    pub fn showing(mut self, shown: Digest) -> Self {
        Arc::make_mut(&mut self.book.facts).shown = Some(shown);
        self
    }

    /// Puts on record what the caller named besides: a source outside every root.
    pub fn naming(mut self, alleged: &str) -> Self {
        self.book.alleged = Some(clip(alleged));
        self
    }

    /// Gives up, with the reason on record.
    pub fn refuse(self, why: Failure) -> Failure {
        self.book.refuse(why)
    }
}

impl std::fmt::Debug for Attempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attempt")
            .field("request", &self.book.request)
            .finish_non_exhaustive()
    }
}
