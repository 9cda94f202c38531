//! Portcullis: scaffolding for tests.
