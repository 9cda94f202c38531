//! A data directory and a tree to serve, and servers on them that can be ended
//! in order, killed, and started again.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use portcullis_files::{
    AuditLog, Authority, FileLedger, Filter, LedgerOptions, PrivateDir, Record, Resolver,
};
use portcullis_gate::{Clock, Entitlements, Gate, GateParts, Grant, GrantSource, RootSpec};
use portcullis_policy::{Modes, RootPolicy, Rules};
use portcullis_proto::{
    Access, AccessSet, ConversationId, Group, Mode, Principal, RootId, RootKind, RunId, Scope,
    ScopeSet, SessionId, Subject,
};
use portcullis_server::{
    Allowed, Credentials, Doorman, Gateway, Guests, HttpMcpParts, Issuer, Listening, Machines,
    McpHttp, McpParts, OAuthResource, Observer, Providers, REQUESTS_PER_SECOND, Rate, Seen, Server,
    ServerParts, Tls, listen,
};
use portcullis_store::{NewToken, Store};
use portcullis_testkit::Scratch;
use portcullis_tools::{Extensions, Here};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::sync::oneshot;

use crate::client::{Answer, Ask, Connection};
use crate::record::AuditFiles;

/// Longer than anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = portcullis_testkit::PATIENCE;

/// The credentials of the tests are looked at as often as `serve` looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Who else issues tokens, where somebody does, and who those are for.
pub(crate) const ISSUER: &str = "https://login.example";
pub(crate) const AUDIENCE: &str = "https://files.example/mcp";

/// What who started `portcullis mcp` is granted beside what a root gives anybody.
const CHANGING: AccessSet =
    AccessSet::of(&[Access::Write, Access::Delete, Access::Move, Access::Archive]);

/// Who the server says it is where it speaks TLS: nobody, anywhere else.
const CERTIFICATE: &[u8] = include_bytes!("tls/certificate.pem");
const KEY: &[u8] = include_bytes!("tls/key-for-tests-only.pem");

/// A client that trusts the certificate of the tests, and no other.
fn trusting() -> Arc<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(CERTIFICATE).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

pub(crate) struct RealClock(Instant);

impl Clock for RealClock {
    fn now_ms(&self) -> u64 {
        now_ms()
    }

    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap()
    }
}

pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(since.unwrap().as_millis()).unwrap()
}

