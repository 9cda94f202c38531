//! The surfaces agents reach a machine through: MCP over stdio and HTTP, and REST.
//!
//! A surface turns a wire into a [`Caller`](portcullis_gate::Caller) and a tool
//! call, and a reply back into the wire. It opens no file and judges nothing.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    forbid(clippy::disallowed_methods, clippy::disallowed_types)
)]

mod http;
mod mcp;

pub use http::{
    Allowed, AuditAsk, AuditLine, AuditSource, BadOrigin, Body, Credentials, Doorman, FollowAudit,
    Guests, Identity, Listening, Machines, Observer, Providers, Reply, RouteRow, Seen, Server,
    ServerParts, Tls, TlsProblem, Via, listen, routes,
};
pub use mcp::{HttpMcpParts, McpHttp, McpParts, OAuthResource, StateKey, serve_pipe, serve_stdio};
