//! The fixtures, served.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use portcullis_gate::{Clock, Gate, GateParts, Keeper, Ledger, LedgerDown};
use portcullis_policy::{Modes, Rule, Rules};
use portcullis_proto::{Event, Principal, ScopeSet};
use portcullis_server::{Identity, McpHttp, Via};

use crate::fixture::Fixture;

/// More than the suites open without ending them.
const SESSIONS: usize = 500;

/// Serves until the process ends.
pub(crate) async fn serve(listener: std::net::TcpListener) -> std::io::Result<()> {
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let fixture = Fixture::new();
    let mcp = McpHttp::serving(move || fixture.clone(), gate(), SESSIONS);
    loop {
        let (stream, _) = listener.accept().await?;
        let mcp = mcp.clone();
        tokio::spawn(async move {
            let answer = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                let mcp = mcp.clone();
                async move {
                    if !is_ours(request.headers(), address) {
                        let mut turned_away = Response::new(Empty::new().boxed());
                        *turned_away.status_mut() = StatusCode::FORBIDDEN;
                        return Ok::<_, Infallible>(turned_away);
                    }
                    Ok(mcp.answer(anybody(), request).await)
                }
            });
            // A connection that breaks is its peer's affair.
            drop(
                http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), answer)
                    .await,
            );
        });
    }
}

/// Whether Host and Origin are this listener's own.
fn is_ours(headers: &HeaderMap, address: SocketAddr) -> bool {
    let names = [address.to_string(), format!("localhost:{}", address.port())];
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let origin_is_ours = headers.get(ORIGIN).is_none_or(|origin| {
        names
            .iter()
            .any(|name| origin.as_bytes() == format!("http://{name}").as_bytes())
    });
    origin_is_ours && names.iter().any(|name| host == Some(name))
}

/// Who everybody is, where nobody has a credential.
fn anybody() -> Identity {
    Identity {
        principal: Principal::User {
            id: "anybody".into(),
        },
        user: "anybody".into(),
        scopes: ScopeSet::NONE,
        via: Via::Bearer,
    }
}

/// A gate that keeps no record: there is nothing behind it.
fn gate() -> Arc<Gate> {
    Gate::new(GateParts {
        ledger: Arc::new(Nothing),
        clock: Arc::new(Now(Instant::now())),
        keeper: Arc::new(Nothing),
        hooks: Vec::new(),
        rules: Rules::new(Modes::recommended()),
        prefix: "conformance".to_owned(),
    })
}

struct Nothing;

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
