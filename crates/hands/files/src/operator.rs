//! Files that the operator named: hook programs, keys, certificates. Where one
//! stands inside a root, no agent changes it, and keys are not read.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use portcullis_gate::RootSpec;
use portcullis_proto::{Entity, Failure, RelPath, RootId};

use crate::authority::Authority;
use crate::meta::Meta;
use crate::root::Root;

/// How many links are followed on the way to one, as many as the kernel follows.
const MAX_LINKS: usize = 40;

/// A file that the operator named by a flag, a variable or the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorFile {
    /// What it is, for people: "the TLS key".
    pub what: String,
    /// Its absolute path. Nothing need stand there yet.
    pub path: PathBuf,
    /// What it is for.
    pub role: OperatorRole,
}

/// What a file that the operator named is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorRole {
    /// It holds a key: neither read nor changed.
    Key,
    /// It is run or trusted: read, and not changed.
    Fixed,
    /// It may be a file that a program is given: as `Fixed` where a regular
    /// file stands there, and nothing otherwise.
    Argument,
}

impl Authority {
    /// Protects files that the operator named, in roots declared from here on.
    #[must_use]
    pub fn protecting(mut self, files: Vec<OperatorFile>) -> Self {
        self.named = files;
        self
    }

    /// The files that the operator named which stand inside a root, and which.
    pub fn named_inside(&self) -> impl Iterator<Item = &(RootId, OperatorFile)> {
        self.inside.iter()
    }

    /// Enters every named file that stands in `root` into its policy.
    pub(crate) fn protect_named(
        &mut self,
        root: &Root,
        spec: &mut RootSpec,
    ) -> Result<(), Failure> {
        for file in &self.named {
            let seen = rustix::fs::stat(&file.path)
                .ok()
                .map(|seen| Meta::of_stat(&seen));
            let is_file = seen
                .as_ref()
                .is_some_and(|seen| seen.entity == Entity::File);
            if file.role == OperatorRole::Argument && !is_file {
                continue;
            }
            let Way { links, end } = Way::to(&file.path);
            let mut stands_inside = false;
            for (place, is_end) in
                places(root, &links, false)?
                    .into_iter()
                    .chain(places(root, &[end], true)?)
            {
                // A link to the directory that is served is not in it.
                if place == RelPath::root() {
                    continue;
                }
                stands_inside = true;
                match file.role {
                    OperatorRole::Key if is_end => spec.policy.own_state.push(place),
                    OperatorRole::Key | OperatorRole::Fixed | OperatorRole::Argument => {
                        spec.policy.fixed.push(place);
                    }
                }
            }
            if let (OperatorRole::Key, Some(seen)) = (file.role, seen.filter(|_| is_file)) {
                spec.policy.own_inodes.push((seen.dev, seen.ino));
            }
            if stands_inside {
                self.inside.push((spec.id.clone(), file.clone()));
            }
        }
        Ok(())
    }
}

fn places(root: &Root, spots: &[PathBuf], is_end: bool) -> Result<Vec<(RelPath, bool)>, Failure> {
    let mut all = Vec::new();
    for spot in spots {
        let places = root.places_of(spot)?;
        all.extend(places.into_iter().map(|place| (place, is_end)));
    }
    Ok(all)
}

/// How a path is resolved: every symbolic link on the way, and where it ends.
/// All are spelled without a link above them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) links: Vec<PathBuf>,
    pub(crate) end: PathBuf,
}

impl Way {
    pub(crate) fn to(path: &Path) -> Self {
        let mut links = Vec::new();
        let mut end = PathBuf::from("/");
        let mut rest: VecDeque<OsString> = VecDeque::new();
        push_front(&mut rest, path);
        while let Some(next) = rest.pop_front() {
            if next == ".." {
                end.pop();
                continue;
            }
            let here = end.join(&next);
            let target = if links.len() < MAX_LINKS {
                here.read_link().ok()
            } else {
                None
            };
            let Some(target) = target else {
                end = here;
                continue;
            };
            links.push(here);
            if target.is_absolute() {
                end = PathBuf::from("/");
            }
            push_front(&mut rest, &target);
        }
        Self { links, end }
    }
}

fn push_front(rest: &mut VecDeque<OsString>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::Normal(name) => rest.push_front(name.to_owned()),
            Component::ParentDir => rest.push_front("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
}
