//! Whether files may be changed, and what follows: the mode of the group, whom
//! the roots are granted to, and which of them count as trusted.

use std::path::Path;

use portcullis_files::{NewModes, read_own_text};
use portcullis_gate::GrantSource;
use portcullis_policy::Modes;
use portcullis_proto::{Access, AccessSet, Group, Mode, Principal, RootKind};

use super::{GrantSetting, RootSetting, bad_variable};
use crate::args::NewFileModeFlag;
use crate::environment::Environment;
use crate::problem::Problem;

/// What changing a file takes.
const CHANGING: AccessSet =
    AccessSet::of(&[Access::Write, Access::Delete, Access::Move, Access::Archive]);
/// The most bytes the kernel tells of a process.
const MAX_STATUS: u64 = 64 * 1024;

/// Whether files may be changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Writing {
    /// No tool changes anything.
    #[default]
    Off,
    /// Off, unless the environment or the file says otherwise.
    Unsaid,
    /// At the stored mode, and at least ask; trust is what is stored.
    AsStored,
    /// Allowed, and the workspaces are trusted: `mcp --write`.
    Allowed,
    /// At the stored mode; workspaces that were named are trusted by that: `serve`.
    Served,
    /// At the stored mode; the directory is trusted by confirming it: `connect`.
    Lent,
    /// By the person at their own terminal, in every root.
    ByPerson,
}

impl Writing {
    /// With the environment and then the file heard: never `Unsaid`.
    pub(super) fn resolved(self, env: &Environment, by_file: bool) -> Result<Self, Problem> {
        match (self, env.filesystem_write_access.as_deref()) {
            (Self::Unsaid, None) if by_file => Ok(Self::AsStored),
            (Self::Unsaid, None | Some("false" | "0")) => Ok(Self::Off),
            (Self::Unsaid, Some("true" | "1")) => Ok(Self::AsStored),
            (Self::Unsaid, Some(word)) => Err(bad_variable(
                "PORTCULLIS_FILESYSTEM_WRITE_ACCESS",
                word,
                "true or false",
            )),
            (said, _) => Ok(said),
        }
    }

    /// Whether there are tools that change files.
    pub(crate) const fn is_on(self) -> bool {
        match self {
            Self::Off | Self::Unsaid => false,
            Self::AsStored | Self::Allowed | Self::Served | Self::Lent | Self::ByPerson => true,
        }
    }

    /// The modes that hold.
    pub(super) fn modes(self, modes: Modes) -> Modes {
        let group = Group::FilesystemWrite;
        match self {
            Self::AsStored if modes.of(group) == Mode::Deny => modes.with(group, Mode::Ask),
            Self::Off | Self::Unsaid | Self::AsStored | Self::Served | Self::Lent => modes,
            Self::Allowed => modes.with(group, Mode::Allow),
            Self::ByPerson => modes
                .with(group, Mode::Allow)
                .with(Group::FilesystemRead, Mode::Allow),
        }
    }

    /// Grants what changing takes, and trusts what is trusted by saying so.
    /// Roots of the other kinds stay as their own grants have them.
    pub(super) fn open(self, roots: &mut [RootSetting]) {
        for root in roots {
            let workspace = root.spec.kind == RootKind::Workspace;
            let access = match self {
                // Whoever comes over HTTP is granted what its scopes say.
                Self::Off | Self::Unsaid | Self::Served => continue,
                Self::AsStored | Self::Allowed | Self::Lent if !workspace => continue,
                Self::AsStored | Self::Allowed | Self::Lent => CHANGING,
                Self::ByPerson => CHANGING.union(AccessSet::of(&[Access::Read, Access::Metadata])),
            };
            root.grants.push(GrantSetting {
                to: Principal::User { id: "me".into() },
                access,
                expires_at: None,
                source: GrantSource::Core,
            });
            root.spec.trusted |= self != Self::AsStored;
        }
    }
}

/// The modes of new files and directories.
pub(super) fn new_modes(flag: NewFileModeFlag) -> Result<NewModes, Problem> {
    match flag {
        NewFileModeFlag::Private => Ok(NewModes::default()),
        NewFileModeFlag::Umask => {
            let mask = umask()?;
            Ok(NewModes {
                file: 0o666 & !mask,
                directory: 0o777 & !mask,
            })
        }
    }
}

/// The kernel tells the mask without its being changed to be read.
fn umask() -> Result<u32, Problem> {
    let status = read_own_text(Path::new("/proc/self/status"), MAX_STATUS)?.unwrap_or_default();
    mask_in(&status).ok_or_else(|| {
        Problem::new("The umask of this process is not known.")
            .hint("Leave --new-file-mode out: new files get 0600, directories 0700.")
    })
}

fn mask_in(status: &str) -> Option<u32> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(line.trim(), 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_umask_is_read_as_the_kernel_tells_it() {
        assert_eq!(mask_in("Name:\tx\nUmask:\t0022\nState:"), Some(0o022));
        assert_eq!(mask_in("Name:\tx\n"), None);
    }

    #[test]
    fn the_stored_mode_holds_and_is_at_least_ask() {
        let group = Group::FilesystemWrite;
        for (stored, want) in [
            (Mode::Deny, Mode::Ask),
            (Mode::Ask, Mode::Ask),
            (Mode::Allow, Mode::Allow),
        ] {
            let modes = Modes::recommended().with(group, stored);
            assert_eq!(Writing::AsStored.modes(modes).of(group), want);
            assert_eq!(Writing::Allowed.modes(modes).of(group), Mode::Allow);
            assert_eq!(Writing::Off.modes(modes).of(group), stored);
        }
    }
}
