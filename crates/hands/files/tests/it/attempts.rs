//! Every reading verb as one value, and every failure looked at.

use portcullis_files::{
    ByteWindow, Case, GlobRequest, Hidden, ListRequest, Order, ScopedFs, SearchRequest, TextFrom,
    TextRequest, TreeRequest, Want,
};
use portcullis_policy::Containment;
use portcullis_proto::{Failure, Reason};
use portcullis_testkit::{Scratch, World};

/// A way to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reading {
    Bytes,
    Text,
    Json,
    List,
    Stat,
    Glob,
    Tree,
    Search,
}

impl Reading {
    pub(crate) const ALL: [Self; 8] = [
        Self::Bytes,
        Self::Text,
        Self::Json,
        Self::List,
        Self::Stat,
        Self::Glob,
        Self::Tree,
        Self::Search,
    ];
    /// Those that hand out what is in a file.
    pub(crate) const OF_FILES: [Self; 3] = [Self::Bytes, Self::Text, Self::Json];
    /// Those that hand out the names in a directory.
    pub(crate) const OF_DIRECTORIES: [Self; 3] = [Self::List, Self::Glob, Self::Tree];
}

/// What came back, as text that can be searched for what must not be in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) text: String,
    pub(crate) containment: Option<Containment>,
}

pub(crate) fn list_all() -> ListRequest {
    ListRequest {
        want: Want::All,
        order: Order::Name,
        max: 100_000,
        after: None,
        metadata: true,
        include_ignored: false,
        mark_ignored: false,
    }
}

pub(crate) fn glob_all() -> GlobRequest {
    GlobRequest {
        pattern: None,
        want: Want::All,
        max: 1_000_000,
        include_ignored: false,
        patience_us: 60_000_000,
    }
}

pub(crate) fn tree_all() -> TreeRequest {
    TreeRequest {
        max_depth: 200,
        max_entries: 1_000_000,
        exclude: Vec::new(),
        include_ignored: false,
        sizes: false,
        patience_us: 60_000_000,
    }
}

pub(crate) fn search_all(query: &str) -> SearchRequest {
    SearchRequest {
        query: query.to_owned(),
        literal: false,
        case: Case::Sensitive,
        multiline: false,
        files: None,
        before: 0,
        after: 0,
        max_matches: 1_000_000,
        max_per_file: usize::MAX,
        max_bytes: 100_000_000,
        max_line_bytes: 100_000,
        include_ignored: false,
        hidden: Hidden::Shown,
        patience_us: 60_000_000,
    }
}

pub(crate) fn text_all() -> TextRequest {
    TextRequest {
        from: TextFrom::Line(1),
        max_lines: 1_000_000,
        max_bytes: 1_000_000,
        max_line_bytes: None,
        encoding: None,
        classify: true,
    }
}

/// Reads `path` in the way named.
pub(crate) async fn attempt(fs: &ScopedFs, how: Reading, path: &str) -> Result<Got, Failure> {
    let got = |text: String, containment| Got {
        text,
        containment: Some(containment),
    };
    let result = match how {
        Reading::Bytes => fs.read_bytes(path, ByteWindow::Whole).await.map(|page| {
            let text = String::from_utf8_lossy(&page.bytes).into_owned();
            got(text, page.containment)
        }),
        Reading::Text => fs
            .read_text(path, text_all())
            .await
            .map(|reply| got(reply.page.text, reply.containment)),
        Reading::Json => fs.read_json(path).await.map(|value| Got {
            text: value.to_string(),
            containment: None,
        }),
        Reading::List => fs
            .list(path, list_all())
            .await
            .map(|listed| got(format!("{:?}", listed.entries), listed.containment)),
        Reading::Stat => fs
            .stat(path)
            .await
            .map(|reply| got(format!("{:?}", reply.meta), reply.containment)),
        Reading::Glob => fs
            .glob(path, glob_all())
            .await
            .map(|found| got(format!("{:?}", found.entries), found.containment)),
        Reading::Tree => fs
            .tree(path, tree_all())
            .await
            .map(|tree| got(format!("{:?}", tree.children), tree.containment)),
        // Whatever line there is.
        Reading::Search => fs
            .search(path, search_all("^"))
            .await
            .map(|found| got(format!("{:?}", found.files), found.containment)),
    };
    if let Err(failure) = &result {
        fit_to_be_shown(failure);
    }
    result
}

/// Reads, and gives up with the test's name when it hangs.
pub(crate) async fn attempt_soon(fs: &ScopedFs, how: Reading, path: &str) -> Result<Got, Failure> {
    tokio::time::timeout(portcullis_testkit::PATIENCE, attempt(fs, how, path))
        .await
        .unwrap_or_else(|_| panic!("{how:?} of {path:?} hangs"))
}

/// Checks that every way in `hows` to read `path` is refused for `want`.
#[track_caller]
pub(crate) fn refused(world: &World, hows: &[Reading], path: &str, want: Reason) {
    let fs = world.fs();
    for how in hows {
        let got = block_on(attempt_soon(&fs, *how, path));
        match got {
            Err(failure) => assert_eq!(failure.reason(), want, "{how:?} of {path:?}: {failure:?}"),
            Ok(got) => panic!("{how:?} of {path:?} returned {got:?}, not {want}"),
        }
    }
}

/// Checks that every way in `hows` to read `path` returns something with `part` in it.
#[track_caller]
pub(crate) fn allowed(world: &World, hows: &[Reading], path: &str, part: &str) {
    let fs = world.fs();
    for how in hows {
        match block_on(attempt_soon(&fs, *how, path)) {
            Ok(got) => assert!(got.text.contains(part), "{how:?} of {path:?}: {got:?}"),
            Err(failure) => panic!("{how:?} of {path:?}: {failure:?}"),
        }
    }
}

/// A failure never names the machine: neither where the tree stands nor where
/// anything else does. Every failure of every test here goes through this.
#[track_caller]
pub(crate) fn fit_to_be_shown(failure: &Failure) {
    let scratch = std::env::temp_dir();
    let scratch = scratch.to_string_lossy();
    let words = [failure.message(), failure.next_step().unwrap_or_default()];
    for word in words {
        for host in [
            &*scratch,
            "/tmp",
            "/dev/shm",
            "/proc",
            "portcullis-scratch",
            concat!("/", "root"),
        ] {
            assert!(!word.contains(host), "{host} in {word:?}");
        }
    }
}

/// Runs a future on a runtime of its own.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(future)
}

/// Whether this is a process of its own for the test called `name`, its module
/// included. If not, the test has been run in one by now, and passed there.
#[track_caller]
pub(crate) fn is_alone(name: &str) -> bool {
    const ALONE: &str = "PORTCULLIS_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let cried = String::from_utf8_lossy(&output.stderr);
    // A name that is misspelt runs nothing, and that is no success.
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{cried}"
    );
    false
}

/// A workspace over what `literal` describes.
#[track_caller]
pub(crate) fn workspace(literal: &str) -> World {
    World::workspace().over(Scratch::of(literal))
}

/// Says that part of a test could not be tried here; it does not count as
/// passed. Written past the harness, which keeps back what a passing test prints.
pub(crate) fn not_tried(what: &str) {
    use std::io::Write as _;
    drop(writeln!(std::io::stderr(), "NOT TRIED: {what}"));
}
