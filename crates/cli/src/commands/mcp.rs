//! `portcullis mcp`: serves directories to one agent over standard input and
//! output. Starts fast: nothing is opened that a first call does not need.

use std::sync::Arc;
use std::time::Duration;

use portcullis_files::{Leftover, shared_secret};
use portcullis_policy::Containment;
use portcullis_proto::{ConversationId, Group, Mode, Principal, SessionId, Subject};
use portcullis_server::{McpParts, serve_stdio};
use portcullis_tools::Here;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::MissedTickBehavior;

use crate::args::{Everywhere, McpArgs};
use crate::commands::recover::{Tense, told};
use crate::environment::Environment;
use crate::log::Log;
use crate::problem::{Ending, Problem};
use crate::settings::{self, Overrides, Settings};
use crate::wiring::{LiveRules, Purpose, World};

/// How often the rules are looked at for a change another process made. A
/// revocation is promised to hold within 100 ms.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The name of the secret that seals request states, in the data directory.
pub(crate) const STATE_KEY: &str = "request-state.key";

pub(crate) fn run(
    everywhere: &Everywhere,
    env: &Environment,
    args: &McpArgs,
) -> Result<Ending, Problem> {
    keep_room();
    let settings = settings::resolve(everywhere, env, &Overrides::from(args))?;
    let log = Log::of(&settings);
    check_groups(&settings, log)?;
    if settings.roots.is_empty() {
        return Err(Problem::usage("No directory to serve is named.")
            .hint("Name one: portcullis mcp --dir ."));
    }
    let world = World::open(&settings, Purpose::Serve)?;
    tell_roots(&world, log);
    if settings.writing.is_on() {
        recover(&world, log);
    }
    let parts = parts(&settings, &world);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let live = Arc::clone(&world.live);
    let ended = runtime.block_on(async move {
        tokio::spawn(watch(live, log));
        let mut asked_to_end = Signals::listen()?;
        tokio::select! {
            ended = serve_stdio(parts) => ended,
            // What is under way ends with its line, and the chain is signed off.
            () = asked_to_end.any() => Ok(()),
        }
    });
    // The thread that reads standard input may wait for a line that never
    // comes, so threads are not waited for; the lines of what they do are.
    runtime.shutdown_background();
    world.end();
    match ended {
        Ok(()) => log.info("ended in order"),
        Err(why) => log.warn(why),
    }
    log.debug(format_args!("chain {}", world.chain));
    Ok(Ending::Fine)
}

/// The largest piece of memory a reply of the usual size takes.
const ROOM: usize = 1024 * 1024;

/// Has the allocator keep what a call gave back for the next one: a page of a
/// long directory takes some hundred KiB, and to return them and to get them
/// anew costs as much as writing the page. glibc keeps twice the largest piece
/// that was ever given back, so one is, untouched.
fn keep_room() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(ROOM)));
}

/// At least one group has to be on; those without tools here are named.
fn check_groups(settings: &Settings, log: Log) -> Result<(), Problem> {
    let on = |group: &Group| settings.modes.of(*group) != Mode::Deny;
    if !Group::ALL.iter().any(on) {
        return Err(
            Problem::usage("Every tool group is denied, so there is nothing to serve.")
                .hint("Switch one on: portcullis mcp --dir . --permission-filesystem-read allow"),
        );
    }
    for group in Group::ALL.iter().filter(|group| on(group)) {
        match group {
            Group::FilesystemWrite if !settings.writing.is_on() => {
                log.info(format_args!("{group}: off; --write switches it on"));
            }
            Group::FilesystemRead | Group::FilesystemWrite => {
                log.info(format_args!("{group}: {}", settings.modes.of(*group)));
            }
            Group::Shell | Group::Computer | Group::Browser => {
                log.info(format_args!("{group}: not available here"));
            }
        }
    }
    if !on(&Group::FilesystemRead) {
        log.warn(
            "filesystemRead is denied and no other group is available here: the agent sees no tool",
        );
    }
    Ok(())
}

pub(crate) fn tell_roots(world: &World, log: Log) {
    for declared in world.authority.roots() {
        let (entry, root) = (declared.entry(), declared.root());
        log.info(format_args!(
            "root {} ({}): {}",
            entry.id(),
            entry.kind(),
            root.host_path().display()
        ));
        match root.containment() {
            Containment::KernelAtomic => {}
            Containment::BestEffort => log.warn(format_args!(
                "root {}: paths are resolved by a walk (best_effort); `portcullis doctor` names the fix",
                entry.id()
            )),
        }
    }
    for (root, file) in world.authority.named_inside() {
        log.warn(format_args!(
            "{} stands inside the root {root}, at {}: agents cannot change it, but move it out of what they are served",
            file.what,
            file.path.display()
        ));
    }
}

/// Puts right what a crash left, beside the start and not before it. What is
/// being recovered is never what a call of ours works on: its process is dead.
pub(crate) fn recover(world: &World, log: Log) {
    let (authority, data) = (Arc::clone(&world.authority), world.data.clone());
    std::thread::spawn(move || match authority.recover(&data, false) {
        Ok(found) => {
            for one in &found {
                let told = format!("recovered: {}", told(one, Tense::Done));
                match one.found {
                    Leftover::Nothing => log.info(told),
                    Leftover::Unpublished
                    | Leftover::Displaced
                    | Leftover::PutBack
                    | Leftover::Abandoned
                    | Leftover::Conflict
                    | Leftover::Stuck => log.warn(told),
                }
            }
        }
        Err(failure) => log.error(format_args!(
            "recovery did not end: {}; try: portcullis recover",
            failure.message()
        )),
    });
}

fn parts(settings: &Settings, world: &World) -> McpParts {
    let mut subject = Subject::of(Principal::User { id: "me".into() });
    // One process is one session; its chain in the audit tells them apart. The
    // conversation is the client's, so that a question put by one process can
    // be finished by the next.
    subject.conversation_id = Some(ConversationId::new(settings.client_name.as_str()));
    let data_dir = settings.data_dir.clone();
    let here = Here::new(Arc::clone(&world.authority));
    McpParts {
        machine: Arc::new(if settings.writing.is_on() {
            here.writing()
        } else {
            here
        }),
        subject,
        session: SessionId::new(world.chain.as_str()),
        store: world.store.clone(),
        clock: Arc::clone(&world.clock),
        state_key: Arc::new(move || {
            let data = portcullis_files::PrivateDir::open_or_create(&data_dir)?;
            shared_secret(&data, STATE_KEY)
        }),
        patience: settings.approve_timeout,
    }
}

/// The signals by which a client, or a person, ends a server.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, String> {
        let listen = |kind| signal(kind).map_err(|error| format!("signals: {error}"));
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    pub(crate) async fn any(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Puts in force what other processes change, until the runtime ends.
pub(crate) async fn watch(live: Arc<LiveRules>, log: Log) {
    let mut tick = tokio::time::interval(LOOK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut told = false;
    loop {
        tick.tick().await;
        match live.refresh() {
            Ok(true) => log.info("rules or trust changed, and hold from now on"),
            // What was in force stays in force.
            Err(problem) if !told => {
                told = true;
                log.error(problem.what);
            }
            Ok(false) | Err(_) => {}
        }
    }
}
