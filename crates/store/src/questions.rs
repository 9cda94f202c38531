//! Questions: put by one process, answered by any, used once.
//!
//! `pending → answered → used`; a question nobody waits for any more is
//! `withdrawn`, whether it was answered or not. Each step is one conditional
//! update under the write lock, so of two processes one takes it.

use portcullis_gate::{Answer, Decision, Question, Surface};
use portcullis_proto::{Digest, QuestionId, Subject};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use crate::db::Lasting;
use crate::error::{StoreError, Trouble};
use crate::rules::keep_in;
use crate::store::{Places, Store, ms};

/// How many questions are kept, settled ones included.
const MAX_QUESTIONS: i64 = 100_000;
/// How many of one person wait at once. No more than are shown at once, so that
/// none is hidden behind others.
const MAX_OF_ONE: i64 = 1_000;
/// How long a question is kept after its deadline.
const KEEP_MS: u64 = 24 * 60 * 60 * 1000;
/// How many of the oldest make room at once when there are too many.
const MAKE_ROOM: i64 = 1_000;
/// The largest question, in bytes: a deed with some hundred long paths.
const MAX_BODY: usize = 1 << 20;
/// The longest name of who answered.
const MAX_BY: usize = 256;

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Said {
    /// It is the answer.
    Answered,
    /// Somebody answered before.
    AlreadyAnswered,
    /// It came after the deadline, or nobody waits for it any more.
    Expired,
    /// It is not one of the answers the question offers.
    NotOffered,
    /// There is no such question.
    Unknown,
}

/// How far a question has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nobody has answered.
    Pending,
    /// Somebody has, and nobody has used it.
    Answered(Answer),
    /// The answer has been used.
    Used(Answer),
    /// Nobody waits for it any more.
    Withdrawn,
    /// Nobody answered in time.
    Expired,
    /// There is no such question, or it was long ago.
    Unknown,
}

impl Store {
    /// Puts a question. It may carry the id of a settled one, which it then
    /// replaces: an attempt can have to ask twice.
    pub fn ask(&self, question: &Question) -> Result<(), StoreError> {
        let body = serde_json::to_string(question).map_err(|error| {
            StoreError::invalid("The question cannot be stored.").because(error)
        })?;
        let owner = owner_of(&question.subject);
        if body.len() > MAX_BODY {
            return Err(StoreError::invalid(
                "The question is too large to be stored.",
            ));
        }
        let places = self.places_of(question)?;
        let offered: Vec<&str> = question.offered.iter().map(|d| d.as_str()).collect();
        // It need not outlast a power cut: neither does whoever asks.
        self.write(Lasting::System, |tx| {
            make_room(tx, question.asked_at)?;
            leave_room(tx, &owner, question.asked_at)?;
            tx.prepare_cached(
                "DELETE FROM questions WHERE id = ?1
                 AND (state IN ('used', 'withdrawn') OR (state = 'pending' AND deadline <= ?2))",
            )?
            .execute(params![question.id.as_str(), ms(question.asked_at)])?;
            let new = tx
                .prepare_cached(
                    "INSERT OR IGNORE INTO questions
                     (id, state, digest, body, offered, deadline, owner, places)
                     VALUES (?1, 'pending', ?2, ?3, ?4, ?5, ?6, ?7)",
                )?
                .execute(params![
                    question.id.as_str(),
                    question.digest.hex(),
                    body,
                    offered.join(" "),
                    ms(question.deadline),
                    owner,
                    places
                ])?;
            if new == 0 {
                return Err(StoreError::invalid("The question is being asked already."));
            }
            Ok(())
        })
    }

    /// Where the roots of a question begin, for whoever answers it: as JSON.
    fn places_of(&self, question: &Question) -> Result<String, StoreError> {
        let known = self.places();
        let roots = question.facts.resources.iter();
        let placed: Places = roots
            .filter_map(|resource| known?.get_key_value(resource.root.as_str()))
            .map(|(root, place)| (root.clone(), place.clone()))
            .collect();
        serde_json::to_string(&placed).map_err(StoreError::io)
    }

    /// Questions that wait for an answer, oldest first.
    pub fn pending(&self, limit: usize, now_ms: u64) -> Result<Vec<Question>, StoreError> {
        self.waiting(None, limit, now_ms)
    }

