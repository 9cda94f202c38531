//! The finer reason behind an error kind: one table, no `_` arm.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Category, ErrorKind};

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $wire:literal, $kind:ident, $category:ident, $sentence:literal;)*) => {
        /// Why, to the code: finer than the kind, and never widening it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Reason {
            $(#[doc = $sentence] #[serde(rename = $wire)] $name,)*
        }

        impl Reason {
            /// Every reason, in the order of the table in PROTOCOL.md.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The reason as the wire spells it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $wire,)* }
            }

            /// The kind it travels under.
            pub const fn kind(self) -> ErrorKind {
                match self { $(Self::$name => ErrorKind::$kind,)* }
            }

            /// Decision or accident.
            pub const fn category(self) -> Category {
                match self { $(Self::$name => Category::$category,)* }
            }

            /// What it means, as a sentence that can be shown when nothing better is known.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence,)* }
            }
        }
    };
}

reasons! {
    Escape = "escape", PathOutsideWorkspace, Policy, "The path leads out of its root.";
    OutsideRoots = "outside_roots", PathOutsideWorkspace, Policy, "The path is under none of the roots served here.";
    MountBoundary = "mount_boundary", PathOutsideWorkspace, Policy, "Another file system is mounted on the way, and this root does not list it.";
    Symlink = "symlink", SymlinkEscape, Policy, "A symbolic link stands on the way, and this root does not follow them.";
    NotFound = "not_found", PathNotFound, Operational, "Nothing is there.";
    UnknownRoot = "unknown_root", PathNotFound, Operational, "There is no root of that name.";
    Binary = "binary", BinaryFile, Operational, "The file is not text.";
    TooLarge = "too_large", FileTooLarge, Operational, "The file is larger than this root allows.";
    Changed = "changed", HashMismatch, Operational, "It changed while the question was open, so nothing was done.";
    VersionMismatch = "version_mismatch", HashMismatch, Operational, "It is not the version that was expected.";
    AlreadyExists = "already_exists", FileAlreadyExists, Operational, "Something is there already.";
    TextNotFound = "text_not_found", TextNotFound, Operational, "The text does not occur in the file.";
    AmbiguousText = "ambiguous_text", AmbiguousTextMatch, Operational, "The text occurs more than once.";
    Untrusted = "untrusted", UntrustedWorkspace, Policy, "Nobody has trusted this workspace, so nothing in it may be changed.";
    ProtectedState = "protected_state", PermissionDenied, Policy, "That is Portcullis's own state, which no agent may reach.";
    DeniedByRule = "denied_by_rule", PermissionDenied, Policy, "A rule denies it.";
    DeniedByMode = "denied_by_mode", PermissionDenied, Policy, "The tool group is off.";
    DeniedByHook = "denied_by_hook", PermissionDenied, Policy, "A hook denied it.";
    HookFailed = "hook_failed", PermissionDenied, Policy, "A hook did not answer as it should, which counts as a no.";
    NoGrant = "no_grant", PermissionDenied, Policy, "No grant covers it.";
    SwitchedOff = "switched_off", PermissionDenied, Policy, "Files are switched off for a while.";
    Revoked = "revoked", PermissionDenied, Policy, "The grant was revoked before the act.";
    Expired = "expired", PermissionDenied, Policy, "The grant expired before the act.";
    ApprovalDenied = "approval_denied", PermissionDenied, Policy, "The person asked said no.";
    ApprovalTimeout = "approval_timeout", PermissionDenied, Policy, "Nobody answered in time, which counts as a no.";
    ApprovalUnavailable = "approval_unavailable", PermissionDenied, Policy, "It needs a person's yes, and nobody can be asked here.";
    ApprovalPending = "approval_pending", PermissionDenied, Policy, "It waits for a person's answer.";
    AnswerUsed = "answer_used", PermissionDenied, Policy, "That answer has been used already.";
    ReadOnly = "read_only", PermissionDenied, Policy, "The file is read-only, and replacing it was not asked for by name.";
    ChangedSince = "changed_since", HashMismatch, Operational, "Somebody changed it since, so it was left as it is.";
    Hardlink = "hardlink", PermissionDenied, Policy, "The file has another name elsewhere, and this root refuses such links.";
    SpecialFile = "special_file", PermissionDenied, Policy, "It is a device, a pipe or a socket, not a file.";
    NotOwned = "not_owned", PermissionDenied, Policy, "The file belongs to somebody else.";
    InsecurePermissions = "insecure_permissions", PermissionDenied, Policy, "Others can read it, which a secret root does not accept.";
    BestEffortOnly = "best_effort_only", PermissionDenied, Policy, "This kernel cannot resolve paths atomically, and the root requires it.";
    Os = "os", PermissionDenied, Operational, "The operating system refused.";
    Io = "io", IoError, Operational, "The disk or the file system failed.";
    NoSpace = "no_space", IoError, Operational, "The disk is full.";
    Quota = "quota", IoError, Operational, "The quota is used up.";
    Busy = "busy", IoError, Operational, "It is in use.";
    TooManyOpen = "too_many_open", IoError, Operational, "Too many files are open.";
    NameTooLong = "name_too_long", IoError, Operational, "The name is too long for the file system.";
    Cancelled = "cancelled", IoError, Operational, "The caller cancelled it.";
    Deadline = "deadline", IoError, Operational, "It took longer than it may.";
    Overload = "overload", IoError, Operational, "Too much is under way already.";
    NotLinked = "not_linked", IoError, Operational, "The machine is not linked now, so nothing was sent to it.";
    MachineGone = "machine_gone", IoError, Operational, "The machine this conversation works with is gone. Nothing was done, here or there.";
    LinkLost = "link_lost", IoError, Operational, "The link to the machine was lost before it answered; whether it was done is not known.";
    AuditUnavailable = "audit_unavailable", IoError, Operational, "The audit cannot be written, so nothing is done.";
    Bug = "bug", InternalError, Operational, "A defect of Portcullis.";
    BadArguments = "bad_arguments", ParseError, Operational, "The arguments do not fit the tool.";
    NotOffered = "not_offered", ParseError, Operational, "The linked machine does not offer that.";
    UnknownTool = "unknown_tool", ParseError, Operational, "There is no tool of that name.";
    BadName = "bad_name", ParseError, Policy, "The path holds a character no path may hold.";
    BadCursor = "bad_cursor", ParseError, Operational, "The cursor is not one of ours.";
    BadGlob = "bad_glob", ParseError, Operational, "The pattern is not a glob.";
    BadJson = "bad_json", ParseError, Operational, "The file is not JSON.";
    BadEncoding = "bad_encoding", ParseError, Operational, "The text is not in the encoding named, or in none that is known.";
    UnsupportedArchive = "unsupported_archive", ParseError, Operational, "It is no archive that is unpacked here, or packed in a way that is not.";
    BadArchive = "bad_archive", ParseError, Policy, "The archive is damaged, or says two things at once.";
    NameCollision = "name_collision", ParseError, Policy, "Two names in the archive would be one file.";
    IsDirectory = "is_directory", ParseError, Operational, "It is a directory.";
    NotDirectory = "not_directory", ParseError, Operational, "It is not a directory.";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_reason_and_every_reason_is_spelled_once() {
        let mut spelled = std::collections::BTreeSet::new();
        for reason in Reason::ALL {
            assert!(spelled.insert(reason.as_str()), "{reason} twice");
        }
        for kind in ErrorKind::ALL {
            assert!(
                Reason::ALL.iter().any(|reason| reason.kind() == kind),
                "{kind} has no reason"
            );
        }
    }

    #[test]
    fn what_the_machine_could_not_do_is_never_a_permission() {
        for reason in Reason::ALL {
            if reason.kind() == ErrorKind::IoError {
                assert_eq!(reason.category(), Category::Operational, "{reason}");
            }
        }
    }

    #[test]
    fn the_table_in_the_protocol_is_the_code() {
        let page = include_str!("../../../docs/PROTOCOL.md");
        let rows: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
        for reason in Reason::ALL {
            let row = format!(
                "| `{reason}` | `{}` | {} | {} | {} |",
                reason.kind(),
                reason.category().as_str(),
                reason.kind().status(),
                reason.sentence(),
            );
            assert!(
                rows.contains(&row.as_str()),
                "docs/PROTOCOL.md lacks: {row}"
            );
        }
        let reasons = rows
            .iter()
            .filter(|row| row.matches('|').count() == 6)
            .count();
        assert_eq!(
            reasons,
            Reason::ALL.len(),
            "rows that are no reason any more"
        );
    }
}
