//! One machine that is linked: its stream, and the calls that wait for it.
//!
//! The record of the machine is the store's. What is here lasts as long as its
//! daemon is there, and a little longer: a stream that breaks is waited for.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_gate::{Headway, Progress};
use portcullis_link::{Chunk, Dialect, Event, Gathered, bounds};
use portcullis_proto::{Failure, Reason};
use portcullis_store::WaitingCall;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::about::About;
use super::failing::{away, lost};
use super::looks::Looks;
use super::queue::{Hearing, Outgoing, Teller, queue};
use super::result::Returned;
use crate::http::Pace;

/// A machine that is linked, or was a moment ago.
pub(crate) struct Link {
    /// The machine's id.
    pub(crate) id: Arc<str>,
    /// Whose it is.
    pub(crate) user: Arc<str>,
    /// How often its daemon introduced itself.
    pub(super) inits: Pace,
    /// Whether somebody waits to see if its daemon comes back.
    pub(super) watched: AtomicBool,
    state: Mutex<State>,
}

struct State {
    about: Arc<About>,
    stream: Option<Stream>,
    /// The how manyth stream the next one is.
    streams: u64,
    /// The stream that was let go of last because it was read too slowly.
    slow: Option<u64>,
    /// Since when nobody listens.
    quiet_since: Option<Instant>,
    pending: HashMap<String, Pending>,
    looks: Looks,
    /// Nothing is sent over it any more.
    ended: bool,
    /// Somebody ended it.
    left: bool,
}

struct Stream {
    number: u64,
    send: Teller,
    since: Instant,
}

/// A call that waits for its reply.
struct Pending {
    /// Who is given the reply; nobody where it goes into the journal, and who
    /// waits looks there.
    give: Option<oneshot::Sender<Result<Returned, Failure>>>,
    /// When nobody waits any more.
    until: Instant,
    /// How much is asked, in bytes.
    bytes: usize,
    /// Its event, until a stream has taken it out of its queue: before that, nobody
    /// was sent it.
    unsent: Option<Outgoing>,
    gathered: Gathered,
    progress: Option<Progress>,
    /// What its caller is told beside the reply, where that is not in it.
    body: Option<Arc<str>>,
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
    pub(crate) hearing: Hearing,
    pub(crate) dialect: Dialect,
    /// Who listens.
    pub(crate) instance: Arc<str>,
}

