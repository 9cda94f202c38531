//! Portcullis: the only crate that starts processes.