    /// How many wait for an answer.
    pub fn count_pending(&self, now_ms: u64) -> Result<u64, StoreError> {
        self.read(|conn| {
            let count: i64 = conn
                .prepare_cached(
                    "SELECT count(*) FROM questions WHERE state = 'pending' AND deadline > ?1",
                )?
                .query_row([ms(now_ms)], |row| row.get(0))?;
            Ok(count.unsigned_abs())
        })
    }

    /// Those of them that are the business of `owner`, as
    /// [`Subject::owner`](portcullis_proto::Subject::owner) names people. Picked
    /// before they are counted: one who asks a lot must not hide the questions
    /// of others.
    pub fn pending_of(
        &self,
        owner: &str,
        limit: usize,
        now_ms: u64,
    ) -> Result<Vec<Question>, StoreError> {
        self.waiting(Some(owner), limit, now_ms)
    }

    fn waiting(
        &self,
        owner: Option<&str>,
        limit: usize,
        now_ms: u64,
    ) -> Result<Vec<Question>, StoreError> {
        self.read(|conn| {
            let mut statement = conn.prepare_cached(
                "SELECT body FROM questions
                 WHERE state = 'pending' AND deadline > ?1 AND (?2 IS NULL OR owner = ?2)
                 ORDER BY seq LIMIT ?3",
            )?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let mut rows = statement.query(params![ms(now_ms), owner, limit])?;
            let mut questions = Vec::new();
            while let Some(row) = rows.next()? {
                questions.push(parsed(
                    row.get_ref(0)?.as_str().map_err(StoreError::damaged)?,
                )?);
            }
            Ok(questions)
        })
    }

    /// A question as it was put, whatever became of it; nothing where there is
    /// none of that name, or it was long ago.
    pub fn question(&self, id: &QuestionId) -> Result<Option<Question>, StoreError> {
        self.read(|conn| {
            let body: Option<String> = conn
                .prepare_cached("SELECT body FROM questions WHERE id = ?1")?
                .query_row([id.as_str()], |row| row.get(0))
                .optional()?;
            body.map(|body| parsed(&body)).transpose()
        })
    }

    /// Answers a question. The first answer that is offered and in time wins,
    /// in whichever process; it is on the disk when this returns.
    ///
    /// Whether a *lasting* answer may come from that surface is the gate's to say.
    pub fn answer(
        &self,
        id: &QuestionId,
        answer: &Answer,
        now_ms: u64,
    ) -> Result<Said, StoreError> {
        self.write(Lasting::Disk, |tx| answer_in(tx, id, answer, now_ms))
    }

    /// Answers a question and takes whichever answer is then the first, at once.
    pub(crate) fn answer_and_take(
        &self,
        id: &QuestionId,
        answer: &Answer,
        now_ms: u64,
    ) -> Result<(Said, Option<Answer>), StoreError> {
        self.write(Lasting::Disk, |tx| {
            let said = answer_in(tx, id, answer, now_ms)?;
            Ok((said, take_in(tx, id)?.map(|(_, answer)| answer)))
        })
    }

    /// How far a question has come.
    pub fn poll(&self, id: &QuestionId, now_ms: u64) -> Result<Stage, StoreError> {
        let found = self.read(|conn| {
            conn.prepare_cached(
                "SELECT state, deadline, decision, surface, answered_by FROM questions WHERE id = ?1",
            )?
            .query_row([id.as_str()], |row| {
                Ok((row.get(0)?, row.get(1)?, answer_at(row, 2)))
            })
            .optional()
            .map_err(StoreError::from)
        })?;
        let Some((state, deadline, answer)): Option<(String, i64, _)> = found else {
            return Ok(Stage::Unknown);
        };
        Ok(match state.as_str() {
            "pending" if deadline <= ms(now_ms) => Stage::Expired,
            "pending" => Stage::Pending,
            // Nobody came for it while it would have been forgotten.
            "answered" if deadline <= ms(now_ms.saturating_sub(KEEP_MS)) => Stage::Expired,
            "answered" => Stage::Answered(answer?),
            "used" => Stage::Used(answer?),
            _ => Stage::Withdrawn,
        })
    }

    /// Takes the answer to a question, and what it was pinned to: once. Whoever
    /// comes second, in whichever process, gets nothing.
    pub fn take(&self, id: &QuestionId) -> Result<Option<(Digest, Answer)>, StoreError> {
        self.write(Lasting::Disk, |tx| take_in(tx, id))
    }

