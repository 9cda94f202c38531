//! `portcullis connect`: lends a directory of this machine to a server, after
//! one confirmation and under the rules that hold here.

mod confirm;
mod control;
mod origins;
mod plan;
mod prompts;
mod screen;
mod waiting;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use portcullis_daemon::{
    Asking, Dial, Dialling, Ended, Errands, Lending, Observer, Route, Surface, Wanted, answer_door,
    lend_by,
};
use portcullis_files::{OwnLog, PrivateDir};
use portcullis_gate::{Approver, Caller};
use portcullis_proto::{Group, Mode, Principal, SessionId, Subject};
use portcullis_store::DurableApprover;
use portcullis_tools::{Here, Machine};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use self::confirm::{Confirmed, admit, confirm, no_terminal};
use self::plan::{
    Asked, Deciding, Plan, door_origins, is_for_pages, lends_anything, may_wait, nothing_lent,
};
use self::prompts::Terminal;
use self::screen::{About, Screen};
use self::waiting::{AtTheDoor, Put};
use crate::args::{ConnectArgs, Everywhere};
use crate::commands::mcp::{Signals, recover, watch};
use crate::environment::Environment;
use crate::log::Log;
use crate::out::{aside, shown, tell};
use crate::problem::{Ending, Problem};
use crate::prompt;
use crate::settings;
use crate::sockets;
use crate::wiring::{Purpose, World, open_data};

/// The log, in the data directory, and how long it grows.
const LOG: &str = "connect.log";
const MAX_LOG: u64 = 4 << 20;
/// How many threads wait for the wire; what takes longer has threads of its own.
const WORKERS: usize = 2;

pub(crate) fn run(
    everywhere: &Everywhere,
    env: &Environment,
    args: &ConnectArgs,
) -> Result<Ending, Problem> {
    let data = open_data(&settings::data_dir(everywhere, env)?)?;
    if everywhere.settings.is_none() && env.settings.is_none() {
        settings::write_template(&data)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()?;
    let start = Start {
        env,
        data,
        runtime,
        door: None,
    };
    if is_for_pages(env, args)? {
        return wait(everywhere, args, start);
    }
    let mut plan = Plan::of(everywhere, env, args, None)?;
    match confirmed(&mut plan, env)? {
        Confirmed::Yes => {
            let ready = Ready::of(&plan, &start.data)?;
            start.lend(&plan, ready)
        }
        Confirmed::No => {
            not_connected(&plan);
            Ok(Ending::Fine)
        }
    }
}

/// Waits until a server's page asks and is confirmed.
fn wait(everywhere: &Everywhere, args: &ConnectArgs, start: Start<'_>) -> Result<Ending, Problem> {
    let env = start.env;
    may_wait(env, args)?;
    if !prompt::is_there() {
        return Err(no_terminal());
    }
    let origins = door_origins(env, args)?;
    let whose = match origins.as_slice() {
        [] => "a server's page".to_owned(),
        some => format!("a page of {}", shown(&some.join(", "))),
    };
    let listener = sockets::door(args.port)?;
    let at = listener.local_addr()?;
    let (door, asked) = AtTheDoor::new(origins);
    let porter = Arc::clone(&door);
    start.runtime.spawn(async move {
        if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
            answer_door(listener, porter).await;
        }
    });
    aside(format_args!(
        "Waiting at http://{at} until {whose} asks. Ctrl-C ends it."
    ));
    loop {
        let put = asked
            .recv()
            .map_err(|_| Problem::new("The door is not answered any more."))?;
        let Wanted {
            url,
            token,
            decided,
        } = match put {
            Put::Wanted(wanted) => wanted,
            Put::Knocked(origin) => {
                match admit(&origin)? {
                    Confirmed::Yes => door.admit(origin),
                    Confirmed::No => door.decided(Some(&origin)),
                }
                continue;
            }
        };
        let plan = Plan::of(everywhere, env, args, Some((&url, token)));
        // All that can fail here fails before the page hears a yes.
        let plan = plan.and_then(|mut plan| {
            let ready = match confirmed(&mut plan, env)? {
                Confirmed::Yes => Some(Ready::of(&plan, &start.data)?),
                Confirmed::No => None,
            };
            Ok((ready, plan))
        });
        match plan {
            Ok((Some(ready), plan)) => {
                let origin = plan.address.origin();
                // A page that was answered, or has gone, was told no.
                if decided.send(true).is_err() {
                    ready.world.end();
                    tell(&too_late(origin));
                    door.decided(Some(origin));
                    continue;
                }
                let start = Start {
                    door: Some(door),
                    ..start
                };
                return start.lend(&plan, ready);
            }
            Ok((None, plan)) => {
                not_connected(&plan);
                door.decided(Some(plan.address.origin()));
            }
            Err(problem) => {
                tell(&problem);
                door.decided(None);
            }
        }
        // Who does not wait any more does not mind.
        decided.send(false).ok();
    }
}

