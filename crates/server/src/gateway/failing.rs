//! How calls to linked machines fail, in words.

use portcullis_proto::{Failure, Reason};

/// The link is gone, and with it whatever was asked.
pub(crate) fn lost() -> Failure {
    Failure::from(Reason::LinkLost).hint(
        "Look at what is there before doing it again; connect the machine anew if it stays away.",
    )
}

/// The server ends, and the machine has not answered.
pub(crate) fn left() -> Failure {
    Failure::new(
        Reason::LinkLost,
        "The server ended before the machine answered; whether it was done is not known.",
    )
    .hint(
        "When the server is back, ask again under the name the call has; look at what is there before doing it again without one.",
    )
}

/// The failure of a call that was not sent: the machine is not there.
pub(crate) fn away() -> Failure {
    Failure::from(Reason::NotLinked).hint("Call it again when the machine is back.")
}

/// The failure of a call that took too long.
pub(crate) fn too_late() -> Failure {
    Failure::new(
        Reason::Deadline,
        "The machine did not answer in time; whether it was done is not known.",
    )
    .hint("Look at what is there before doing it again.")
}

/// What an error text of a daemon comes to.
pub(crate) fn said(error: &str) -> Failure {
    let end = error.floor_char_boundary(MAX_SAID);
    let error = error.get(..end).unwrap_or_default();
    Failure::new(Reason::Io, format!("The machine could not do it: {error}"))
}

/// How much of what a daemon says went wrong is repeated, in bytes.
pub(super) const MAX_SAID: usize = 4_096;
