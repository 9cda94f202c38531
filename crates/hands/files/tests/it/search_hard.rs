//! Searching what is large, hostile or changing; and against the real ripgrep.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use portcullis_files::{Case, GlobRequest, Hidden, SearchRequest, Want};
use portcullis_testkit::{RealClock, Scratch, World, promised};

use crate::attempts::{block_on, glob_all, search_all};
use crate::search::shown;

/// A worse generator than most, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// A tree with ignore files at every depth, made by chance.
fn plant(dice: &mut Dice, scratch: &Scratch) {
    const NAMES: &[&str] = &["a", "b", "keep", "log", "tmp", ".hid", "x y", "ä"];
    const ENDS: &[&str] = &["", ".log", ".txt", ".rs", ".tmp"];
    const RULES: &[&str] = &[
        "*.log",
        "!keep.log",
        "/a",
        "b/",
        "!b/",
        "tmp*",
        "**/x y",
        "a/**/b",
        "!*.txt",
        "*.t?t",
        "[ab].rs",
        "# nothing",
        "!/keep",
        "\\!a",
        "**/log/**",
        "keep/*",
        "!keep/a.rs",
        ".hid",
    ];
    const LINES: &[&str] = &["needle", "a needle b", "nothing", "", "Needle", "needle\r"];
    let mut dirs = vec![String::new()];
    for _ in 0..12 {
        let above = dirs[dice.below(dirs.len())].clone();
        if above.matches('/').count() < 4 {
            dirs.push(format!("{above}{}/", dice.pick(NAMES)));
        }
    }
    for dir in &dirs {
        for _ in 0..dice.below(8) {
            let path = format!("{dir}{}{}", dice.pick(NAMES), dice.pick(ENDS));
            if scratch.at(&path).is_dir() || dirs.contains(&format!("{path}/")) {
                continue;
            }
            let text: Vec<&str> = (0..dice.below(6)).map(|_| dice.pick(LINES)).collect();
            scratch.file(&path, text.join("\n"));
        }
        if dice.below(2) == 0 {
            let rules: Vec<&str> = (0..=dice.below(4)).map(|_| dice.pick(RULES)).collect();
            scratch.file(&format!("{dir}.gitignore"), rules.join("\n"));
        }
    }
}

/// What ripgrep says by our rules: `.gitignore` of the tree alone and without a
/// repository. It has no built-in exclusions, and the trees have none of them.
fn rg(root: &Path, arguments: &[&str]) -> BTreeSet<String> {
    let output = Command::new("rg")
        .args([
            "--no-config",
            "--no-require-git",
            "--no-ignore-global",
            "--no-ignore-parent",
        ])
        .args(["--no-ignore-exclude", "--no-ignore-dot", "--color=never"])
        .args(arguments)
        .arg(".")
        .current_dir(root)
        .output()
        .expect("rg is there (apt install ripgrep)");
    let text = String::from_utf8(output.stdout).unwrap();
    let bare = |line: &str| {
        line.strip_prefix("./")
            .unwrap_or(line)
            .trim_end_matches('\r')
            .to_owned()
    };
    text.split('\n')
        .filter(|line| !line.is_empty())
        .map(bare)
        .collect()
}

