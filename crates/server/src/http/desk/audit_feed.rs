//! The record as it is written, told to each listener as far as it is its own.
//!
//! One look serves everybody, and what it finds is sorted by whose it is before
//! it waits for anybody: a busy principal fills its own backlog and no other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use portcullis_proto::{Failure, Reason};
use tokio::sync::broadcast;

use super::super::server::Server;
use super::audit::{AuditLine, FollowAudit};
use super::feed::{BACKLOG, EVERY};

/// Whose lines are listened to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Whose {
    Everybodys,
    Of(String),
}

pub(super) type LineListener = broadcast::Receiver<Arc<AuditLine>>;

/// Who listens to the record.
#[derive(Default)]
pub(crate) struct AuditFeed(Mutex<Listening>);

#[derive(Default)]
struct Listening {
    /// Gone again when nobody listens to it.
    channels: HashMap<Whose, broadcast::Sender<Arc<AuditLine>>>,
    /// Whether somebody looks at the record.
    runs: bool,
}

impl Listening {
    fn join(&mut self, whose: Whose) -> LineListener {
        let channel = self.channels.entry(whose);
        let channel = channel.or_insert_with(|| broadcast::channel(BACKLOG).0);
        channel.subscribe()
    }

    fn tell(&self, line: &Arc<AuditLine>) {
        let mut channels = vec![self.channels.get(&Whose::Everybodys)];
        if let Some(owner) = &line.owner {
            channels.push(self.channels.get(&Whose::Of(owner.clone())));
        }
        for channel in channels.into_iter().flatten() {
            // Nobody listens any more: it is gone at the next look.
            let _nobody = channel.send(Arc::clone(line));
        }
    }
}

impl AuditFeed {
    /// Listens to what is written from now on.
    pub(super) async fn join(
        &self,
        server: &Arc<Server>,
        whose: Whose,
    ) -> Result<LineListener, Failure> {
        if let Some(listener) = self.join_running(&whose) {
            return Ok(listener);
        }
        // Reading files is not for the threads that answer requests.
        let source = Arc::clone(&server.parts.audit);
        let follow = tokio::task::spawn_blocking(move || source.follow())
            .await
            .map_err(|panicked| Failure::from(Reason::Bug).detail(panicked))??;
        let mut listening = self.lock();
        let listener = listening.join(whose);
        if !std::mem::replace(&mut listening.runs, true) {
            tokio::spawn(tell(Arc::downgrade(server), follow));
        }
        Ok(listener)
    }

    fn join_running(&self, whose: &Whose) -> Option<LineListener> {
        let mut listening = self.lock();
        listening.runs.then(|| listening.join(whose.clone()))
    }

    /// Tells what a look found; whether anybody still listens.
    fn tell(&self, lines: Vec<AuditLine>) -> bool {
        let mut listening = self.lock();
        for line in lines {
            listening.tell(&Arc::new(line));
        }
        listening
            .channels
            .retain(|_, channel| channel.receiver_count() > 0);
        listening.runs = !listening.channels.is_empty();
        listening.runs
    }

    /// Whoever listens hears that it ended, and the next begins anew.
    fn end(&self) {
        *self.lock() = Listening::default();
    }

    fn lock(&self) -> MutexGuard<'_, Listening> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells lines as they are written, by whatever process, while somebody listens.
async fn tell(server: Weak<Server>, mut follow: Box<dyn FollowAudit>) {
    loop {
        let looked = tokio::task::spawn_blocking(move || {
            let lines = follow.poll();
            (follow, lines)
        });
        let looked = looked.await;
        let Some(server) = server.upgrade() else {
            return;
        };
        let feed = &server.feeds.audit;
        // What could not be read is a gap: whoever listens comes back with the id
        // it heard last, and is told what lies between.
        let Ok((kept, Ok(lines))) = looked else {
            feed.end();
            return;
        };
        follow = kept;
        if !feed.tell(lines) {
            return;
        }
        drop(server);
        tokio::time::sleep(EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::sync::broadcast::error::TryRecvError;

    use super::*;

    fn line(owner: &str, n: usize) -> Arc<AuditLine> {
        Arc::new(AuditLine {
            id: n.to_string(),
            owner: Some(owner.to_owned()),
            event: "fs.access",
            value: json!({}),
        })
    }

    #[test]
    fn a_busy_one_fills_its_own_backlog_and_no_other() {
        let mut listening = Listening::default();
        let mut ada = listening.join(Whose::Of("ada".to_owned()));
        let mut bob = listening.join(Whose::Of("bob".to_owned()));
        let mut all = listening.join(Whose::Everybodys);
        listening.tell(&line("bob", 0));
        for n in 1..=2 * BACKLOG {
            listening.tell(&line("ada", n));
        }
        listening.tell(&line("bob", 9));
        assert!(matches!(ada.try_recv(), Err(TryRecvError::Lagged(_))));
        assert!(matches!(all.try_recv(), Err(TryRecvError::Lagged(_))));
        let told: Vec<String> = std::iter::from_fn(|| bob.try_recv().ok())
            .map(|line| line.id.clone())
            .collect();
        assert_eq!(told, ["0", "9"]);
    }
}
