//! The limits of every tool, in one table. `docs/SPEC.md` shows the same one.

/// One limit: what holds unless asked otherwise, and what may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What it limits.
    pub what: &'static str,
    /// Unless asked otherwise.
    pub default: usize,
    /// At most; more is clamped, and the reply says so.
    pub max: usize,
}

impl Limit {
    /// What holds when `asked` was asked for, and whether that was clamped.
    pub(crate) fn of(self, asked: Option<usize>) -> (usize, bool) {
        match asked {
            None => (self.default, false),
            Some(asked) => (asked.min(self.max), asked > self.max),
        }
    }
}

/// Every limit of the tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Lines of one read.
    pub lines: Limit,
    /// Bytes of text in one read.
    pub text_bytes: Limit,
    /// Bytes of one line before it is cut.
    pub line_bytes: Limit,
    /// Raw bytes of one read.
    pub raw_bytes: Limit,
    /// Entries of one listing.
    pub entries: Limit,
    /// Depth of a tree.
    pub depth: Limit,
    /// Entries of a tree.
    pub tree_entries: Limit,
    /// Matching lines of a search.
    pub matches: Limit,
    /// Matching lines of a grep.
    pub grep_matches: Limit,
    /// Lines before and after a match.
    pub around: Limit,
    /// Bytes of a line that a search shows before it is cut around its match.
    pub found_line_bytes: Limit,
    /// Milliseconds a walk may take before it returns what it has.
    pub walk_ms: Limit,
    /// Bytes one change may bring. More is refused, not clamped.
    pub write_bytes: Limit,
}

/// The limits over MCP.
pub const LIMITS: Limits = Limits {
    lines: Limit {
        what: "lines of a read",
        default: 200,
        max: 500,
    },
    text_bytes: Limit {
        what: "bytes of text of a read",
        default: 262_144,
        max: 262_144,
    },
    line_bytes: Limit {
        what: "bytes of one line",
        default: 4_096,
        max: 65_536,
    },
    raw_bytes: Limit {
        what: "raw bytes of a read",
        default: 65_536,
        max: 1_048_576,
    },
    entries: Limit {
        what: "entries of a listing",
        default: 200,
        max: 1_000,
    },
    depth: Limit {
        what: "depth of a tree",
        default: 2,
        max: 5,
    },
    tree_entries: Limit {
        what: "entries of a tree",
        default: 200,
        max: 1_000,
    },
    matches: Limit {
        what: "matching lines of a search",
        default: 50,
        max: 100,
    },
    grep_matches: Limit {
        what: "matching lines of a grep",
        default: 1_000,
        max: 1_000,
    },
    around: Limit {
        what: "lines around a match",
        default: 0,
        max: 20,
    },
    found_line_bytes: Limit {
        what: "bytes of a line found",
        default: 500,
        max: 500,
    },
    walk_ms: Limit {
        what: "milliseconds of a walk",
        default: 20_000,
        max: 20_000,
    },
    write_bytes: Limit {
        what: "bytes a change brings",
        default: 5_242_880,
        max: 5_242_880,
    },
};

impl Limits {
    /// The table, row by row.
    pub const fn rows(&self) -> [Limit; 13] {
        [
            self.lines,
            self.text_bytes,
            self.line_bytes,
            self.raw_bytes,
            self.entries,
            self.depth,
            self.tree_entries,
            self.matches,
            self.grep_matches,
            self.around,
            self.found_line_bytes,
            self.walk_ms,
            self.write_bytes,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_in_the_spec_are_the_code() {
        let spec = include_str!("../../../docs/SPEC.md");
        for Limit { what, default, max } in LIMITS.rows() {
            let row = format!("| {what} | {default} | {max} |");
            assert!(spec.contains(&row), "docs/SPEC.md lacks: {row}");
        }
    }
}
