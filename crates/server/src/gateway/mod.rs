//! Links: machines that people lend to agents, from the server's side.
//!
//! A daemon on such a machine comes with a key, says what it offers, and hears
//! over a stream of events what is asked of it. One engine for three dialects;
//! the routes that speak them are in `http/links`.

mod about;
mod admission;
mod again;
mod bindings;
mod by_tools;
mod calls;
mod expected;
mod failing;
mod far;
mod fixed;
mod link;
mod looks;
mod naming;
mod offers;
mod queue;
mod registry;
mod result;
mod seed;
mod spelling;
mod staying;
mod stream;
mod surface;
mod there;

pub(crate) use self::about::Lends;
pub(crate) use self::admission::{Admitted, NotAdmitted, Welcome};
pub(crate) use self::again::{KeptReply, recalled, recalled_ask};
pub use self::bindings::Conversation;
pub(crate) use self::calls::Calls;
pub(crate) use self::failing::{clipped, said};
pub(crate) use self::fixed::Unlinked;
pub(crate) use self::link::{Link, Listening, Taken};
pub use self::registry::Gateway;
pub(crate) use self::result::Returned;
pub(crate) use self::seed::{Tree, offer as seed_offer, returned as seed_returned};
pub(crate) use self::staying::Staying;
pub use self::staying::{Meant, Purpose};
pub(crate) use self::stream::{early_events, events, polled};
pub(crate) use self::surface::{BadOffer, Offer};
pub(crate) use self::there::{HERE, nobody_called};
