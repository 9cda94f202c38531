//! The wire: one line a message, read and written.
//!
//! rmcp reads any message by trying every shape it could have, which costs a
//! tool call more than the deed it asks for. A call is the one message that
//! comes often, so it is read as what it is; whatever is not plainly a call,
//! and a call in any way odd, is left to rmcp.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use portcullis_proto::{Extent, Failure, read_json};
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ErrorData, JsonRpcMessage, RequestId,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::{JsonRpcMessageCodec, JsonRpcMessageCodecError};
use serde::Deserialize;
use serde_json::error::Category;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::bytes::BytesMut;
use tokio_util::codec::Decoder as _;

use super::envelope::{self, Opened, SMALL_MESSAGE};
use super::{MAX_MESSAGE, written};
use crate::http::SMALL_BODY;

type Received = RxJsonRpcMessage<RoleServer>;

/// The longest line. A longer one is dropped instead of held.
const MAX_LINE: usize = MAX_MESSAGE;
/// How much is read at once.
const READ: usize = 8 * 1024;
/// What the buffer keeps of the room a long line took.
const KEEP: usize = 64 * 1024;

/// Both ends of a client's pipe.
pub(super) struct Wire<R, W> {
    read: R,
    incoming: Incoming,
    /// A large line that is read off the reactor; the next one waits for it.
    reading: Option<JoinHandle<Result<Option<Received>, NoMessage>>>,
    /// Gone once closed.
    write: Arc<Mutex<Option<W>>>,
}

impl<R, W> Wire<R, W> {
    pub(super) fn new(read: R, write: W) -> Self {
        Self {
            read,
            incoming: Incoming::default(),
            reading: None,
            write: Arc::new(Mutex::new(Some(write))),
        }
    }
}

impl<R, W> Transport<RoleServer> for Wire<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let line = written::line(&message);
        let write = Arc::clone(&self.write);
        async move { put(&write, &line?).await }
    }

    /// Dropped half way, it loses nothing: what was read stays in the buffer.
    async fn receive(&mut self) -> Option<Received> {
        loop {
            if let Some(reading) = &mut self.reading {
                let read = reading.await;
                self.reading = None;
                if let Some(message) = told(&self.write, read.unwrap_or(Ok(None))).await? {
                    return Some(message);
                }
                continue;
            }
            let Some(line) = self.incoming.next_line() else {
                // The end, or a pipe that broke: either way nothing more comes.
                match self.read.read_buf(self.incoming.room()).await {
                    Ok(0) | Err(_) => return None,
                    Ok(_) => continue,
                }
            };
            if line.len() > SMALL_BODY {
                let line = Bytes::copy_from_slice(line);
                self.reading = Some(tokio::task::spawn_blocking(move || large(line)));
                continue;
            }
            let read = if line.len() > SMALL_MESSAGE {
                large(Bytes::copy_from_slice(line))
            } else {
                match Extent::of(line) {
                    Ok(_) => message(line),
                    Err(why) => Err(too_large(line, &why.into())),
                }
            };
            if let Some(message) = told(&self.write, read).await? {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        drop(self.write.lock().await.take());
        Ok(())
    }
}

#[expect(
    clippy::await_holding_invalid_type,
    reason = "no deed is done here: what is held is the pipe, for one whole line, so that no two mingle"
)]
async fn put<W: AsyncWrite + Unpin>(write: &Mutex<Option<W>>, line: &[u8]) -> io::Result<()> {
    let mut write = write.lock().await;
    let write = write
        .as_mut()
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotConnected, "the wire is closed"))?;
    write.write_all(line).await?;
    write.flush().await
}

/// What was read, where it is a message; what is none is answered. Nothing at all
/// where nobody hears that.
async fn told<W: AsyncWrite + Unpin>(
    write: &Mutex<Option<W>>,
    read: Result<Option<Received>, NoMessage>,
) -> Option<Option<Received>> {
    match read {
        Ok(message) => Some(message),
        Err(NoMessage { error, id }) => {
            let reply = written::line(&JsonRpcMessage::error(error, id)).ok()?;
            put(write, &reply).await.ok()?;
            Some(None)
        }
    }
}

/// What was read and is not yet taken.
#[derive(Default)]
struct Incoming {
    bytes: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// Up to where no line ends.
    searched: usize,
    /// Whether a line that was too long has not ended yet.
    dropping: bool,
}

