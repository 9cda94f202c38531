//! One machine that is linked: its stream, and the calls that wait for it.
//!
//! The record of the machine is the store's. What is here lasts as long as its
//! daemon is there, and a little longer: a stream that breaks is waited for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portcullis_gate::{Headway, Progress};
use portcullis_link::{Chunk, Dialect, Event, Gathered, bounds};
use portcullis_proto::{Failure, Reason};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::result::Returned;
use super::seed::Tree;
use super::surface::Offer;

/// What a machine is, as its daemon said last.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) root: String,
    pub(crate) dialect: Dialect,
    pub(crate) offer: Arc<Offer>,
    /// What the seed's dialect uploads.
    pub(crate) tree: Tree,
    /// When it was linked, in milliseconds since 1970.
    pub(crate) since_ms: u64,
    /// The how manyth link of this server it is: the newest comes first.
    pub(crate) number: u64,
    /// Whether the store has a key of its own for it.
    pub(crate) keyed: bool,
}

/// One event on its way to a daemon.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) id: Option<u64>,
    /// Its JSON, on one line.
    pub(crate) data: Arc<str>,
}

impl Outgoing {
    pub(crate) fn of(id: Option<u64>, event: &Event) -> Self {
        let data = serde_json::to_string(event).unwrap_or_default();
        Self {
            id,
            data: data.into(),
        }
    }
}

/// A machine that is linked, or was a moment ago.
pub(crate) struct Link {
    /// The machine's id.
    pub(crate) id: Arc<str>,
    /// Whose it is.
    pub(crate) user: Arc<str>,
    state: Mutex<State>,
}

struct State {
    about: Arc<About>,
    stream: Option<Stream>,
    /// The how manyth stream the next one is.
    streams: u64,
    /// Since when nobody listens.
    quiet_since: Option<Instant>,
    pending: HashMap<String, Pending>,
    ended: bool,
}

struct Stream {
    number: u64,
    send: mpsc::Sender<Outgoing>,
}

/// A call that waits for its reply.
struct Pending {
    give: oneshot::Sender<Result<Returned, Failure>>,
    /// Its event, while it could not be sent.
    unsent: Option<Outgoing>,
    gathered: Gathered,
    progress: Option<Progress>,
}

/// What became of a reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Its caller has it.
    Given,
    /// More of it is to come.
    More,
    /// No call waits for it.
    Nobody,
    /// It is none, and the call waits on.
    Bad(String),
}

/// Where a daemon hears what is asked of it.
pub(crate) struct Listening {
    /// Which stream of its link it is.
    pub(crate) number: u64,
    pub(crate) receive: mpsc::Receiver<Outgoing>,
    pub(crate) dialect: Dialect,
}

