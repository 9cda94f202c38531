//! Hooks that are programs: started per deed, asked on stdin, heard on stdout.
//!
//! Whatever goes wrong with one is [`HookSay::Broken`], and the gate refuses.

mod run;
mod wire;

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use portcullis_gate::{Hook, HookCall, HookSay};
use portcullis_proto::Outcome;
use tokio::sync::{Semaphore, mpsc};

use self::run::Program;

/// How many of one hook's programs run at once. Waiting for a turn counts into
/// the hook's own time.
const AT_ONCE: usize = 16;
/// How many deeds a hook that is told afterwards may be behind.
const QUEUE: usize = 128;

/// Which events a hook is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Events {
    /// Asked before the act.
    Before,
    /// Asked before, and told after.
    Both,
}

/// A hook that cannot be declared so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadHook {
    /// There is no program.
    NoProgram,
    /// The program is not an absolute path; it would depend on where we stand.
    NotAbsolute,
    /// An argument holds a NUL.
    Nul,
    /// It is given no time.
    NoTime,
}

impl fmt::Display for BadHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoProgram => "a hook needs a program",
            Self::NotAbsolute => "a hook's program must be an absolute path",
            Self::Nul => "a hook's arguments cannot hold a NUL",
            Self::NoTime => "a hook needs a time limit above zero",
        })
    }
}

impl std::error::Error for BadHook {}

/// A hook that is a program.
#[derive(Debug)]
pub struct ProgramHook {
    id: String,
    events: Events,
    program: Arc<Program>,
    turns: Semaphore,
    queue: OnceLock<mpsc::Sender<Vec<u8>>>,
    dropped: AtomicU64,
}

impl ProgramHook {
    /// The hook `id`, which runs `argv` and has `timeout` to answer.
    pub fn new(
        id: impl Into<String>,
        argv: Vec<String>,
        timeout: Duration,
    ) -> Result<Self, BadHook> {
        if argv.iter().any(|arg| arg.contains('\0')) {
            return Err(BadHook::Nul);
        }
        if timeout.is_zero() {
            return Err(BadHook::NoTime);
        }
        let mut argv = argv.into_iter();
        let path = argv.next().ok_or(BadHook::NoProgram)?;
        if !Path::new(&path).is_absolute() {
            return Err(BadHook::NotAbsolute);
        }
        Ok(Self {
            id: id.into(),
            events: Events::Before,
            program: Arc::new(Program {
                path,
                args: argv.collect(),
                timeout,
            }),
            turns: Semaphore::new(AT_ONCE),
            queue: OnceLock::new(),
            dropped: AtomicU64::new(0),
        })
    }

    /// Told of these events.
    #[must_use]
    pub fn events(mut self, events: Events) -> Self {
        self.events = events;
        self
    }

    /// How many deeds it was not told of afterwards, because it was too far behind.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    async fn ask(&self, call: &HookCall) -> HookSay {
        let request = match wire::before(call) {
            Ok(request) => request,
            Err(why) => return HookSay::Broken(why),
        };
        let deadline = tokio::time::Instant::now() + self.program.timeout;
        let Ok(Ok(turn)) = tokio::time::timeout_at(deadline, self.turns.acquire()).await else {
            return HookSay::Broken("no turn came before the time was over".to_owned());
        };
        let said = self.program.run(&request, deadline).await;
        drop(turn);
        match said.and_then(|stdout| wire::understand(&stdout)) {
            Ok(say) => say,
            Err(why) => HookSay::Broken(why),
        }
    }

    /// Where `after` events go. The task starts with the first of them and ends
    /// with the hook.
    fn queue(&self) -> Option<&mpsc::Sender<Vec<u8>>> {
        if let Some(queue) = self.queue.get() {
            return Some(queue);
        }
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        Some(self.queue.get_or_init(|| {
            let (tell, mut told) = mpsc::channel::<Vec<u8>>(QUEUE);
            let program = Arc::clone(&self.program);
            runtime.spawn(async move {
                while let Some(request) = told.recv().await {
                    let deadline = tokio::time::Instant::now() + program.timeout;
                    // It observes: what it says, or fails to, changes nothing.
                    program.run(&request, deadline).await.ok();
                }
            });
            tell
        }))
    }
}

impl Hook for ProgramHook {
    fn id(&self) -> &str {
        &self.id
    }

    fn before<'a>(
        &'a self,
        call: &'a HookCall,
    ) -> Pin<Box<dyn Future<Output = HookSay> + Send + 'a>> {
        Box::pin(self.ask(call))
    }

    fn after(&self, call: &HookCall, outcome: Outcome) {
        match self.events {
            Events::Before => return,
            Events::Both => {}
        }
        let sent = wire::after(call, outcome)
            .ok()
            .zip(self.queue())
            .is_some_and(|(request, queue)| queue.try_send(request).is_ok());
        if !sent {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}