impl Incoming {
    /// The next whole line, if there is one, without what ends it.
    fn next_line(&mut self) -> Option<&[u8]> {
        while let Some(length) = self
            .bytes
            .get(self.searched..)
            .and_then(|rest| rest.iter().position(|byte| *byte == b'\n'))
        {
            let (start, end) = (self.start, self.searched + length);
            self.start = end + 1;
            self.searched = self.start;
            if !std::mem::take(&mut self.dropping) && end - start < MAX_LINE {
                return self.bytes.get(start..end);
            }
        }
        self.searched = self.bytes.len();
        if self.searched - self.start >= MAX_LINE {
            self.dropping = true;
        }
        None
    }

    /// Room to read into, behind what is not taken yet.
    fn room(&mut self) -> &mut Vec<u8> {
        if self.dropping {
            self.start = self.bytes.len();
        }
        self.bytes.drain(..self.start);
        self.start = 0;
        self.searched = self.bytes.len();
        if self.bytes.is_empty() {
            self.bytes.shrink_to(KEEP);
        }
        self.bytes.reserve(READ);
        &mut self.bytes
    }
}

/// JSON that is no message of the protocol, or more than is read.
struct NoMessage {
    error: ErrorData,
    /// The request it would have been.
    id: Option<RequestId>,
}

/// What is looked at of a message that is not read.
#[derive(Deserialize)]
struct Unread<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow, rename = "method")]
    _method: &'a RawValue,
}

/// The longest id a refusal repeats.
const MAX_ID: usize = 1024;

/// A call as nearly every client writes it. Anything else in it, and it is not
/// read here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call<'a> {
    jsonrpc: &'a str,
    id: RequestId,
    method: &'a str,
    #[serde(borrow)]
    params: &'a RawValue,
}

/// Reads a line. Nothing where it is to be passed over: empty, no JSON, or a
/// notification of another protocol.
fn message(line: &[u8]) -> Result<Option<Received>, NoMessage> {
    if let Some(call) = call(line) {
        return Ok(Some(call));
    }
    if matches!(line, b"" | b"\r") {
        return Ok(None);
    }
    let mut framed = BytesMut::with_capacity(line.len() + 1);
    framed.extend_from_slice(line);
    framed.extend_from_slice(b"\n");
    match JsonRpcMessageCodec::<Received>::new().decode(&mut framed) {
        Ok(message) => Ok(message),
        Err(JsonRpcMessageCodecError::Serde(error)) if error.classify() == Category::Data => {
            let error = ErrorData::invalid_request("Invalid request", None);
            Err(NoMessage { error, id: None })
        }
        // To answer what is no JSON could echo back and forth for ever.
        Err(_) => Ok(None),
    }
}

/// Reads a line that is not small: what may be large in it by itself.
fn large(line: Bytes) -> Result<Option<Received>, NoMessage> {
    let counted = Extent::of(&line).map_err(Failure::from);
    let whole = line.clone();
    let Opened { rest, arguments } = counted
        .and_then(|_| envelope::open(line))
        .map_err(|why| too_large(&whole, &why))?;
    drop(whole);
    let mut read = message(&rest)?;
    if let Some(JsonRpcMessage::Request(request)) = &mut read
        && let ClientRequest::CallToolRequest(call) = &mut request.request
        && arguments.is_some()
    {
        call.params.arguments = arguments;
    }
    Ok(read)
}

fn too_large(line: &[u8], why: &Failure) -> NoMessage {
    // Its id alone, where that is short: what is refused is not built for it.
    let request = serde_json::from_slice::<Unread<'_>>(line).ok();
    let id = request
        .map(|request| request.id.get().as_bytes())
        .filter(|id| id.len() <= MAX_ID)
        .and_then(|id| read_json::<RequestId>(id).ok());
    let data = json!({
        "errorKind": why.kind().as_str(),
        "reason": why.reason().as_str(),
        "hint": why.next_step(),
        "status": why.kind().status(),
    });
    NoMessage {
        error: ErrorData::invalid_request(why.message().to_owned(), Some(data)),
        id,
    }
}

/// Reads a line that is plainly a tool call.
fn call(line: &[u8]) -> Option<Received> {
    let call: Call<'_> = serde_json::from_slice(line).ok()?;
    if call.jsonrpc != "2.0" || call.method != "tools/call" {
        return None;
    }
    let mut params: CallToolRequestParams = serde_json::from_str(call.params.get()).ok()?;
    // rmcp keeps what is about the request beside it, not in it.
    let meta = params.meta.take();
    let mut request = CallToolRequest::new(params);
    if let Some(meta) = meta {
        request.extensions.insert(meta);
    }
    Some(JsonRpcMessage::request(
        ClientRequest::CallToolRequest(request),
        call.id,
    ))
}

#[cfg(test)]
mod tests;
