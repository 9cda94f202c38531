//! The surfaces agents reach a machine through. MCP over stdio, so far.
//!
//! A surface turns a wire into a [`Caller`](portcullis_gate::Caller) and a tool
//! call, and a reply back into the wire. It opens no file and judges nothing.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    forbid(clippy::disallowed_methods, clippy::disallowed_types)
)]

mod mcp;

pub use mcp::{McpParts, StateKey, serve_pipe, serve_stdio};
