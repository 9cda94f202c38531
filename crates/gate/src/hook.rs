//! Hooks: somebody else's say, before and after.
//!
//! `before` may deny or ask, never allow more; `after` observes. They run in
//! the order they were registered, and whatever goes wrong with one is a deny.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use portcullis_proto::{Facts, Outcome, RequestId, Subject};

/// What a hook is told.
#[derive(Clone, Debug)]
pub struct HookCall {
    /// The attempt.
    pub request_id: RequestId,
    /// Who.
    pub subject: Subject,
    /// What, and to what.
    pub facts: Arc<Facts>,
}

/// What a hook says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookSay {
    /// Nothing against it.
    Pass,
    /// Ask a person.
    Ask(String),
    /// No.
    Deny(String),
    /// It crashed, hung, or said what nobody understands: counts as no.
    Broken(String),
}

/// Somebody else's say.
pub trait Hook: Send + Sync {
    /// Its name, recorded with every deed it was asked about.
    fn id(&self) -> &str;

    /// Asked before the act. Must end by itself: a hook that can hang brings
    /// its own deadline and answers [`HookSay::Broken`].
    fn before<'a>(
        &'a self,
        call: &'a HookCall,
    ) -> Pin<Box<dyn Future<Output = HookSay> + Send + 'a>>;

    /// Told after the closing line. Must not block; what it cannot do at once
    /// it does elsewhere.
    fn after(&self, _call: &HookCall, _outcome: Outcome) {}
}
