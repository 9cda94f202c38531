//! The audit on disk, from outside: what is kept, what is found, what is told.

mod crash;
mod keeping;
mod reading;
mod support;
mod tampering;