    /// Takes many at once, in one write.
    pub(crate) fn take_all(
        &self,
        ids: &[QuestionId],
    ) -> Result<Vec<Option<(Digest, Answer)>>, StoreError> {
        self.write(Lasting::Disk, |tx| {
            ids.iter().map(|id| take_in(tx, id)).collect()
        })
    }

    /// Says that nobody waits for these any more. An answer that was given and
    /// not used is void; how many were withdrawn.
    pub fn withdraw(&self, ids: &[QuestionId]) -> Result<usize, StoreError> {
        self.write(Lasting::System, |tx| {
            let mut statement = tx.prepare_cached(
                "UPDATE questions SET state = 'withdrawn'
                 WHERE id = ?1 AND state IN ('pending', 'answered')",
            )?;
            let mut count = 0;
            for id in ids {
                count += statement.execute([id.as_str()])?;
            }
            Ok(count)
        })
    }

    /// Forgets questions whose deadline is a day past; how many.
    pub fn prune(&self, now_ms: u64) -> Result<usize, StoreError> {
        self.write(Lasting::System, |tx| prune_in(tx, now_ms))
    }

    /// The number of the last answer given to anything.
    pub(crate) fn last_answer(&self) -> Result<i64, StoreError> {
        self.read(|conn| {
            Ok(conn
                .prepare_cached("SELECT value FROM counters WHERE name = 'answers'")?
                .query_row([], |row| row.get(0))?)
        })
    }

