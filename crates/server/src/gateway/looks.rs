//! What looks for events have brought of the calls that wait, by their numbers.

use portcullis_store::WaitingCall;

use super::queue::Outgoing;

/// The looks of one machine.
#[derive(Default)]
pub(super) struct Looks {
    /// By the last one.
    brought: Vec<u64>,
    /// By those before, and heard: the look after them said so.
    heard: Vec<u64>,
}

impl Looks {
    /// Leaves out of `waiting`, all calls that wait, what a look behind `after`
    /// need not bring: it was brought and heard. A number alone does not say so:
    /// calls may be brought in another order than they were made in.
    pub(super) fn unheard(&mut self, after: u64, waiting: &mut Vec<WaitingCall>) {
        let Self { brought, heard } = self;
        if brought.last() == Some(&after) {
            heard.append(brought);
        }
        heard.retain(|id| waiting.iter().any(|call| call.event == *id));
        let is_unheard = |id: u64| id > after || (id != after && !heard.contains(&id));
        waiting.retain(|call| is_unheard(call.event));
    }

    /// A look brought these.
    pub(super) fn bring(&mut self, events: &[Outgoing]) {
        self.brought = events.iter().filter_map(|event| event.id).collect();
    }
}
