//! What became of every call, by the server's name of it: a call that is sent
//! again is answered again, and done once.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

/// How many calls are remembered with what they were replied.
const MAX_KEPT: usize = 1024;
/// How many bytes of replies are kept.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// How many names are remembered without.
const MAX_NAMES: usize = 65_536;

/// What a call is: its tool and arguments, as a digest.
pub(crate) type What = [u8; 32];

/// What is known of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Nothing: it is to be done.
    New,
    /// It is being done.
    UnderWay,
    /// It was done, and this was replied.
    Done(Bytes),
    /// It was done, and what was replied is not kept any more.
    Forgotten,
    /// Under this name something else was asked for.
    Other,
}

struct Entry {
    what: What,
    /// Nothing while it is under way, and where it is not kept any more.
    reply: Option<Bytes>,
    is_done: bool,
}

/// The calls of one session.
#[derive(Default)]
pub(crate) struct Outbox {
    calls: HashMap<String, Entry>,
    /// Names in the order they came.
    order: VecDeque<String>,
    /// Names with a reply, in the order they were done.
    kept: VecDeque<String>,
    bytes: usize,
}

impl Outbox {
    /// What is known of `name`; from now on, it is under way.
    pub(crate) fn enter(&mut self, name: &str, what: What) -> Known {
        if let Some(entry) = self.calls.get(name) {
            return match &entry.reply {
                _ if entry.what != what => Known::Other,
                Some(reply) => Known::Done(reply.clone()),
                None if entry.is_done => Known::Forgotten,
                None => Known::UnderWay,
            };
        }
        self.calls.insert(
            name.to_owned(),
            Entry {
                what,
                reply: None,
                is_done: false,
            },
        );
        self.order.push_back(name.to_owned());
        while self.order.len() > MAX_NAMES {
            // Never what is under way: sent again, it would be done twice. There is
            // room for few of those, so the oldest that is done is near the front.
            let calls = &self.calls;
            let is_done = |name: &String| calls.get(name).is_none_or(|entry| entry.is_done);
            let Some(at) = self.order.iter().position(is_done) else {
                break;
            };
            let oldest = self.order.remove(at);
            let gone = oldest.and_then(|oldest| self.calls.remove(&oldest));
            if let Some(reply) = gone.and_then(|entry| entry.reply) {
                self.bytes -= reply.len();
            }
        }
        Known::New
    }

    /// It was done, and is replied to with this.
    pub(crate) fn done(&mut self, name: &str, reply: Bytes) {
        let Some(entry) = self.calls.get_mut(name) else {
            return;
        };
        self.bytes += reply.len();
        entry.is_done = true;
        match entry.reply.replace(reply) {
            Some(before) => self.bytes -= before.len(),
            None => self.kept.push_back(name.to_owned()),
        }
        while self.kept.len() > MAX_KEPT || self.bytes > MAX_BYTES {
            let Some(oldest) = self.kept.pop_front() else {
                break;
            };
            let entry = self.calls.get_mut(&oldest);
            if let Some(reply) = entry.and_then(|entry| entry.reply.take()) {
                self.bytes -= reply.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: What = [1; 32];
    const B: What = [2; 32];

    #[test]
    fn a_name_is_done_once_and_stands_for_one_thing() {
        let mut outbox = Outbox::default();
        assert_eq!(outbox.enter("x", A), Known::New);
        assert_eq!(outbox.enter("x", A), Known::UnderWay);
        assert_eq!(outbox.enter("x", B), Known::Other);
        outbox.done("x", Bytes::from_static(b"{}"));
        assert_eq!(outbox.enter("x", A), Known::Done(Bytes::from_static(b"{}")));
        assert_eq!(outbox.enter("x", B), Known::Other);
        assert_eq!(outbox.enter("y", A), Known::New);
    }

    #[test]
    fn replies_are_forgotten_before_names_are_and_neither_grows_for_ever() {
        let mut outbox = Outbox::default();
        for n in 0..MAX_KEPT + 10 {
            let name = n.to_string();
            outbox.enter(&name, A);
            outbox.done(&name, Bytes::from_static(b"{}"));
        }
        assert_eq!(outbox.enter("0", A), Known::Forgotten);
        assert_eq!((outbox.kept.len(), outbox.bytes), (MAX_KEPT, 2 * MAX_KEPT));
        let large = Bytes::from(vec![b' '; MAX_BYTES / 2 + 1]);
        for name in ["a", "b"] {
            outbox.enter(name, A);
            outbox.done(name, large.clone());
        }
        assert_eq!(outbox.enter("a", A), Known::Forgotten);
        assert!(outbox.bytes <= MAX_BYTES);
        for n in 0..MAX_NAMES {
            let name = format!("n{n}");
            outbox.enter(&name, A);
            outbox.done(&name, Bytes::new());
        }
        assert_eq!(outbox.calls.len(), MAX_NAMES);
        assert_eq!(outbox.enter("b", A), Known::New);
    }

    #[test]
    fn what_is_under_way_is_remembered_however_many_come_after_it() {
        let mut outbox = Outbox::default();
        outbox.enter("slow", A);
        for n in 0..=MAX_NAMES {
            let name = n.to_string();
            outbox.enter(&name, A);
            outbox.done(&name, Bytes::new());
        }
        assert_eq!(outbox.enter("slow", A), Known::UnderWay);
        assert_eq!(outbox.order.len(), MAX_NAMES);
        assert_eq!(outbox.enter("0", A), Known::New);
    }

    #[test]
    fn a_reply_that_takes_the_place_of_another_is_the_only_one_counted() {
        let mut outbox = Outbox::default();
        outbox.enter("x", A);
        for text in ["one", "another"] {
            outbox.done("x", Bytes::from_static(text.as_bytes()));
        }
        assert_eq!((outbox.bytes, outbox.kept.len()), ("another".len(), 1));
    }
}
