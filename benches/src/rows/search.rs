//! Searching and walking trees, against ripgrep on the same tree with the same
//! ignore rules: time on the wall, both sides with as many threads as there are
//! processors, the files in the page cache.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use portcullis_files::{Case, GlobRequest, Hidden, SearchRequest, Want};
use serde_json::json;

use crate::Outcome;
use crate::clock::wall;
use crate::cpu;
use crate::node::Driven;
use crate::rounds::timed;
use crate::scratch::Scratch;
use crate::server::Server;
use crate::setup::Setup;
use crate::table::{Figure, Limit, Row, Unit};
use crate::world::{Audit, World};

/// Files of one directory; each directory also has as many subdirectories as
/// are needed, eight of them at most.
const FANOUT: u32 = 40;
/// One file in so many holds the line that is searched for.
const RARE: u32 = 500;
/// What is searched for.
const NEEDLE: &str = "ContainmentViolation";
const QUERY: &str = r"Containment\w+\(";
/// How much longer than ripgrep it may take.
const LIMIT: f64 = 1.15;

/// A tree of `size` files of source text, with an ignore file at the top and
/// in some directories.
pub(crate) fn plant(root: &Path, size: u32) -> Outcome<()> {
    let mut dirs = vec![root.to_owned()];
    let mut made = 0;
    let mut next = 0;
    while made < size {
        let dir = dirs.get(next).cloned().ok_or("no directory left")?;
        std::fs::create_dir_all(&dir)?;
        if next.is_multiple_of(16) {
            std::fs::write(dir.join(".gitignore"), "*.log\n/out-*/\n!keep.log\n")?;
            std::fs::write(dir.join("run.log"), format!("{NEEDLE}(ignored)\n"))?;
        }
        for n in 0..FANOUT.min(size - made) {
            let mut file = std::fs::File::create(dir.join(format!("module-{n:03}.ts")))?;
            file.write_all(source(made, 1024 + (made * 7919) % 4096).as_bytes())?;
            made += 1;
        }
        dirs.extend((0..8).map(|n| dir.join(format!("part-{n}"))));
        next += 1;
    }
    Ok(())
}

/// About `bytes` of something like source text.
fn source(seed: u32, bytes: u32) -> String {
    let mut text = String::new();
    let mut word = seed;
    while text.len() < bytes as usize {
        word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let line = format!(
            "export const value_{} = compute({}, {:?}); // Containment of {}\n",
            word % 977,
            word >> 8,
            ["alpha", "beta", "gamma"][(word >> 5) as usize % 3],
            word % 31,
        );
        text.push_str(&line);
    }
    if seed.is_multiple_of(RARE) {
        let line = format!("throw new {NEEDLE}({seed});\n");
        text.push_str(&line);
    }
    text
}

fn request(max: usize) -> SearchRequest {
    SearchRequest {
        query: QUERY.to_owned(),
        literal: false,
        case: Case::Sensitive,
        multiline: false,
        files: None,
        before: 0,
        after: 0,
        max_matches: max,
        max_per_file: usize::MAX,
        max_bytes: usize::MAX,
        max_line_bytes: 4096,
        include_ignored: false,
        hidden: Hidden::Shown,
        patience_us: u64::MAX / 2,
    }
}

fn search(world: &World, max: usize, want: usize) -> Outcome<()> {
    let found = world
        .runtime
        .block_on(world.scope.search("", request(max)))?;
    if found.matches == want {
        Ok(())
    } else {
        Err(format!("{} matches, not {want}", found.matches).into())
    }
}

fn walk(world: &World, size: u32) -> Outcome<usize> {
    let request = GlobRequest {
        pattern: None,
        want: Want::Files,
        max: size as usize * 2,
        include_ignored: false,
        patience_us: u64::MAX / 2,
    };
    let found = world.runtime.block_on(world.scope.glob("", request))?;
    if found.complete {
        Ok(found.entries.len())
    } else {
        Err("not all of it was walked".into())
    }
}

/// Runs ripgrep by our rules: hidden files too, `.gitignore` of the tree alone
/// and without a repository. Says how many lines it wrote.
fn rg(root: &Path, arguments: &[&str]) -> Outcome<usize> {
    let threads = std::thread::available_parallelism()?.to_string();
    let output = Command::new("rg")
        .args(["--no-config", "--hidden", "--no-require-git"])
        .args([
            "--no-ignore-global",
            "--no-ignore-parent",
            "--no-ignore-exclude",
        ])
        .args(["--no-ignore-dot", "--threads", &threads])
        .args(arguments)
        .arg(root)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    Ok(String::from_utf8(output.stdout)?.lines().count())
}

