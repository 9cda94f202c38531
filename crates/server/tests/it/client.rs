//! A client that speaks raw lines, and a world for it to speak to.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use portcullis_files::{Authority, PrivateDir, Resolver};
use portcullis_gate::{
    Caller, Clock, Entitlements, Gate, GateParts, Grant, GrantSource, Ledger, LedgerDown, RootSpec,
};
use portcullis_policy::{Modes, RootPolicy, Rules};
use portcullis_proto::{
    Access, AccessSet, ConversationId, Event, Group, Mode, Phase, Principal, RootId, RootKind,
    RunId, SessionId, Subject,
};
use portcullis_server::{
    Conversation, Guests, HttpMcpParts, Identity, Machines, McpHttp, McpParts, serve_pipe,
};
use portcullis_store::Store;
use portcullis_tools::{Here, Machine};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split,
};

use crate::schemas;

/// Closing lines.
#[derive(Default)]
pub(crate) struct Lines(Mutex<Vec<Line>>);

/// What a closing line says, in words.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) outcome: String,
    pub(crate) who: String,
    pub(crate) route: String,
    pub(crate) reason: Option<&'static str>,
}

impl Ledger for Lines {
    fn append(&self, event: &Event<'_>) -> Result<(), LedgerDown> {
        if event.phase == Phase::Closing {
            let outcome = serde_json::to_value(event.outcome)
                .unwrap()
                .as_str()
                .unwrap()
                .to_owned();
            self.0.lock().unwrap().push(Line {
                outcome,
                who: event.subject.principal.label(),
                route: event.route.to_owned(),
                reason: event.reason.map(portcullis_proto::Reason::as_str),
            });
        }
        Ok(())
    }
}

struct RealClock(Instant);

impl Clock for RealClock {
    fn now_ms(&self) -> u64 {
        u64::try_from(
            SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap()
                .as_millis(),
        )
        .unwrap()
    }

    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap()
    }
}

/// One machine for everybody, or none.
struct ForAll(Option<Arc<dyn Machine>>);

impl Machines for ForAll {
    fn of(&self, _identity: &Identity, _who: &Conversation) -> Option<Arc<dyn Machine>> {
        self.0.clone()
    }

    fn status(&self, _identity: &Identity, _filesystem_enabled: bool) -> Value {
        Value::Null
    }
}

/// A server of MCP over HTTP, and who gives its guests their grants.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) mcp: McpHttp,
    pub(crate) guests: Arc<Guests>,
}

pub(crate) struct World {
    pub(crate) dir: PathBuf,
    pub(crate) lines: Arc<Lines>,
    pub(crate) store: Store,
    gate: Arc<Gate>,
    entitled: Arc<Entitlements>,
    parts: McpParts,
}

impl World {
    /// A world to look at, with reading at `mode`.
    pub(crate) fn new(mode: Mode) -> Self {
        Self::build(Modes::recommended().with(Group::FilesystemRead, mode), None)
    }

    /// A world to change, with writing at `mode`: trusted, granted, undo kept.
    pub(crate) fn writing(mode: Mode) -> Self {
        let changing =
            AccessSet::of(&[Access::Write, Access::Delete, Access::Move, Access::Archive]);
        let modes = Modes::recommended().with(Group::FilesystemWrite, mode);
        Self::build(modes, Some(changing))
    }

