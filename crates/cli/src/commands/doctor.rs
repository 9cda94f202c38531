//! `portcullis doctor`: what this machine can promise, and the exact fix for
//! what it cannot.

use std::path::Path;
use std::sync::Arc;

use portcullis_files::{
    AuditLog, PrivateDir, Probe, Survey, shares_mount, survey, survey_kernel, survey_own,
};
use portcullis_gate::{Hook as _, HookCall, HookSay};
use portcullis_policy::Hardlinks;
use portcullis_proto::{Access, Facts, Principal, RelPath, RequestId, Resource, Subject, Verb};
use portcullis_store::Store;

use crate::args::{DoctorArgs, Everywhere};
use crate::environment::Environment;
use crate::out::{BOLD, CYAN, Mark, Out, paint, shown};
use crate::problem::{Ending, Problem};
use crate::settings::{self, DefaultDir, HookSetting, Overrides, RootSetting, Settings};
use crate::wiring::{Purpose, World, hook, open_data};

pub(crate) fn run(
    everywhere: &Everywhere,
    env: &Environment,
    args: &DoctorArgs,
) -> Result<Ending, Problem> {
    let mut report = Report {
        out: Out::stdout(),
        missing: 0,
    };
    report.kernel()?;
    let settings = report.settings(everywhere, env, args)?;
    let data_dir = settings::data_dir(everywhere, env)?;
    let data = report.data(&data_dir)?;
    if let Some(data) = &data {
        report.state(data)?;
    }
    if let Some(settings) = settings {
        report.directories(&settings, data.as_ref())?;
        report.hooks(&settings.hooks)?;
        report.world(&settings)?;
    }
    report.end()
}

struct Report {
    out: Out,
    missing: usize,
}

impl Report {
    fn head(&mut self, title: &str) -> Result<(), Problem> {
        self.out.line(paint(BOLD, title))
    }

    fn fine(&mut self, what: impl std::fmt::Display) -> Result<(), Problem> {
        self.out
            .line(format_args!("  {} {what}", Mark::Yes.with("ok     ")))
    }

    /// Works, with less to promise.
    fn weak(&mut self, what: impl std::fmt::Display, fix: &str) -> Result<(), Problem> {
        self.out
            .line(format_args!("  {} {what}", Mark::Warn.with("weaker ")))?;
        self.fix(fix)
    }

    /// Essential, and not there.
    fn missing(&mut self, what: impl std::fmt::Display, fix: &str) -> Result<(), Problem> {
        self.missing += 1;
        self.out
            .line(format_args!("  {} {what}", Mark::No.with("missing")))?;
        self.fix(fix)
    }

    fn problem(&mut self, problem: &Problem) -> Result<(), Problem> {
        let fix = problem.hint.clone().unwrap_or_default();
        self.missing(&problem.what, &fix)
    }

    fn fix(&mut self, fix: &str) -> Result<(), Problem> {
        if fix.is_empty() {
            return Ok(());
        }
        self.out
            .line(format_args!("            {} {fix}", paint(CYAN, "fix:")))
    }

    fn kernel(&mut self) -> Result<(), Problem> {
        let kernel = survey_kernel();
        self.head("Kernel")?;
        self.fine(format_args!("Linux {}", shown(&kernel.release)))?;
        match kernel.openat2 {
            Probe::KernelAtomic => {
                self.fine("openat2: paths are resolved and checked in one system call")?;
            }
            Probe::Missing => self.weak(
                "openat2 is missing: paths are resolved by a walk (best_effort)",
                "run Linux 5.6 or newer",
            )?,
            // A filter is no reason for the walk, so without a word from the
            // operator nothing is served.
            Probe::Forbidden => self.missing(
                "openat2 is forbidden by a filter: no directory is served",
                "update the container runtime, run it with --security-opt seccomp=unconfined, or accept the walk by name: portcullis mcp --resolver best-effort",
            )?,
        }
        match kernel.landlock {
            Some(true) => self.fine("Landlock is on (for running commands, in a later version)"),
            Some(false) => self.weak(
                "Landlock is off (needed for running commands, in a later version)",
                "add landlock to the kernel's lsm= parameter",
            ),
            None => self.weak(
                "Landlock: the kernel does not say (needed for running commands, in a later version)",
                "mount -t securityfs securityfs /sys/kernel/security",
            ),
        }
    }

