//! Telling clients that there are other tools now: a machine was linked or
//! lost, or files were switched off or on.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use rmcp::RoleServer;
use rmcp::service::{Peer, RequestContext, SubscriptionSink};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::seat::Seats;
use crate::http::Identity;

/// How often it is looked whether a client that hears nothing is still there.
const LOOK_EVERY: Duration = Duration::from_mins(1);

/// Whose tools, and how they change.
pub(super) struct Changes {
    user: Arc<str>,
    heard: broadcast::Receiver<Arc<str>>,
}

impl Changes {
    /// Of who sent a request; nothing where tools never change.
    pub(super) fn of(seats: &Seats, context: &RequestContext<RoleServer>) -> Option<Self> {
        let Seats::Each(parts) = seats else {
            return None;
        };
        let head = context.extensions.get::<Parts>()?;
        let identity = head.extensions.get::<Identity>()?;
        Some(Self {
            user: Arc::clone(&identity.user),
            heard: parts.machines.changes()?,
        })
    }

    /// Waits for the next one; false once there are no more. Who missed some is
    /// told of one.
    async fn next(&mut self) -> bool {
        loop {
            match self.heard.recv().await {
                Ok(user) if user == self.user => return true,
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => return true,
                Err(RecvError::Closed) => return false,
            }
        }
    }

    /// Tells a session for as long as it lasts.
    pub(super) async fn tell_session(mut self, peer: Peer<RoleServer>) {
        loop {
            let told = match tokio::time::timeout(LOOK_EVERY, self.next()).await {
                Err(_) => !peer.is_transport_closed(),
                Ok(true) => peer.notify_tool_list_changed().await.is_ok(),
                Ok(false) => false,
            };
            if !told {
                return;
            }
        }
    }

    /// Tells a request that listens, for as long as it does.
    pub(super) async fn tell_stream(mut self, sink: SubscriptionSink) {
        while self.next().await {
            if sink.notify_tool_list_changed().await.is_err() {
                return;
            }
        }
    }
}
