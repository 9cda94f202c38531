//! Time, injected, so that tests need not sleep.

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970.
    fn now_ms(&self) -> u64;
    /// Microseconds from a fixed, arbitrary moment; never runs backwards.
    fn monotonic_us(&self) -> u64;
}
