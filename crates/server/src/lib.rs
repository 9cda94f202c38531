//! The surfaces agents reach a machine through: MCP over stdio and HTTP, and REST.
//!
//! A surface turns a wire into a [`Caller`](portcullis_gate::Caller) and a tool
//! call, and a reply back into the wire. It opens no file and judges nothing.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    forbid(clippy::disallowed_methods, clippy::disallowed_types)
)]

mod answers;
mod gateway;
mod http;
mod issuer;
mod mcp;
mod parsing;
mod telemetry;

pub use gateway::{Conversation, Gateway, Meant, Purpose};
pub use http::{
    Allowed, AuditAsk, AuditLine, AuditSieve, AuditSource, BadOrigin, Body, Credentials, Doorman,
    FollowAudit, Guests, Identity, Listening, Machines, Observer, Providers, REQUESTS_PER_SECOND,
    Rate, Reply, RouteRow, Seen, Server, ServerParts, Tls, TlsProblem, Via, listen, openapi,
    routes,
};
pub use issuer::{
    Alleged, BadKeys, Issuer, IssuerKeys, IssuerTerms, Refused, TellRefused, Telling,
};
pub use mcp::{HttpMcpParts, McpHttp, McpParts, OAuthResource, StateKey, serve_pipe, serve_stdio};
pub use telemetry::{
    BadEndpoint, Dialling, Endpoint, Exporting, Headers, Outside, Reporting, Telemetry, Trusted,
};
