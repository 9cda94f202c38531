//! Extensions at work: each has a machine of its own, with its own roots, for
//! as long as what its owner approved stays as it is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portcullis_files::{ExtensionFs, PrivateDir, remove_extension_storage};
use portcullis_gate::{ApprovedBook, ApprovedExtension, Entitlements};
use portcullis_proto::{Failure, Reason, RootId};

use crate::here::Here;
use crate::machine::Machine;

/// How many are at work at once: each holds four handles and a few grants.
const MAX_AT_WORK: usize = 256;

/// The extensions at work on this machine.
#[derive(Debug)]
pub struct Extensions {
    here: Here,
    data: PrivateDir,
    /// What people have here: none gives an extension more than that.
    entitled: Arc<Entitlements>,
    state: Mutex<State>,
}

/// An extension that is not at work any more. Its scratch goes with this, and
/// with whoever is still under way in it.
#[derive(Debug)]
pub struct Ended {
    _files: Arc<ExtensionFs>,
}

#[derive(Debug, Default)]
struct State {
    approved: Arc<ApprovedBook>,
    at_work: HashMap<Arc<str>, AtWork>,
}

#[derive(Debug)]
struct AtWork {
    approved: Arc<ApprovedExtension>,
    files: Arc<ExtensionFs>,
    machine: Arc<Here>,
}

impl Extensions {
    /// Nobody is at work yet. They get as much of `here` as was approved by
    /// somebody who has it, with its tools; `data` holds their own files.
    pub fn new(here: Here, data: PrivateDir, entitled: Arc<Entitlements>) -> Self {
        Self {
            here,
            data,
            entitled,
            state: Mutex::default(),
        }
    }

    /// Puts in force what was approved, from now on. What an extension was
    /// granted under other terms ends here, for deeds already permitted too.
    /// Dropping what is returned removes its scratch, which may take a while.
    pub fn put_in_force(&self, approved: &Arc<ApprovedBook>) -> Vec<Ended> {
        let mut state = self.state();
        if Arc::ptr_eq(&state.approved, approved) {
            return Vec::new();
        }
        state.approved = Arc::clone(approved);
        let stays = |id: &Arc<str>, one: &mut AtWork| {
            approved.get(id).is_some_and(|now| *now == one.approved)
        };
        let ended = state.at_work.extract_if(|id, one| !stays(id, one));
        ended
            .map(|(_, one)| {
                one.files.end();
                Ended { _files: one.files }
            })
            .collect()
    }

    /// The machine of the extension called `id` that `user` approved, while it is
    /// approved. A name can be another person's a moment later.
    pub fn machine(&self, id: &str, user: &str) -> Result<Arc<dyn Machine>, Failure> {
        let mut state = self.state();
        let approved = state.approved.get(id).filter(|one| *one.user == *user);
        let approved = approved.cloned().ok_or(Reason::NoGrant)?;
        if let Some(one) = state.at_work.get(id)
            && one.approved == approved
        {
            return Ok(Arc::clone(&one.machine) as Arc<dyn Machine>);
        }
        if state.at_work.len() >= MAX_AT_WORK {
            return Err(Failure::new(
                Reason::Overload,
                "As many extensions as can be are at work already.",
            ));
        }
        let files = Arc::new(self.files(&approved)?);
        let machine = Arc::new(self.here.of_extension(&files));
        let one = AtWork {
            files,
            machine: Arc::clone(&machine),
            approved: Arc::clone(&approved),
        };
        state.at_work.insert(Arc::clone(&approved.id), one);
        Ok(machine)
    }

    fn files(&self, approved: &ApprovedExtension) -> Result<ExtensionFs, Failure> {
        let authority = self.here.authority();
        authority.extension_within(approved, Some(&self.entitled))
    }

    /// Removes what an extension that was removed has stored.
    pub fn remove_storage(&self, storage: &RootId) -> Result<(), Failure> {
        remove_extension_storage(&self.data, storage)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
