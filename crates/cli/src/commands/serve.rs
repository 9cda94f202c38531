//! `portcullis serve`: serves a machine to agents over HTTP.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use portcullis_files::shared_secret;
use portcullis_gate::{Caller, Clock, Entitlements, RootSpec};
use portcullis_policy::RootPolicy;
use portcullis_process::take_all_handles;
use portcullis_proto::{Group, Mode, Principal, RootId, RootKind, ScopeSet, Secret, Subject};
use portcullis_server::{
    Allowed, Credentials, Doorman, Gateway, Guests, HttpMcpParts, Listening, Machines, McpHttp,
    Providers, Rate, Server, ServerParts, Telemetry, Tls, listen,
};
use portcullis_store::{Store, sign_in_url};
use portcullis_tools::{Extensions, Here, Machine};
use tokio::time::MissedTickBehavior;

use crate::args::{Everywhere, ServeArgs};
use crate::commands::mcp::{STATE_KEY, Signals, recover, tell_roots};
use crate::environment::Environment;
use crate::issuing::Issuing;
use crate::log::Log;
use crate::out::{BOLD, FAINT, Out, paint};
use crate::problem::{Ending, Problem};
use crate::provider::{Choice, Evidence, decide};
use crate::record::AuditFiles;
use crate::service::{self, Watchdog};
use crate::settings::{self, Overrides, RootSetting, Settings};
use crate::sockets;
use crate::telemetry;
use crate::wiring::{LiveRules, Purpose, World};

/// How often rules and credentials are looked at for a change another process
/// made. A revocation is promised to hold within 100 ms.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often old questions are forgotten.
const FORGET_EVERY: Duration = Duration::from_mins(1);
/// How long a question waits for a person: they may be at lunch.
const PATIENCE: Duration = Duration::from_hours(1);
/// The largest file that can be uploaded.
const MAX_UPLOAD: u64 = 50 * 1024 * 1024;
/// The largest certificate or key.
const MAX_PEM: u64 = 1024 * 1024;
/// How long the fixed key of daemons may be.
const KEY_LENGTH: std::ops::RangeInclusive<usize> = 16..=256;
/// Who the first person is called where nobody was added.
const FIRST_USER: &str = "admin";

pub(crate) fn run(
    everywhere: &Everywhere,
    env: &Environment,
    args: &ServeArgs,
) -> Result<Ending, Problem> {
    let mut settings = settings::resolve(everywhere, env, &Overrides::from(args))?;
    if args.write {
        settings.modes = settings.modes.with(Group::FilesystemWrite, Mode::Allow);
    }
    let log = Log::of(&settings);
    for warning in &env.warnings {
        log.warn(warning);
    }
    let evidence = choose(env, args, &mut settings)?;
    let tls = tls(args)?;
    let reporting = telemetry::wanted(&args.operating, &env.otel, log)?;
    let noting = reporting.as_ref().map(|_| telemetry::noting());
    let listener = sockets::handed_over_or_at(args.host, args.port)?;
    let address = listener.local_addr()?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let url = args.public_url.as_deref().map_or_else(
        || format!("{scheme}://{address}"),
        |url| url.trim_end_matches('/').to_owned(),
    );
    let issuing = Issuing::open(&args.oauth, &url, log)?;
    let world = World::open_watched(&settings, Purpose::Serve, noting.as_ref())?;
    tell_roots(&world, log);
    recover(&world, log);
    let link = first_user(&world, &url)?;
    let allowed = allowed(args, address, scheme)?;
    let fixed_key = fixed_key(args, env, &world, log)?;
    let place = Place {
        fixed_key,
        allowed,
        url: url.clone(),
        evidence: evidence.clone(),
        issuing: issuing.as_ref(),
        rate: Rate::per_second(args.max_requests),
        telemetry: noting,
    };
    let Serving {
        server,
        credentials,
        gateway,
    } = server(&settings, &world, place, log)?;
    let collector = reporting.as_ref().map(|to| to.endpoint.to_string());
    let said = Said {
        url: &url,
        evidence: &evidence,
        collector: collector.as_deref(),
        link: link.as_deref(),
    };
    banner(everywhere, &settings, &said)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let (live, watched) = (Arc::clone(&world.live), Arc::clone(&credentials));
    let (questions, clock) = (world.store.clone(), Arc::clone(&world.clock));
    let ended = runtime.block_on(async move {
        tokio::spawn(forget(questions, clock, Arc::clone(&gateway)));
        tokio::spawn(watch(live, watched, gateway, log));
        if let Some(issuing) = issuing {
            tokio::spawn(issuing.keep_keys(log));
        }
        let mut asked_to_end = Signals::listen()?;
        let listening = Listening {
            listener,
            tls,
            handles: take_all_handles(),
        };
        let exporting = reporting.and_then(|to| telemetry::start(&server, to, log));
        service::ready(&url, log);
        let ended = listen(listening, server, async move {
            asked_to_end.any().await;
            service::stopping(log);
        })
        .await
        .map_err(|error| format!("listening: {error}"));
        // The last requests are answered: now they can be told of.
        if let Some(exporting) = exporting {
            exporting.finish().await;
        }
        ended
    });
    runtime.shutdown_background();
    credentials.end();
    world.end();
    match ended {
        Ok(()) => log.info("ended in order"),
        Err(why) => log.warn(why),
    }
    Ok(Ending::Fine)
}

