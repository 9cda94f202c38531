//! A file as it is, whole or a range of it.

use std::convert::Infallible;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_RANGE, CONTENT_TYPE, ETAG, RANGE};
use http::{HeaderValue, Response, StatusCode};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use portcullis_gate::{Caller, CancelFlag};
use portcullis_proto::{Failure, Reason};
use portcullis_tools::{Machine, RawBytes};
use tokio::sync::mpsc;

use super::super::reply::{Reply, empty, guarded};
use super::Errand;
use super::files::PathQuery;

/// How much is read at once. Each window is judged and recorded by itself.
const WINDOW: usize = 1024 * 1024;

/// Until the times of a file that has just changed tell the next change.
const SETTLES: Duration = Duration::from_millis(25);

pub(super) async fn download(errand: &mut Errand) -> Reply {
    let path = match PathQuery::path(errand) {
        Ok(path) => path,
        Err(why) => return errand.refuse(why),
    };
    errand.caller = match errand.caller().await {
        Ok(caller) => caller,
        Err(why) => return errand.refuse(why),
    };
    let asked = errand.asked.head.headers.get(RANGE);
    let asked = asked
        .and_then(|range| range.to_str().ok())
        .map(Asked::parse);
    // From an end that is not known yet, the first look is for the size alone.
    let start = match asked {
        Some(Some(Asked::From(start, _))) => start,
        Some(Some(Asked::Last(_)) | None) | None => 0,
    };
    let first = match first_window(errand, &path, start).await {
        Ok(first) => first,
        Err(why) => return errand.failed(&why),
    };
    let range = match asked {
        // A range that says nothing known is no range.
        None | Some(None) => 0..first.size,
        Some(Some(asked)) => {
            let Some(range) = asked.of(first.size) else {
                let why = Failure::new(Reason::BadArguments, "The range is not in the file.");
                drop(errand.refuse(why));
                return unsatisfiable(first.size);
            };
            range
        }
    };
    let is_part = matches!(asked, Some(Some(_)));
    let sending = Sending {
        machine: Arc::clone(&errand.machine),
        caller: errand.caller.clone().cancelled_by(CancelFlag::new()),
        root: errand.root().map(str::to_owned),
        path,
        version: first.version.clone(),
    };
    let ready = (range.start == start).then_some(first.bytes);
    let mut reply = Response::new(sending.body(range.clone(), ready));
    if is_part {
        *reply.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    let headers = reply.headers_mut();
    guarded(headers);
    // Never as a page of ours: whatever it holds, it is to be saved.
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Ok(etag) = HeaderValue::from_str(&format!("\"{}\"", first.version)) {
        headers.insert(ETAG, etag);
    }
    if is_part {
        let last = range.end.saturating_sub(1);
        let said = format!("bytes {}-{last}/{}", range.start, first.size);
        if let Ok(said) = HeaderValue::from_str(&said) {
            headers.insert(CONTENT_RANGE, said);
        }
    }
    reply
}

/// The windows of one transfer have to be of one version. Where more than one
/// will come, the first is of a version that stays as it is.
async fn first_window(errand: &Errand, path: &str, start: u64) -> Result<RawBytes, Failure> {
    let look = || {
        errand
            .machine
            .raw(&errand.caller, errand.root(), path, (start, WINDOW))
    };
    let first = look().await?;
    let is_all = first.bytes.len() as u64 == first.size;
    if is_all || !first.is_fresh {
        return Ok(first);
    }
    tokio::time::sleep(SETTLES).await;
    look().await
}

fn unsatisfiable(size: u64) -> Reply {
    let mut reply = empty(StatusCode::RANGE_NOT_SATISFIABLE);
    if let Ok(said) = HeaderValue::from_str(&format!("bytes */{size}")) {
        reply.headers_mut().insert(CONTENT_RANGE, said);
    }
    reply
}

/// A range as a client asks for it: one, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// From here, to this byte where one is named.
    From(u64, Option<u64>),
    /// The last so many.
    Last(u64),
}

impl Asked {
    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse::<u64>().ok()).flatten()
        };
        match (first.trim(), last.trim()) {
            ("", last) => number(last).map(Self::Last),
            (first, "") => number(first).map(|first| Self::From(first, None)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::From(first, Some(last)))
            }
        }
    }

    fn of(self, size: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::From(start, end) => {
                start..end.map_or(size, |end| end.saturating_add(1).min(size))
            }
            Self::Last(count) => size.saturating_sub(count)..size,
        };
        (range.start < range.end).then_some(range)
    }
}

/// A file on its way out.
struct Sending {
    machine: Arc<dyn Machine>,
    caller: Caller,
    root: Option<String>,
    path: String,
    version: String,
}

impl Sending {
    /// The bytes of `range`, the first of which may be here already.
    fn body(self, range: Range<u64>, ready: Option<Vec<u8>>) -> super::super::reply::Body {
        let length = range.end - range.start;
        let fit = |mut bytes: Vec<u8>| {
            bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
            Bytes::from(bytes)
        };
        let first = ready.map(fit);
        let have = first.as_ref().map_or(0, |first| first.len() as u64);
        if have == length {
            return http_body_util::Full::new(first.unwrap_or_default()).boxed();
        }
        let (send, receive) = mpsc::channel(2);
        tokio::spawn(self.send(range.start + have..range.end, first, send));
        Windows {
            receive,
            left: length,
        }
        .boxed()
    }

    /// A file that changes on the way, or may not be read any more, ends the
    /// transfer short of what was promised: the client sees that it is broken.
    async fn send(self, mut rest: Range<u64>, first: Option<Bytes>, send: mpsc::Sender<Bytes>) {
        if let Some(first) = first
            && send.send(first).await.is_err()
        {
            return;
        }
        while rest.start < rest.end {
            let wanted = usize::try_from(rest.end - rest.start)
                .unwrap_or(WINDOW)
                .min(WINDOW);
            let window = self
                .machine
                .raw(
                    &self.caller,
                    self.root.as_deref(),
                    &self.path,
                    (rest.start, wanted),
                )
                .await;
            let Ok(window) = window else { return };
            if window.version != self.version || window.bytes.is_empty() {
                return;
            }
            rest.start += window.bytes.len() as u64;
            if send.send(Bytes::from(window.bytes)).await.is_err() {
                return;
            }
        }
    }
}

/// A body of a known length that comes window by window.
struct Windows {
    receive: mpsc::Receiver<Bytes>,
    left: u64,
}

impl http_body::Body for Windows {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.receive.poll_recv(cx).map(|bytes| {
            let bytes = bytes?;
            self.left = self.left.saturating_sub(bytes.len() as u64);
            Some(Ok(Frame::data(bytes)))
        })
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, size: u64, want: Option<Range<u64>>) {
        let got = Asked::parse(text).and_then(|asked| asked.of(size));
        assert_eq!(got, want, "{text} of {size}");
    }

    #[test]
    fn a_range_is_one_range_of_bytes() {
        check("bytes=0-3", 10, Some(0..4));
        check("bytes=4-", 10, Some(4..10));
        check("bytes=-3", 10, Some(7..10));
        check("bytes=-30", 10, Some(0..10));
        check("bytes=5-99", 10, Some(5..10));
        check("bytes=10-", 10, None);
        check("bytes=-0", 10, None);
        check("bytes=3-1", 10, None);
        check("bytes=0-1,3-4", 10, None);
        check("lines=0-1", 10, None);
        check("bytes=a-b", 10, None);
        check("bytes=0-18446744073709551615", 10, Some(0..10));
    }
}
