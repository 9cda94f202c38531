//! The tables, and how an older database becomes a newer one.
//!
//! A step, once released, never changes: databases out there have run it.

use rusqlite::{Connection, TransactionBehavior};

use crate::error::{StoreError, Trouble};

/// Marks a SQLite file as ours: "PCLS".
const APPLICATION: i32 = 0x5043_4c53;

/// Step n takes a database from version n to n + 1.
const STEPS: &[&str] = &[
    FIRST, SECOND, THIRD, FOURTH, FIFTH, SIXTH, SEVENTH, EIGHTH, NINTH,
];

/// Triggers keep the counters, so that a change by hand (`sqlite3 state.db`)
/// counts like one of ours.
///
/// `version` starts anywhere: a database that took another's place must not
/// look unchanged.
const FIRST: &str = "
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO counters VALUES ('version', abs(random() >> 16) + 1), ('questions', 0), ('answers', 0);

CREATE TABLE rules (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  effect TEXT NOT NULL,
  tool_group TEXT NOT NULL,
  root TEXT,
  pattern TEXT NOT NULL,
  covers_protected INTEGER NOT NULL,
  source TEXT NOT NULL,
  kept_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX rules_once
  ON rules (effect, tool_group, ifnull(root, ''), pattern, covers_protected);

CREATE TABLE trust (
  path TEXT PRIMARY KEY,
  dev INTEGER NOT NULL,
  ino INTEGER NOT NULL,
  trusted_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER rules_added AFTER INSERT ON rules
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;
CREATE TRIGGER rules_changed AFTER UPDATE ON rules
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;
CREATE TRIGGER rules_removed AFTER DELETE ON rules
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;
CREATE TRIGGER trust_added AFTER INSERT ON trust
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;
CREATE TRIGGER trust_changed AFTER UPDATE ON trust
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;
CREATE TRIGGER trust_removed AFTER DELETE ON trust
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;

CREATE TABLE questions (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  state TEXT NOT NULL CHECK (state IN ('pending', 'answered', 'used', 'withdrawn')),
  digest TEXT NOT NULL,
  body TEXT NOT NULL,
  offered TEXT NOT NULL,
  deadline INTEGER NOT NULL,
  decision TEXT,
  surface TEXT,
  answered_by TEXT,
  answer_no INTEGER
) STRICT;
CREATE INDEX questions_by_state ON questions (state, seq);
CREATE INDEX questions_by_deadline ON questions (deadline);
CREATE INDEX questions_by_answer ON questions (answer_no) WHERE answer_no IS NOT NULL;
CREATE TRIGGER questions_added AFTER INSERT ON questions
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'questions'; END;
CREATE TRIGGER questions_removed AFTER DELETE ON questions
  BEGIN UPDATE counters SET value = value - 1 WHERE name = 'questions'; END;

CREATE TABLE watchers (id TEXT PRIMARY KEY, seen_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE nonces (nonce TEXT PRIMARY KEY, expires_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX nonces_by_expiry ON nonces (expires_at);
";

/// Users, and what stands for them.
///
/// A user is referred to by a number that is never given again, so that what a
/// change by hand left behind cannot come to belong to the next one of that
/// name. Secrets are here as SHA-256 digests alone.
const SECOND: &str = "
CREATE TABLE users (
  uid INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  scopes TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE extensions (
  id TEXT PRIMARY KEY,
  uid INTEGER REFERENCES users (uid) ON DELETE SET NULL,
  permissions TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('pending', 'approved', 'revoked')),
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX extensions_by_user ON extensions (uid);

CREATE TABLE tokens (
  id TEXT PRIMARY KEY,
  uid INTEGER NOT NULL REFERENCES users (uid) ON DELETE CASCADE,
  extension TEXT REFERENCES extensions (id) ON DELETE CASCADE,
  label TEXT NOT NULL,
  scopes TEXT NOT NULL,
  digest BLOB NOT NULL CHECK (length(digest) = 32),
  created_at INTEGER NOT NULL,
  expires_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_by_user ON tokens (uid);
CREATE INDEX tokens_by_extension ON tokens (extension) WHERE extension IS NOT NULL;

CREATE TABLE sign_in_links (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
  uid INTEGER NOT NULL REFERENCES users (uid) ON DELETE CASCADE,
  expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX sign_in_links_by_user ON sign_in_links (uid);

CREATE TABLE sign_ins (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  uid INTEGER NOT NULL REFERENCES users (uid) ON DELETE CASCADE,
  digest BLOB NOT NULL CHECK (length(digest) = 32),
  expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX sign_ins_by_user ON sign_ins (uid);

CREATE TRIGGER users_added AFTER INSERT ON users
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;
CREATE TRIGGER users_changed AFTER UPDATE ON users
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;
CREATE TRIGGER users_removed AFTER DELETE ON users
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;
CREATE TRIGGER extensions_added AFTER INSERT ON extensions
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;
CREATE TRIGGER extensions_changed AFTER UPDATE ON extensions
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;
CREATE TRIGGER extensions_removed AFTER DELETE ON extensions
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;
CREATE TRIGGER tokens_added AFTER INSERT ON tokens
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;
CREATE TRIGGER tokens_changed AFTER UPDATE ON tokens
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;
CREATE TRIGGER tokens_removed AFTER DELETE ON tokens
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;
CREATE TRIGGER sign_ins_added AFTER INSERT ON sign_ins
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;
CREATE TRIGGER sign_ins_changed AFTER UPDATE ON sign_ins
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;
CREATE TRIGGER sign_ins_removed AFTER DELETE ON sign_ins
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;
";

/// Whose business a question is, beside it: counted, and looked for, without
/// reading every question there is.
const THIRD: &str = "
ALTER TABLE questions ADD COLUMN owner TEXT NOT NULL DEFAULT '';
UPDATE questions SET owner = CASE json_extract(body, '$.subject.principal.type')
  WHEN 'user' THEN json_extract(body, '$.subject.principal.id')
  WHEN 'token' THEN json_extract(body, '$.subject.principal.user')
  ELSE json_extract(body, '$.subject.principal.type') || ':'
    || json_extract(body, '$.subject.principal.id') END
  WHERE json_valid(body) AND json_extract(body, '$.subject.principal.id') IS NOT NULL;
CREATE INDEX questions_by_owner ON questions (owner, state);
";

/// What people switch off for a while; nothing is off that is not here.
const FOURTH: &str = "
CREATE TABLE switches (
  uid INTEGER PRIMARY KEY REFERENCES users (uid) ON DELETE CASCADE,
  files TEXT NOT NULL CHECK (files IN ('on', 'off'))
) STRICT;
CREATE TRIGGER switches_added AFTER INSERT ON switches
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;
CREATE TRIGGER switches_changed AFTER UPDATE ON switches
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;
CREATE TRIGGER switches_removed AFTER DELETE ON switches
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;
";

/// Machines people lend, what their daemons come with, and the calls under way.
///
/// A machine that is removed counts as a change, so that a server ends its link;
/// that one was seen, or called, does not.
const FIFTH: &str = "
CREATE TABLE machines (
  id TEXT PRIMARY KEY,
  uid INTEGER NOT NULL REFERENCES users (uid) ON DELETE CASCADE,
  name TEXT NOT NULL,
  host TEXT NOT NULL,
  root TEXT NOT NULL,
  surface TEXT NOT NULL,
  last_event INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  seen_at INTEGER NOT NULL,
  UNIQUE (uid, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX machines_by_place ON machines (uid, host, root);

CREATE TABLE link_keys (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
  uid INTEGER NOT NULL REFERENCES users (uid) ON DELETE CASCADE,
  machine TEXT REFERENCES machines (id) ON DELETE CASCADE,
  expires_at INTEGER
) STRICT;
CREATE INDEX link_keys_by_user ON link_keys (uid);
CREATE INDEX link_keys_by_machine ON link_keys (machine) WHERE machine IS NOT NULL;

CREATE TABLE link_calls (
  id TEXT PRIMARY KEY,
  machine TEXT NOT NULL REFERENCES machines (id) ON DELETE CASCADE,
  event INTEGER NOT NULL,
  call TEXT NOT NULL,
  deadline INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('waiting', 'settled', 'failed')),
  reply TEXT,
  made_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX link_calls_by_event ON link_calls (machine, event);
CREATE INDEX link_calls_by_time ON link_calls (made_at);

CREATE TRIGGER machines_removed AFTER DELETE ON machines
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;
CREATE TRIGGER link_keys_removed AFTER DELETE ON link_keys WHEN old.machine IS NOT NULL
  BEGIN UPDATE counters SET value = value + 1 WHERE name = 'version'; END;
";

/// Calls that can be asked for again by a name, and which daemon a call went to.
///
/// `sent_to` is the daemon's instance, empty for one that has none, and null
/// while nobody was sent the call. Replies are counted by bytes for each machine.
/// `linked` outlives the server, so that the next knows whom to wait for.
const SIXTH: &str = "
ALTER TABLE machines ADD COLUMN linked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE machines ADD COLUMN kept_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE link_calls ADD COLUMN sent_to TEXT;
ALTER TABLE link_calls ADD COLUMN name BLOB CHECK (name IS NULL OR length(name) = 32);
ALTER TABLE link_calls ADD COLUMN what BLOB CHECK (what IS NULL OR length(what) = 32);
ALTER TABLE link_calls ADD COLUMN reply_bytes INTEGER NOT NULL DEFAULT 0;
UPDATE link_calls SET sent_to = '' WHERE state = 'waiting';
CREATE UNIQUE INDEX link_calls_by_name ON link_calls (name) WHERE name IS NOT NULL;
CREATE INDEX link_calls_named ON link_calls (machine, event) WHERE name IS NOT NULL;
CREATE INDEX link_calls_waiting ON link_calls (machine, event) WHERE state = 'waiting';
CREATE INDEX link_calls_nameless ON link_calls (machine, event)
  WHERE name IS NULL AND state <> 'waiting';
CREATE INDEX link_calls_replied ON link_calls (machine, event) WHERE reply_bytes > 0;
CREATE TRIGGER link_calls_counted AFTER UPDATE OF reply_bytes ON link_calls
  BEGIN UPDATE machines SET kept_bytes = kept_bytes + new.reply_bytes - old.reply_bytes
    WHERE id = new.machine; END;
CREATE TRIGGER link_calls_uncounted AFTER DELETE ON link_calls WHEN old.reply_bytes > 0
  BEGIN UPDATE machines SET kept_bytes = kept_bytes - old.reply_bytes WHERE id = old.machine; END;
";

/// What a daemon offered beyond what its owner was shown: words, host, directory
/// and surface, as an array, until its owner approves it or pairs it anew. And
/// the scope it takes to be told of a call by its name.
const SEVENTH: &str = "
ALTER TABLE machines ADD COLUMN wider TEXT;
ALTER TABLE link_calls ADD COLUMN scope TEXT;
";

/// In which directory an answer was given: a root called `workspace` is another
/// one wherever somebody serves or lends another. A question keeps it for
/// whoever answers, who may be another process; rules from before count in all.
const EIGHTH: &str = "
ALTER TABLE rules ADD COLUMN place TEXT;
ALTER TABLE questions ADD COLUMN places TEXT NOT NULL DEFAULT '{}';
DROP INDEX rules_once;
CREATE UNIQUE INDEX rules_once ON rules
  (effect, tool_group, ifnull(root, ''), ifnull(place, ''), pattern, covers_protected);
";

/// Which machine a conversation stays with, so that it does after a restart too.
/// `machine` is null for the one the server runs on.
const NINTH: &str = "
CREATE TABLE bindings (
  key TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  machine TEXT,
  name TEXT NOT NULL,
  seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Makes an empty database ours.
pub(crate) fn create(conn: &mut Connection) -> Result<(), StoreError> {
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "application_id", APPLICATION)?;
    migrate(conn)
}

/// Checks that the database is ours and of a version we know, before anything
/// in it is touched, and brings it up to date.
pub(crate) fn check(conn: &mut Connection) -> Result<(), StoreError> {
    let application: i32 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if application != APPLICATION {
        return Err(StoreError::new(
            Trouble::NotOurs,
            "`state.db` in the data directory is a database of another program.",
        )
        .hint("Nothing was changed. Move it away, or name another data directory."));
    }
    let version = version(conn)?;
    match usize::try_from(version) {
        Ok(version) if version == STEPS.len() => Ok(()),
        Ok(version) if version < STEPS.len() => migrate(conn),
        _ => Err(StoreError::new(
            Trouble::Newer,
            format!(
                "The state database has schema {version}; this Portcullis knows up to {}.",
                STEPS.len()
            ),
        )
        .hint("Nothing was changed. Use the newer Portcullis that wrote it.")),
    }
}

fn migrate(conn: &mut Connection) -> Result<(), StoreError> {
    // Two processes may start after the same upgrade: the version is read
    // again under the write lock, and the second finds nothing to do.
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let from = usize::try_from(version(&tx)?).unwrap_or(usize::MAX);
    for step in STEPS.iter().skip(from) {
        tx.execute_batch(step)?;
    }
    if from < STEPS.len() {
        let known = i64::try_from(STEPS.len()).map_err(StoreError::io)?;
        tx.pragma_update(None, "user_version", known)?;
    }
    tx.commit()?;
    Ok(())
}

fn version(conn: &Connection) -> Result<i64, StoreError> {
    Ok(conn.pragma_query_value(None, "user_version", |row| row.get(0))?)
}
