//! `portcullis trust`: directories a person trusts to be changed.

use std::path::{Path, PathBuf};

use portcullis_files::{Resolver, Root};
use portcullis_policy::RootPolicy;
use portcullis_proto::{Failure, Reason, RootKind};
use portcullis_store::Store;

use crate::args::{Everywhere, TrustCommand};
use crate::environment::Environment;
use crate::out::{Mark, Out, moment, shown};
use crate::problem::{Ending, Problem};
use crate::recorded::Recorded;
use crate::settings;
use crate::wiring::open_data;

pub(crate) fn run(
    everywhere: &Everywhere,
    env: &Environment,
    command: &TrustCommand,
) -> Result<Ending, Problem> {
    let data = open_data(&settings::data_dir(everywhere, env)?)?;
    let store = Store::new(data.path());
    let record = Recorded::by("cli/trust", &data);
    let mut out = Out::stdout();
    match command {
        TrustCommand::Add { dir } => {
            let root = pin(dir)?;
            let (dev, ino) = root.identity();
            let path = root.host_path().to_string_lossy();
            // By its identity: no host path is in the record.
            record.change(&format!("trust add {dev}:{ino}"), || {
                Ok(store.trust_add(&path, dev, ino)?)
            })?;
            out.line(Mark::Yes.with(format_args!("trusted: {}", shown(&path))))?;
            out.line(
                "  It holds for this very directory: another one put in its place is not trusted.",
            )?;
        }
        TrustCommand::Remove { dir } => {
            // Also one that is gone from the disk: then by its name alone.
            let path = match pin(dir) {
                Ok(root) => root.host_path().to_owned(),
                Err(_) => spelled(env, dir),
            };
            let path = path.to_string_lossy();
            let known = store.trusted()?.into_iter().find(|one| one.path == path);
            let Some(known) = known else {
                return Err(not_trusted(&path).into());
            };
            let what = format!("trust remove {}:{}", known.dev, known.ino);
            record.change(&what, || {
                let removed = store.trust_remove(&path)?;
                removed.then_some(()).ok_or_else(|| not_trusted(&path))
            })?;
            out.line(Mark::Yes.with(format_args!("no longer trusted: {}", shown(&path))))?;
        }
        TrustCommand::List => list(&store, &mut out)?,
    }
    Ok(Ending::Fine)
}

fn not_trusted(path: &str) -> Failure {
    let what = format!("{} was not trusted.", shown(path));
    Failure::new(Reason::NotFound, what).hint("portcullis trust list")
}

fn pin(dir: &Path) -> Result<Root, Problem> {
    // Which directory it is, and nothing below it: any resolver will do, and this
    // one also does where a filter forbids the other.
    let policy = RootPolicy::of(RootKind::Workspace);
    Root::adopt(dir, &policy, Resolver::BestEffort)
        .map_err(|failure| Problem::from(failure).hint(format!("ls -ld {}", dir.display())))
}

fn spelled(env: &Environment, dir: &Path) -> PathBuf {
    let absolute = env
        .working_dir
        .as_ref()
        .map_or_else(|| dir.to_owned(), |working| working.join(dir));
    // Without `.` and double slashes, as it was stored.
    absolute.components().collect()
}

fn list(store: &Store, out: &mut Out) -> Result<(), Problem> {
    let trusted = store.trusted()?;
    if trusted.is_empty() {
        return out.line("No directory is trusted. Trust one: portcullis trust add DIR");
    }
    let rows: Vec<Vec<String>> = trusted
        .iter()
        .map(|one| {
            let same =
                pin(Path::new(&one.path)).is_ok_and(|root| root.identity() == (one.dev, one.ino));
            vec![
                if same {
                    "✓ holds"
                } else {
                    "✗ another directory, or none, stands there"
                }
                .to_owned(),
                moment(u64::try_from(one.since).unwrap_or(0).saturating_mul(1000)),
                shown(&one.path).into_owned(),
            ]
        })
        .collect();
    out.table(&["STATE", "SINCE", "DIRECTORY"], &rows)
}
