//! Portcullis: the only crate that opens files.

mod ledger;
mod private_dir;

pub use ledger::{
    AuditLog, BadLine, Fault, FileLedger, Filter, Follow, LedgerOptions, LineKind, Problem, Record,
    RecordCounts, RecordIdentity, RecordResource, RecordResources, RecordRoot, RecordSubject,
    Records, Recovery, UnsignedTail, Verification, recover_torn,
};
pub use private_dir::PrivateDir;
