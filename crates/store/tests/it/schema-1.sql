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
