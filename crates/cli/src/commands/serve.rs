//! `portcullis serve`: serves a machine to agents over HTTP.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use portcullis_files::shared_secret;
use portcullis_gate::Clock;
use portcullis_gate::RootSpec;
use portcullis_policy::RootPolicy;
use portcullis_process::take_all_handles;
use portcullis_proto::{Group, Mode, RootId, RootKind, ScopeSet};
use portcullis_server::{
    Allowed, Credentials, Doorman, Guests, HttpMcpParts, Listening, Machines, McpHttp,
    OAuthResource, Observer, Providers, Seen, Server, ServerParts, Tls, listen,
};
use portcullis_store::{Store, sign_in_url};
use portcullis_tools::{Here, Machine};
use tokio::time::MissedTickBehavior;

use crate::args::{Everywhere, ServeArgs};
use crate::commands::mcp::{STATE_KEY, Signals, recover, tell_roots};
use crate::environment::Environment;
use crate::log::Log;
use crate::out::{BOLD, FAINT, Out, paint};
use crate::problem::{Ending, Problem};
use crate::provider::{Choice, Evidence, decide};
use crate::record::AuditFiles;
use crate::settings::{self, Overrides, RootSetting, Settings};
use crate::sockets;
use crate::wiring::{LiveRules, Purpose, World};

/// How often rules and credentials are looked at for a change another process
/// made. A revocation is promised to hold within 100 ms.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a question waits for a person: they may be at lunch.
const PATIENCE: Duration = Duration::from_hours(1);
/// The largest file that can be uploaded.
const MAX_UPLOAD: u64 = 50 * 1024 * 1024;
/// The largest certificate or key.
const MAX_PEM: u64 = 1024 * 1024;
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
    let log = Log::at(settings.log_level);
    let evidence = choose(env, args, &mut settings)?;
    let tls = tls(args)?;
    let listener = sockets::bind(args.host, args.port)?;
    let address = listener.local_addr()?;
    let world = World::open(&settings, Purpose::Serve)?;
    tell_roots(&world, log);
    recover(&world, log);
    let scheme = if tls.is_some() { "https" } else { "http" };
    let url = args.public_url.as_deref().map_or_else(
        || format!("{scheme}://{address}"),
        |url| url.trim_end_matches('/').to_owned(),
    );
    let link = first_user(&world.store, &*world.clock, &url)?;
    let allowed = allowed(args, address, scheme)?;
    let place = Place {
        allowed,
        url: url.clone(),
        evidence: evidence.clone(),
        oauth: oauth(args, &url),
    };
    let (server, credentials) = server(&settings, &world, place, log)?;
    banner(&settings, &url, &evidence, link.as_deref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let live = Arc::clone(&world.live);
    let ended = runtime.block_on(async move {
        tokio::spawn(watch(live, credentials, log));
        let mut asked_to_end = Signals::listen()?;
        let listening = Listening {
            listener,
            tls,
            handles: take_all_handles(),
        };
        listen(listening, server, async move {
            asked_to_end.any().await;
        })
        .await
        .map_err(|error| format!("listening: {error}"))
    });
    runtime.shutdown_background();
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

fn oauth(args: &ServeArgs, url: &str) -> Option<OAuthResource> {
    (!args.oauth_issuers.is_empty()).then(|| OAuthResource {
        resource: format!("{}/mcp", url.trim_end_matches('/')),
        issuers: args.oauth_issuers.clone(),
    })
}

/// Makes the first person where there is none, and the link to sign in once.
fn first_user(store: &Store, clock: &dyn Clock, url: &str) -> Result<Option<String>, Problem> {
    if !store.users()?.is_empty() {
        return Ok(None);
    }
    let now = clock.now_ms();
    store.add_user(FIRST_USER, ScopeSet::ALL, now)?;
    let link = store.create_sign_in_link(FIRST_USER, now)?;
    Ok(Some(sign_in_url(url, &link)))
}

/// Where the server stands, and why there.
struct Place {
    allowed: Allowed,
    url: String,
    evidence: Vec<String>,
    oauth: Option<OAuthResource>,
}

fn server(
    settings: &Settings,
    world: &World,
    place: Place,
    log: Log,
) -> Result<(Arc<Server>, Arc<Credentials>), Problem> {
    let gate = Arc::clone(world.authority.gate());
    let roots: Vec<RootId> = world
        .authority
        .roots()
        .map(|declared| declared.entry().id().clone())
        .collect();
    let local: Option<Arc<dyn Machine>> = if roots.is_empty() {
        None
    } else {
        let here = Here::new(Arc::clone(&world.authority));
        Some(Arc::new(if settings.writing.is_on() {
            here.writing()
        } else {
            here
        }))
    };
    let guests = Arc::new(Guests::new(Arc::clone(&gate), roots));
    let credentials = Arc::new(Credentials::open(
        world.store.clone(),
        Arc::clone(&world.clock),
        Arc::clone(&guests),
    )?);
    let machines: Arc<dyn Machines> = Arc::new(Providers::new(local, place.evidence));
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
        store: world.store.clone(),
        clock: Arc::clone(&world.clock),
        observer: Arc::new(AccessLog(log)),
        gate,
        audit: Arc::new(AuditFiles::in_data(world.data.clone())),
        url: place.url,
        patience: PATIENCE,
        mcp,
        oauth: place.oauth,
    });
    Ok((server, credentials))
}

/// Says what was answered, never what was said.
struct AccessLog(Log);

impl Observer for AccessLog {
    fn seen(&self, seen: &Seen<'_>) {
        let who = seen
            .identity
            .map_or_else(|| "-".to_owned(), |identity| identity.principal.label());
        self.0.debug(format_args!(
            "request {} {} {} {} us {who}",
            seen.number,
            seen.route.unwrap_or("-"),
            seen.status,
            seen.duration_us,
        ));
    }
}

fn banner(
    settings: &Settings,
    url: &str,
    evidence: &[String],
    link: Option<&str>,
) -> Result<(), Problem> {
    let mut out = Out::stdout();
    out.line(format_args!(
        "{} {url}",
        paint(BOLD, "Portcullis listens at")
    ))?;
    for root in &settings.roots {
        out.line(format_args!(
            "  serves   {} {}",
            root.path.display(),
            paint(FAINT, format!("({} {})", root.spec.kind, root.spec.id)),
        ))?;
    }
    out.line(format_args!("  because  {}", evidence.join("; ")))?;
    if let Some(link) = link {
        out.line(format_args!("  sign in  {link}"))?;
        out.line(format_args!(
            "           {}",
            paint(FAINT, "(counts once; another: portcullis user link admin)")
        ))?;
    }
    out.line("  token    portcullis token create --scope fs:read,fs:write")?;
    Ok(())
}

/// Puts in force what other processes change, until the runtime ends.
async fn watch(live: Arc<LiveRules>, credentials: Arc<Credentials>, log: Log) {
    let mut tick = tokio::time::interval(LOOK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut told = false;
    loop {
        tick.tick().await;
        // Each for itself: a rule that cannot be read must not keep a credential
        // alive that was revoked.
        let rules = live.refresh();
        let known = credentials.refresh().map_err(Problem::from);
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