#[test]
fn on_trees_made_by_chance_it_finds_the_files_and_lines_that_ripgrep_finds() {
    let mut dice = Dice(20_261_116);
    let mut compared = 0;
    for round in 0..120 {
        let scratch = Scratch::in_memory("");
        plant(&mut dice, &scratch);
        let root = scratch.root();
        let world = World::workspace().over(scratch);
        for (hidden, flag) in [
            (Hidden::Shown, "--hidden"),
            (Hidden::LeftOut, "--no-hidden"),
        ] {
            for (case, letters) in [
                (Case::Sensitive, "--case-sensitive"),
                (Case::Insensitive, "--ignore-case"),
                (Case::Smart, "--smart-case"),
            ] {
                for query in ["needle", "^Needle$", r"\bneedle\b.", "n.*e"] {
                    let request = SearchRequest {
                        hidden,
                        case,
                        ..search_all(query)
                    };
                    let found = block_on(world.fs().search(".", request)).unwrap();
                    assert!(found.complete, "round {round}: {found:?}");
                    let ours: BTreeSet<String> = shown(&found).into_iter().collect();
                    let flags = [flag, letters, "--line-number", "--column", "-e", query];
                    let mut theirs = rg(&root, &flags);
                    // To ripgrep a `!` rule also shows what is hidden.
                    theirs.retain(|line| {
                        let path = line.split(':').next().unwrap_or_default();
                        hidden == Hidden::Shown || !path.split('/').any(|n| n.starts_with('.'))
                    });
                    assert_eq!(ours, theirs, "round {round}: {query} {flag} {letters}");
                    compared += ours.len();
                }
                if round >= 30 {
                    break;
                }
            }
        }
        let files = GlobRequest {
            want: Want::Files,
            ..glob_all()
        };
        let found = block_on(world.fs().glob(".", files)).unwrap();
        let ours: BTreeSet<String> = found
            .entries
            .iter()
            .filter_map(|entry| entry.path.as_ref())
            .map(|path| path.as_str().to_owned())
            .collect();
        assert_eq!(ours, rg(&root, &["--hidden", "--files"]), "round {round}");
    }
    assert!(compared > 1_000, "only {compared} lines were compared");
}

/// The most memory this process has held, in MiB.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1024
}

#[test]
fn a_line_of_a_gibibyte_is_not_held_and_said_not_to_be_read() {
    let scratch = Scratch::in_memory("z = needle");
    let mut file = std::fs::File::create(scratch.at("endless")).unwrap();
    file.write_all(b"needle first\n").unwrap();
    let part = vec![b'x'; 1 << 20];
    for _ in 0..1024 {
        file.write_all(&part).unwrap();
    }
    drop(file);
    let world = World::workspace().over(scratch);
    let before = peak();
    for multiline in [false, true] {
        // What can match a line break has to see all of a file.
        let query = if multiline { r"needle\s*" } else { "needle" };
        let request = SearchRequest {
            multiline,
            ..search_all(query)
        };
        let found = block_on(world.fs().search(".", request)).unwrap();
        let want: &[&str] = if multiline {
            &["z:1:1:needle"]
        } else {
            &["endless:1:1:needle first", "z:1:1:needle"]
        };
        assert_eq!(shown(&found), want);
        assert_eq!((found.counts.unread, found.complete), (1, false));
    }
    assert!(peak() - before < 48, "{} MiB", peak() - before);
}

/// How long a search that may take 30 ms takes beyond that.
#[track_caller]
fn overrun(world: &World, request: SearchRequest) -> Duration {
    let patience = Duration::from_millis(30);
    let request = SearchRequest {
        patience_us: 5_000,
        ..request
    };
    let began = Instant::now();
    let found = block_on(world.fs().search(".", request)).unwrap();
    let took = began.elapsed();
    assert!(!found.complete, "done in {took:?}");
    took.saturating_sub(patience)
}

/// Time on the wall is shared with whatever else runs here: the best of a few.
#[track_caller]
fn keeps_time(world: &World, what: &str, request: &SearchRequest) {
    let best = (0..5)
        .map(|_| overrun(world, request.clone()))
        .min()
        .unwrap();
    assert!(
        best < promised(Duration::from_millis(100)),
        "{what}: {best:?} too late"
    );
}