fn too_late(origin: &str) -> Problem {
    let origin = shown(origin);
    Problem::new(format!(
        "The page of {origin} does not wait any more, so this counts as a no. Nothing was connected."
    ))
    .hint("Start portcullis connect anew and have the page ask again; it waits for 5 minutes.")
}

fn not_connected(plan: &Plan) {
    aside(format_args!(
        "Not connected. Nothing was said to {}.",
        shown(plan.address.origin())
    ));
}

/// Whether it is to be lent, by whoever decides that.
fn confirmed(plan: &mut Plan, env: &Environment) -> Result<Confirmed, Problem> {
    match plan.deciding {
        Deciding::Person if !prompt::is_there() => Err(no_terminal()),
        Deciding::Person => confirm(plan, env),
        Deciding::Flag if lends_anything(plan.settings.modes) => Ok(Confirmed::Yes),
        Deciding::Flag => Err(nothing_lent()),
    }
}

/// What is opened before anybody hears a yes.
struct Ready {
    route: Route,
    file: OwnLog,
    world: World,
}

impl Ready {
    fn of(plan: &Plan, data: &PrivateDir) -> Result<Self, Problem> {
        Ok(Self {
            route: route(plan)?,
            file: OwnLog::open(data, LOG, MAX_LOG)?,
            // Last: the audit it opens is closed in order, or by `end` alone.
            world: World::open(&plan.settings, Purpose::Serve)?,
        })
    }
}

fn route(plan: &Plan) -> Result<Route, Problem> {
    Route::new(
        plan.address.clone(),
        &plan.proxies,
        plan.trust.clone(),
        Arc::new(OurSockets),
    )
    .map_err(|why| {
        Problem::new(format!("{} cannot be reached: {why}.", plan.address))
            .hint("Name the authority behind its certificate with --ca FILE; mend HTTPS_PROXY.")
    })
}

/// What a link begins with, whoever asked for it.
struct Start<'a> {
    env: &'a Environment,
    data: PrivateDir,
    runtime: tokio::runtime::Runtime,
    door: Option<Arc<AtTheDoor>>,
}

impl Start<'_> {
    /// Lends until it ends.
    fn lend(self, plan: &Plan, ready: Ready) -> Result<Ending, Problem> {
        let Ready { world, file, route } = ready;
        let log = Log::of(&plan.settings);
        for what in &plan.told {
            log.warn(what);
        }
        if plan.settings.modes.of(Group::FilesystemWrite) != Mode::Deny {
            recover(&world, log);
        }
        let about = About {
            to: plan.address.origin().to_owned(),
            directory: directory(plan),
            machine: plan.machine.clone(),
        };
        let screen = Screen::new(about, log, file);
        let control = control(self.data.path(), log);
        let session = SessionId::new(world.chain.as_str());
        let ending = CancellationToken::new();
        let asking = asking(plan, self.env, &world, &screen, &ending);
        let errands = Errands {
            principal: Principal::User { id: "me".into() },
            session: session.clone(),
            origin: plan.address.origin().to_owned(),
            asking,
        };
        let lending = lending(plan, &world, &screen, errands, route);
        if let Some(door) = &self.door {
            door.lend(plan.address.origin(), Arc::clone(&screen), ending.clone());
        }
        let (live, clock) = (Arc::clone(&world.live), Arc::clone(&world.clock));
        let (ticking, asked) = (Arc::clone(&screen), Arc::clone(&screen));
        let ended = self.runtime.block_on(async {
            tokio::spawn(watch(live, log));
            tokio::spawn(tick(ticking));
            if let Some(control) = &control {
                let listener = control.listener.try_clone();
                let listener = listener.and_then(tokio::net::UnixListener::from_std);
                let listener =
                    listener.map_err(|error| format!("the socket of status: {error}"))?;
                tokio::spawn(control::answer(listener, asked, ending.clone()));
            }
            tokio::spawn(end_on_signals(Ends::listen()?, ending.clone()));
            // As a task among the calls it takes: on a thread of its own, each call
            // would wait twice more for a processor while a search has them all.
            let link = tokio::spawn(lend_by(clock, lending, ending));
            link.await
                .map_err(|panicked| format!("the link fell down: {panicked}"))
        });
        drop(control);
        world.authority.gate().end_session(&session);
        self.runtime.shutdown_background();
        world.end();
        // Last: a terminal that is held up holds up nothing but what is said on it.
        screen.end();
        prompt::give_back();
        let ended = ended.map_err(Problem::new)?;
        screen.note(&format!("ended: {}", words(&ended)));
        told(&ended, plan)
    }
}

/// The directory that is lent, as its owner spells it.
fn directory(plan: &Plan) -> String {
    let root = plan.settings.roots.first();
    root.map_or_else(String::new, |root| root.path.to_string_lossy().into_owned())
}

