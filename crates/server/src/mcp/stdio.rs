//! The pipe: standard input and output, one line a message.

use std::os::fd::AsFd;
use std::os::unix::net;

use rmcp::ServiceExt as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use super::McpParts;
use super::handler::Handler;
use super::wire::Wire;

/// Serves on standard input and output until the client closes its end.
/// Nothing else may write to standard output meanwhile: it is the wire.
pub async fn serve_stdio(parts: McpParts) -> Result<(), String> {
    serve_pipe(parts, input(), output()).await
}

/// Standard input. Clients pass a pipe, or a socket: both can be waited for on
/// this thread, where anything else costs a hop to another and back per message.
fn input() -> Box<dyn AsyncRead + Send + Unpin> {
    // Opened anew, so that waiting without blocking is ours alone and whoever
    // shares the pipe's end notices nothing.
    if let Ok(pipe) = pipe::OpenOptions::new().open_receiver("/proc/self/fd/0") {
        return Box::new(pipe);
    }
    match socket(std::io::stdin()) {
        Some(socket) => Box::new(socket),
        None => Box::new(tokio::io::stdin()),
    }
}

/// Standard output, likewise.
fn output() -> Box<dyn AsyncWrite + Send + Unpin> {
    if let Ok(pipe) = pipe::OpenOptions::new().open_sender("/proc/self/fd/1") {
        return Box::new(pipe);
    }
    match socket(std::io::stdout()) {
        Some(socket) => Box::new(socket),
        None => Box::new(tokio::io::stdout()),
    }
}

/// One end of a socket pair made for this process.
fn socket(stream: impl AsFd) -> Option<UnixStream> {
    let socket = net::UnixStream::from(stream.as_fd().try_clone_to_owned().ok()?);
    // Nothing but a Unix socket has such an address.
    socket.local_addr().ok()?;
    socket.set_nonblocking(true).ok()?;
    UnixStream::from_std(socket).ok()
}

/// Serves on any pair of pipes until the client closes its end.
pub async fn serve_pipe<R, W>(parts: McpParts, read: R, write: W) -> Result<(), String>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let service = Handler::for_one(parts)
        .serve(Wire::new(read, write))
        .await
        .map_err(|error| format!("the client did not begin as MCP does: {error}"))?;
    service
        .waiting()
        .await
        .map_err(|error| format!("the surface ended badly: {error}"))?;
    Ok(())
}
