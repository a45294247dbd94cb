//! What retention asks of the store: what there is, and that it goes. Whether something may go is asked inside of the
//! transaction that removes it. Pages that become free are used again; the file does not shrink.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use subagent_model::{Cursor, SubagentId, Timestamp};
use subagent_store::StoredSummary;

use crate::codec::{id_at, id_bytes};
use crate::write::{Unwritten, unsigned};

/// Events that are removed in one transaction. Commits go on between two.
const PORTION: u32 = 5_000;

/// A page of summaries. What has ended is read out of an index alone; what is live is not much.
pub(crate) fn summaries(
    connection: &Connection,
    after: Option<SubagentId>,
    limit: u32,
) -> rusqlite::Result<Vec<StoredSummary>> {
    let mut found = Vec::new();
    for sql in sources() {
        let mut statement = connection.prepare_cached(&sql)?;
        // No id is empty, and all others come after it.
        let after = after.map(id_bytes);
        let values = params![after.as_ref().map_or(&[][..], |id| &id[..]), limit];
        for row in statement.query_map(values, summary)? {
            found.push(row?);
        }
    }
    found.sort_by_key(|summary| summary.id);
    found.truncate(limit as usize);
    Ok(found)
}

/// The two queries of a page, each in order.
fn sources() -> [String; 2] {
    ["INDEXED BY subagent_over WHERE live = 0", "INDEXED BY subagent_live WHERE live = 1"].map(|of| {
        format!(
            "SELECT id, parent, root, ended_at, updated_at, EXISTS (SELECT 1 FROM outbox WHERE outbox.id = subagent.id), \
             (SELECT coalesce(sum(total), 0) FROM content WHERE content.n = subagent.n AND chunk = 0) \
             FROM subagent {of} AND id > ?1 ORDER BY id LIMIT ?2"
        )
    })
}

fn summary(row: &rusqlite::Row<'_>) -> rusqlite::Result<StoredSummary> {
    let parent: Option<[u8; 16]> = row.get(1)?;
    Ok(StoredSummary {
        id: id_at(row, 0)?,
        parent: parent.map(|_| id_at(row, 1)).transpose()?,
        root: id_at(row, 2)?,
        ended_at: row.get::<_, Option<i64>>(3)?.map(Timestamp::from_micros),
        updated_at: Timestamp::from_micros(row.get(4)?),
        unread: row.get(5)?,
        bytes: unsigned(row.get(6)?),
    })
}

/// Removes the whole texts of what is over. Says of how many there were any.
pub(crate) fn release_content(connection: &mut Connection, ids: &[SubagentId]) -> Result<u32, Unwritten> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut released = 0;
    for id in ids {
        let Some(n) = over(&transaction, *id)? else { continue };
        let texts = transaction.prepare_cached("DELETE FROM content WHERE n = ?1")?.execute([n])?;
        released += u32::from(texts > 0);
    }
    transaction.commit()?;
    Ok(released)
}

/// Removes what is over and has no children. Says which.
pub(crate) fn delete(connection: &mut Connection, ids: &[SubagentId]) -> Result<Vec<SubagentId>, Unwritten> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut removed = Vec::new();
    for id in ids {
        let Some(n) = over(&transaction, *id)? else { continue };
        let key = id_bytes(*id);
        let sql = "SELECT EXISTS (SELECT 1 FROM subagent WHERE parent = ?1 AND id <> ?1)";
        if transaction.prepare_cached(sql)?.query_row([key], |row| row.get(0))? {
            continue;
        }
        transaction.prepare_cached("DELETE FROM content WHERE n = ?1")?.execute([n])?;
        transaction.prepare_cached("DELETE FROM subagent WHERE n = ?1")?.execute([n])?;
        transaction.prepare_cached("DELETE FROM tree WHERE root = ?1")?.execute([key])?;
        removed.push(*id);
    }
    transaction.commit()?;
    Ok(removed)
}

/// The row of a subagent of which nothing is live or owed.
fn over(transaction: &Transaction<'_>, id: SubagentId) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT n FROM subagent WHERE id = ?1 AND live = 0 AND NOT EXISTS (SELECT 1 FROM outbox WHERE id = ?1)";
    transaction.prepare_cached(sql)?.query_row([id_bytes(id)], |row| row.get(0)).optional()
}

/// Removes some of the oldest events, and says how many; none when no more may go.
pub(crate) fn prune_portion(connection: &mut Connection, before: Cursor) -> Result<u64, Unwritten> {
    let before = i64::try_from(before.0).unwrap_or(i64::MAX);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Numbers go on from the last event, so that one stays.
    let sql = "SELECT min(?1, coalesce((SELECT max(seq) FROM event), 0), \
               coalesce((SELECT seq FROM event ORDER BY seq LIMIT 1 OFFSET ?2), ?1))";
    let end: i64 = transaction.prepare_cached(sql)?.query_row(params![before, PORTION], |row| row.get(0))?;
    let sql = "SELECT seq FROM event WHERE seq < ?1 AND (EXISTS (SELECT 1 FROM subagent INDEXED BY subagent_live \
               WHERE live = 1 AND subagent.id = event.id) OR EXISTS (SELECT 1 FROM outbox WHERE outbox.id = event.id)) \
               ORDER BY seq LIMIT 1";
    let held: Option<i64> = transaction.prepare_cached(sql)?.query_row([end], |row| row.get(0)).optional()?;
    let sql = "DELETE FROM event WHERE seq < ?1";
    let removed = transaction.prepare_cached(sql)?.execute([held.unwrap_or(end)])?;
    transaction.commit()?;
    Ok(removed as u64)
}

#[cfg(test)]
mod tests {
    use super::sources;
    use rusqlite::{Connection, params};

    #[test]
    fn what_has_ended_is_summed_up_without_its_rows() {
        let mut connection = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&mut connection).unwrap();
        let [over, live] = sources().map(|sql| {
            let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let details = statement.query_map(params![[0_u8; 0], 50], |row| row.get::<_, String>(3)).unwrap();
            details.map(Result::unwrap).collect::<Vec<_>>().join("; ")
        });
        assert!(over.starts_with("SEARCH subagent USING COVERING INDEX subagent_over (id>?)"), "{over}");
        assert!(live.starts_with("SEARCH subagent USING INDEX subagent_live (id>?)"), "{live}");
        for plan in [over, live] {
            assert!(!plan.contains("B-TREE") && !plan.contains("SCAN"), "{plan}");
        }
    }
}