impl Link {
    pub(crate) fn new(id: &str, user: &str, about: About) -> Self {
        Self {
            id: id.into(),
            user: user.into(),
            state: Mutex::new(State {
                about: Arc::new(about),
                stream: None,
                streams: 0,
                quiet_since: Some(Instant::now()),
                pending: HashMap::new(),
                ended: false,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What its daemon said last.
    pub(crate) fn about(&self) -> Arc<About> {
        Arc::clone(&self.state().about)
    }

    /// Whether it counts as linked: somebody listens, or did a moment ago.
    pub(crate) fn is_live(&self) -> bool {
        let state = self.state();
        let quiet = state.quiet_since.map(|since| since.elapsed());
        !state.ended && quiet.is_none_or(|quiet| quiet < bounds::GRACE)
    }

    /// Whether nothing is left of it: nobody listens, and no call waits.
    pub(crate) fn is_spent(&self) -> bool {
        !self.is_live() && self.state().pending.is_empty()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state().ended
    }

    /// Its daemon introduced itself anew: calls it knows of go on waiting. What
    /// still listens hears nothing more, and is waited for.
    ///
    /// It stays the how manyth it was: who introduces itself again must not come
    /// before the machine an agent works with.
    pub(crate) fn renew(&self, mut about: About) {
        let mut state = self.state();
        about.number = state.about.number;
        state.about = Arc::new(about);
        state.stream = None;
        state.quiet_since = Some(Instant::now());
    }

    /// Somebody listens from now on, in the place of who did before. What could
    /// not be sent yet is told first.
    pub(crate) fn listen(&self) -> Option<Listening> {
        let mut state = self.state();
        if state.ended {
            return None;
        }
        let (send, receive) = mpsc::channel(bounds::MAX_QUEUED);
        state.streams += 1;
        let number = state.streams;
        for pending in state.pending.values_mut() {
            if let Some(event) = pending.unsent.take() {
                // There is room: fewer calls wait than events may.
                let _told = send.try_send(event);
            }
        }
        state.stream = Some(Stream { number, send });
        state.quiet_since = None;
        Some(Listening {
            number,
            receive,
            dialect: state.about.dialect,
        })
    }

    /// Somebody who listened before the machine was known does so from now on;
    /// which stream that is.
    pub(crate) fn adopt(&self, send: mpsc::Sender<Outgoing>) -> u64 {
        let mut state = self.state();
        state.streams += 1;
        let number = state.streams;
        state.stream = Some(Stream { number, send });
        state.quiet_since = None;
        number
    }

    /// Who listened as `number` does no more; whether nobody does now.
    pub(crate) fn unlisten(&self, number: u64) -> bool {
        let mut state = self.state();
        let current = state
            .stream
            .as_ref()
            .is_some_and(|one| one.number == number);
        if current {
            state.stream = None;
            state.quiet_since = Some(Instant::now());
        }
        current
    }

    /// Tells whoever listens; whether it was put where it is read. A reader that
    /// falls behind is let go.
    pub(crate) fn tell(&self, event: Outgoing) -> bool {
        self.state().tell(event)
    }

    /// A call is about to be sent under `request`: where its reply will be. The
    /// link is over, or too many wait already: nothing is to be sent.
    pub(crate) fn expect(
        &self,
        request: &str,
        progress: Option<Progress>,
    ) -> Result<oneshot::Receiver<Result<Returned, Failure>>, Failure> {
        let mut state = self.state();
        if state.ended {
            return Err(lost());
        }
        if state.pending.len() >= bounds::MAX_PENDING {
            return Err(Failure::new(
                Reason::Overload,
                format!(
                    "{} calls wait for the machine already. Nothing was sent.",
                    bounds::MAX_PENDING
                ),
            )
            .hint("Wait for some of them, and call again."));
        }
        let (give, given) = oneshot::channel();
        let pending = Pending {
            give,
            unsent: None,
            gathered: Gathered::default(),
            progress,
        };
        state.pending.insert(request.to_owned(), pending);
        Ok(given)
    }

    /// Sends the event of an expected call. Where nobody listens it waits until
    /// somebody does; in our own dialect what waits is sent from the journal.
    pub(crate) fn send(&self, request: &str, event: Outgoing) {
        let mut state = self.state();
        let again = state.about.dialect.is_ours();
        if !state.tell(event.clone())
            && !again
            && let Some(pending) = state.pending.get_mut(request)
        {
            pending.unsent = Some(event);
        }
    }

    /// Whether a call waits under `request`.
    pub(crate) fn awaits(&self, request: &str) -> bool {
        self.state().pending.contains_key(request)
    }

    /// Nobody waits for `request` any more; whether somebody did.
    pub(crate) fn give_up(&self, request: &str) -> bool {
        self.state().pending.remove(request).is_some()
    }

    /// Takes a reply to `request`.
    pub(crate) fn take(&self, request: &str, reply: Result<Returned, Failure>) -> Taken {
        match self.state().pending.remove(request) {
            Some(pending) => {
                // Who gave up in this very moment is told nothing.
                let _gone = pending.give.send(reply);
                Taken::Given
            }
            None => Taken::Nobody,
        }
    }

    /// Takes a piece of a reply; the whole text, when it was the last.
    pub(crate) fn gather(&self, request: &str, chunk: &Chunk) -> Result<Option<String>, Taken> {
        let mut state = self.state();
        if !state.about.dialect.is_ours() {
            return Err(Taken::Bad("The dialect knows no pieces.".to_owned()));
        }
        let held: usize = state.pending.values().map(|one| one.gathered.held()).sum();
        let Some(pending) = state.pending.get_mut(request) else {
            return Err(Taken::Nobody);
        };
        if held + chunk.text.len() > MAX_GATHERED {
            return Err(Taken::Bad("Too many pieces are held already.".to_owned()));
        }
        let added = pending.gathered.add(chunk);
        added.map_err(|bad| Taken::Bad(format!("{bad}.")))
    }

    /// Tells a caller how far its call is; whether there is one.
    pub(crate) fn further(&self, request: &str, headway: Headway) -> bool {
        let state = self.state();
        let Some(pending) = state.pending.get(request) else {
            return false;
        };
        let progress = pending.progress.clone();
        drop(state);
        if let Some(progress) = progress {
            progress(headway);
        }
        true
    }

    /// Ends it for good: whoever listens is told `last`, and every call that
    /// waits fails at once.
    pub(crate) fn end(&self, last: Option<&Event>) -> Vec<String> {
        let mut state = self.state();
        state.ended = true;
        if let Some(event) = last {
            state.tell(Outgoing::of(None, event));
        }
        state.stream = None;
        state.quiet_since = Some(Instant::now());
        let pending = std::mem::take(&mut state.pending);
        drop(state);
        let mut ended = Vec::new();
        for (request, pending) in pending {
            let _gone = pending.give.send(Err(lost()));
            ended.push(request);
        }
        ended
    }

    /// Lets go of whoever listens, without a word: the server ends, and the
    /// daemon comes back.
    pub(crate) fn hang_up(&self) {
        self.state().stream = None;
    }
}

impl State {
    fn tell(&mut self, event: Outgoing) -> bool {
        let Some(stream) = &self.stream else {
            return false;
        };
        if stream.send.try_send(event).is_ok() {
            return true;
        }
        self.stream = None;
        self.quiet_since = Some(Instant::now());
        false
    }
}

/// Bytes of pieces of one machine's replies that are held at once.
const MAX_GATHERED: usize = 4 * bounds::MAX_MESSAGE;

/// The link is gone, and with it whatever was asked.
pub(crate) fn lost() -> Failure {
    Failure::from(Reason::LinkLost).hint(
        "Look at what is there before doing it again; connect the machine anew if it stays away.",
    )
}

/// The failure of a call that took too long.
pub(crate) fn too_late() -> Failure {
    Failure::new(
        Reason::Deadline,
        "The machine did not answer in time; whether it was done is not known.",
    )
    .hint("Look at what is there before doing it again.")
}

/// What an error text of a daemon comes to.
pub(crate) fn said(error: &str) -> Failure {
    let end = error.floor_char_boundary(MAX_SAID);
    let error = error.get(..end).unwrap_or_default();
    Failure::new(Reason::Io, format!("The machine could not do it: {error}"))
}

/// How much of what a daemon says went wrong is repeated, in bytes.
const MAX_SAID: usize = 4_096;

/// A value that is an object, for arguments that have to be one.
pub(crate) fn object(value: Value) -> serde_json::Map<String, Value> {
    match value {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            serde_json::Map::new()
        }
    }
}