    fn settings(
        &mut self,
        everywhere: &Everywhere,
        env: &Environment,
        args: &DoctorArgs,
    ) -> Result<Option<Settings>, Problem> {
        self.head("Settings")?;
        let overrides = Overrides {
            dir: args.dir.clone(),
            default_dir: DefaultDir::Working,
            ..Overrides::default()
        };
        match settings::resolve(everywhere, env, &overrides) {
            Ok(settings) => {
                if settings.file_exists {
                    let rules = settings.rules.len();
                    self.fine(format_args!(
                        "{}: valid, {rules} rules agree with their examples",
                        settings.file.display()
                    ))?;
                } else {
                    self.fine("no settings file: the recommended settings hold")?;
                }
                Ok(Some(settings))
            }
            Err(problem) => {
                self.problem(&problem)?;
                Ok(None)
            }
        }
    }

    fn data(&mut self, dir: &Path) -> Result<Option<PrivateDir>, Problem> {
        self.head("Data directory")?;
        let data = match open_data(dir) {
            Ok(data) => data,
            Err(problem) => {
                self.problem(&problem)?;
                return Ok(None);
            }
        };
        self.fine(format_args!("{}: yours, closed to others", dir.display()))?;
        match survey_own(data.path()) {
            Ok(seen) => {
                if seen.network {
                    self.weak(
                        format_args!(
                            "on {}, over a network: SQLite's write-ahead log is not safe there",
                            seen.file_system
                        ),
                        "name a local directory: portcullis --data-dir DIR …",
                    )?;
                } else {
                    self.fine(format_args!("on {}, a local file system", seen.file_system))?;
                }
                self.exchanges(seen.exchanges)?;
            }
            Err(failure) => self.problem(&failure.into())?,
        }
        Ok(Some(data))
    }

    fn exchanges(&mut self, exchanges: Option<bool>) -> Result<(), Problem> {
        match exchanges {
            Some(true) => self.fine("RENAME_EXCHANGE: files can change places atomically"),
            Some(false) => self.weak(
                "RENAME_EXCHANGE is missing: a change is kept apart from other writers only where they lock, and its receipt says cooperative",
                "use ext4, xfs, btrfs or tmpfs",
            ),
            None => {
                self.fine("RENAME_EXCHANGE: only trying would tell, and nothing is written here")
            }
        }
    }

    fn state(&mut self, data: &PrivateDir) -> Result<(), Problem> {
        self.head("Audit and state")?;
        let audit = data.sub("audit").map_err(Problem::from).and_then(|dir| {
            survey_own(dir.path())?;
            Ok(AuditLog::open(data)?)
        });
        match audit.and_then(|log| Ok((log.chains()?.len(), log.lacks_room()))) {
            Ok((chains, None)) => self.fine(format_args!(
                "the audit can be written, and its key read; {chains} chains so far"
            ))?,
            Ok((_, Some(room))) => self.missing(
                format_args!(
                    "less than {} KiB are left on the disk of the audit: changes are refused",
                    room / 1024
                ),
                "make room there, or name another directory: portcullis --data-dir DIR …",
            )?,
            Err(problem) => self.problem(&problem)?,
        }
        match Store::new(data.path()).check() {
            Ok(()) => self.fine("the state database is sound, or not needed yet"),
            Err(error) => self.problem(&error.into()),
        }
    }

    fn directories(
        &mut self,
        settings: &Settings,
        data: Option<&PrivateDir>,
    ) -> Result<(), Problem> {
        for root in &settings.roots {
            self.head(&format!("Root {} ({})", root.spec.id, root.spec.kind))?;
            match survey(&root.path) {
                Ok(seen) => {
                    self.directory(root, &seen)?;
                    if let Some(data) = data {
                        self.undo(data, root)?;
                    }
                }
                Err(failure) => self.missing(
                    Problem::from(failure).what,
                    "name a directory that is there: portcullis doctor --dir DIR",
                )?,
            }
        }
        Ok(())
    }