#[test]
fn time_is_kept_in_one_large_file_and_in_many_small_ones() {
    let scratch = Scratch::in_memory("");
    let line = format!("{}\n", "some words of text ".repeat(5));
    let mut file = std::fs::File::create(scratch.at("large")).unwrap();
    let part = line.repeat(10_000);
    for _ in 0..600 {
        file.write_all(part.as_bytes()).unwrap();
    }
    drop(file);
    let world = World::workspace().clock(RealClock::new()).over(scratch);
    let request = SearchRequest {
        case: Case::Insensitive,
        ..search_all("[a-z]+ {2}|nowhere")
    };
    keeps_time(&world, "one large file", &request);

    let scratch = Scratch::in_memory("");
    for n in 0..4_000 {
        scratch.file(&format!("d{}/f{n}", n % 50), line.repeat(300));
    }
    let world = World::workspace().clock(RealClock::new()).over(scratch);
    keeps_time(&world, "many small files", &request);
}

#[test]
fn time_is_kept_in_one_very_long_line() {
    let scratch = Scratch::in_memory("");
    // Nearly as long as a line may be, and without a pattern that a machine of
    // few states could learn.
    let mut chance = 0x2545_f491_4f6c_dd1d_u64;
    let mut letter = || {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        if chance & 1 == 0 { 'a' } else { 'b' }
    };
    let line: String = (0..4_000_000).map(|_| letter()).collect();
    scratch.file("long", format!("{line}abc\n"));
    let world = World::workspace().clock(RealClock::new()).over(scratch);
    let slow = [r"a[ab]{200}\W", r"[ab]*a[ab]{90}\s", r"(?:a[ab]{30}){4}\W"];
    for query in slow {
        for multiline in [false, true] {
            let request = SearchRequest {
                multiline,
                ..search_all(query)
            };
            keeps_time(&world, query, &request);
        }
    }
    // With time enough all of it is searched.
    for query in ["abc$", "bc", r"(?i)[A-Z]{3}\b", r"\w{10}c"] {
        let request = SearchRequest {
            patience_us: 60_000_000,
            ..search_all(query)
        };
        let found = block_on(world.fs().search(".", request)).unwrap();
        assert_eq!((found.matches, found.complete), (1, true), "{query}");
    }
}

#[test]
fn a_hostile_expression_is_refused_or_kept_to_its_time() {
    let scratch = Scratch::in_memory("");
    // Whole buffers without a match: all of every one of them is looked at.
    for n in 0..200 {
        scratch.file(
            &format!("f{n}"),
            format!("{}\n", "ab".repeat(90)).repeat(350),
        );
    }
    let world = World::workspace().clock(RealClock::new()).over(scratch);
    let mut ran = 0;
    for query in [
        "(a|aa|b|ab)+c",
        "(a*)*(b*)*c",
        "(?:a?){100}(?:b?){100}c",
        "[ab]*a[ab]{12}c",
        "[ab]*a[ab]{200}c",
        "(?:[ab]{0,20}){20}c",
        r"(?:\w{1,30}){8}!",
        "(?:(?:a|b|ab|ba){1,50}){1,50}c",
    ] {
        let request = SearchRequest {
            patience_us: 100_000,
            ..search_all(query)
        };
        let best = (0..3)
            .map(|_| {
                let began = Instant::now();
                match block_on(world.fs().search(".", request.clone())) {
                    Ok(found) => assert_eq!(found.matches, 0, "{query}"),
                    Err(failure) => {
                        let reason = failure.reason();
                        assert_eq!(reason, portcullis_proto::Reason::BadArguments, "{query}");
                    }
                }
                began.elapsed()
            })
            .min()
            .unwrap();
        assert!(
            best < promised(Duration::from_millis(200)),
            "{query}: {best:?}"
        );
        ran += 1;
    }
    assert_eq!(ran, 8);
    assert!(peak() < 160, "{} MiB", peak());
}