/// Decides what is served, where nobody named anything.
fn choose(
    env: &Environment,
    args: &ServeArgs,
    settings: &mut Settings,
) -> Result<Vec<String>, Problem> {
    let (choice, why) = decide(&Evidence {
        named: settings.roots.len(),
        container: &env.container,
        working_dir: env.working_dir.as_deref(),
    });
    match choice {
        Choice::Named => trust(settings, args),
        Choice::Gateway => {}
        Choice::Working(path) => settings.roots.push(RootSetting {
            spec: RootSpec {
                id: RootId::parse("workspace")
                    .ok_or_else(|| Problem::new("The workspace cannot be named."))?,
                kind: RootKind::Workspace,
                display_name: None,
                policy: RootPolicy::of(RootKind::Workspace),
                owner: None,
                trusted: false,
            },
            path,
            grants: Vec::new(),
        }),
    }
    Ok(why)
}

/// A workspace named where the server is started is trusted by that; one that
/// the environment or the settings name, only if somebody said so.
fn trust(settings: &mut Settings, args: &ServeArgs) {
    let by_dir = args.dir.is_some().then_some(0);
    for (at, root) in settings.roots.iter_mut().enumerate() {
        let flagged = args
            .roots
            .iter()
            .any(|flag| flag.id == root.spec.id.as_str());
        let named = by_dir == Some(at) || flagged;
        root.spec.trusted |= named && root.spec.kind == RootKind::Workspace;
        if named {
            let policy = &mut root.spec.policy;
            policy.max_file_bytes = policy.max_file_bytes.max(MAX_UPLOAD);
        }
    }
}

fn tls(args: &ServeArgs) -> Result<Option<Tls>, Problem> {
    let (Some(cert), Some(key)) = (&args.tls_cert, &args.tls_key) else {
        return Ok(None);
    };
    let read = |file: &Path| -> Result<String, Problem> {
        portcullis_files::read_own_text(file, MAX_PEM)?
            .ok_or_else(|| Problem::usage(format!("There is no file at {}.", file.display())))
    };
    Tls::from_pem(read(cert)?.as_bytes(), read(key)?.as_bytes())
        .map(Some)
        .map_err(|problem| {
            Problem::new(format!("TLS cannot be used: {problem}.")).hint(
                "Give --tls-cert a PEM chain, and --tls-key the key of its first certificate.",
            )
        })
}

fn allowed(args: &ServeArgs, address: SocketAddr, scheme: &str) -> Result<Allowed, Problem> {
    let mut allowed = Allowed::at(address, scheme);
    for host in &args.allow_hosts {
        allowed.host(host, address.port(), scheme);
    }
    for origin in &args.allow_origins {
        allowed.origin(origin).map_err(Problem::usage)?;
    }
    Ok(allowed)
}

/// Makes the first person where there is none, and the link to sign in once.
fn first_user(world: &World, url: &str) -> Result<Option<String>, Problem> {
    let store = &world.store;
    if !store.users()?.is_empty() {
        return Ok(None);
    }
    let now = world.clock.now_ms();
    let subject = Subject::of(Principal::Core { id: "serve".into() });
    let caller = Caller::new(subject, "cli/serve").by_grant_alone();
    let (gate, all) = (world.authority.gate(), ScopeSet::ALL);
    let what = format!("user add {FIRST_USER} {all}, user link {FIRST_USER}");
    let link = gate.administer(&caller, &what, || {
        store.add_user(FIRST_USER, all, now)?;
        Ok(store.create_sign_in_link(FIRST_USER, now)?)
    })?;
    Ok(Some(sign_in_url(url, &link)))
}

