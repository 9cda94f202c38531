//! Portcullis: the surfaces.
