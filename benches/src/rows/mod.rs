//! One file per promise, or per few that share a world.

mod audit;
mod extract;
mod flat;
mod fs_safe;
mod gate;
mod list;
mod mcp;
mod read;
mod replace;
mod search;
mod start;
mod tail;

use crate::Outcome;
use crate::setup::Setup;
use crate::table::Row;

/// Rows that are measured together.
pub(crate) struct Bench {
    pub(crate) rows: &'static [&'static str],
    pub(crate) run: fn(&Setup) -> Outcome<Vec<Row>>,
}

/// Every bench, in the order of the table.
pub(crate) const BENCHES: &[Bench] = &[
    // First: ext4 looks at every inode freed in the last minutes before it gives one
    // out, and the rows below free a hundred thousand. A start that makes two files
    // would pay for them, and git, which makes none, would not.
    Bench {
        rows: &["start", "start-cpu", "idle-rss"],
        run: start::run,
    },
    // It makes a file too.
    Bench {
        rows: &["audit-open", "audit-append", "audit-verify"],
        run: audit::run,
    },
    Bench {
        rows: &["read-4k"],
        run: read::run,
    },
    Bench {
        rows: &["list-1000"],
        run: list::run,
    },
    Bench {
        rows: &["gate-overhead", "hooks-none", "hooks-one"],
        run: gate::run,
    },
    Bench {
        rows: &["fs-safe-read", "fs-safe-list"],
        run: fs_safe::run,
    },
    Bench {
        rows: &["replace"],
        run: replace::run,
    },
    Bench {
        rows: &["replace-flat"],
        run: replace::flat,
    },
    Bench {
        rows: &["fs-safe-replace"],
        run: fs_safe::replace,
    },
    Bench {
        rows: &["extract-unzip"],
        run: extract::unzip,
    },
    Bench {
        rows: &["extract-fs-safe"],
        run: extract::fs_safe,
    },
    Bench {
        rows: &["mcp-read", "mcp-list"],
        run: mcp::run,
    },
    Bench {
        rows: &["mcp-edit"],
        run: mcp::edit,
    },
    Bench {
        rows: &["tail-grows", "tail-peak", "far-line"],
        run: tail::run,
    },
    Bench {
        rows: &["search-1k", "walk-1k"],
        run: search::at_1k,
    },
    Bench {
        rows: &["search-10k", "walk-10k"],
        run: search::at_10k,
    },
    Bench {
        rows: &["search-100k", "walk-100k"],
        run: search::at_100k,
    },
    Bench {
        rows: &["search-1m", "walk-1m"],
        run: search::at_1m,
    },
    Bench {
        rows: &["search-flat", "walk-flat"],
        run: search::flat,
    },
    Bench {
        rows: &["search-memory", "search-first", "search-late"],
        run: search::large,
    },
    Bench {
        rows: &["computer-use"],
        run: search::computer_use,
    },
    Bench {
        rows: &["flat-list"],
        run: flat::list,
    },
    Bench {
        rows: &["flat-glob"],
        run: flat::glob,
    },
];
