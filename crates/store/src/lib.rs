//! Portcullis: our own state, in SQLite.
