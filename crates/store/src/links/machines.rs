//! Machines that people lend: made at pairing, named for the person, and pinned
//! to what they offered then.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::{calls, keys};
use crate::accounts::{Revealed, new_id, time, user_number};
use crate::db::Lasting;
use crate::error::{StoreError, Trouble};
use crate::store::{Store, ms};

/// What the id of a machine begins with.
const PREFIX: &str = "m_";
/// How many machines one person can lend.
const MAX_OF_USER: i64 = 32;
/// The longest name of a machine.
const MAX_NAME: usize = 48;
/// What a machine is called whose host says nothing fit to be a name.
const NAMELESS: &str = "machine";

/// A machine somebody lends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedMachine {
    /// Which: never given again.
    pub id: String,
    /// Whose.
    pub user: String,
    /// What its owner calls it; no other machine of theirs is called that.
    pub name: String,
    /// The host, as its daemon says.
    pub host: String,
    /// The directory it lends, as its daemon says.
    pub root: String,
    /// What it offered when it was paired: more needs the owner again.
    pub surface: String,
    /// Since when, in milliseconds since 1970.
    pub created_at: u64,
    /// When it was last linked.
    pub seen_at: u64,
    /// Whether its daemon can come back with its key.
    pub paired: bool,
    /// What its daemon offered beyond that, and was refused: its owner may
    /// approve it.
    pub wider: Option<String>,
    /// Whether it was linked when somebody last looked: a server that starts
    /// waits for it a moment.
    pub linked: bool,
}

/// What a daemon says of its machine when it is paired.
#[derive(Clone, Copy, Debug)]
pub struct Lent<'a> {
    /// The name its owner chose, where the daemon knows of names: the same name
    /// is the same machine. Without one, host and root say which it is.
    pub named: Option<&'a str>,
    /// The host.
    pub host: &'a str,
    /// The directory.
    pub root: &'a str,
    /// What it offers.
    pub surface: &'a str,
}

/// What a daemon that came back offered beyond what its machine is pinned to.
#[derive(Clone, Copy, Debug)]
pub struct Wider<'a> {
    /// What is more, in words.
    pub how: &'a str,
    /// The host it said.
    pub host: &'a str,
    /// The directory.
    pub root: &'a str,
    /// What it offers.
    pub surface: &'a str,
}

/// A machine that was paired now.
#[derive(Clone, Debug)]
pub struct Paired {
    /// The machine.
    pub machine: LinkedMachine,
    /// What its daemon comes back with.
    pub session: Revealed,
}

/// `text` as the name of a machine: lower case, letters, digits, `.`, `_`, `-`.
pub fn machine_name(text: &str) -> String {
    let fit = |char: char| match char.to_ascii_lowercase() {
        char @ ('a'..='z' | '0'..='9' | '.' | '_' | '-') => char,
        _ => '-',
    };
    let name: String = text.chars().map(fit).collect();
    let name = name.trim_start_matches(['.', '_', '-']);
    let name: String = name.chars().take(MAX_NAME).collect();
    if name.is_empty() {
        NAMELESS.to_owned()
    } else {
        name
    }
}

/// The same, where it is to stand for a machine: always the same in the place of
/// a name with a meaning of its own, so that who has it is found by it again.
fn own_name(text: &str) -> String {
    let name = machine_name(text);
    if RESERVED.contains(&name.as_str()) {
        format!("{name}-2")
    } else {
        name
    }
}

impl Store {
    /// Uses the pairing token `presented` for the machine `lent` tells of: its
    /// record, pinned anew, and a session key. For exactly one caller; nothing
    /// for everyone else, and once the token's time is over.
    pub fn pair(
        &self,
        presented: &str,
        lent: Lent<'_>,
        now_ms: u64,
    ) -> Result<Option<Paired>, StoreError> {
        // On the disk: a power cut must not make the token count again.
        self.write(Lasting::Disk, |tx| {
            let Some(uid) = keys::take_pairing(tx, presented, now_ms)? else {
                return Ok(None);
            };
            let id = place(tx, uid, lent, now_ms)?;
            calls::fail_all(tx, &id)?;
            tx.execute("UPDATE machines SET linked = 1 WHERE id = ?1", [&id])?;
            let session = keys::give_session(tx, uid, &id)?;
            let machine = one(tx, &id)?.ok_or_else(|| StoreError::damaged("a machine is gone"))?;
            Ok(Some(Paired { machine, session }))
        })
    }

    /// The machine `lent` tells of, for who comes with a key that is no pairing:
    /// made where there is none, and otherwise as it was pinned.
    pub fn adopt(
        &self,
        user: &str,
        lent: Lent<'_>,
        now_ms: u64,
    ) -> Result<LinkedMachine, StoreError> {
        self.write(Lasting::Disk, |tx| {
            let uid = user_number(tx, user)?;
            let known = match find(tx, uid, lent)? {
                // One that was paired is its own daemon's: who has this key stands
                // for another machine.
                Some(id) if is_paired(tx, &id)? => find_unpaired(tx, uid, lent)?,
                known => known,
            };
            let id = match known {
                Some(id) => id,
                None => insert(tx, uid, lent, now_ms)?,
            };
            one(tx, &id)?.ok_or_else(|| StoreError::damaged("a machine is gone"))
        })
    }