/// The version of the ripgrep that is there.
fn version() -> Outcome<String> {
    let output = Command::new("rg")
        .arg("--version")
        .output()
        .map_err(|_| "rg is missing; install ripgrep")?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// A thousand files, against ripgrep.
pub(crate) fn at_1k(setup: &Setup) -> Outcome<Vec<Row>> {
    against_rg(setup, 1_000, "search-1k", "walk-1k")
}

/// Ten thousand.
pub(crate) fn at_10k(setup: &Setup) -> Outcome<Vec<Row>> {
    against_rg(setup, 10_000, "search-10k", "walk-10k")
}

/// A hundred thousand; too many for a smoke run.
pub(crate) fn at_100k(setup: &Setup) -> Outcome<Vec<Row>> {
    if setup.smoke {
        return Ok(Vec::new());
    }
    against_rg(setup, 100_000, "search-100k", "walk-100k")
}

/// A million: minutes, most of them to make the files.
pub(crate) fn at_1m(setup: &Setup) -> Outcome<Vec<Row>> {
    if setup.smoke {
        return Ok(Vec::new());
    }
    against_rg(setup, 1_000_000, "search-1m", "walk-1m")
}

fn against_rg(
    setup: &Setup,
    size: u32,
    search_row: &'static str,
    walk_row: &'static str,
) -> Outcome<Vec<Row>> {
    let version = version()?;
    let scratch = Scratch::new()?;
    let root = scratch.root();
    plant(&root, size)?;
    let world = World::new(&scratch, Audit::Real, Vec::new())?;
    let want = size.div_ceil(RARE) as usize;
    // The same lines and the same files, before anything is timed.
    let theirs = rg(&root, &["--line-number", QUERY])?;
    if theirs != want {
        return Err(format!("rg found {theirs} lines, not {want}").into());
    }
    search(&world, usize::MAX, want)?;
    let (ours, theirs) = (walk(&world, size)?, rg(&root, &["--files"])?);
    if ours != theirs {
        return Err(format!("{ours} files, where rg has {theirs}").into());
    }
    let times = (4_000 / size).clamp(1, 4);
    let mut effort = setup.effort;
    if size >= 100_000 {
        // Seconds each: what disturbs one round is small against it.
        effort.rounds = effort.rounds_of(5);
    }
    let millis = |micros: f64| micros / 1e3;
    let search = effort.duel(
        || timed(wall, times, || search(&world, usize::MAX, want)).map(millis),
        || {
            let once = || rg(&root, &["--line-number", QUERY]).map(drop);
            timed(wall, times, once).map(millis)
        },
    )?;
    let walk = effort.duel(
        || timed(wall, times, || walk(&world, size).map(drop)).map(millis),
        || timed(wall, times, || rg(&root, &["--files"]).map(drop)).map(millis),
    )?;
    let note = |what: &str| format!("wall, {size} files, {what} {version}");
    Ok(vec![
        Row::at_most_times(
            search_row,
            Unit::Millis,
            search,
            LIMIT,
            note("ScopedFs::search for a regular expression, judged and audited, against"),
        ),
        Row::at_most_times(
            walk_row,
            Unit::Millis,
            walk,
            LIMIT,
            note("ScopedFs::glob of every file, in order, against --files of"),
        ),
    ])
}

/// What one file costs, by the size of the tree: of the processors, so that
/// whatever else runs here makes it no larger.
pub(crate) fn flat(setup: &Setup) -> Outcome<Vec<Row>> {
    let all = [1_000, 10_000, 100_000];
    let sizes = if setup.smoke { &all[..2] } else { &all[..] };
    let mut worlds = Vec::new();
    for &size in sizes {
        let scratch = Scratch::new()?;
        plant(&scratch.root(), size)?;
        let world = World::new(&scratch, Audit::Real, Vec::new())?;
        worlds.push((size, world, scratch, [f64::INFINITY; 2]));
    }
    // All sizes in turn, so that whatever else runs here meets all of them.
    for _ in 0..setup.effort.rounds_of(7) {
        for (size, world, _, best) in &mut worlds {
            let times = (20_000 / *size).clamp(1, 20);
            let want = size.div_ceil(RARE) as usize;
            let costs = [
                timed(cpu::own, times, || search(world, usize::MAX, want))?,
                timed(cpu::own, times, || walk(world, *size).map(drop))?,
            ];
            for (best, cost) in best.iter_mut().zip(costs) {
                *best = best.min(cost * 1e3 / f64::from(*size));
            }
        }
    }
    let curve = |which: usize| {
        let points = worlds.iter().map(|(size, _, _, best)| (*size, best[which]));
        points.collect::<Vec<_>>()
    };
    Ok(vec![
        curved("search-flat", &curve(0)),
        curved("walk-flat", &curve(1)),
    ])
}

/// What one file costs must not grow with their number. In the smallest tree
/// the expression, compiled once a search, is a large part of it.
fn curved(what: &'static str, curve: &[(u32, f64)]) -> Row {
    let smallest = curve.first().map_or(f64::NAN, |point| point.1);
    let larger = curve.iter().skip(1).map(|point| point.1);
    let most = larger.fold(0.0, f64::max);
    let told: Vec<String> = curve
        .iter()
        .map(|(size, nanos)| format!("{size}: {nanos:.0} ns"))
        .collect();
    Row {
        what,
        ours: Some(Figure(most, Unit::Nanos)),
        peer: Some(Figure(smallest, Unit::Nanos)),
        ratio: Some(Figure(most / smallest, Unit::Times)),
        limit: Limit::AtMost(1.5),
        note: format!(
            "CPU per file of {} (dearest of the larger sizes against the smallest)",
            told.join(", ")
        ),
    }
}

/// Against the search of the daemon that agents are given today.
pub(crate) fn computer_use(setup: &Setup) -> Outcome<Vec<Row>> {
    let size = if setup.smoke { 1_000 } else { 10_000 };
    let scratch = Scratch::new()?;
    plant(&scratch.root(), size)?;
    let world = World::new(&scratch, Audit::Real, Vec::new())?;
    let want = size.div_ceil(RARE) as usize;
    let mut peer = Driven::computer_use(setup, &scratch)?;
    let (mut ours, mut theirs) = (f64::INFINITY, f64::INFINITY);
    // It takes seconds: few rounds tell enough of a difference this large.
    for _ in 0..setup.effort.rounds_of(3) {
        let once = || {
            let request = SearchRequest {
                query: NEEDLE.to_owned(),
                literal: true,
                ..request(usize::MAX)
            };
            let found = world.runtime.block_on(world.scope.search("", request))?;
            if found.matches == want {
                Ok(())
            } else {
                Err("not all of it was found".into())
            }
        };
        ours = ours.min(timed(wall, 3, once)?);
        theirs = theirs.min(peer.cost("search", 1, NEEDLE)?.wall);
    }
    Ok(vec![Row {
        ratio: Some(Figure(theirs / ours, Unit::Times)),
        limit: Limit::AtLeast(20.0),
        ..Row::at_most_times(
            "computer-use",
            Unit::Millis,
            (ours / 1e3, theirs / 1e3),
            20.0,
            format!(
                "wall of a search of {size} files for a text, against the search_files of \
                 @n8n/computer-use, called as its daemon calls it"
            ),
        )
    }])
}

/// On the largest tree: the memory, the first result, and whether time is kept.
/// A million files in full; the smoke run makes do with fewer.
pub(crate) fn large(setup: &Setup) -> Outcome<Vec<Row>> {
    let size = if setup.smoke { 10_000 } else { 1_000_000 };
    let scratch = Scratch::new()?;
    plant(&scratch.root(), size)?;
    let mut server = Server::portcullis(setup, &scratch)?.ready()?;
    let ask = |query: &str, max: u32| json!({"dirPath": ".", "query": query, "ignoreCase": false, "maxResults": max});
    // What is nowhere makes it look everywhere, once to have it in the cache.
    server.call("search_files", &ask("Containment!", 1))?;
    let began = wall()?;
    let reply = server.call("search_files", &ask("Containment!", 1))?;
    let whole = wall()?.saturating_sub(began);
    let found = &reply["structuredContent"];
    let searched = found["filesSearched"].as_u64().unwrap_or_default();
    if found["complete"] == json!(true) && searched < u64::from(size) {
        return Err(format!("{searched} files, not {size}").into());
    }
    let mut first = f64::INFINITY;
    for _ in 0..setup.effort.rounds_of(5) {
        let began = wall()?;
        let reply = server.call("search_files", &ask(QUERY, 1))?;
        first = first.min(wall()?.saturating_sub(began).as_secs_f64() * 1e3);
        if reply["structuredContent"]["totalMatches"] != json!(1) {
            return Err("no first match".into());
        }
    }
    let peak = cpu::memory(server.pid(), "VmHWM")?;
    let over = overrun(setup, &scratch)?;
    Ok(vec![
        Row::at_most(
            "search-memory",
            Figure(peak, Unit::MiB),
            64.0,
            format!(
                "peak memory of `portcullis mcp` after searching {searched} of {size} files, \
                 complete: {}, in {:.0} ms",
                found["complete"],
                whole.as_secs_f64() * 1e3
            ),
        ),
        Row::at_most(
            "search-first",
            Figure(first, Unit::Millis),
            200.0,
            format!("a search for one match in {size} files, over stdio"),
        ),
        Row::at_most(
            "search-late",
            Figure(over, Unit::Millis),
            100.0,
            format!("how much longer than its deadline a search of {size} files takes"),
        ),
    ])
}

/// Milliseconds beyond its deadline of a search that cannot keep it.
fn overrun(setup: &Setup, scratch: &Scratch) -> Outcome<f64> {
    const PATIENCE_US: u32 = 10_000;
    let world = World::new(scratch, Audit::Null, Vec::new())?;
    let mut least = f64::INFINITY;
    for _ in 0..setup.effort.rounds_of(5) {
        let took = timed(wall, 1, || {
            let request = SearchRequest {
                patience_us: PATIENCE_US.into(),
                ..request(usize::MAX)
            };
            let found = world.runtime.block_on(world.scope.search("", request))?;
            if found.complete {
                return Err("it was done in time".into());
            }
            Ok(())
        })?;
        least = least.min((took - f64::from(PATIENCE_US)).max(0.0) / 1e3);
    }
    Ok(least)
}
