//! The pipe: standard input and output, one line a message.

use rmcp::ServiceExt as _;
use rmcp::transport::async_rw::AsyncRwTransport;

use super::McpParts;
use super::handler::Handler;

/// The longest message accepted. Nothing an agent sends to a tool that looks
/// is longer; a longer line is dropped by the transport instead of held.
const MAX_LINE: usize = 4 * 1024 * 1024;

/// Serves until the client closes its end. Nothing else may write to standard
/// output meanwhile: it is the wire.
pub async fn serve_stdio(parts: McpParts) -> Result<(), String> {
    let transport = AsyncRwTransport::new_server(tokio::io::stdin(), tokio::io::stdout()).with_max_line_length(MAX_LINE);
    let service = Handler::new(parts)
        .serve(transport)
        .await
        .map_err(|error| format!("the client did not begin as MCP does: {error}"))?;
    service.waiting().await.map_err(|error| format!("the surface ended badly: {error}"))?;
    Ok(())
}
