//! Portcullis: the only crate that opens files.
