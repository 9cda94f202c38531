//! How long tests wait, and which times they hold.
//!
//! `./test` proves what happens, on any machine: what waits has [`PATIENCE`], and a
//! time that the product promises has many times its length. `./bench` holds the
//! promised times themselves: it sets `PORTCULLIS_TIMES=hold` and runs those tests alone.

use std::time::{Duration, Instant};

/// How long a test waits for what has to happen: far longer than a loaded machine needs,
/// and short enough that a hang is reported.
pub const PATIENCE: Duration = Duration::from_mins(3);
/// Between two looks.
const BETWEEN: Duration = Duration::from_millis(5);
/// How many times a promised time may take where times are not held.
const SLACK: u32 = 20;

/// Waits until `done`; how long that took. Fails when [`PATIENCE`] is over.
#[track_caller]
pub fn until(what: &str, mut done: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::sleep(BETWEEN);
    }
    began.elapsed()
}

/// Whether this run holds times to what is promised: `./bench` does, `./test` does not.
pub fn holds_times() -> bool {
    std::env::var("PORTCULLIS_TIMES").is_ok_and(|value| value == "hold")
}

/// The longest something may take that is promised to take at most `promise`: the
/// promise itself where times are held, else what no slow machine comes to.
pub fn promised(promise: Duration) -> Duration {
    if holds_times() {
        promise
    } else {
        PATIENCE.max(promise * SLACK)
    }
}