/// Where the server stands, and why there.
struct Place<'a> {
    allowed: Allowed,
    url: String,
    evidence: Vec<String>,
    issuing: Option<&'a Issuing>,
    rate: Rate,
    telemetry: Option<Arc<Telemetry>>,
    /// The fixed key of daemons, and whose they are.
    fixed_key: Option<(Secret, String)>,
}

/// The fixed key of daemons and whose machines they are, where there is one.
fn fixed_key(
    args: &ServeArgs,
    env: &Environment,
    world: &World,
    log: Log,
) -> Result<Option<(Secret, String)>, Problem> {
    let key = match &args.gateway.key_file {
        Some(file) => {
            let text = portcullis_files::read_own_text(file, MAX_PEM)?;
            let text = text.ok_or_else(|| {
                Problem::usage(format!("There is no file at {}.", file.display()))
            })?;
            Some(Secret::new(text.trim().as_bytes().to_vec()))
        }
        None => env.gateway_key.clone(),
    };
    let Some(key) = key else {
        return Ok(None);
    };
    if !KEY_LENGTH.contains(&key.expose().len()) {
        return Err(
            Problem::usage("The gateway's fixed key has to have 16 to 256 characters.").hint(
                "Make one: head -c 24 /dev/urandom | base64; or leave it out, and pair machines with portcullis link create.",
            ),
        );
    }
    let users = world.store.users()?;
    let user = match &args.gateway.user {
        Some(name) => users.into_iter().find(|user| user.name == *name),
        None => users.into_iter().next(),
    };
    let user = user.ok_or_else(|| {
        Problem::usage("There is no user of that name for the gateway's fixed key.")
            .hint("portcullis user list")
    })?;
    log.info(format!(
        "machines that come with the gateway's fixed key are {}'s",
        user.name
    ));
    Ok(Some((key, user.name)))
}

/// What serves, and what has to be looked after meanwhile.
struct Serving {
    server: Arc<Server>,
    credentials: Arc<Credentials>,
    gateway: Arc<Gateway>,
}

/// What people have here: the default of each root, and what the settings grant
/// them. Those grants leave the book, because they hold for whoever presents a
/// credential, as far as its scopes go, and no longer than it.
fn entitlements(world: &World) -> Entitlements {
    let roots = world.authority.roots();
    let entries = roots.map(|declared| Arc::clone(declared.entry()));
    let granted = world.authority.gate().grants().take(|grant| {
        let to = &grant.principal;
        matches!(to, Principal::User { .. } | Principal::Token { .. })
    });
    Entitlements::new(entries.collect(), granted)
}

fn server(
    settings: &Settings,
    world: &World,
    place: Place<'_>,
    log: Log,
) -> Result<Serving, Problem> {
    let gate = Arc::clone(world.authority.gate());
    let entitled = Arc::new(entitlements(world));
    let serves_files = world.authority.roots().next().is_some();
    let mut here = Here::new(Arc::clone(&world.authority));
    if settings.writing.is_on() {
        here = here.writing();
    }
    let extensions = Arc::new(Extensions::new(
        here.clone(),
        world.data.clone(),
        Arc::clone(&entitled),
    ));
    let local: Option<Arc<dyn Machine>> = if serves_files {
        Some(Arc::new(here))
    } else {
        None
    };
    let guests = Guests::new(Arc::clone(&gate), entitled)
        .with_extensions(Arc::clone(&extensions))
        .at_most(place.rate);
    let guests = Arc::new(guests);
    let mut credentials = Credentials::open(
        world.store.clone(),
        Arc::clone(&world.clock),
        Arc::clone(&guests),
    )?;
    if let Some(issuing) = place.issuing {
        credentials = credentials.with_issuer(Arc::clone(&issuing.issuer));
    }
    let credentials = Arc::new(credentials);
    let mut gateway = Gateway::new(
        world.store.clone(),
        Arc::clone(&world.clock),
        Arc::clone(&gate),
    );
    if let Some((key, user)) = &place.fixed_key {
        gateway = gateway.with_fixed_key(key.expose(), user);
    }
    let gateway = Arc::new(gateway);
    let machines: Arc<dyn Machines> = Arc::new(
        Providers::new(local, place.evidence)
            .with_gateway(Arc::clone(&gateway))
            .with_extensions(extensions),
    );
    let data = world.data.clone();
    let mcp = McpHttp::new(HttpMcpParts {
        machines: Arc::clone(&machines),
        gate: Arc::clone(&gate),
        store: world.store.clone(),
        clock: Arc::clone(&world.clock),
        state_key: Arc::new(move || shared_secret(&data, STATE_KEY)),
        patience: settings.approve_timeout,
        pending_for: PATIENCE,
        approval_url: place.url.as_str().into(),
    });
    let server = Server::new(ServerParts {
        allowed: place.allowed,
        doorman: Arc::clone(&credentials) as Arc<dyn Doorman>,
        guests,
        machines,
        gateway: Arc::clone(&gateway),
        store: world.store.clone(),
        clock: Arc::clone(&world.clock),
        observer: Arc::new(log),
        gate,
        audit: Arc::new(AuditFiles::in_data(world.data.clone())),
        url: place.url,
        patience: PATIENCE,
        mcp,
        oauth: place.issuing.map(|issuing| issuing.resource.clone()),
        telemetry: place.telemetry,
    });
    Ok(Serving {
        server,
        credentials,
        gateway,
    })
}

