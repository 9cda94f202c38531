//! Portcullis: races a file server until it leaks.
