//! Rules that outlive the session in which they were said.

use std::fmt;

use portcullis_gate::Keeper;
use portcullis_policy::{Effect, PatternSet, Rule};
use portcullis_proto::{Group, RootId};
use rusqlite::{OptionalExtension, Row, Transaction, params};

use crate::db::Lasting;
use crate::error::{StoreError, Trouble};
use crate::store::{Places, Store};

/// How many rules there may be: each costs a glob at every start.
const MAX_RULES: i64 = 10_000;
/// The longest pattern: the longest path, every byte of it escaped, and then some.
const MAX_PATTERN: usize = 16 * 1024;
/// The longest note on where a rule came from.
const MAX_SOURCE: usize = 1024;

/// The name of a stored rule, for `portcullis rules remove`. Never used again
/// for another rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(i64);

impl RuleId {
    /// Reads what [`fmt::Display`] wrote.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|id| *id > 0).map(Self)
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A rule, and what the store knows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRule {
    /// Its name.
    pub id: RuleId,
    /// The rule, as it was said.
    pub rule: Rule,
    /// The directory its root was when it was said; any, where none is named.
    pub place: Option<String>,
    /// When it was stored, in seconds since 1970: for people, nothing rests on it.
    pub kept_at: i64,
}

impl Store {
    /// Stores `rule`; it is on the disk when this returns. A rule that says the
    /// same as one that is stored already is that rule.
    pub fn keep_rule(&self, rule: &Rule) -> Result<RuleId, StoreError> {
        let places = self.places();
        self.write(Lasting::Disk, |tx| keep_in(tx, rule, places))
    }

    /// Every stored rule with its name, oldest first.
    pub fn rules(&self) -> Result<Vec<StoredRule>, StoreError> {
        self.read(|conn| {
            let mut statement = conn.prepare_cached(
                "SELECT id, effect, tool_group, root, pattern, covers_protected, source, kept_at, place
                 FROM rules ORDER BY id",
            )?;
            let mut rows = statement.query([])?;
            let mut rules = Vec::new();
            while let Some(row) = rows.next()? {
                rules.push(stored(row)?);
            }
            Ok(rules)
        })
    }

    /// Every stored rule, oldest first, exactly as it was kept. One that cannot
    /// be understood fails them all: it may be a denial.
    pub fn load(&self) -> Result<Vec<Rule>, StoreError> {
        Ok(self
            .rules()?
            .into_iter()
            .map(|stored| stored.rule)
            .collect())
    }

    /// Removes a rule; whether there was one.
    pub fn remove_rule(&self, id: RuleId) -> Result<bool, StoreError> {
        self.write(Lasting::Disk, |tx| {
            Ok(tx.execute("DELETE FROM rules WHERE id = ?1", [id.0])? > 0)
        })
    }
}

/// Stores `rule` as part of a greater write, for the directory `places` says.
pub(crate) fn keep_in(
    tx: &Transaction<'_>,
    rule: &Rule,
    places: Option<&Places>,
) -> Result<RuleId, StoreError> {
    if rule.pattern.len() > MAX_PATTERN || rule.source.len() > MAX_SOURCE {
        return Err(StoreError::invalid("The rule is too long to be stored."));
    }
    // One pattern that does not compile would keep all of them from loading.
    PatternSet::compile(&[&rule.pattern])
        .map_err(|bad| StoreError::invalid("The rule's pattern is not a glob.").because(bad))?;
    let root = rule.root.as_ref().map(RootId::as_str);
    let place = root.and_then(|root| places?.get(root));
    let known: Option<i64> = tx
        .prepare_cached(
            "SELECT id FROM rules WHERE effect = ?1 AND tool_group = ?2
             AND ifnull(root, '') = ifnull(?3, '') AND pattern = ?4 AND covers_protected = ?5
             AND ifnull(place, '') = ifnull(?6, '')",
        )?
        .query_row(
            params![
                rule.effect.as_str(),
                rule.group.as_str(),
                root,
                rule.pattern,
                rule.covers_protected,
                place
            ],
            |row| row.get(0),
        )
        .optional()?;
    if let Some(id) = known {
        return Ok(RuleId(id));
    }
    let count: i64 = tx.query_row("SELECT count(*) FROM rules", [], |row| row.get(0))?;
    if count >= MAX_RULES {
        return Err(StoreError::new(
            Trouble::Full,
            "There are 10,000 stored rules, which is the most there may be.",
        )
        .hint("Remove some with `portcullis rules remove`, or say more with one pattern."));
    }
    tx.prepare_cached(
        "INSERT INTO rules
         (effect, tool_group, root, pattern, covers_protected, source, place, kept_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, unixepoch())",
    )?
    .execute(params![
        rule.effect.as_str(),
        rule.group.as_str(),
        root,
        rule.pattern,
        rule.covers_protected,
        &*rule.source,
        place
    ])?;
    Ok(RuleId(tx.last_insert_rowid()))
}

impl Keeper for Store {
    fn keep(&self, rule: &Rule) -> Result<(), String> {
        self.keep_rule(rule)
            .map(|_| ())
            .map_err(|error| error.to_string())
    }
}

fn stored(row: &Row<'_>) -> Result<StoredRule, StoreError> {
    let id: i64 = row.get(0)?;
    let bad = |column: &str| StoreError::damaged(format!("rule {id} has an unknown {column}"));
    let effect: String = row.get(1)?;
    let group: String = row.get(2)?;
    let root: Option<String> = row.get(3)?;
    Ok(StoredRule {
        id: RuleId(id),
        rule: Rule {
            effect: [Effect::Allow, Effect::Deny]
                .into_iter()
                .find(|known| known.as_str() == effect)
                .ok_or_else(|| bad("effect"))?,
            group: Group::ALL
                .into_iter()
                .find(|known| known.as_str() == group)
                .ok_or_else(|| bad("group"))?,
            root: match root {
                None => None,
                Some(name) => Some(RootId::parse(&name).ok_or_else(|| bad("root"))?),
            },
            pattern: row.get(4)?,
            covers_protected: row.get(5)?,
            // What is kept are answers, and one about a protected path is about that
            // very path.
            exact_path: row.get(5)?,
            source: row.get::<_, String>(6)?.into(),
        },
        place: row.get(8)?,
        kept_at: row.get(7)?,
    })
}
