//! What one surface does otherwise, on purpose.

use super::Difference;
use crate::surfaces::Surface;

const PAGE: &str =
    "a pipe has no page to answer on and no later call: with nobody there, that is told at once";
const OFF: &str = "a tool whose group is off is not there, and is named as it was called; a route stays where it is";
const EMPTY: &str = "these routes take an empty path for none, as clients of qwen serve expect; a tool takes it for the root";
const REACHED: &str = "what a call brings is looked at before its tool, so the record names the tool as it was called";

pub(super) const DIFFERENCES: [Difference; 16] = [
    Difference {
        scenario: "a directory is deleted",
        surface: Surface::Stdio,
        verdict: "permission_denied/approval_unavailable",
        lines: &["remove workspace:src: denied approval_unavailable by protected-below"],
        why: PAGE,
    },
    Difference {
        scenario: "a secret is asked about, and nobody is there",
        surface: Surface::Stdio,
        verdict: "permission_denied/approval_unavailable",
        lines: &["read workspace:.env: denied approval_unavailable by class:secret"],
        why: PAGE,
    },
    Difference {
        scenario: "a secret is asked about, and answered later",
        surface: Surface::Stdio,
        verdict: "permission_denied/approval_unavailable",
        lines: &["read workspace:.env: denied approval_unavailable by class:secret"],
        why: PAGE,
    },
    Difference {
        scenario: "an answer is brought twice",
        surface: Surface::McpHttp,
        verdict: "permission_denied/answer_used",
        lines: &[
            "read workspace:.env: parked approval_pending by class:secret",
            "read workspace:.env: success - by class:secret",
            "stat \"read_file\": denied answer_used by lexical",
        ],
        why: REACHED,
    },
    Difference {
        scenario: "an answer is brought twice",
        surface: Surface::Stdio,
        verdict: "permission_denied/approval_unavailable",
        lines: &["read workspace:.env: denied approval_unavailable by class:secret"],
        why: PAGE,
    },
    Difference {
        scenario: "a move is asked about, and answered later",
        surface: Surface::Stdio,
        verdict: "permission_denied/approval_unavailable",
        lines: &[
            "move workspace:notes.txt to moved.txt: denied approval_unavailable by mode:filesystemWrite=ask",
        ],
        why: PAGE,
    },
    Difference {
        scenario: "a write while changes are off",
        surface: Surface::McpHttp,
        verdict: "parse_error/unknown_tool",
        lines: &["stat \"write_file\": failed unknown_tool by lexical"],
        why: OFF,
    },
    Difference {
        scenario: "a write while changes are off",
        surface: Surface::Stdio,
        verdict: "parse_error/unknown_tool",
        lines: &["stat \"write_file\": failed unknown_tool by lexical"],
        why: OFF,
    },
    Difference {
        scenario: "a deletion while changes are off",
        surface: Surface::McpHttp,
        verdict: "parse_error/unknown_tool",
        lines: &["stat \"delete\": failed unknown_tool by lexical"],
        why: OFF,
    },
    Difference {
        scenario: "a deletion while changes are off",
        surface: Surface::Stdio,
        verdict: "parse_error/unknown_tool",
        lines: &["stat \"delete\": failed unknown_tool by lexical"],
        why: OFF,
    },
    Difference {
        scenario: "a read while all is off",
        surface: Surface::McpHttp,
        verdict: "parse_error/unknown_tool",
        lines: &["stat \"read_file\": failed unknown_tool by lexical"],
        why: OFF,
    },
    Difference {
        scenario: "a read while all is off",
        surface: Surface::Stdio,
        verdict: "parse_error/unknown_tool",
        lines: &["stat \"read_file\": failed unknown_tool by lexical"],
        why: OFF,
    },
    Difference {
        scenario: "a search while all is off",
        surface: Surface::McpHttp,
        verdict: "parse_error/unknown_tool",
        lines: &["stat \"search_files\": failed unknown_tool by lexical"],
        why: OFF,
    },
    Difference {
        scenario: "a search while all is off",
        surface: Surface::Stdio,
        verdict: "parse_error/unknown_tool",
        lines: &["stat \"search_files\": failed unknown_tool by lexical"],
        why: OFF,
    },
    Difference {
        scenario: "an empty path",
        surface: Surface::McpHttp,
        verdict: "permission_denied/protected_state",
        lines: &["write workspace:.: denied protected_state by mode:filesystemWrite=allow"],
        why: EMPTY,
    },
    Difference {
        scenario: "an empty path",
        surface: Surface::Stdio,
        verdict: "permission_denied/protected_state",
        lines: &["write workspace:.: denied protected_state by mode:filesystemWrite=allow"],
        why: EMPTY,
    },
];