#[test]
fn a_thousand_searches_at_once_share_few_threads_and_few_handles() {
    let scratch = Scratch::in_memory("");
    for n in 0..400 {
        scratch.file(&format!("d{}/e/f{n}", n % 20), "needle");
    }
    let base = scratch.base().to_owned();
    let world = World::workspace().clock(RealClock::new()).over(scratch);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    let count = |dir: &str| std::fs::read_dir(dir).unwrap().count();
    let threads_before = count("/proc/self/task");
    let most = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let done = Arc::new(AtomicBool::new(false));
    let watcher = std::thread::spawn({
        let (most, done) = (Arc::clone(&most), Arc::clone(&done));
        move || {
            while !done.load(Ordering::Relaxed) {
                most.0
                    .fetch_max(count("/proc/self/task"), Ordering::Relaxed);
                let table = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
                let places = table.filter_map(|entry| std::fs::read_link(entry.path()).ok());
                let held = places.filter(|place| place.starts_with(&base)).count();
                most.1.fetch_max(held, Ordering::Relaxed);
            }
        }
    });
    runtime.block_on(async {
        let searches: Vec<_> = (0..1_000)
            .map(|_| {
                let fs = world.fs();
                tokio::spawn(async move { fs.search(".", search_all("needle")).await })
            })
            .collect();
        for search in searches {
            let found = search.await.unwrap().unwrap();
            assert_eq!((found.matches, found.complete), (400, true));
        }
    });
    done.store(true, Ordering::Relaxed);
    watcher.join().unwrap();
    // Four at once, each with a worker for every processor (eight at most),
    // three directories deep and one file open.
    let workers = std::thread::available_parallelism().unwrap().get().min(8);
    let (threads, handles) = (
        most.0.load(Ordering::Relaxed) - threads_before,
        most.1.load(Ordering::Relaxed),
    );
    // A thread that has done its work is not idle at once, and another begins.
    assert!(threads <= 1 + 4 * workers + 8, "{threads} threads");
    assert!(handles <= 1 + 4 * workers * 5, "{handles} handles");
    assert_eq!(world.lines.one_each(), 1_000);
}