/// Where `status` and `disconnect` are answered. A link without is a link.
fn control(data: &Path, log: Log) -> Option<sockets::Control> {
    match sockets::control(data) {
        Ok(Some(control)) => Some(control),
        Ok(None) => {
            log.warn("another connect runs: portcullis status and disconnect speak to that one");
            None
        }
        Err(error) => {
            log.warn(format_args!(
                "portcullis status and disconnect do not reach this one: {error}"
            ));
            None
        }
    }
}

/// Who is asked where a person has to decide.
fn asking(
    plan: &Plan,
    env: &Environment,
    world: &World,
    screen: &Arc<Screen>,
    ending: &CancellationToken,
) -> Asking {
    let terminal = match plan.asked {
        Asked::Nobody => return Asking::Nobody,
        Asked::Server => return Asking::There,
        Asked::Elsewhere => None,
        Asked::Terminal => {
            let terminal = Terminal::open(&env.user, Arc::clone(screen), ending.clone());
            Some(Arc::new(terminal) as Arc<dyn Approver>)
        }
    };
    // `portcullis approve` at another terminal answers as well.
    let (store, clock) = (world.store.clone(), Arc::clone(&world.clock));
    Asking::Here(Arc::new(DurableApprover::new(store, terminal, clock)))
}

/// Everything the far end of the link needs.
fn lending(
    plan: &Plan,
    world: &World,
    screen: &Arc<Screen>,
    errands: Errands,
    route: Route,
) -> Lending {
    let machine = Here::new(Arc::clone(&world.authority)).writing();
    let caller = Caller::new(Subject::of(errands.principal.clone()), "link");
    Lending {
        surface: Surface {
            root_path: directory(plan),
            host: plan.host.clone(),
            machine: plan.machine.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            tools: machine.catalog(&caller),
        },
        machine: Arc::new(machine),
        errands,
        route,
        key: plan.token.clone(),
        speaking: plan.speaking,
        observer: Arc::clone(screen) as Arc<dyn Observer>,
    }
}

/// Connects by our sockets.
struct OurSockets;

impl Dial for OurSockets {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> Dialling<'a> {
        Box::pin(sockets::dial(host, port))
    }
}

/// What ends a session from here: the usual signals, and a terminal that goes.
struct Ends {
    usual: Signals,
    hangup: tokio::signal::unix::Signal,
}

impl Ends {
    fn listen() -> Result<Self, String> {
        Ok(Self {
            usual: Signals::listen()?,
            hangup: signal(SignalKind::hangup()).map_err(|error| format!("signals: {error}"))?,
        })
    }
}

async fn end_on_signals(mut ends: Ends, ending: CancellationToken) {
    tokio::select! {
        () = ends.usual.any() => {}
        _ = ends.hangup.recv() => {}
    }
    ending.cancel();
}

async fn tick(screen: Arc<Screen>) {
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tick.tick().await;
        screen.tick();
    }
}

fn words(ended: &Ended) -> String {
    match ended {
        Ended::Asked => "disconnected".to_owned(),
        Ended::ByServer => "the server ended the session".to_owned(),
        Ended::Replaced(by) => format!("another daemon, on {by}, stands for this machine now"),
        Ended::Unreachable(why) => format!("the server is not reached: {why}"),
        Ended::WrongToken => "the token is wrong, used or too old".to_owned(),
        Ended::Refused(status) => format!("the server answered {status}"),
        Ended::Lost => "the server does not know this session any more".to_owned(),
        Ended::NothingToLend => {
            "the server only looks at files, and looking at them is not lent".to_owned()
        }
        Ended::OtherDialect => "the server does not speak the dialect asked for".to_owned(),
    }
}

/// Says how it ended, and what to do where that was not wanted.
fn told(ended: &Ended, plan: &Plan) -> Result<Ending, Problem> {
    let said = words(ended);
    let problem = |hint: &str| {
        let what = format!("{}: {}.", plan.address, shown(&said));
        Err(Problem::new(what).hint(hint))
    };
    match ended {
        Ended::Asked | Ended::ByServer | Ended::Replaced(_) => {
            aside(format_args!("{}: {}", plan.address, shown(&said)));
            Ok(Ending::Fine)
        }
        Ended::Unreachable(_) => problem(
            "Look at the address, HTTPS_PROXY and NO_PROXY; a private certificate authority is named with --ca FILE.",
        ),
        Ended::WrongToken => {
            problem("Have the server show a new one: a token counts once, and for 5 minutes.")
        }
        Ended::Refused(_) => problem("Is there a gateway at this address? Look at the URL."),
        Ended::Lost => problem("Pair again: have the server show a new token."),
        Ended::NothingToLend => problem("Lend it: --permission-filesystem-read allow"),
        Ended::OtherDialect => problem(
            "Have the server show a new token, as this one is used up, and let it choose: --dialect auto",
        ),
    }
}