/// Every request the server answered: route, status, and who asked.
#[derive(Default)]
pub(crate) struct Answered(Mutex<Vec<(Option<&'static str>, u16)>>);

impl Observer for Answered {
    fn seen(&self, seen: &Seen<'_>) {
        self.0.lock().unwrap().push((seen.route, seen.status));
    }
}

/// A machine, as one process has it.
pub(crate) struct Inside {
    clock: Arc<dyn Clock>,
    pub(crate) ledger: Arc<FileLedger>,
    pub(crate) gate: Arc<Gate>,
    entitled: Arc<Entitlements>,
    /// Who started it.
    pub(crate) me: Principal,
    pub(crate) here: Here,
}

/// What there is before any server runs, and after all have ended.
pub(crate) struct World {
    pub(crate) scratch: Scratch,
    pub(crate) store: Store,
    pub(crate) data: PrivateDir,
    rules: Rules,
    policy: RootPolicy,
    trusted: bool,
    patience: Duration,
    tls: bool,
    rate: Rate,
    handles: u64,
    issuer: Option<Arc<Issuer>>,
    answers_within: Duration,
    fixed_key: Option<(String, String)>,
    /// Roots beside the workspace, and who was granted what on them.
    others: Vec<OtherRoot>,
}

/// A root beside the workspace, as the operator's settings have it.
pub(crate) struct OtherRoot {
    pub(crate) spec: RootSpec,
    pub(crate) path: PathBuf,
    /// To whom, what, until when.
    pub(crate) grants: Vec<(Principal, AccessSet, Option<u64>)>,
}

impl World {
    /// A tree that may be written to as `writing` says, and two users, `ada`
    /// (who may everything) and `bob` (who may all but administer).
    pub(crate) fn new(writing: Mode) -> Self {
        Self::under(Rules::new(
            Modes::recommended()
                .with(Group::FilesystemRead, Mode::Allow)
                .with(Group::FilesystemWrite, writing),
        ))
    }

    /// The same, under these modes and rules.
    pub(crate) fn under(rules: Rules) -> Self {
        let scratch = Scratch::in_memory(
            "
            src/main.rs = fn main() {}
            notes.txt = some notes
            ",
        );
        let data = PrivateDir::open_or_create(&scratch.at("../data")).unwrap();
        let store = Store::new(data.path());
        store.add_user("ada", ScopeSet::ALL, now_ms()).unwrap();
        let common: Vec<Scope> = ScopeSet::ALL
            .iter()
            .filter(|scope| *scope != Scope::Admin)
            .collect();
        store
            .add_user("bob", ScopeSet::of(&common), now_ms())
            .unwrap();
        Self {
            scratch,
            store,
            data,
            rules,
            policy: RootPolicy::of(RootKind::Workspace),
            trusted: true,
            patience: Duration::from_mins(5),
            tls: false,
            rate: Rate::per_second(REQUESTS_PER_SECOND),
            handles: 1_024,
            issuer: None,
            answers_within: PATIENCE,
            fixed_key: None,
            others: Vec::new(),
        }
    }

    /// With roots beside the workspace.
    pub(crate) fn with_roots(mut self, others: Vec<OtherRoot>) -> Self {
        self.others = others;
        self
    }

    /// A key lets machines of `user` in that were not paired.
    pub(crate) fn with_fixed_key(mut self, key: &str, user: &str) -> Self {
        self.fixed_key = Some((key.to_owned(), user.to_owned()));
        self
    }

    /// Linked machines have to answer within so long.
    pub(crate) fn answered_within(mut self, patience: Duration) -> Self {
        self.answers_within = patience;
        self
    }

    /// Tokens of that issuer count, too.
    pub(crate) fn issued_by(mut self, issuer: &Arc<Issuer>) -> Self {
        self.issuer = Some(issuer.clone());
        self
    }

    /// What listens speaks TLS.
    pub(crate) fn encrypted(mut self) -> Self {
        self.tls = true;
        self
    }

    /// With what `change` makes of the workspace's policy.
    pub(crate) fn with_policy(mut self, change: impl FnOnce(&mut RootPolicy)) -> Self {
        change(&mut self.policy);
        self
    }

    /// Nobody has trusted the workspace.
    pub(crate) fn untrusted(mut self) -> Self {
        self.trusted = false;
        self
    }

    /// Questions wait so long for a person.
    pub(crate) fn patient_for(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Each credential may ask so often a second.
    pub(crate) fn at_most(mut self, requests: u32) -> Self {
        self.rate = Rate::per_second(requests);
        self
    }

    /// The server may have so many handles.
    pub(crate) fn with_handles(mut self, handles: u64) -> Self {
        self.handles = handles;
        self
    }

    /// A token of `user` for `scopes`, whole.
    pub(crate) fn token(&self, user: &str, scopes: &[Scope]) -> String {
        self.new_token(user, scopes).secret.expose().to_owned()
    }

    pub(crate) fn new_token(&self, user: &str, scopes: &[Scope]) -> NewToken {
        self.store
            .create_token(user, "t", ScopeSet::of(scopes), None, now_ms())
            .unwrap()
    }

    /// The machine itself, with its gate and its record.
    pub(crate) fn inside(&self) -> Inside {
        let clock: Arc<dyn Clock> = Arc::new(RealClock(Instant::now()));
        let ledger = FileLedger::open(&self.data, clock.clone(), LedgerOptions::default()).unwrap();
        let prefix = ledger.chain().rsplit('-').next().unwrap().to_owned();
        let ledger = Arc::new(ledger);
        let gate = Gate::new(GateParts {
            ledger: ledger.clone(),
            clock: clock.clone(),
            keeper: Arc::new(self.store.clone()),
            hooks: Vec::new(),
            rules: self.rules.clone(),
            prefix,
        });
        let mut authority =
            Authority::new(gate.clone(), vec![self.data.path().to_path_buf()], None)
                .keeping_undo_in(self.data.clone());
        let root = RootId::parse("workspace").unwrap();
        let spec = RootSpec {
            id: root.clone(),
            kind: RootKind::Workspace,
            display_name: None,
            policy: self.policy.clone(),
            owner: None,
            trusted: self.trusted,
        };
        authority
            .declare(spec, &self.scratch.root(), Resolver::Best)
            .unwrap();
        let me = Principal::User { id: "me".into() };
        let granted = Grant::new(me.clone(), root.clone(), CHANGING, None, GrantSource::Core);
        gate.grants().issue(granted).unwrap();
        let mut promised = Vec::new();
        for other in &self.others {
            authority
                .declare(other.spec.clone(), &other.path, Resolver::Best)
                .unwrap();
            for (to, access, until) in &other.grants {
                let (to, root) = (to.clone(), other.spec.id.clone());
                let grant = Grant::new(to.clone(), root, *access, *until, GrantSource::Core);
                // Who comes over HTTP has it with its credential.
                if to == me {
                    gate.grants().issue(grant).unwrap();
                } else {
                    promised.push(Arc::new(grant));
                }
            }
        }
        let entries = authority.roots().map(|declared| declared.entry().clone());
        let entitled = Arc::new(Entitlements::new(entries.collect(), promised));
        Inside {
            clock,
            ledger,
            gate,
            entitled,
            me,
            here: Here::new(Arc::new(authority)).writing(),
        }
    }

    /// Starts a server as a process of its own would: nothing in memory is
    /// shared with one that ran before.
    pub(crate) fn start(&self) -> Running {
        let Inside {
            clock,
            ledger,
            gate,
            entitled,
            me,
            here,
        } = self.inside();
        let extensions = Extensions::new(here.clone(), self.data.clone(), entitled.clone());
        let extensions = Arc::new(extensions);
        let guests = Guests::new(gate.clone(), entitled)
            .with_extensions(extensions.clone())
            .at_most(self.rate);
        let guests = Arc::new(guests);
        let handles = self.handles;
        let mut credentials =
            Credentials::open(self.store.clone(), clock.clone(), guests.clone()).unwrap();
        if let Some(issuer) = &self.issuer {
            credentials = credentials.with_issuer(issuer.clone());
        }
        let credentials = Arc::new(credentials);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let observer = Arc::new(Answered::default());
        let scheme = if self.tls { "https" } else { "http" };
        let tls = self.tls.then(|| Tls::from_pem(CERTIFICATE, KEY).unwrap());
        let trusting = self.tls.then(trusting);
        let mut allowed = Allowed::at(address, scheme);
        allowed.origin("https://console.example").unwrap();
        let machine = Arc::new(here);
        let pipe = McpParts {
            machine: machine.clone(),
            subject: Subject::agent_run(me, ConversationId::new("c"), RunId::new("r")),
            session: SessionId::new("s"),
            store: self.store.clone(),
            clock: clock.clone(),
            state_key: Arc::new(|| Ok(vec![7; 32])),
            patience: self.patience,
        };
        let mut gateway = Gateway::new(self.store.clone(), clock.clone(), gate.clone())
            .answering_within(self.answers_within);
        if let Some((key, user)) = &self.fixed_key {
            gateway = gateway.with_fixed_key(key.as_bytes(), user);
        }
        let gateway = Arc::new(gateway);
        let machines: Arc<dyn Machines> = Arc::new(
            Providers::new(Some(machine), vec!["a test".to_owned()])
                .with_gateway(gateway.clone())
                .with_extensions(extensions),
        );
        let mcp = McpHttp::new(HttpMcpParts {
            machines: machines.clone(),
            gate: gate.clone(),
            store: self.store.clone(),
            clock: clock.clone(),
            state_key: Arc::new(|| Ok(vec![7; 32])),
            patience: PATIENCE,
            pending_for: self.patience,
            approval_url: format!("{scheme}://{address}").into(),
        });
        let server = Server::new(ServerParts {
            allowed,
            doorman: credentials.clone(),
            guests,
            machines,
            gateway: gateway.clone(),
            store: self.store.clone(),
            clock,
            observer: observer.clone(),
            gate: gate.clone(),
            audit: Arc::new(AuditFiles::in_data(self.data.clone())),
            url: format!("{scheme}://{address}"),
            patience: self.patience,
            mcp,
            oauth: self.issuer.as_ref().map(|_| OAuthResource {
                resource: AUDIENCE.to_owned(),
                issuer: ISSUER.to_owned(),
            }),
            telemetry: None,
        });
        let looking = credentials.clone();
        let (end, ended) = oneshot::channel();
        let (kill, killed) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                tokio::spawn(async move {
                    loop {
                        tokio::time::sleep(LOOK_EVERY).await;
                        looking.refresh().unwrap();
                        gateway.refresh().unwrap();
                    }
                });
                let listening = Listening {
                    handles,
                    listener,
                    tls,
                };
                let end = async move {
                    // Dropped unsaid, it is killed instead.
                    if ended.await.is_err() {
                        std::future::pending::<()>().await;
                    }
                };
                tokio::select! {
                    ended = listen(listening, server, end) => ended.unwrap(),
                    _ = killed => {}
                }
            });
            runtime.shutdown_background();
            credentials.end();
            gate.end();
            let until = Instant::now() + PATIENCE;
            while gate.under_way() > 0 && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            ledger.close();
        });
        Running {
            address,
            scheme,
            trusting,
            pipe,
            observer,
            end: Some(end),
            kill: Some(kill),
            thread: Some(thread),
        }
    }

    /// Every line of the record that tells how something ended.
    pub(crate) fn closings(&self) -> Vec<Record> {
        self.lines("closing")
    }

    /// How many tell that this began.
    pub(crate) fn openings(&self, alleged: &str) -> usize {
        let opened = self.lines("opening").into_iter();
        opened
            .filter(|line| line.alleged.as_deref() == Some(alleged))
            .count()
    }

    fn lines(&self, phase: &str) -> Vec<Record> {
        AuditLog::open(&self.data)
            .unwrap()
            .records(Filter::default())
            .unwrap()
            .map(Result::unwrap)
            .filter(|record| record.phase.as_deref() == Some(phase))
            .collect()
    }

    /// How many of those say that something was refused to `user`.
    pub(crate) fn denials(&self, user: &str) -> usize {
        self.closings()
            .iter()
            .filter(|record| record.outcome.as_deref() != Some("success"))
            .filter(|record| {
                record
                    .subject
                    .as_ref()
                    .is_some_and(|subject| subject.user.as_deref().unwrap_or(&subject.id) == user)
            })
            .count()
    }
}

