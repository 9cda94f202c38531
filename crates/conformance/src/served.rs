//! The fixtures on our own stack: listener, guard, door, and then MCP.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use portcullis_gate::{Clock, Gate, GateParts, Keeper, Ledger, LedgerDown};
use portcullis_policy::{Modes, Rule, Rules};
use portcullis_proto::{Event, Failure, Principal, Reason, ScopeSet};
use portcullis_server::{
    Allowed, AuditAsk, AuditLine, AuditSieve, AuditSource, Doorman, FollowAudit, Gateway, Guests,
    Identity, Listening, McpHttp, Observer, Providers, Seen, Server, ServerParts, Via, listen,
};
use portcullis_store::Store;

use crate::fixture::Fixture;

/// More than the suites open without ending them.
const SESSIONS: usize = 500;

/// Serves until the process ends.
pub(crate) async fn serve(listener: TcpListener) -> std::io::Result<()> {
    let address = listener.local_addr()?;
    let fixture = Fixture::new();
    let clock: Arc<dyn Clock> = Arc::new(Now(Instant::now()));
    let gate = gate(&clock);
    // No fixture asks it anything, so it is never opened.
    let store = Store::new("there-is-no-state");
    let server = Server::new(ServerParts {
        gateway: Arc::new(Gateway::new(
            store.clone(),
            Arc::clone(&clock),
            Arc::clone(&gate),
        )),
        allowed: Allowed::at(address, "http"),
        doorman: Arc::new(Nothing),
        guests: Arc::new(Guests::new(Arc::clone(&gate), Arc::default())),
        machines: Arc::new(Providers::new(None, Vec::new())),
        store,
        clock,
        observer: Arc::new(Nothing),
        mcp: McpHttp::serving(move || fixture.clone(), Arc::clone(&gate), SESSIONS),
        oauth: None,
        telemetry: None,
        gate,
        audit: Arc::new(Nothing),
        url: format!("http://{address}"),
        patience: Duration::from_secs(30),
    });
    let listening = Listening {
        handles: 1_024,
        listener,
        tls: None,
    };
    listen(listening, server, std::future::pending()).await
}

/// A gate that keeps no record: there is nothing behind it.
fn gate(clock: &Arc<dyn Clock>) -> Arc<Gate> {
    Gate::new(GateParts {
        ledger: Arc::new(Nothing),
        clock: Arc::clone(clock),
        keeper: Arc::new(Nothing),
        hooks: Vec::new(),
        rules: Rules::new(Modes::recommended()),
        prefix: "conformance".to_owned(),
    })
}

/// What there is none of here.
struct Nothing;

impl Doorman for Nothing {
    /// Whoever presents anything is anybody.
    fn known(&self, via: Via, _presented: &str) -> Option<Identity> {
        Some(Identity {
            principal: Principal::User {
                id: "anybody".into(),
            },
            user: "anybody".into(),
            scopes: ScopeSet::NONE,
            via,
        })
    }
}

impl Observer for Nothing {
    fn seen(&self, _seen: &Seen<'_>) {}
}

impl AuditSource for Nothing {
    fn query(&self, _ask: &AuditAsk) -> Result<Vec<AuditLine>, Failure> {
        Ok(Vec::new())
    }

    fn sieve(&self, _ask: &AuditAsk) -> Result<AuditSieve, Failure> {
        Ok(Box::new(|_| true))
    }

    fn follow(&self) -> Result<Box<dyn FollowAudit>, Failure> {
        Err(Reason::NotFound.into())
    }
}

impl Ledger for Nothing {
    fn append(&self, _event: &Event<'_>) -> Result<(), LedgerDown> {
        Ok(())
    }
}

impl Keeper for Nothing {
    fn keep(&self, _rule: &Rule) -> Result<(), String> {
        Err("nothing is kept here".to_owned())
    }
}

struct Now(Instant);

impl Clock for Now {
    fn now_ms(&self) -> u64 {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| {
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
            })
    }

    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}
