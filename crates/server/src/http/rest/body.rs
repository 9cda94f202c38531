//! The body of a request: of the right type, bounded in size and in time.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use portcullis_proto::{Extent, Failure, Reason, misfit};
use serde::de::{DeserializeOwned, IgnoredAny};

use super::super::guard::media_type;
use super::super::limits::{BODY_PATIENCE, MAX_JSON};
use super::super::reply::{self, Reply};
use super::super::server::Asked;
use super::super::shares;
use super::Errand;
use crate::parsing::off_the_reactor;

/// How much of a body that is too large is read and let go.
const MAX_HEARD_OUT: usize = 64 * 1024 * 1024;
/// For how long.
const HEARD_OUT_FOR: Duration = Duration::from_secs(10);

/// Why there is no body to work with.
pub(crate) enum NoBody {
    /// More than was allowed.
    TooLarge,
    /// It did not come in time, or the peer broke off.
    Lost,
}

/// Reads at most `most` bytes.
pub(crate) async fn read(body: Option<Incoming>, most: usize) -> Result<Vec<u8>, NoBody> {
    let Some(body) = body else {
        return Ok(Vec::new());
    };
    let expected = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if expected > most {
        hear_out(body);
        return Err(NoBody::TooLarge);
    }
    let reading = async {
        let (mut body, mut bytes) = (body, Vec::with_capacity(expected));
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                return Err(NoBody::Lost);
            };
            // Trailers say nothing here.
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if bytes.len() + data.len() > most {
                hear_out(body);
                return Err(NoBody::TooLarge);
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes)
    };
    tokio::time::timeout(BODY_PATIENCE, reading)
        .await
        .unwrap_or(Err(NoBody::Lost))
}

/// How long a body may turn out to be; what says no length may be of any.
fn longest(body: Option<&Incoming>, most: usize) -> usize {
    let said = body.map_or(Some(0), |body| body.size_hint().upper());
    said.map_or(most, |said| usize::try_from(said).unwrap_or(most).min(most))
}

/// Reads on beside the answer, as far as that is bearable: a client that is cut
/// off while it sends does not hear why.
fn hear_out(mut body: Incoming) {
    tokio::spawn(tokio::time::timeout(HEARD_OUT_FOR, async move {
        let mut left = MAX_HEARD_OUT;
        while let Some(Ok(frame)) = body.frame().await {
            let data = frame.into_data().map_or(0, |data| data.len());
            let Some(rest) = left.checked_sub(data) else {
                return;
            };
            left = rest;
        }
    }));
}

/// The body of a request at the desk.
pub(crate) async fn json_body<T: DeserializeOwned>(asked: &mut Asked) -> Result<T, Reply> {
    let body = asked.body.take();
    json_of(&asked.head.headers, body).await
}

/// A body as `T`, from JSON, where there is no caller to put on the record.
pub(crate) async fn json_of<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: Option<Incoming>,
) -> Result<T, Reply> {
    let bad = |what: String| reply::failure(&Failure::new(Reason::BadArguments, what));
    if media_type(headers).as_deref() != Some("application/json") {
        return Err(bad(
            "The body is not said to be JSON: send it with Content-Type: application/json."
                .to_owned(),
        ));
    }
    let bytes = read(body, MAX_SMALL).await.map_err(|why| match why {
        NoBody::TooLarge => reply::failure(&Reason::TooLarge.into()),
        NoBody::Lost => lost(),
    })?;
    // An object and nothing else: a list would be taken for its fields in order.
    Extent::of(&bytes).map_err(|why| reply::failure(&why.into()))?;
    let fits = serde_json::from_slice(&bytes).and_then(|object: serde_json::Map<_, _>| {
        serde_json::from_value(serde_json::Value::Object(object))
    });
    fits.map_err(|error| {
        bad(format!(
            "The body does not fit the route: {}.",
            misfit(&error)
        ))
    })
}

/// The largest body at the desk.
const MAX_SMALL: usize = 64 * 1024;

/// The body as `T`, from JSON. A form can send no JSON, so no page can send a
/// change without asking first.
pub(super) async fn json<T: DeserializeOwned + Send + 'static>(
    errand: &mut Errand,
) -> Result<T, Reply> {
    if media_type(&errand.asked.head.headers).as_deref() != Some("application/json") {
        return Err(errand.refuse(
            Failure::new(Reason::BadArguments, "The body is not said to be JSON.")
                .hint("Send it with Content-Type: application/json."),
        ));
    }
    let body = errand.asked.body.take();
    let bodies = &errand.server.shares.bodies;
    match bodies
        .room(
            &errand.asked.identity.principal,
            longest(body.as_ref(), MAX_JSON),
        )
        .await
    {
        Ok(room) => errand.room = room,
        Err(why) => {
            if let Some(body) = body {
                hear_out(body);
            }
            drop(errand.refuse(why.clone()));
            return Err(shares::over(&why));
        }
    }
    let bytes = match read(body, MAX_JSON).await {
        Ok(bytes) => bytes,
        Err(NoBody::TooLarge) => {
            drop(errand.refuse(Reason::TooLarge.into()));
            return Err(reply::refused(
                StatusCode::PAYLOAD_TOO_LARGE,
                "Request body too large (max 10 MB)",
                None,
            ));
        }
        Err(NoBody::Lost) => return Err(lost()),
    };
    errand.room.shrink(bytes.len());
    // Counted first: as values it could take many times its own room.
    let bytes = Bytes::from(bytes);
    let counted = bytes.clone();
    let counted = off_the_reactor(bytes.len(), move || Extent::of(&counted)).await;
    let extent = match counted.and_then(|extent| Ok(extent?)) {
        Ok(extent) => extent,
        Err(why) => return Err(errand.refuse(why)),
    };
    let principal = &errand.asked.identity.principal;
    let values = &errand.server.shares.values;
    match values.room(principal, extent.weight).await {
        Ok(room) => errand.room = std::mem::take(&mut errand.room).and(room),
        Err(why) => {
            drop(errand.refuse(why.clone()));
            return Err(shares::over(&why));
        }
    }
    let parsed = off_the_reactor(bytes.len(), move || parsed(&bytes)).await;
    match parsed {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(why)) if why.reason() == Reason::BadJson => {
            drop(errand.refuse(why));
            Err(reply::refused(
                StatusCode::BAD_REQUEST,
                "Invalid JSON in request body",
                None,
            ))
        }
        Ok(Err(why)) | Err(why) => Err(errand.refuse(why)),
    }
}

/// A body as `T`: an object and nothing else, since a list would be taken for its
/// fields in order.
fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    if serde_json::from_slice::<IgnoredAny>(bytes).is_err() {
        return Err(Reason::BadJson.into());
    }
    let bad = |what: String| Failure::new(Reason::BadArguments, what);
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(bad("The body is not a JSON object.".to_owned()));
    }
    serde_json::from_slice(bytes).map_err(|error| {
        bad(format!(
            "The body does not fit the route: {}.",
            misfit(&error)
        ))
    })
}

/// The body did not come.
pub(crate) fn lost() -> Reply {
    reply::refused(
        StatusCode::REQUEST_TIMEOUT,
        "The body did not come in time.",
        Some("request_timeout"),
    )
}