/// A server that listens.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) scheme: &'static str,
    /// Whom clients trust, where it speaks TLS.
    trusting: Option<Arc<rustls::ClientConfig>>,
    /// The same machine, as `portcullis mcp` serves it to who started it.
    pub(crate) pipe: McpParts,
    observer: Arc<Answered>,
    end: Option<oneshot::Sender<()>>,
    kill: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Opens a connection.
    pub(crate) fn connect(&self) -> Connection {
        let connection = Connection::open(self.address);
        match &self.trusting {
            Some(trusting) => connection.encrypted(trusting),
            None => connection,
        }
    }

    /// One request on a connection of its own.
    #[track_caller]
    pub(crate) fn ask(&self, ask: &Ask) -> Answer {
        let mut connection = self.connect();
        connection.send(&ask.wire(self.address));
        connection.answer().expect("an answer")
    }

    /// Every status it answered with, and the route.
    pub(crate) fn answered(&self) -> Vec<(Option<&'static str>, u16)> {
        self.observer.0.lock().unwrap().clone()
    }

    /// Says that it has to end, and does not wait for it.
    pub(crate) fn ask_to_end(&mut self) {
        if let Some(end) = self.end.take() {
            end.send(()).unwrap();
        }
    }

    /// Waits until it has ended.
    pub(crate) fn join(mut self) {
        self.ask_to_end();
        self.thread.take().unwrap().join().unwrap();
    }

    /// Ends it at once: connections are cut where they are.
    pub(crate) fn kill(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        if let Some(kill) = self.kill.take() {
            kill.send(()).ok();
        }
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.unwrap();
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}
