//! Where JSON is counted and parsed: what is large, off the reactor, because everybody
//! else would wait behind it.

use portcullis_proto::{Failure, Reason};

use crate::http::SMALL_BODY;

/// Works on so many bytes.
pub(crate) async fn off_the_reactor<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    if bytes <= SMALL_BODY {
        return Ok(work());
    }
    let working = tokio::task::spawn_blocking(work).await;
    working.map_err(|error| Failure::from(Reason::Bug).detail(error))
}