#[test]
fn files_that_come_and_go_meanwhile_fail_nothing() {
    let scratch = Scratch::in_memory("");
    for n in 0..300 {
        scratch.file(&format!("d{}/stays{n}", n % 10), "needle");
    }
    let root = scratch.root();
    let world = World::workspace().clock(RealClock::new()).over(scratch);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0;
            while !done.load(Ordering::Relaxed) {
                n += 1;
                let dir = root.join(format!("d{}", n % 10));
                std::fs::write(dir.join("comes"), "needle").unwrap();
                std::fs::create_dir_all(dir.join("new/deep")).unwrap();
                std::fs::write(dir.join("new/deep/f"), "needle").unwrap();
                std::fs::remove_file(dir.join("comes")).unwrap();
                std::fs::remove_dir_all(dir.join("new")).unwrap();
            }
        });
        for _ in 0..150 {
            let found = block_on(world.fs().search(".", search_all("needle"))).unwrap();
            let stays = found
                .files
                .iter()
                .filter(|file| file.path.as_str().contains("stays"))
                .count();
            assert_eq!(stays, 300);
            assert_eq!(found.counts.unread, 0);
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_search_holds_no_more_handles_than_depth_times_workers() {
    const DEPTH: usize = 20;
    let scratch = Scratch::in_memory("");
    // Many chains side by side, so that every worker has one.
    for chain in 0..30 {
        let mut dir = format!("c{chain}/");
        for level in 0..DEPTH {
            dir = format!("{dir}d{level}/");
            scratch.file(&format!("{dir}a"), "x");
            scratch.file(&format!("{dir}side/b"), "x");
        }
    }
    let base = scratch.base().to_owned();
    let world = World::workspace().over(scratch);
    let most = Arc::new(AtomicUsize::new(0));
    let caller = portcullis_testkit::agent().reporting(Arc::new({
        let most = Arc::clone(&most);
        move |_| {
            let table = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            let places = table.filter_map(|entry| std::fs::read_link(entry.path()).ok());
            let held = places.filter(|place| place.starts_with(&base)).count();
            most.fetch_max(held, Ordering::Relaxed);
        }
    }));
    let found = block_on(world.fs_for(&caller).search(".", search_all("x"))).unwrap();
    assert_eq!((found.matches, found.complete), (30 * DEPTH * 2, true));
    let workers = std::thread::available_parallelism().unwrap().get().min(8);
    // Two more levels above and beside each chain, a file each, and the root's own.
    let limit = (DEPTH + 4) * workers + 2;
    let most = most.load(Ordering::Relaxed);
    assert!(
        most > DEPTH && most <= limit,
        "{most} handles, limit {limit}"
    );
}

/// A directory is moved out of the root and back. While it is outside, files
/// stand in it that were never in the root, and a link to the outside stands
/// where it was: whatever a worker reads there, nobody is shown.
#[test]
fn what_stands_in_a_directory_only_while_it_is_outside_is_never_shown() {
    let scratch = Scratch::in_memory("../outside/f = needle OUTSIDE");
    for n in 0..300 {
        scratch.file(&format!("sub/d{}/in{n}", n % 5), "needle inside");
        scratch.file(&format!("other{}/in{n}", n % 5), "needle inside");
    }
    let (root, base) = (scratch.root(), scratch.base().to_owned());
    let world = World::workspace().clock(RealClock::new()).over(scratch);
    let done = AtomicBool::new(false);
    let (mut whole, mut dropped) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (sub, away) = (root.join("sub"), base.join("away"));
            while !done.load(Ordering::Relaxed) {
                std::fs::rename(&sub, &away).unwrap();
                std::os::unix::fs::symlink(base.join("outside"), &sub).unwrap();
                for dir in 0..5 {
                    let extra = away.join(format!("d{dir}/aa"));
                    std::fs::write(extra, "needle OUTSIDE").unwrap();
                }
                std::thread::sleep(Duration::from_micros(300));
                for dir in 0..5 {
                    std::fs::remove_file(away.join(format!("d{dir}/aa"))).unwrap();
                }
                std::fs::remove_file(&sub).unwrap();
                std::fs::rename(&away, &sub).unwrap();
                std::thread::sleep(Duration::from_micros(300));
            }
        });
        // So often, and on until both were seen: which of the two it is, is chance.
        let (began, mut looks) = (Instant::now(), 0);
        while looks < 1_500
            || (whole == 0 || dropped == 0) && began.elapsed() < portcullis_testkit::PATIENCE
        {
            looks += 1;
            let found = block_on(world.fs().search(".", search_all("needle"))).unwrap();
            let lines = shown(&found);
            assert!(
                !lines.iter().any(|line| line.contains("OUTSIDE")),
                "{lines:?}"
            );
            let others = lines.iter().filter(|line| line.starts_with("other"));
            assert_eq!(others.count(), 300);
            whole += usize::from(lines.len() == 600);
            dropped += usize::from(found.counts.moved > 0);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(whole > 0 && dropped > 0, "{whole} whole, {dropped} dropped");
}

#[test]
fn an_expression_over_lines_is_kept_to_its_time_and_its_limits() {
    let scratch = Scratch::in_memory("");
    for n in 0..8 {
        scratch.file(&format!("f{n}"), "line of text\n".repeat(80_000));
    }
    let world = World::workspace().clock(RealClock::new()).over(scratch);
    // From every character it looks on to the end, and takes one.
    let request = SearchRequest {
        patience_us: 100_000,
        multiline: true,
        ..search_all(r"(?s).*\x01|.")
    };
    let began = Instant::now();
    let found = block_on(world.fs().search(".", request)).unwrap();
    assert!(!found.complete);
    assert!(
        began.elapsed() < promised(Duration::from_secs(2)),
        "{:?}",
        began.elapsed()
    );
    // All of every file is one match: no more of it is held than is wanted.
    let request = SearchRequest {
        multiline: true,
        max_matches: 50,
        ..search_all("(?s).+")
    };
    let found = block_on(world.fs().search(".", request)).unwrap();
    let lines: usize = found.files.iter().map(|file| file.lines.len()).sum();
    assert!(found.truncated && lines <= 51, "{lines}");
}