/// What whoever starts a server is told.
struct Said<'a> {
    url: &'a str,
    evidence: &'a [String],
    /// Where telemetry goes.
    collector: Option<&'a str>,
    /// To sign in once, where nobody has yet.
    link: Option<&'a str>,
}

fn banner(everywhere: &Everywhere, settings: &Settings, said: &Said<'_>) -> Result<(), Problem> {
    // So that what is shown can be typed as it stands.
    let here = everywhere.data_dir.as_ref();
    let portcullis = here.map_or_else(
        || "portcullis".to_owned(),
        |dir| format!("portcullis --data-dir {}", dir.display()),
    );
    let mut out = Out::stdout();
    out.line(format_args!(
        "{} {}",
        paint(BOLD, "Portcullis listens at"),
        said.url
    ))?;
    for root in &settings.roots {
        out.line(format_args!(
            "  serves   {} {}",
            root.path.display(),
            paint(FAINT, format!("({} {})", root.spec.kind, root.spec.id)),
        ))?;
    }
    out.line(format_args!("  because  {}", said.evidence.join("; ")))?;
    if let Some(collector) = said.collector {
        out.line(format_args!("  reports  to {collector}"))?;
    }
    if let Some(link) = said.link {
        out.line(format_args!("  sign in  {link}"))?;
        out.line(format_args!(
            "           {}",
            paint(
                FAINT,
                format!("(counts once; another: {portcullis} user link admin)")
            )
        ))?;
    }
    out.line(format_args!(
        "  token    {portcullis} token create --scope fs:read,fs:write"
    ))?;
    Ok(())
}

/// Puts in force what other processes change, until the runtime ends. It is
/// what the watchdog watches: a server that cannot look at its state is stuck.
async fn watch(
    live: Arc<LiveRules>,
    credentials: Arc<Credentials>,
    gateway: Arc<Gateway>,
    log: Log,
) {
    let mut tick = tokio::time::interval(LOOK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut told = false;
    let mut watchdog = Watchdog::asked_for();
    loop {
        tick.tick().await;
        watchdog.come_round();
        // Each for itself: a rule that cannot be read must not keep a credential
        // alive that was revoked.
        let rules = live.refresh();
        let known = credentials
            .refresh()
            .and(gateway.refresh())
            .map_err(Problem::from);
        match rules.and_then(|changed| known.map(|()| changed)) {
            Ok(changed) => {
                told = false;
                if changed {
                    log.info("rules, trust or credentials changed, and hold from now on");
                }
            }
            // What was in force stays in force.
            Err(problem) if !told => {
                told = true;
                log.error(problem.what);
            }
            Err(_) => {}
        }
    }
}

/// Forgets questions and calls whose time is over, until the runtime ends.
async fn forget(store: Store, clock: Arc<dyn Clock>, gateway: Arc<Gateway>) {
    let mut tick = tokio::time::interval(FORGET_EVERY);
    loop {
        tick.tick().await;
        gateway.let_go();
        let (store, now) = (store.clone(), clock.now_ms());
        // What cannot be forgotten now is the next time.
        let forgotten = tokio::task::spawn_blocking(move || {
            drop(store.prune(now));
            drop(store.prune_link_calls(now));
        });
        drop(forgotten.await);
    }
}
