//! Portcullis: one file per tool.
