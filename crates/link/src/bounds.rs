//! Every bound of the link, by name.

use std::time::Duration;

/// The largest event a daemon takes in, and the largest body of a reply, whole
/// or in pieces. n8n's own limit for a body.
pub const MAX_MESSAGE: usize = 16 * 1024 * 1024;
/// The largest body of an init.
pub const MAX_INIT: usize = 2 * 1024 * 1024;
/// The longest text of a question to a machine's owner.
pub const MAX_QUESTION: usize = 64 * 1024;
/// How many tools a machine may offer.
pub const MAX_TOOLS: usize = 256;
/// The longest key, in bytes.
pub const MAX_KEY: usize = 256;
/// The longest request id.
pub const MAX_REQUEST_ID: usize = 64;
/// The longest name a daemon gives itself.
pub const MAX_INSTANCE: usize = 64;
/// The longest name of a machine, and of a host.
pub const MAX_NAME: usize = 128;
/// The longest path of a root.
pub const MAX_ROOT: usize = 4096;
/// How many entries of the seed's uploaded tree are kept.
pub const MAX_TREE: usize = 10_000;

/// How many calls may wait for one machine.
pub const MAX_PENDING: usize = 64;
/// Bytes of what is asked in the calls that may wait for one machine.
pub const MAX_PENDING_BYTES: usize = 4 * MAX_MESSAGE;
/// How many events may wait for a stream that is read slowly.
pub const MAX_QUEUED: usize = 128;
/// Bytes of the events that may.
pub const MAX_QUEUED_BYTES: usize = MAX_PENDING_BYTES;
/// How many machines one person may have paired.
pub const MAX_MACHINES: usize = 32;
/// How many links one server holds.
pub const MAX_LINKS: usize = 16_384;

/// A result over this goes in pieces, where the other end knows them.
pub const WHOLE: usize = 1024 * 1024;
/// How large a piece is.
pub const PIECE: usize = 512 * 1024;

/// How often a silent stream says that it is alive.
pub const PING: Duration = Duration::from_secs(15);
/// After so long without a word a daemon takes its stream for dead.
pub const SILENCE: Duration = Duration::from_secs(40);
/// How long a machine whose stream broke counts as linked.
pub const GRACE: Duration = Duration::from_secs(10);
/// How long a look for events waits where streams do not get through.
pub const POLL: Duration = Duration::from_secs(20);

/// How long a call may take in the seed's dialect.
pub const SEED_DEADLINE: Duration = Duration::from_secs(30);
/// How long a call may take in n8n's dialect, and in ours.
pub const DEADLINE: Duration = Duration::from_mins(1);
/// By how much a question ends before its call does.
pub const QUESTION_MARGIN: Duration = Duration::from_secs(5);

/// How long a pairing token counts.
pub const PAIRING: Duration = Duration::from_mins(5);

/// The first wait before a daemon tries again, and the longest.
pub const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
