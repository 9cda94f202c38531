//! The mode of each tool group.

use portcullis_proto::{Group, Mode};

/// One mode per group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes([Mode; 5]);

impl Modes {
    /// The modes of a first start.
    pub fn recommended() -> Self {
        Self(Group::ALL.map(Group::recommended))
    }

    /// Every group at `mode`.
    pub const fn all(mode: Mode) -> Self {
        Self([mode; 5])
    }

    /// These modes with one changed.
    #[must_use]
    pub fn with(mut self, group: Group, mode: Mode) -> Self {
        self.0[group as usize] = mode;
        self
    }

    /// What holds for `group`: writing is off wherever reading is.
    pub fn of(self, group: Group) -> Mode {
        let own = self.0[group as usize];
        match group {
            Group::FilesystemWrite if self.0[Group::FilesystemRead as usize] == Mode::Deny => {
                Mode::Deny
            }
            Group::FilesystemRead
            | Group::FilesystemWrite
            | Group::Shell
            | Group::Computer
            | Group::Browser => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_is_off_where_reading_is() {
        let modes = Modes::all(Mode::Allow).with(Group::FilesystemRead, Mode::Deny);
        assert_eq!(modes.of(Group::FilesystemWrite), Mode::Deny);
        assert_eq!(modes.of(Group::Shell), Mode::Allow);
    }
}
