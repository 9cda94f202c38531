//! The names of directories that are listed again and again.
//!
//! To read a directory of a thousand names and sort them costs more than all
//! the rest of listing it: looking up, judging each name, writing them down. A
//! directory whose stamp is the same holds the same names, so they are read
//! once. Nothing else is kept: each name is judged anew for whoever asks.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portcullis_proto::{Failure, RelPath};

use super::{BELIEVED_NS, Stamp};
use crate::dirs::{Name, each_name};
use crate::root::Root;
use crate::sys;

/// A smaller directory is read faster than looked up.
const LEAST: usize = 64;
/// How many bytes of names are kept. A directory of more is read every time.
const MAX_BYTES: usize = 1024 * 1024;
/// How many directories are remembered, with their names or without.
const MAX_DIRS: usize = 256;

/// The directories of one root.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    by_path: HashMap<Box<str>, Dir>,
    bytes: usize,
}

/// A directory, as it was listed before.
#[derive(Debug)]
struct Dir {
    stamp: Stamp,
    since: i128,
    /// In the order of their bytes. Read only when it is listed a second time
    /// unchanged: one that changes all the time would be kept in vain.
    names: Option<Arc<[Name]>>,
    bytes: usize,
}

/// What is known of a directory.
enum Known {
    /// Nothing that holds by now.
    Nothing,
    /// It has not changed since it was listed before.
    Unchanged,
    /// Its names.
    Names(Arc<[Name]>),
}

impl Names {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, path: &RelPath, stamp: Stamp, now: i128) -> Known {
        match self.lock().by_path.get(path.as_str()) {
            Some(dir) if dir.stamp == stamp => match &dir.names {
                Some(names) if (0..BELIEVED_NS).contains(&(now - dir.since)) => {
                    Known::Names(Arc::clone(names))
                }
                Some(_) | None => Known::Unchanged,
            },
            Some(_) | None => Known::Nothing,
        }
    }

    fn keep(&self, path: &RelPath, dir: Dir) {
        let mut kept = self.lock();
        if let Some(before) = kept.by_path.remove(path.as_str()) {
            kept.bytes -= before.bytes;
        }
        if kept.by_path.len() >= MAX_DIRS || kept.bytes + dir.bytes > MAX_BYTES {
            // Rare, and to read again is cheap: nothing is chosen to stay.
            *kept = Kept::default();
        }
        kept.bytes += dir.bytes;
        kept.by_path.insert(path.as_str().into(), dir);
    }
}

/// Names that may be kept once all are there.
#[derive(Default)]
struct Gathered {
    names: Vec<Name>,
    bytes: usize,
}

impl Gathered {
    fn add(&mut self, name: &Name) {
        let path = name.path.as_ref().map_or(0, |path| path.as_str().len());
        let raw = name.raw.as_ref().map_or(0, |raw| raw.len());
        self.bytes += size_of::<Name>() + name.shown.len() + path + raw;
        if self.bytes <= MAX_BYTES {
            self.names.push(name.clone());
        } else {
            // Too many to keep, and no more are held on to.
            self.names = Vec::new();
        }
    }
}

/// Calls `each` with every name of the directory behind `dir`, which stands at
/// `path`: as [`each_name`] does, or from what is kept of an earlier look.
pub(crate) fn each_kept_name(
    root: &Root,
    dir: BorrowedFd<'_>,
    path: &RelPath,
    mut each: impl FnMut(Name) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // Taken first: what changes while the names are read changes it.
    let stamp = root
        .kept
        .as_ref()
        .and_then(|kept| Some((kept, Stamp::of(&sys::handle_meta(dir).ok()?))));
    let Some((kept, stamp)) = stamp else {
        return each_name(dir, path, each);
    };
    let since = (kept.now)();
    let again = match kept.names.known(path, stamp, since) {
        Known::Names(names) => return names.iter().cloned().try_for_each(each),
        Known::Unchanged => true,
        Known::Nothing => false,
    };
    if !stamp.is_settled(since) {
        return each_name(dir, path, each);
    }
    let mut count = 0;
    let mut gathered = Gathered::default();
    each_name(dir, path, |name| {
        count += 1;
        if again {
            gathered.add(&name);
        }
        each(name)
    })?;
    if count < LEAST || gathered.bytes > MAX_BYTES {
        return Ok(());
    }
    let Gathered { mut names, bytes } = gathered;
    names.sort_unstable_by(|a, b| a.bytes().cmp(b.bytes()));
    let names = again.then(|| names.into());
    kept.names.keep(
        path,
        Dir {
            stamp,
            since,
            names,
            bytes,
        },
    );
    Ok(())
}

#[cfg(test)]
mod tests;
