//! Commits. One batch is one transaction: each step looks up its row, refuses a stale revision, writes the state, the
//! facts and the texts. Nothing here flushes; the end of the transaction does, once.

use std::collections::BTreeMap;

use rusqlite::{CachedStatement, Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use serde::Serialize;
use subagent_core::delivery::{Owed, owed};
use subagent_core::run::Subagent;
use subagent_model::{Cursor, SubagentId};
use subagent_store::{Committed, Content, IdempotencyKey, StoreError, Transition};

use crate::codec::{ended_at, id_at, id_bytes};

/// Whole texts are stored in pieces of this size.
pub(crate) const CHUNK: usize = 256 * 1024;

/// Why a batch was not written: a refusal of the store, or a failure of SQLite.
pub(crate) enum Unwritten {
    Refused(StoreError),
    Failed(rusqlite::Error),
}

impl From<rusqlite::Error> for Unwritten {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for Unwritten {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

/// What the row of a subagent says beside its state.
struct Stored {
    n: i64,
    revision: i64,
    live: bool,
    ended_at: Option<i64>,
    requester: String,
    /// The outbox has something of it.
    owes: bool,
}

/// Writes a batch.
pub(crate) fn commit(connection: &mut Connection, batch: &[Transition]) -> Result<Committed, Unwritten> {
    for step in batch {
        step.check()?;
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let before = head(&transaction)?;
    let mut last = before;
    for step in batch {
        write(&transaction, step, &mut last)?;
    }
    transaction.commit()?;
    Ok(Committed { first: Cursor(unsigned(before) + 1), last: Cursor(unsigned(last)) })
}

/// Number of the last event.
pub(crate) fn head(connection: &Connection) -> rusqlite::Result<i64> {
    let mut statement = connection.prepare_cached("SELECT coalesce(max(seq), 0) FROM event")?;
    statement.query_row([], |row| row.get(0))
}

fn write(transaction: &Transaction<'_>, step: &Transition, last: &mut i64) -> Result<(), Unwritten> {
    let state = &*step.state;
    let stored = stored(transaction, state.id)?;
    let found = stored.as_ref().map_or(0, |stored| unsigned(stored.revision));
    if found != step.before {
        return Err(StoreError::Conflict { id: state.id, expected: step.before, found }.into());
    }
    let n = match &stored {
        None => birth(transaction, state, step.idempotency.as_ref())?,
        Some(stored) => update(transaction, state, stored)?,
    };
    let owes = stored.is_some_and(|stored| stored.owes);
    if owes || state.is_owed() {
        post(transaction, state)?;
    }
    for content in &step.content {
        put_content(transaction, n, content)?;
    }
    let id = id_bytes(state.id);
    let mut statement = transaction
        .prepare_cached("INSERT INTO event (seq, id, run, at, kind) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for fact in &step.events {
        *last += 1;
        statement.execute(params![*last, id, fact.run.0, fact.at.as_micros(), json(&fact.kind)?])?;
    }
    Ok(())
}

fn stored(transaction: &Transaction<'_>, id: SubagentId) -> rusqlite::Result<Option<Stored>> {
    let sql = "SELECT n, revision, live, ended_at, requester, EXISTS (SELECT 1 FROM outbox WHERE outbox.id = ?1) \
               FROM subagent WHERE id = ?1";
    transaction
        .prepare_cached(sql)?
        .query_row([id_bytes(id)], |row| {
            Ok(Stored {
                n: row.get(0)?,
                revision: row.get(1)?,
                live: row.get(2)?,
                ended_at: row.get(3)?,
                requester: row.get(4)?,
                owes: row.get(5)?,
            })
        })
        .optional()
}

fn birth(
    transaction: &Transaction<'_>,
    state: &Subagent,
    key: Option<&IdempotencyKey>,
) -> Result<i64, Unwritten> {
    let mut insert = transaction.prepare_cached(
        "INSERT INTO subagent (id, handle, revision, status, live, ended_at, requester, parent, root, \
         key_requester, key, state, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?;
    let inserted = insert.insert(params![
        id_bytes(state.id),
        state.handle.as_str(),
        signed(state.revision)?,
        state.status().as_str(),
        state.is_live(),
        ended_at(state),
        state.requester.as_str(),
        state.parent.map(id_bytes),
        id_bytes(state.root),
        key.map(|key| key.requester.as_str()),
        key.map(|key| key.key.as_str()),
        json(state)?,
        state.updated_at.as_micros(),
    ]);
    let n = match inserted {
        Ok(n) => n,
        Err(error) => {
            return Err(refusal(transaction, state, key)?.map_or(Unwritten::Failed(error), Into::into));
        }
    };
    if state.parent.is_some() {
        let sql = "INSERT INTO tree (root, below) VALUES (?1, 1) ON CONFLICT DO UPDATE SET below = below + 1";
        transaction.prepare_cached(sql)?.execute([id_bytes(state.root)])?;
    }
    Ok(n)
}

/// Which of the unique things of a birth is taken.
fn refusal(
    transaction: &Transaction<'_>,
    state: &Subagent,
    key: Option<&IdempotencyKey>,
) -> rusqlite::Result<Option<StoreError>> {
    if by_handle(transaction, state.handle.as_str())?.is_some() {
        return Ok(Some(StoreError::HandleTaken { handle: state.handle.clone() }));
    }
    match key {
        Some(key) => Ok(by_key(transaction, key)?.map(|id| StoreError::KeyTaken { id })),
        None => Ok(None),
    }
}

/// Who has a handle.
pub(crate) fn by_handle(connection: &Connection, handle: &str) -> rusqlite::Result<Option<SubagentId>> {
    let mut statement = connection.prepare_cached("SELECT id FROM subagent WHERE handle = ?1")?;
    statement.query_row([handle], |row| id_at(row, 0)).optional()
}

/// Whom a key gave.
pub(crate) fn by_key(connection: &Connection, key: &IdempotencyKey) -> rusqlite::Result<Option<SubagentId>> {
    let mut statement =
        connection.prepare_cached("SELECT id FROM subagent WHERE key_requester = ?1 AND key = ?2")?;
    statement.query_row([key.requester.as_str(), key.key.as_str()], |row| id_at(row, 0)).optional()
}

/// Writes the next state of a row. SQLite rewrites the entries of every index that has a column of the `SET` list,
/// changed or not, unless the index leaves the row out; so only what has changed is named, and a step between live
/// states touches one page of the table and no index.
fn update(transaction: &Transaction<'_>, state: &Subagent, stored: &Stored) -> Result<i64, Unwritten> {
    let live = state.is_live();
    let same_place = stored.live == live
        && stored.ended_at == ended_at(state)
        && stored.requester == state.requester.as_str();
    let (revision, status, json) = (signed(state.revision)?, state.status().as_str(), json(state)?);
    let updated_at = state.updated_at.as_micros();
    if same_place && !live {
        let sql = "UPDATE subagent SET revision = ?2, state = ?3, updated_at = ?4 WHERE n = ?1";
        one_row(transaction.prepare_cached(sql)?, params![stored.n, revision, json, updated_at])?;
    } else if same_place {
        let sql = "UPDATE subagent SET revision = ?2, state = ?3, updated_at = ?4, status = ?5 WHERE n = ?1";
        one_row(transaction.prepare_cached(sql)?, params![stored.n, revision, json, updated_at, status])?;
    } else if stored.requester == state.requester.as_str() {
        let sql = "UPDATE subagent SET revision = ?2, state = ?3, updated_at = ?4, status = ?5, live = ?6, \
                   ended_at = ?7 WHERE n = ?1";
        let values = params![stored.n, revision, json, updated_at, status, live, ended_at(state)];
        one_row(transaction.prepare_cached(sql)?, values)?;
    } else {
        let sql = "UPDATE subagent SET revision = ?2, state = ?3, updated_at = ?4, status = ?5, live = ?6, \
                   ended_at = ?7, requester = ?8 WHERE n = ?1";
        let requester = state.requester.as_str();
        let values = params![stored.n, revision, json, updated_at, status, live, ended_at(state), requester];
        one_row(transaction.prepare_cached(sql)?, values)?;
    }
    Ok(stored.n)
}

/// Makes the outbox say what the state owes, and to whom. When a run was over never changes; whom it is owed to may.
/// Most steps of a subagent with unread results find nothing to write.
fn post(transaction: &Transaction<'_>, state: &Subagent) -> Result<(), Unwritten> {
    let id = id_bytes(state.id);
    let mut statement = transaction.prepare_cached("SELECT run, requester FROM outbox WHERE id = ?1")?;
    let posted = statement.query_map([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let posted: BTreeMap<u32, String> = posted.collect::<Result<_, _>>()?;
    let owed: BTreeMap<u32, Owed<'_>> = owed(state).map(|owed| (owed.run.0, owed)).collect();
    for run in posted.keys().filter(|run| !owed.contains_key(run)) {
        transaction
            .prepare_cached("DELETE FROM outbox WHERE id = ?1 AND run = ?2")?
            .execute(params![id, run])?;
    }
    for (run, owed) in owed {
        let requester = owed.requester.as_str();
        if posted.get(&run).is_none_or(|to| to != requester) {
            let sql = "INSERT INTO outbox (id, run, requester, ended_at) VALUES (?1, ?2, ?3, ?4) \
                       ON CONFLICT DO UPDATE SET requester = excluded.requester";
            transaction.prepare_cached(sql)?.execute(params![id, run, requester, owed.since.as_micros()])?;
        }
    }
    Ok(())
}

fn one_row(mut statement: CachedStatement<'_>, values: &[&dyn rusqlite::ToSql]) -> rusqlite::Result<()> {
    match statement.execute(values)? {
        1 => Ok(()),
        other => Err(rusqlite::Error::StatementChangedRows(other)),
    }
}

fn put_content(transaction: &Transaction<'_>, n: i64, content: &Content) -> Result<(), Unwritten> {
    let (run, kind) = (content.run.0, content.kind.as_str());
    // A text that is put twice replaces the first, of which more pieces may be there.
    transaction
        .prepare_cached("DELETE FROM content WHERE n = ?1 AND run = ?2 AND kind = ?3")?
        .execute(params![n, run, kind])?;
    let total = signed(content.text.len() as u64)?;
    let sql = "INSERT INTO content (n, run, kind, chunk, total, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let mut statement = transaction.prepare_cached(sql)?;
    let bytes = content.text.as_bytes();
    // Even an empty text has a piece: it is there.
    let chunks = bytes.chunks(CHUNK).chain(bytes.is_empty().then_some(bytes));
    for (number, chunk) in (0_i64..).zip(chunks) {
        statement.execute(params![n, run, kind, number, total, chunk])?;
    }
    Ok(())
}

fn json(value: &impl Serialize) -> Result<String, Unwritten> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::Backend { reason: format!("a value cannot be written: {error}") }.into())
}

/// SQLite's numbers are signed; ours never reach the half of their range.
fn signed(number: u64) -> Result<i64, Unwritten> {
    i64::try_from(number)
        .map_err(|_| StoreError::Backend { reason: format!("the number {number} is out of range") }.into())
}

pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