    fn directory(&mut self, root: &RootSetting, seen: &Survey) -> Result<(), Problem> {
        self.fine(format_args!(
            "{} on {}",
            root.path.display(),
            seen.file_system
        ))?;
        if seen.network {
            self.weak(
                "over a network: another machine can change files behind the kernel's back",
                "serve a local copy where that matters",
            )?;
        }
        if seen.folds_case {
            self.weak(
                "names that differ in case alone are one file here: rules about names may not cover every spelling",
                "write deny rules for both spellings",
            )?;
        }
        self.exchanges(seen.exchanges)?;
        let looked = seen.looked_at;
        match (seen.hardlinked, root.spec.policy.hardlinks) {
            (0, _) => self.fine(format_args!("no file of {looked} has another name")),
            (some, Hardlinks::Reject) => self.weak(
                format_args!("{some} of {looked} files have another name, and this root refuses them"),
                "portcullis mcp --hardlinks allow-own, or \"hardlinks\": \"allow-own\" in the settings",
            ),
            (some, Hardlinks::AllowOwn) => self.fine(format_args!(
                "{some} of {looked} files have another name; they are read where they are yours"
            )),
            (some, Hardlinks::Allow) => self.weak(
                format_args!("{some} of {looked} files have another name, and all are read"),
                "portcullis mcp --hardlinks allow-own",
            ),
        }
    }

    fn undo(&mut self, data: &PrivateDir, root: &RootSetting) -> Result<(), Problem> {
        match shares_mount(data, &root.path) {
            Ok(true) => self.fine("what changes displace is kept for undo in the data directory"),
            Ok(false) => self.fine(
                "on another mount than the data directory: what changes displace is kept for undo at the top of that mount, in the root as .portcullis, or by copy; portcullis undo list says which",
            ),
            Err(failure) => self.problem(&failure.into()),
        }
    }

    fn hooks(&mut self, hooks: &[HookSetting]) -> Result<(), Problem> {
        if hooks.is_empty() {
            return Ok(());
        }
        self.head("Hooks")?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        for setting in hooks {
            let tried = hook(setting);
            let program = match tried {
                Ok(program) => program,
                Err(problem) => {
                    self.problem(&problem)?;
                    continue;
                }
            };
            let call = sample_call();
            match runtime.block_on(program.before(&call)) {
                HookSay::Pass => self.fine(format_args!("{}: answers, and passes", setting.id))?,
                HookSay::Ask(_) => self.fine(format_args!("{}: answers, and asks", setting.id))?,
                HookSay::Deny(_) => {
                    self.fine(format_args!("{}: answers, and denies", setting.id))?;
                }
                HookSay::Broken(why) => self.missing(
                    format_args!(
                        "{} does not answer as it should ({}): it denies everything",
                        setting.id,
                        shown(&why)
                    ),
                    &format!("try it by hand: {}", setting.command.join(" ")),
                )?,
            }
        }
        runtime.shutdown_background();
        Ok(())
    }

    /// The whole, as `mcp` would build it.
    fn world(&mut self, settings: &Settings) -> Result<(), Problem> {
        self.head("Everything together")?;
        match World::open(settings, Purpose::Look) {
            Ok(world) => {
                let roots = world.authority.roots().count();
                self.fine(format_args!("the gate opens over {roots} roots"))?;
                self.named(&world)
            }
            Err(problem) => self.problem(&problem),
        }
    }

    /// What runs, or is trusted, and stands where agents work.
    fn named(&mut self, world: &World) -> Result<(), Problem> {
        for (root, file) in world.authority.named_inside() {
            self.weak(
                format_args!(
                    "{} stands inside the root {root}: {} (agents cannot change it; what it loads from there, they can)",
                    file.what,
                    file.path.display()
                ),
                "move it out of what is served, and name its new place",
            )?;
        }
        Ok(())
    }

    fn end(mut self) -> Result<Ending, Problem> {
        self.out.blank()?;
        if self.missing == 0 {
            self.out
                .line(Mark::Yes.with("ready: portcullis mcp --dir DIR"))?;
            return Ok(Ending::Fine);
        }
        let count = self.missing;
        self.out.line(Mark::No.with(format_args!(
            "not ready: {count} essential {} missing",
            if count == 1 { "thing is" } else { "things are" }
        )))?;
        Ok(Ending::Found)
    }
}

/// What hooks are tried with: a read of a file that need not exist.
fn sample_call() -> HookCall {
    let root = portcullis_proto::RootId::parse("doctor");
    let resources = root.into_iter().map(|root| Resource {
        root,
        kind: portcullis_proto::RootKind::Workspace,
        path: RelPath::parse("doctor.txt").unwrap_or_else(|_| RelPath::root()),
        access: Access::Read,
        identity: None,
        above: None,
    });
    HookCall {
        request_id: RequestId::new("r_doctor_1"),
        subject: Subject::of(Principal::Core {
            id: "doctor".into(),
        }),
        facts: Arc::new(Facts {
            verb: Verb::Read,
            resources: resources.collect(),
            shown: None,
            shrinks: false,
            below: Vec::new(),
            more_below: 0,
            unkept: false,
        }),
    }
}
