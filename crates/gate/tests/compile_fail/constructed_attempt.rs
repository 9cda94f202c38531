//! Only the gate begins an attempt, so that none is missing in the audit.

use portcullis_gate::Attempt;

fn unseen() -> Attempt {
    Attempt { roots: Default::default() }
}

fn main() {}