impl Link {
    pub(crate) fn new(id: &str, user: &str, about: About) -> Self {
        Self {
            id: id.into(),
            user: user.into(),
            inits: Pace::default(),
            watched: AtomicBool::new(false),
            state: Mutex::new(State {
                about: Arc::new(about),
                stream: None,
                streams: 0,
                slow: None,
                quiet_since: Some(Instant::now()),
                pending: HashMap::new(),
                looks: Looks::default(),
                ended: false,
                left: false,
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
        self.state().is_live()
    }

    /// How long it is waited for still, where nobody listens.
    pub(crate) fn grace_left(&self) -> Duration {
        let quiet = self.state().quiet_since.map(|since| since.elapsed());
        bounds::GRACE.saturating_sub(quiet.unwrap_or_default())
    }

    /// Ends it where nothing is left of it: nobody listens, and no call waits.
    /// Who still has it can send nothing over it any more.
    pub(crate) fn end_if_spent(&self) -> bool {
        let mut state = self.state();
        if state.is_live() {
            return false;
        }
        state.sweep();
        state.ended |= state.pending.is_empty();
        state.ended
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state().ended
    }

    /// Whether it was ended, by its daemon or its owner: not for want of one.
    pub(crate) fn has_left(&self) -> bool {
        self.state().left
    }

    /// Its daemon introduced itself anew: calls it knows of go on waiting. What
    /// still listens hears nothing more, and is waited for.
    ///
    /// It stays the how manyth it was: who introduces itself again must not come
    /// before the machine an agent works with.
    pub(crate) fn renew(&self, mut about: About) {
        let mut state = self.state();
        about.number = state.about.number;
        // The seed's daemon may listen first, and introduce itself then. An older
        // stream is one that broke unseen.
        let is_seed = |about: &About| about.dialect == Dialect::Seed;
        let is_new = |stream: &Stream| stream.since.elapsed() < bounds::GRACE;
        let listens_on =
            is_seed(&state.about) && is_seed(&about) && state.stream.as_ref().is_some_and(is_new);
        state.about = Arc::new(about);
        if listens_on {
            return;
        }
        state.let_go();
        state.looks = Looks::default();
    }

    /// Somebody listens from now on, in the place of who did before. What could
    /// not be sent yet is told first. Nobody where the link is over or nobody
    /// listened for so long that it counts as gone, and where another daemon than
    /// the one it says it is stands for the machine: each introduces itself anew.
    pub(crate) fn listen(&self, says: Option<&[u8]>) -> Option<Listening> {
        let mut state = self.state();
        if !state.is_live() {
            return None;
        }
        let instance = Arc::clone(&state.about.instance);
        let is_other = |says: &[u8]| !instance.is_empty() && says != instance.as_bytes();
        if says.is_some_and(is_other) {
            return None;
        }
        let (send, hearing) = queue();
        let number = state.take_place(send);
        state.send_unsent();
        Some(Listening {
            number,
            hearing,
            dialect: state.about.dialect,
            instance,
        })
    }

    /// Whether who listens as `number` still does.
    pub(crate) fn is_heard_as(&self, number: u64) -> bool {
        let state = self.state();
        state
            .stream
            .as_ref()
            .is_some_and(|one| one.number == number)
    }

    /// Leaves out of `waiting`, all calls that wait, what a look for events behind
    /// `after` need not bring.
    pub(crate) fn unheard(&self, after: u64, waiting: &mut Vec<WaitingCall>) {
        self.state().looks.unheard(after, waiting);
    }

    /// A look brought these.
    pub(crate) fn brought(&self, events: &[Outgoing]) {
        self.state().looks.bring(events);
    }

    /// Somebody who listened before the machine was known does so from now on.
    /// Which stream that is it knows before it is told anything.
    pub(super) fn adopt(&self, send: Teller, know: impl FnOnce(u64)) {
        let mut state = self.state();
        know(state.take_place(send));
        state.send_unsent();
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
        current || state.slow.take_if(|slow| *slow == number).is_some()
    }

    /// Tells whoever listens; whether it was put where it is read. A reader that
    /// falls behind is let go.
    pub(crate) fn tell(&self, event: Outgoing) -> bool {
        self.state().tell(event)
    }

    /// A call of so many bytes is about to be sent under `request`: where its
    /// reply will be. The link is over, or too much waits already: nothing is to
    /// be sent.
    pub(crate) fn expect(
        &self,
        request: &str,
        (until, bytes): (Instant, usize),
        progress: Option<Progress>,
    ) -> Result<oneshot::Receiver<Result<Returned, Failure>>, Failure> {
        let (give, given) = oneshot::channel();
        let pending = Pending::new((until, bytes), progress);
        let give = Some(give);
        self.add(request, Pending { give, ..pending })?;
        Ok(given)
    }

    /// The same for a call whose reply goes into the journal.
    pub(crate) fn expect_kept(
        &self,
        request: &str,
        (until, bytes): (Instant, usize),
        progress: Option<Progress>,
        body: Option<Arc<str>>,
    ) -> Result<(), Failure> {
        let pending = Pending::new((until, bytes), progress);
        self.add(request, Pending { body, ..pending })
    }

    /// The same for a call that was in the journal before, and is sent again.
    pub(crate) fn expect_again(
        &self,
        request: &str,
        (until, bytes): (Instant, usize),
        body: Option<Arc<str>>,
    ) {
        let mut state = self.state();
        if !state.ended {
            let pending = || Pending {
                body,
                ..Pending::new((until, bytes), None)
            };
            state
                .pending
                .entry(request.to_owned())
                .or_insert_with(pending);
        }
    }

    /// What the caller of `request` is told beside the reply.
    pub(crate) fn body_of(&self, request: &str) -> Option<Arc<str>> {
        let state = self.state();
        state.pending.get(request)?.body.clone()
    }

    fn add(&self, request: &str, pending: Pending) -> Result<(), Failure> {
        let mut state = self.state();
        if state.ended {
            return Err(away());
        }
        state.sweep();
        let bytes: usize = state.pending.values().map(|one| one.bytes).sum();
        let fits = bytes == 0 || bytes.saturating_add(pending.bytes) <= bounds::MAX_PENDING_BYTES;
        if state.pending.len() >= bounds::MAX_PENDING || !fits {
            return Err(Failure::new(
                Reason::Overload,
                format!(
                    "{} calls with {bytes} bytes wait for the machine already. Nothing was sent.",
                    state.pending.len()
                ),
            )
            .hint("Wait for some of them, and call again."));
        }
        state.pending.insert(request.to_owned(), pending);
        Ok(())
    }

    /// Which daemon listens now, if one does.
    pub(crate) fn listener(&self) -> Option<Arc<str>> {
        let mut state = self.state();
        state.miss();
        let listens = state.stream.is_some();
        listens.then(|| Arc::clone(&state.about.instance))
    }

    /// Sends the event of a journalled call to `daemon`, if that one listens. If
    /// not, its next stream begins with it.
    pub(crate) fn send_to(&self, daemon: &str, event: Outgoing) {
        let mut state = self.state();
        if &*state.about.instance == daemon {
            state.tell(event);
        }
    }

    /// From now on, somebody else hears how far a call is.
    pub(crate) fn follow(&self, request: &str, progress: Option<Progress>) {
        if let (Some(pending), Some(progress)) = (self.state().pending.get_mut(request), progress) {
            pending.progress = Some(progress);
        }
    }

    /// Sends the event of an expected call of another dialect. Where nobody
    /// listens it waits until somebody does.
    pub(crate) fn send(&self, request: &str, event: &Event) {
        let event = Outgoing::once(request, event);
        let mut state = self.state();
        if let Some(pending) = state.pending.get_mut(request) {
            pending.unsent = Some(event.clone());
            state.tell(event);
        }
    }

    /// Whether who listens as `number` may be sent `event`, which it has taken out
    /// of its queue: a call of another dialect only where it is awaited still, and
    /// was never taken out before.
    pub(super) fn may_send(&self, number: u64, event: &Outgoing) -> bool {
        let Some(request) = event.request.as_deref() else {
            return true;
        };
        let mut state = self.state();
        state.sweep();
        // Who took its place has it in a queue of its own.
        let listens = state
            .stream
            .as_ref()
            .is_some_and(|one| one.number == number);
        let pending = state.pending.get_mut(request).filter(|_| listens);
        pending.is_some_and(|one| one.unsent.take().is_some())
    }

    /// Whether a call waits under `request`.
    pub(crate) fn awaits(&self, request: &str) -> bool {
        let mut state = self.state();
        state.sweep();
        state.pending.contains_key(request)
    }

    /// Whether somebody in this process is given the reply to `request`.
    pub(crate) fn gives(&self, request: &str) -> bool {
        let state = self.state();
        let pending = state.pending.get(request);
        pending.is_some_and(|one| one.give.is_some())
    }

    /// Bytes of pieces of replies that are held. What belongs to calls whose time is
    /// over is let go.
    pub(crate) fn held(&self) -> usize {
        let mut state = self.state();
        state.sweep();
        state.held()
    }

    /// Nobody waits for `request` any more; whether somebody did.
    pub(crate) fn give_up(&self, request: &str) -> bool {
        self.state().pending.remove(request).is_some()
    }

    /// Takes a reply to `request`, where somebody is there to be given it.
    pub(crate) fn take(&self, request: &str, reply: Result<Returned, Failure>) -> Taken {
        let mut state = self.state();
        let give = state
            .pending
            .get_mut(request)
            .and_then(|one| one.give.take());
        let Some(give) = give else {
            return Taken::Nobody;
        };
        state.pending.remove(request);
        drop(state);
        // Who gave up in this very moment is told nothing.
        let _gone = give.send(reply);
        Taken::Given
    }

    /// Ends some calls: whoever did them is not there any more.
    pub(crate) fn lose(&self, requests: &[String]) {
        for request in requests {
            let pending = self.state().pending.remove(request);
            if let Some(give) = pending.and_then(|pending| pending.give) {
                let _gone = give.send(Err(lost()));
            }
        }
    }

    /// Takes a piece of a reply; the whole text, when it was the last.
    pub(super) fn gather(&self, request: &str, chunk: &Chunk) -> Result<Option<String>, Taken> {
        let mut state = self.state();
        if !state.about.dialect.is_ours() {
            return Err(Taken::Bad("The dialect knows no pieces.".to_owned()));
        }
        state.sweep();
        let held = state.held();
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
        (state.ended, state.left) = (true, true);
        if let Some(event) = last {
            state.tell(Outgoing::last(event));
        }
        state.let_go();
        let pending = std::mem::take(&mut state.pending);
        drop(state);
        let mut ended = Vec::new();
        for (request, pending) in pending {
            if let Some(give) = pending.give {
                let _gone = give.send(Err(lost()));
            }
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

impl Pending {
    fn new((until, bytes): (Instant, usize), progress: Option<Progress>) -> Self {
        Self {
            give: None,
            until,
            bytes,
            unsent: None,
            gathered: Gathered::default(),
            progress,
            body: None,
        }
    }
}

impl State {
    fn is_live(&mut self) -> bool {
        self.miss();
        let quiet = self.quiet_since.map(|since| since.elapsed());
        !self.ended && quiet.is_none_or(|quiet| quiet < bounds::GRACE)
    }

    /// Lets go of a stream that broke before anybody could say so.
    fn miss(&mut self) {
        if self.stream.as_ref().is_some_and(|one| one.send.is_closed()) {
            self.stream = None;
            self.quiet_since = Some(Instant::now());
        }
    }

    /// Lets go of whoever listens.
    fn let_go(&mut self) {
        if let Some(stream) = self.stream.take() {
            stream.send.cut();
        }
        self.quiet_since = Some(Instant::now());
    }

    fn held(&self) -> usize {
        self.pending.values().map(|one| one.gathered.held()).sum()
    }

    /// Lets go of calls whose time is over. Who is given a reply does so itself.
    fn sweep(&mut self) {
        let now = Instant::now();
        self.pending
            .retain(|_, one| one.give.is_some() || one.until > now);
    }

    fn tell(&mut self, event: Outgoing) -> bool {
        let Some(stream) = &self.stream else {
            return false;
        };
        if stream.send.tell(event) {
            return true;
        }
        self.slow = Some(stream.number);
        self.let_go();
        false
    }

    /// Tells what was not sent yet. What its caller was told is over is not.
    fn send_unsent(&mut self) {
        self.sweep();
        let Some(stream) = &self.stream else {
            return;
        };
        for event in self.pending.values().filter_map(|one| one.unsent.as_ref()) {
            // What finds no room waits for the next stream.
            stream.send.tell(event.clone());
        }
    }

    /// Puts a stream in the place of the one before; its number.
    fn take_place(&mut self, send: Teller) -> u64 {
        self.streams += 1;
        let number = self.streams;
        if let Some(before) = self.stream.replace(Stream {
            number,
            send,
            since: Instant::now(),
        }) {
            before.send.cut();
        }
        self.quiet_since = None;
        number
    }
}

/// Bytes of pieces of one machine's replies that are held at once.
pub(super) const MAX_GATHERED: usize = 4 * bounds::MAX_MESSAGE;

#[cfg(test)]
mod tests {
    use super::super::registry::Links;
    use super::super::{Offer, Tree};
    use super::*;

    /// A machine of ada's that offers nothing.
    fn bare(id: &str, instance: &str) -> Link {
        let offer = Offer::of(&[], Vec::new()).unwrap();
        let about = About {
            name: "desk".to_owned(),
            host: "ada@laptop".to_owned(),
            root: "/home/ada".to_owned(),
            dialect: Dialect::Ours,
            offer: Arc::new(offer),
            tree: Tree::default(),
            files: None,
            since_ms: 0,
            number: 0,
            keyed: true,
            instance: instance.into(),
        };
        Link::new(id, "ada", about)
    }

    fn waiting(event: u64) -> WaitingCall {
        WaitingCall {
            request_id: format!("gw_{event}"),
            event,
            deadline: 0,
            sent_to: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_listens_is_who_stands_for_the_machine_and_came_in_time() {
        let link = bare("m_1", "b");
        assert!(link.listen(Some(b"a")).is_none());
        let first = link.listen(Some(b"b")).unwrap();
        assert!(link.is_heard_as(first.number));
        let second = link.listen(None).unwrap();
        assert!(!link.is_heard_as(first.number) && first.hearing.is_over());
        link.renew(About::clone(&bare("m_1", "c").about()));
        assert!(!link.is_heard_as(second.number));
        assert!(link.listen(Some(b"b")).is_none());
        tokio::time::advance(bounds::GRACE).await;
        assert!(link.listen(Some(b"c")).is_none(), "it is introduced anew");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_nobody_was_sent_is_sent_to_the_next_stream_and_to_no_other() {
        let link = bare("m_1", "");
        let (until, event) = (Instant::now() + bounds::DEADLINE, Event::GatewayDisconnect);
        let _given = link.expect("gw_1", (until, 1), None).unwrap();
        let mut first = link.listen(None).unwrap();
        link.send("gw_1", &event);
        // Its place is taken, and the next one breaks.
        let mut second = link.listen(None).unwrap();
        let heard = first.hearing.next_now().unwrap();
        assert!(!link.may_send(first.number, &heard), "another is sent it");
        assert!(second.hearing.next_now().is_some());
        link.unlisten(second.number);
        let third = link.listen(None).unwrap();
        // Nor is it lost where its daemon introduces itself anew.
        link.renew(About::clone(&link.about()));
        assert!(third.hearing.is_over());
        let mut fourth = link.listen(None).unwrap();
        let heard = fourth.hearing.next_now().unwrap();
        assert!(link.may_send(fourth.number, &heard));
        assert!(!link.may_send(fourth.number, &heard), "twice");
        // What was taken out may have been sent.
        let mut fifth = link.listen(None).unwrap();
        assert!(fifth.hearing.next_now().is_none());
        // What nobody waits for any more is not sent.
        let _given = link.expect("gw_2", (until, 1), None).unwrap();
        link.expect_kept("gw_3", (until, 1), None, None).unwrap();
        for request in ["gw_2", "gw_3"] {
            link.send(request, &event);
        }
        link.give_up("gw_2");
        tokio::time::advance(bounds::DEADLINE).await;
        for _ in 0..2 {
            let heard = fifth.hearing.next_now().unwrap();
            assert!(!link.may_send(fifth.number, &heard));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_listened_is_let_go_of_by_an_init_and_by_the_end() {
        let link = bare("m_1", "");
        let left = |listening: &Listening| listening.hearing.cut_off.left();
        let first = link.listen(None).unwrap();
        link.renew(About::clone(&link.about()));
        assert_eq!(left(&first), Some(Duration::ZERO));
        let second = link.listen(None).unwrap();
        link.tell(Outgoing::last(&Event::GatewayDisconnect));
        link.renew(About::clone(&link.about()));
        assert!(left(&second).is_some_and(|left| !left.is_zero()));
        let third = link.listen(None).unwrap();
        link.end(None);
        assert_eq!(left(&third), Some(Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_that_is_let_go_of_takes_no_call() {
        let link = bare("m_1", "a");
        assert!(!link.end_if_spent());
        let until = Instant::now() + bounds::DEADLINE;
        link.expect_kept("gw_1", (until, 1), None, None).unwrap();
        tokio::time::advance(bounds::GRACE).await;
        assert!(!link.end_if_spent(), "a call waits");
        link.give_up("gw_1");
        assert!(link.end_if_spent());
        let refused = link.expect_kept("gw_2", (until, 1), None, None);
        assert_eq!(refused.unwrap_err().reason(), Reason::NotLinked);
    }

    #[tokio::test]
    async fn a_look_brings_what_no_look_brought_in_whatever_order() {
        let link = bare("m_1", "a");
        let look = |after, calls: &[u64]| {
            let mut calls: Vec<_> = calls.iter().map(|call| waiting(*call)).collect();
            link.unheard(after, &mut calls);
            let events = calls.iter().map(|call| {
                let cancel = Event::Cancel {
                    request_id: call.request_id.clone(),
                };
                Outgoing::of(Some(call.event), &cancel)
            });
            link.brought(&events.collect::<Vec<_>>());
            calls.iter().map(|call| call.event).collect::<Vec<_>>()
        };
        assert_eq!(look(0, &[6]), [6]);
        assert_eq!(look(6, &[5, 6]), [5], "it was written down later");
        assert_eq!(look(6, &[5, 6]), [5], "and lost on the way");
        assert_eq!(look(5, &[5, 6, 7]), [6, 7]);
        assert!(look(7, &[5, 6, 7]).is_empty());
        assert_eq!(look(0, &[5, 6, 7]), [5, 6, 7], "who begins anew hears all");
    }

    #[tokio::test]
    async fn only_the_very_link_that_was_looked_at_is_taken_out() {
        let (old, new) = (Arc::new(bare("m_1", "a")), Arc::new(bare("m_1", "b")));
        let mut links = Links::default();
        assert!(links.put(Arc::clone(&old)).is_none());
        let before = links.put(Arc::clone(&new)).unwrap();
        assert!(Arc::ptr_eq(&before, &old));
        links.take(&old);
        let stays = links.get("ada", "m_1");
        assert!(stays.is_some_and(|one| Arc::ptr_eq(one, &new)));
        assert_eq!(links.all, 1);
        links.take(&new);
        assert!(links.get("ada", "m_1").is_none());
        assert_eq!(links.all, 0);
    }
}
