//! Directories on the way to something new.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use portcullis_gate::Live;
use portcullis_proto::{Failure, RelPath, Staged};
use rustix::fs::{AtFlags, Mode, unlinkat};
use rustix::io::retry_on_intr;

use super::place::Place;

/// Directories made on the way to something: gone again if it does not come.
#[derive(Debug)]
pub(crate) struct Parents {
    pub(crate) place: Place,
    pub(crate) made: Vec<RelPath>,
    handles: Vec<(Arc<OwnedFd>, String)>,
}

impl Parents {
    pub(crate) fn make(mut place: Place, mode: u32, live: &Live<'_>) -> Result<Self, Failure> {
        let missing = std::mem::take(&mut place.missing);
        let mode = Mode::from_raw_mode(mode);
        // From here on what is made goes again, wherever this fails.
        let mut parents = Self {
            place,
            made: Vec::new(),
            handles: Vec::new(),
        };
        if !missing.is_empty() {
            let root = parents.place.root.identity();
            live.stage(Staged { root, made: None })?;
        }
        for name in missing {
            let above = Arc::clone(&parents.place.parent);
            if parents.place.step_into(&name, mode, live)? {
                parents.made.push(parents.place.parent_path.clone());
                parents.handles.push((above, name));
            }
        }
        Ok(parents)
    }

    /// They stay, and so must their names when the power goes.
    pub(crate) fn stay(&mut self, durable: bool) {
        for (above, _) in std::mem::take(&mut self.handles) {
            if durable {
                let _synced = retry_on_intr(|| rustix::fs::fsync(&above));
            }
        }
    }
}

impl Drop for Parents {
    fn drop(&mut self) {
        for (above, name) in self.handles.iter().rev() {
            // Only while it is empty: what somebody put there since stays.
            let _left = unlinkat(above, name, AtFlags::REMOVEDIR);
        }
    }
}
