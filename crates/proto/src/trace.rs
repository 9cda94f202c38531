//! Where a request stands in a trace of its client's, or in one of its own.

/// A span, by its trace and its own id: what a span below it names as its
/// parent. Proves that whoever asked for the trace wants it recorded; says
/// nothing about who that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The whole trace. Never all zero.
    pub id: [u8; 16],
    /// The span. Never all zero.
    pub span: [u8; 8],
}