    fn build(modes: Modes, changing: Option<AccessSet>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("portcullis-mcp-{}-{n}", std::process::id()));
        std::fs::create_dir_all(dir.join("w/src")).unwrap();
        let state = PrivateDir::open_or_create(&dir.join("state")).unwrap();
        std::fs::write(dir.join("w/src/main.rs"), "fn main() {}\n").unwrap();
        std::fs::write(dir.join("w/.env"), "KEY=canary-secret\n").unwrap();
        std::fs::write(dir.join("w/raw.bin"), [0u8, 159, 146, 150]).unwrap();
        let lines = Arc::new(Lines::default());
        let store = Store::new(dir.join("state"));
        let clock: Arc<dyn Clock> = Arc::new(RealClock(Instant::now()));
        let gate = Gate::new(GateParts {
            ledger: lines.clone(),
            clock: clock.clone(),
            keeper: Arc::new(store.clone()),
            hooks: Vec::new(),
            rules: Rules::new(modes),
            prefix: format!("t{n}"),
        });
        let mut authority =
            Authority::new(gate.clone(), vec![dir.join("state")], None).keeping_undo_in(state);
        let spec = RootSpec {
            id: RootId::parse("workspace").unwrap(),
            kind: RootKind::Workspace,
            display_name: None,
            policy: RootPolicy::of(RootKind::Workspace),
            owner: None,
            trusted: changing.is_some(),
        };
        authority
            .declare(spec, &dir.join("w"), Resolver::Best)
            .unwrap();
        let roots = authority.roots().map(|root| root.entry().clone());
        let entitled = Arc::new(Entitlements::new(roots.collect(), Vec::new()));
        let principal = Principal::User { id: "me".into() };
        let mut here = Here::new(Arc::new(authority));
        if let Some(access) = changing {
            let root = RootId::parse("workspace").unwrap();
            let grant = Grant::new(principal.clone(), root, access, None, GrantSource::Core);
            gate.grants().issue(grant).unwrap();
            here = here.writing();
        }
        let subject = Subject::agent_run(principal, ConversationId::new("c"), RunId::new("r"));
        schemas::remember(&here.catalog(&Caller::new(subject.clone(), "test")));
        let parts = McpParts {
            machine: Arc::new(here),
            subject,
            session: SessionId::new("s"),
            store: store.clone(),
            clock,
            state_key: Arc::new(|| Ok(vec![7; 32])),
            patience: Duration::from_secs(10),
        };
        Self {
            dir,
            lines,
            store,
            gate,
            entitled,
            parts,
        }
    }

    /// A server of its own over the same machine and state, as another process
    /// would be.
    pub(crate) fn http(&self) -> Site {
        self.site(self.http_parts())
    }

    fn site(&self, parts: HttpMcpParts) -> Site {
        Site {
            mcp: McpHttp::new(parts),
            guests: Arc::new(Guests::new(Arc::clone(&self.gate), self.entitled.clone())),
        }
    }

    fn http_parts(&self) -> HttpMcpParts {
        HttpMcpParts {
            machines: Arc::new(ForAll(Some(Arc::clone(&self.parts.machine)))),
            gate: Arc::clone(&self.gate),
            store: Store::new(self.dir.join("state")),
            clock: Arc::clone(&self.parts.clock),
            state_key: Arc::clone(&self.parts.state_key),
            patience: self.parts.patience,
            pending_for: Duration::from_mins(1),
            approval_url: "http://127.0.0.1:7654".into(),
        }
    }

    /// One where nobody has a machine to work with.
    pub(crate) fn http_without_machine(&self) -> Site {
        self.site(HttpMcpParts {
            machines: Arc::new(ForAll(None)),
            ..self.http_parts()
        })
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.parts.clock)
    }

    /// The lines of what came through `route`.
    pub(crate) fn lines_of(&self, route: &str) -> Vec<Line> {
        let mut lines = self.lines.0.lock().unwrap().clone();
        lines.retain(|line| line.route == route);
        lines
    }

    pub(crate) fn connect(&self) -> Client {
        let (ours, theirs) = duplex(1 << 20);
        let (read, write) = split(theirs);
        tokio::spawn(serve_pipe(self.parts.clone(), read, write));
        let (read, write) = split(ours);
        Client {
            read: BufReader::new(read),
            write,
            next: 1,
            stateless: None,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        Path::new(&self.dir).join("w").join(name)
    }

    pub(crate) fn outcomes(&self) -> Vec<String> {
        self.lines
            .0
            .lock()
            .unwrap()
            .iter()
            .map(|line| line.outcome.clone())
            .collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.dir));
    }
}

pub(crate) struct Client {
    read: BufReader<ReadHalf<DuplexStream>>,
    write: WriteHalf<DuplexStream>,
    next: u64,
    /// Capabilities to send with every request, in the era without a handshake.
    stateless: Option<Value>,
}

impl Client {
    /// Begins as clients up to 2025-11-25 do.
    pub(crate) async fn handshake(mut self, capabilities: Value) -> Self {
        let reply = self
            .request(
                "initialize",
                json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}}),
            )
            .await;
        assert_eq!(
            reply["result"]["serverInfo"]["name"], "portcullis",
            "{reply}"
        );
        self.notify("notifications/initialized", json!({})).await;
        self
    }

    /// Speaks as clients from 2026-07-28 on do: every request stands alone.
    pub(crate) fn stateless(mut self, capabilities: Value) -> Self {
        self.stateless = Some(capabilities);
        self
    }

    pub(crate) async fn send(&mut self, message: Value) {
        let mut line = message.to_string();
        line.push('\n');
        self.write.write_all(line.as_bytes()).await.unwrap();
    }

    /// A line as it is written, without what ends it.
    pub(crate) async fn send_line(&mut self, line: &[u8]) {
        self.write.write_all(line).await.unwrap();
        self.write.write_all(b"\n").await.unwrap();
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params}))
            .await;
    }

    pub(crate) async fn receive(&mut self) -> Value {
        let mut line = String::new();
        tokio::time::timeout(portcullis_testkit::PATIENCE, self.read.read_line(&mut line))
            .await
            .expect("a reply in time")
            .unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    pub(crate) async fn start(&mut self, method: &str, mut params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        if let Some(capabilities) = &self.stateless {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
            params["_meta"]["io.modelcontextprotocol/clientInfo"] =
                json!({"name": "t", "version": "1"});
        }
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
        id
    }

    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.start(method, params).await;
        loop {
            let message = self.receive().await;
            if message["id"] == json!(id) && message.get("method").is_none() {
                return message;
            }
        }
    }

    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let reply = self.request("tools/call", params).await["result"].take();
        schemas::hold(tool, &reply);
        reply
    }
}