    /// The machine of that id.
    pub fn machine(&self, id: &str) -> Result<Option<LinkedMachine>, StoreError> {
        self.read(|conn| one(conn, id))
    }

    /// Every machine of `user`, or of everybody, oldest first.
    pub fn machines(&self, user: Option<&str>) -> Result<Vec<LinkedMachine>, StoreError> {
        self.read(|conn| {
            let mut statement = conn.prepare_cached(&format!(
                "{SELECT} WHERE ?1 IS NULL OR users.name = ?1 ORDER BY machines.created_at, id"
            ))?;
            let rows = statement.query_map([user], stored)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Removes a machine by its id or, `of` that user, by its name; its keys and
    /// calls go with it. Whether there was one.
    pub fn remove_machine(&self, which: &str, of: Option<&str>) -> Result<bool, StoreError> {
        self.write(Lasting::Disk, |tx| {
            let gone = tx.execute(
                "DELETE FROM machines WHERE (id = ?1 OR (?2 IS NOT NULL AND name = ?1))
                 AND (?2 IS NULL OR uid = (SELECT uid FROM users WHERE name = ?2))",
                params![which, of],
            )?;
            Ok(gone > 0)
        })
    }

    /// Takes note that a machine is linked now.
    pub fn machine_seen(&self, id: &str, now_ms: u64) -> Result<(), StoreError> {
        self.write(Lasting::System, |tx| {
            tx.execute(
                "UPDATE machines SET seen_at = ?2, linked = 1 WHERE id = ?1",
                params![id, ms(now_ms)],
            )?;
            Ok(())
        })
    }

    /// Keeps what the daemon of a machine offered beyond its pin, for its owner to
    /// look at. What is there already stays until they have decided: what is
    /// approved is what was looked at.
    pub fn offer_wider(&self, id: &str, wider: Wider<'_>) -> Result<(), StoreError> {
        self.write(Lasting::System, |tx| {
            tx.execute(
                "UPDATE machines SET wider = json_array(?2, ?3, ?4, ?5)
                 WHERE id = ?1 AND wider IS NULL",
                params![id, wider.how, wider.host, wider.root, wider.surface],
            )?;
            Ok(())
        })
    }

    /// Pins a machine, by its id or, `of` that user, by its name, to what its
    /// daemon offered and was refused; what that was. Nothing where nothing
    /// is to be approved.
    pub fn approve_wider(
        &self,
        which: &str,
        of: Option<&str>,
    ) -> Result<Option<String>, StoreError> {
        self.write(Lasting::Disk, |tx| {
            let found: Option<(String, String)> = tx
                .query_row(
                    "SELECT id, wider ->> 0 FROM machines
                     WHERE (id = ?1 OR (?2 IS NOT NULL AND name = ?1))
                     AND (?2 IS NULL OR uid = (SELECT uid FROM users WHERE name = ?2))
                     AND wider IS NOT NULL",
                    params![which, of],
                    |row| Ok((row.get(0)?, row.get(1)?)),
                )
                .optional()?;
            let Some((id, how)) = found else {
                return Ok(None);
            };
            tx.execute(
                "UPDATE machines SET host = wider ->> 1, root = wider ->> 2,
                 surface = wider ->> 3, wider = NULL WHERE id = ?1",
                [id],
            )?;
            Ok(Some(how))
        })
    }

    /// Takes note that a machine is linked no more.
    pub fn machine_gone(&self, id: &str) -> Result<(), StoreError> {
        self.write(Lasting::System, |tx| forget_linked(tx, id))
    }
}

/// It is linked no more, and not waited for.
pub(super) fn forget_linked(tx: &Transaction<'_>, id: &str) -> Result<(), StoreError> {
    tx.execute("UPDATE machines SET linked = 0 WHERE id = ?1", [id])?;
    Ok(())
}

/// The machine `lent` tells of, if it is known.
fn find(tx: &Transaction<'_>, uid: i64, lent: Lent<'_>) -> Result<Option<String>, StoreError> {
    let found = match lent.named {
        Some(name) => tx
            .prepare_cached("SELECT id FROM machines WHERE uid = ?1 AND name = ?2")?
            .query_row(params![uid, own_name(name)], |row| row.get(0)),
        None => tx
            .prepare_cached("SELECT id FROM machines WHERE uid = ?1 AND host = ?2 AND root = ?3")?
            .query_row(params![uid, lent.host, lent.root], |row| row.get(0)),
    };
    Ok(found.optional()?)
}

/// Pins the machine `lent` tells of, making its record where there is none.
fn place(
    tx: &Transaction<'_>,
    uid: i64,
    lent: Lent<'_>,
    now_ms: u64,
) -> Result<String, StoreError> {
    if let Some(id) = find(tx, uid, lent)? {
        tx.execute(
            "UPDATE machines SET host = ?2, root = ?3, surface = ?4, seen_at = ?5, wider = NULL
             WHERE id = ?1",
            params![id, lent.host, lent.root, lent.surface, ms(now_ms)],
        )?;
        return Ok(id);
    }
    insert(tx, uid, lent, now_ms)
}

/// The machine `lent` tells of, where a paired one has its name.
fn find_unpaired(
    tx: &Transaction<'_>,
    uid: i64,
    lent: Lent<'_>,
) -> Result<Option<String>, StoreError> {
    let found = tx
        .prepare_cached(
            "SELECT id FROM machines WHERE uid = ?1 AND host = ?2 AND root = ?3
             AND NOT EXISTS (SELECT 1 FROM link_keys WHERE machine = machines.id) LIMIT 1",
        )?
        .query_row(params![uid, lent.host, lent.root], |row| row.get(0));
    Ok(found.optional()?)
}

/// Whether a machine has a key of its own.
pub(super) fn is_paired(tx: &Transaction<'_>, id: &str) -> Result<bool, StoreError> {
    Ok(tx
        .prepare_cached("SELECT 1 FROM link_keys WHERE machine = ?1")?
        .exists([id])?)
}

/// Makes the record of a machine there was none of.
fn insert(
    tx: &Transaction<'_>,
    uid: i64,
    lent: Lent<'_>,
    now_ms: u64,
) -> Result<String, StoreError> {
    let own: i64 = tx.query_row(
        "SELECT count(*) FROM machines WHERE uid = ?1",
        [uid],
        |row| row.get(0),
    )?;
    if own >= MAX_OF_USER {
        return Err(StoreError::new(
            Trouble::Full,
            "The user lends 32 machines, which is the most one may.",
        )
        .hint("Remove some with `portcullis link remove`."));
    }
    let id = format!("{PREFIX}{}", new_id()?);
    let name = free_name(tx, uid, lent)?;
    tx.execute(
        "INSERT INTO machines (id, uid, name, host, root, surface, last_event, created_at, seen_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?7)",
        params![
            id,
            uid,
            name,
            lent.host,
            lent.root,
            lent.surface,
            ms(now_ms)
        ],
    )?;
    Ok(id)
}

/// A name nobody else of the user's has: the host's, and a number where that is taken.
fn free_name(tx: &Transaction<'_>, uid: i64, lent: Lent<'_>) -> Result<String, StoreError> {
    let host = lent
        .host
        .split_once('@')
        .map_or(lent.host, |(_, host)| host);
    let wanted = own_name(lent.named.unwrap_or(host));
    let mut statement = tx.prepare_cached("SELECT 1 FROM machines WHERE uid = ?1 AND name = ?2")?;
    let mut name = wanted.clone();
    for number in 2..=MAX_OF_USER + 1 {
        if !statement.exists(params![uid, name])? {
            break;
        }
        name = format!("{wanted}-{number}");
    }
    Ok(name)
}

/// Names with a meaning of their own: the machine a server runs on, and all of them.
const RESERVED: [&str; 2] = ["here", "all"];

const SELECT: &str = "
SELECT id, users.name, machines.name, host, root, surface, machines.created_at, seen_at,
  EXISTS (SELECT 1 FROM link_keys WHERE machine = machines.id), linked, wider ->> 0
FROM machines JOIN users USING (uid)";

fn one(conn: &Connection, id: &str) -> Result<Option<LinkedMachine>, StoreError> {
    Ok(conn
        .prepare_cached(&format!("{SELECT} WHERE id = ?1"))?
        .query_row([id], stored)
        .optional()?)
}

fn stored(row: &Row<'_>) -> rusqlite::Result<LinkedMachine> {
    Ok(LinkedMachine {
        id: row.get(0)?,
        user: row.get(1)?,
        name: row.get(2)?,
        host: row.get(3)?,
        root: row.get(4)?,
        surface: row.get(5)?,
        created_at: time(row.get(6)?),
        seen_at: time(row.get(7)?),
        paired: row.get(8)?,
        linked: row.get(9)?,
        wider: row.get(10)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_host_is_called_makes_a_name() {
        for (host, want) in [
            ("laptop", "laptop"),
            ("Ada's MacBook", "ada-s-macbook"),
            ("..", "machine"),
            ("", "machine"),
            ("-x", "x"),
            ("Ünder", "nder"),
        ] {
            assert_eq!(machine_name(host), want, "{host}");
        }
        assert_eq!(machine_name(&"a".repeat(500)).len(), MAX_NAME);
    }
}
