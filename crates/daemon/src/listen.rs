//! Hears what the server wants, over a stream or, where none gets through, by
//! asking again and again.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use portcullis_gate::Clock;
use portcullis_link::{Event, Frame, Frames, Wrapped, bounds, paths};
use portcullis_proto::{Unread, read_json};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep_until, timeout};

use crate::age::{self, Age};
use crate::calls::Calls;
use crate::http::{Ask, Http, Streaming};

/// An event up to this size is read where it is heard.
const SMALL: usize = 64 * 1024;
/// What stays of a look's patience for the way there and back.
const POLL_MARGIN: Duration = Duration::from_secs(10);
/// The most that is read of what a look brings: events as large as a stream's,
/// and what is around them.
const MAX_LOOK: usize = bounds::MAX_MESSAGE + 64 * 1024;
/// How long it takes from one look to the next at least, where the first brought
/// something and where it did not.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Why nothing more is heard.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The stream ended, or fell silent after something was heard.
    Broken(&'static str),
    /// Nothing was heard at all: something on the way may hold it back.
    Mute,
    /// The server said that the session is over.
    Disconnected,
    /// Another daemon stands for this machine now.
    Replaced(String),
    /// The server does not know us any more.
    Refused(StatusCode),
}

/// What was heard last.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// The last event's id, for `Last-Event-ID`.
    pub(crate) last: Option<u64>,
    /// Whether this stream brought anything.
    pub(crate) anything: bool,
    /// Whether it brought a call.
    pub(crate) call: bool,
}

/// Hears a stream to its end, which was asked for when `age` began.
pub(crate) async fn listen(
    mut stream: Streaming,
    calls: &Arc<Calls>,
    heard: &mut Heard,
    (clock, mut age): (&dyn Clock, Age),
) -> Over {
    let mut frames = Frames::default();
    heard.anything = false;
    loop {
        let bytes = match timeout(bounds::SILENCE, stream.next()).await {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Over::Broken("the stream ended"),
            Err(_) if heard.anything => return Over::Broken("the stream fell silent"),
            Err(_) => return Over::Mute,
        };
        let Some(late) = age.heard(clock.now_ms()) else {
            // Who sent it may have given it up long ago; what still counts is sent
            // again, or told to be too late, where it is asked for anew.
            return Over::Broken("what came may be too old");
        };
        let at = Instant::now();
        heard.anything = true;
        let mut came = Vec::new();
        let taken = frames.take(&bytes, |frame| came.push(frame));
        for frame in came {
            match frame {
                Frame::Comment => {}
                Frame::Event { id, data } => {
                    heard.last = id.or(heard.last);
                    match understood(data).await {
                        Ok(event) => {
                            heard.call |= matches!(event, Event::FilesystemRequest(_));
                            let when = age::Heard { at, late };
                            if let Some(over) = take(calls, event, when).await {
                                return over;
                            }
                        }
                        Err(why) => calls.ignore(why),
                    }
                }
            }
        }
        if taken.is_err() {
            calls.ignore("an event that is too large");
            return Over::Broken("an event was too large");
        }
    }
}

/// An event, of JSON that is counted first. A large one is read off the reactor,
/// because calls under way would wait behind it.
async fn understood(data: String) -> Result<Event, &'static str> {
    let read = |data: String| match read_json(data.as_bytes()) {
        Ok(event) => Ok(event),
        Err(Unread::TooMuch(_)) => Err("an event that holds too many values"),
        Err(Unread::Misfit(_)) => Err("an event that is none"),
    };
    if data.len() <= SMALL {
        return read(data);
    }
    let reading = tokio::task::spawn_blocking(move || read(data)).await;
    reading.unwrap_or(Err("an event that is none"))
}

/// Takes one event in; why nothing more is heard, where it says so.
async fn take(calls: &Arc<Calls>, event: Event, when: age::Heard) -> Option<Over> {
    match event {
        Event::FilesystemRequest(request) => {
            let place = calls.place().await?;
            calls.take(request, when, place);
        }
        Event::Cancel { request_id } if calls.is_ours() => calls.cancel(&request_id),
        Event::Replaced { by } if calls.is_ours() => return Some(Over::Replaced(by)),
        Event::GatewayDisconnect => return Some(Over::Disconnected),
        Event::Cancel { .. } | Event::Replaced { .. } => {
            calls.ignore("an event this server's dialect does not have");
        }
    }
    None
}

/// What a look for events brings.
#[derive(Deserialize)]
struct Looked<'a> {
    #[serde(borrow)]
    events: Vec<Numbered<'a>>,
}

#[derive(Deserialize)]
struct Numbered<'a> {
    /// What is no call has none.
    id: Option<u64>,
    /// Not read yet: each is counted by itself.
    #[serde(borrow)]
    event: &'a RawValue,
}

/// Looks for events until the server does not answer any more.
pub(crate) async fn poll(
    http: &Http,
    calls: &Arc<Calls>,
    heard: &mut Heard,
    clock: &dyn Clock,
) -> Over {
    heard.anything = false;
    loop {
        let path = format!("{}?after={}", paths::POLL, heard.last.unwrap_or(0));
        let mut ask = Ask::get(&path);
        ask.most = MAX_LOOK;
        let (began, mut age) = (Instant::now(), Age::since(clock.now_ms()));
        let answer = http.send_within(&ask, bounds::POLL + POLL_MARGIN).await;
        let body = match answer {
            Ok((StatusCode::OK, body)) => body,
            Ok((status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN), _)) => {
                return Over::Refused(status);
            }
            Ok(_) | Err(_) => return Over::Broken("the server does not answer"),
        };
        if age.heard(clock.now_ms()).is_none() {
            // The machine slept on it: another look brings what still counts.
            continue;
        }
        let when = age::Heard::now();
        let Ok(looked) = serde_json::from_slice::<Wrapped<Looked<'_>>>(&body) else {
            return Over::Broken("the server's events cannot be read");
        };
        heard.anything = true;
        let brought = !looked.data.events.is_empty();
        for one in looked.data.events {
            heard.last = one.id.or(heard.last);
            match understood(one.event.get().to_owned()).await {
                Ok(event) => {
                    if let Some(over) = take(calls, event, when).await {
                        return over;
                    }
                }
                Err(why) => calls.ignore(why),
            }
        }
        let (after_some, after_none) = PAUSE;
        sleep_until(began + if brought { after_some } else { after_none }).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_event_of_too_many_values_is_passed_over_before_it_is_built() {
        let call = |items: &str| {
            let list = items.repeat(200_000);
            format!(
                r#"{{"type":"filesystem-request","payload":{{"requestId":"r","toolCall":{{"name":"stat","arguments":{{"x":[{list}0]}}}}}}}}"#
            )
        };
        let many = understood(call("0,")).await;
        assert_eq!(many, Err("an event that holds too many values"));
        let long = understood(call("x").replace("[x", "[\"x").replace("x0]", "x\"]")).await;
        assert!(matches!(long, Ok(Event::FilesystemRequest(_))), "{long:?}");
        assert_eq!(understood("{}".into()).await, Err("an event that is none"));
    }
}
