//! Watching, from outside: what is told, what never is, and what is lost.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_macros,
    reason = "tests plant what Portcullis is tried on, and long forms say how far they are"
)]

mod bounds;
mod kept_back;
mod race;
mod told;

use std::fs;
use std::time::Duration;

use portcullis_files::{Change, ChangeKind, Changes, Watch, WatchRequest};
use portcullis_proto::Failure;
use portcullis_testkit::{Scratch, World};

/// Where `tree` stands, with something that watches `path` in it.
struct Watched {
    world: World,
    watch: Watch,
    runtime: tokio::runtime::Runtime,
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
}

/// How long a test waits for what has to come.
const PATIENCE: Duration = portcullis_testkit::PATIENCE;

impl Watched {
    fn of(tree: &str, path: &str) -> Self {
        Self::in_world(World::workspace().over(Scratch::of(tree)), path)
    }

    fn in_world(world: World, path: &str) -> Self {
        // Long enough that what a test does in one go is told in one batch,
        // however busy the machine.
        let request = WatchRequest {
            gather: Duration::from_millis(200),
            ..WatchRequest::default()
        };
        Self::begun(world, path, request)
    }

    fn begun(world: World, path: &str, request: WatchRequest) -> Self {
        let runtime = runtime();
        let watch = runtime.block_on(world.fs().watch(path, request)).unwrap();
        Self {
            world,
            watch,
            runtime,
        }
    }

    fn at(&self, path: &str) -> std::path::PathBuf {
        self.world.scratch.at(path)
    }

    fn write(&self, path: &str, content: &str) {
        fs::write(self.at(path), content).unwrap();
    }

    /// The next batch, or how the watch ended.
    fn next(&mut self) -> Result<Option<Changes>, Failure> {
        let next = async { tokio::time::timeout(PATIENCE, self.watch.next()).await };
        self.runtime.block_on(next).expect("something is told")
    }

    /// What is told until `last` is: each as `kind path`, `/` behind a directory.
    fn until(&mut self, last: &str) -> Vec<String> {
        let mut all = Vec::new();
        while !all.iter().any(|one| one == last) {
            let batch = self.next().unwrap().expect("the watch goes on");
            assert!(!batch.overflow, "{batch:?}");
            for change in &batch.names {
                let one = shown(change);
                // Told in two batches where the machine was too busy for one.
                let created = format!("created {}", change.path);
                if !(change.kind == ChangeKind::Modified && all.contains(&created)) {
                    all.push(one);
                }
            }
        }
        all.sort_by(|a, b| path_of(a).cmp(path_of(b)));
        all
    }

    /// What is told of what `act` does: everything up to a marker made after it.
    fn told_of(&mut self, act: impl FnOnce(&Self)) -> Vec<String> {
        act(self);
        self.write("marker", "");
        let mut told = self.until("created marker");
        told.retain(|one| !one.ends_with(" marker"));
        fs::remove_file(self.at("marker")).unwrap();
        let rest = self.until("removed marker");
        assert_eq!(rest.len(), 1, "told late: {rest:?}");
        told
    }
}

fn shown(change: &Change) -> String {
    let slash = if change.directory { "/" } else { "" };
    format!("{} {}{slash}", change.kind.as_str(), change.path)
}

fn path_of(shown: &str) -> impl Iterator<Item = &str> {
    let path = shown.split_once(' ').map_or(shown, |(_, path)| path);
    path.trim_end_matches('/').split('/')
}
