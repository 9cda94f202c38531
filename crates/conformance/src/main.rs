//! `portcullis-conformance [PORT]`: what the MCP conformance suites call.
//!
//! The suites drive a server through tools, resources and prompts of fixed
//! names. Those are here, behind the listener, the guard and the door that we
//! ship, so that what is tested is ours. Any credential will do: it listens on
//! loopback alone, and reaches nothing of the machine.
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "a tool for us, no part of the product: it opens its own listener and reads its own clock"
)]
#![expect(
    deprecated,
    reason = "the suites ask for sampling, roots and logging, which the newer era lets go"
)]

mod asked;
mod asking;
mod fixed;
mod fixture;
mod served;
mod tasks;

use std::io::Write as _;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let port = std::env::args()
        .nth(1)
        .map_or(Ok(0), |port| port.parse::<u16>())
        .map_err(std::io::Error::other)?;
    let listener = std::net::TcpListener::bind(("127.0.0.1", port))?;
    let mut out = std::io::stdout();
    writeln!(out, "http://{}/mcp", listener.local_addr()?)?;
    out.flush()?;
    served::serve(listener).await
}