    /// The next answers after number `after`: how far it looked, and which
    /// questions have one that nobody has used.
    pub(crate) fn answered_after(
        &self,
        after: i64,
        limit: i64,
    ) -> Result<Vec<(i64, QuestionId)>, StoreError> {
        self.read(|conn| {
            let mut statement = conn.prepare_cached(
                "SELECT answer_no, id FROM questions
                 WHERE answer_no > ?1 AND state = 'answered' ORDER BY answer_no LIMIT ?2",
            )?;
            let rows = statement.query_map([after, limit], |row| {
                Ok((row.get(0)?, QuestionId::new(row.get::<_, String>(1)?)))
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }
}

fn answer_in(
    tx: &Transaction<'_>,
    id: &QuestionId,
    answer: &Answer,
    now_ms: u64,
) -> Result<Said, StoreError> {
    if answer.by.len() > MAX_BY {
        return Err(StoreError::invalid("The name of who answers is too long."));
    }
    let found: Option<(String, i64, String, String, String)> = tx
        .prepare_cached(
            "SELECT state, deadline, offered, body, places FROM questions WHERE id = ?1",
        )?
        .query_row([id.as_str()], |row| {
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                row.get(4)?,
            ))
        })
        .optional()?;
    let Some((state, deadline, offered, body, places)) = found else {
        return Ok(Said::Unknown);
    };
    match state.as_str() {
        "pending" => {}
        "answered" | "used" => return Ok(Said::AlreadyAnswered),
        _ => return Ok(Said::Expired),
    }
    if deadline <= ms(now_ms) {
        return Ok(Said::Expired);
    }
    if !offered
        .split(' ')
        .any(|word| word == answer.decision.as_str())
    {
        return Ok(Said::NotOffered);
    }
    // Said is kept: whoever asked need not come back for it to hold.
    if matches!(
        answer.decision,
        Decision::AlwaysAllow | Decision::AlwaysDeny
    ) {
        let places: Places = serde_json::from_str(&places).map_err(StoreError::damaged)?;
        for rule in parsed(&body)?.rules_of(answer) {
            keep_in(tx, &rule, Some(&places))?;
        }
    }
    let number: i64 = tx
        .prepare_cached(
            "UPDATE counters SET value = value + 1 WHERE name = 'answers' RETURNING value",
        )?
        .query_row([], |row| row.get(0))?;
    tx.prepare_cached(
        "UPDATE questions SET state = 'answered', decision = ?2, surface = ?3,
         answered_by = ?4, answer_no = ?5 WHERE id = ?1",
    )?
    .execute(params![
        id.as_str(),
        answer.decision.as_str(),
        answer.surface.as_str(),
        answer.by,
        number
    ])?;
    Ok(Said::Answered)
}

fn take_in(tx: &Transaction<'_>, id: &QuestionId) -> Result<Option<(Digest, Answer)>, StoreError> {
    let taken = tx
        .prepare_cached(
            "UPDATE questions SET state = 'used' WHERE id = ?1 AND state = 'answered'
             RETURNING digest, decision, surface, answered_by",
        )?
        .query_row([id.as_str()], |row| {
            Ok((row.get::<_, String>(0)?, answer_at(row, 1)))
        })
        .optional()?;
    let Some((digest, answer)) = taken else {
        return Ok(None);
    };
    let digest =
        Digest::parse(&digest).ok_or_else(|| StoreError::damaged("a question has no digest"))?;
    Ok(Some((digest, answer?)))
}

/// The answer in three columns from `first` on.
fn answer_at(row: &Row<'_>, first: usize) -> Result<Answer, StoreError> {
    let decision: Option<String> = row.get(first)?;
    let surface: Option<String> = row.get(first + 1)?;
    let surfaces = [
        Surface::Terminal,
        Surface::Console,
        Surface::Mcp,
        Surface::Api,
        Surface::Script,
    ];
    Ok(Answer {
        decision: decision
            .as_deref()
            .and_then(Decision::parse)
            .ok_or_else(|| StoreError::damaged("an answer has no known decision"))?,
        surface: surfaces
            .into_iter()
            .find(|known| Some(known.as_str()) == surface.as_deref())
            .ok_or_else(|| StoreError::damaged("an answer has no known surface"))?,
        by: row.get::<_, Option<String>>(first + 2)?.unwrap_or_default(),
    })
}

/// Keeps the table bounded. What is old goes first, then the oldest of what is
/// settled; a question that waits is never dropped to make room for another.
fn make_room(tx: &Transaction<'_>, now_ms: u64) -> Result<(), StoreError> {
    if count(tx)? < MAX_QUESTIONS {
        return Ok(());
    }
    prune_in(tx, now_ms)?;
    if count(tx)? < MAX_QUESTIONS {
        return Ok(());
    }
    let removed = tx.execute(
        "DELETE FROM questions WHERE seq IN (
           SELECT seq FROM questions
           WHERE state IN ('used', 'withdrawn') OR deadline <= ?1
           ORDER BY seq LIMIT ?2)",
        [ms(now_ms), MAKE_ROOM],
    )?;
    if removed == 0 {
        return Err(StoreError::new(
            Trouble::Full,
            "100,000 questions wait for an answer, which is the most there may be.",
        )
        .hint("Answer some with `portcullis approve`, or wait for their deadlines."));
    }
    Ok(())
}

/// Whose business a question is: a person's, or the part of ours that asks.
fn owner_of(subject: &Subject) -> String {
    subject
        .owner()
        .map_or_else(|| subject.principal.label(), str::to_owned)
}

/// One who asks without end does not fill the table for the others: neither with
/// questions that wait, nor with answers nobody comes for.
fn leave_room(tx: &Transaction<'_>, owner: &str, now_ms: u64) -> Result<(), StoreError> {
    let held: i64 = tx
        .prepare_cached(
            "SELECT count(*) FROM questions
             WHERE owner = ?1 AND state IN ('pending', 'answered') AND deadline > ?2",
        )?
        .query_row(params![owner, ms(now_ms)], |row| row.get(0))?;
    if held < MAX_OF_ONE {
        return Ok(());
    }
    Err(StoreError::new(
        Trouble::Full,
        "1,000 questions of one person wait for an answer, or for who asked to come for it, which is the most there may be.",
    )
    .hint("Answer some with `portcullis approve`, or wait for their deadlines."))
}

fn parsed(body: &str) -> Result<Question, StoreError> {
    serde_json::from_str(body)
        .map_err(|error| StoreError::damaged(format!("a question is not readable: {error}")))
}

fn prune_in(tx: &Transaction<'_>, now_ms: u64) -> Result<usize, StoreError> {
    Ok(tx
        .prepare_cached("DELETE FROM questions WHERE deadline < ?1")?
        .execute([ms(now_ms.saturating_sub(KEEP_MS))])?)
}

fn count(conn: &Connection) -> Result<i64, StoreError> {
    Ok(conn
        .prepare_cached("SELECT value FROM counters WHERE name = 'questions'")?
        .query_row([], |row| row.get(0))?)
}
