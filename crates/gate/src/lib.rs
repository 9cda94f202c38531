//! Portcullis: attempts, permits, hooks, approvals, audit.
