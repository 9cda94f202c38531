//! Portcullis: facts in, verdict out.
