//! What is written for a process that can no longer write for itself.

use portcullis_proto::{Event, Facts, Outcome, Phase, Reason, RequestId, Subject};

use crate::gate::Gate;
use crate::ledger::LedgerDown;

/// How recovery is named, as the way in and as what decided.
const RECOVERY: &str = "recovery";

impl Gate {
    /// Writes the closing line of an attempt whose process died before it could:
    /// in this process's chain, under the attempt's own id.
    pub fn close_for_dead(
        &self,
        request: &RequestId,
        subject: &Subject,
        facts: &Facts,
        outcome: Outcome,
        reason: Option<Reason>,
    ) -> Result<(), LedgerDown> {
        self.ledger.append(&Event {
            phase: Phase::Closing,
            at: self.clock.now_ms(),
            request_id: request,
            route: RECOVERY,
            called: None,
            trace: None,
            subject,
            facts,
            alleged: None,
            outcome,
            policy_source: RECOVERY,
            wrapper_ids: &[],
            kind: reason.map(Reason::kind),
            reason,
            question: None,
            answered_by: None,
            bytes: None,
            hash: None,
            counts: None,
            staged: None,
            duration_us: 0,
        })
    }
}
