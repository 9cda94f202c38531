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
    let error = clipped(error);
    Failure::new(Reason::Io, format!("The machine could not do it: {error}"))
}

/// As much of what a daemon says went wrong as is repeated.
pub(crate) fn clipped(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_SAID);
    text.get(..end).unwrap_or_default().to_owned()
}

/// How much of what a daemon says went wrong is repeated, in bytes.
const MAX_SAID: usize = 4_096;
