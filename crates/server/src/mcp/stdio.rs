//! The pipe: standard input and output, one line a message.

use rmcp::ServiceExt as _;
use rmcp::transport::async_rw::AsyncRwTransport;

use tokio::io::{AsyncRead, AsyncWrite};

use super::McpParts;
use super::handler::Handler;

/// The longest message accepted. Nothing an agent sends to a tool that looks
/// is longer; a longer line is dropped by the transport instead of held.
const MAX_LINE: usize = 4 * 1024 * 1024;

/// Serves on standard input and output until the client closes its end.
/// Nothing else may write to standard output meanwhile: it is the wire.
pub async fn serve_stdio(parts: McpParts) -> Result<(), String> {
    serve_pipe(parts, tokio::io::stdin(), tokio::io::stdout()).await
}

/// Serves on any pair of pipes until the client closes its end.
pub async fn serve_pipe<R, W>(parts: McpParts, read: R, write: W) -> Result<(), String>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let transport = AsyncRwTransport::new_server(read, write).with_max_line_length(MAX_LINE);
    let service = Handler::new(parts)
        .serve(transport)
        .await
        .map_err(|error| format!("the client did not begin as MCP does: {error}"))?;
    service
        .waiting()
        .await
        .map_err(|error| format!("the surface ended badly: {error}"))?;
    Ok(())
}
