//! Queries. Each takes a connection that only reads; rows that cannot be read go to the quarantine.

use std::sync::Arc;

use rusqlite::{Connection, Params, params};
use subagent_core::run::Subagent;
use subagent_model::{Cursor, Event, Handle, Requester, RunNumber, SubagentId, Timestamp};
use subagent_store::{
    ContentKind, ContentPart, DamagedRow, LivePage, OwedRun, Place, Resolved, TREE_MOST, prefix,
};
use uuid::Uuid;

use crate::codec::{self, Decoded, EVENT, RECORD, id_at, id_bytes};
use crate::quarantine::Quarantine;
use crate::write::{CHUNK, by_handle, unsigned};

/// One row of an answer: its place in the order, and what it is.
pub(crate) type Found = (SubagentId, Result<Arc<Subagent>, DamagedRow>);

pub(crate) fn get(
    connection: &Connection,
    quarantine: &Quarantine,
    id: SubagentId,
) -> rusqlite::Result<Option<Result<Arc<Subagent>, DamagedRow>>> {
    let sql = format!("SELECT {RECORD} FROM subagent WHERE id = ?1");
    Ok(rows(connection, quarantine, &sql, [id_bytes(id)])?.pop().map(|(_, found)| found))
}

pub(crate) fn resolve(connection: &Connection, name: &str) -> rusqlite::Result<Resolved> {
    if name.is_empty() {
        return Ok(Resolved::None);
    }
    if let Some(id) = by_handle(connection, name)? {
        return Ok(Resolved::One(id));
    }
    let most = i64::try_from(Resolved::MOST + 1).unwrap_or(i64::MAX);
    let named = |row: &rusqlite::Row<'_>| Ok((id_at(row, 0)?, Handle(row.get(1)?)));
    let mut found: Vec<(SubagentId, Handle)> = Vec::new();
    // The order of the index is that of bytes: what begins with the name stands together, right after it.
    let mut by_handle = connection
        .prepare_cached("SELECT id, handle FROM subagent WHERE handle >= ?1 ORDER BY handle LIMIT ?2")?;
    for row in by_handle.query_map(params![name, most], named)? {
        let row = row?;
        if !row.1.as_str().starts_with(name) {
            break;
        }
        found.push(row);
    }
    if let Some((low, high)) = prefix::ids(name) {
        let sql = "SELECT id, handle FROM subagent WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT ?3";
        let mut by_id = connection.prepare_cached(sql)?;
        let by_id = by_id.query_map(params![id_bytes(low), id_bytes(high), most], named)?;
        let by_id: Vec<(SubagentId, Handle)> = by_id.collect::<Result<_, _>>()?;
        // A whole id is exact: it stands before handles that begin with it.
        if low == high && !by_id.is_empty() {
            return Ok(Resolved::One(low));
        }
        found.extend(by_id);
    }
    Ok(Resolved::from_candidates(found))
}

pub(crate) fn live(connection: &Connection, quarantine: &Quarantine) -> rusqlite::Result<LivePage> {
    let sql = format!("SELECT {RECORD} FROM subagent INDEXED BY subagent_live WHERE live = 1 ORDER BY id");
    let mut page = LivePage::default();
    for (_, found) in rows(connection, quarantine, &sql, [])? {
        match found {
            Ok(state) => page.items.push(state),
            Err(row) => page.damaged.push(row),
        }
    }
    Ok(page)
}

pub(crate) fn owed(
    connection: &Connection,
    quarantine: &Quarantine,
    requester: Option<&Requester>,
    mut after: Option<Place>,
    limit: u32,
) -> rusqlite::Result<Vec<OwedRun>> {
    // The index is read and sorted, and only the chosen ones are read whole. What has no row is told as damaged.
    let of = if requester.is_some() { "requester = ?1" } else { "?1 IS NULL" };
    let sql = format!(
        "SELECT o.id, s.revision, s.state, o.ended_at, o.run FROM (SELECT id, ended_at, run FROM outbox INDEXED BY \
         outbox_place WHERE {of} AND (ended_at, id, run) > (?2, ?3, ?4) ORDER BY ended_at, id, run LIMIT ?5) AS o \
         LEFT JOIN subagent AS s ON s.id = o.id ORDER BY o.ended_at, o.id, o.run"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let limit = limit as usize;
    let mut items = Vec::new();
    loop {
        let (at, id, run) = after.map_or((i64::MIN, [0; 16], 0), |place| {
            (place.ended_at.as_micros(), id_bytes(place.subagent), place.run.0)
        });
        let wanted = i64::try_from(limit - items.len()).unwrap_or(i64::MAX);
        let mut found = statement.query(params![requester.map(Requester::as_str), at, id, run, wanted])?;
        let mut read = 0;
        while let Some(row) = found.next()? {
            read += 1;
            let (ended_at, run) = (Timestamp::from_micros(row.get(3)?), RunNumber(row.get(4)?));
            after = Some(Place { ended_at, subagent: id_at(row, 0)?, run });
            if let (_, Ok(state)) = set_aside(quarantine, codec::record(row)?) {
                items.push(OwedRun { state, run, ended_at });
            }
        }
        // Damaged rows leave room on the page, never an end that is none.
        if read < wanted || items.len() >= limit {
            return Ok(items);
        }
    }
}

/// Counts what [`owed`] would give, out of the index alone. What is known to be damaged can never be delivered.
pub(crate) fn owed_requesters(connection: &Connection, prefix: &str) -> rusqlite::Result<Vec<Requester>> {
    // One step of the index for each requester, not one for each row.
    let sql = "WITH RECURSIVE named(requester) AS (\
         SELECT min(requester) FROM outbox WHERE requester >= ?1 \
         UNION ALL \
         SELECT (SELECT min(requester) FROM outbox WHERE requester > named.requester) FROM named \
         WHERE substr(named.requester, 1, length(?1)) = ?1) \
         SELECT requester FROM named WHERE substr(requester, 1, length(?1)) = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_map([prefix], |row| row.get::<_, String>(0))?;
    found.map(|name| name.map(Requester)).collect()
}

pub(crate) fn owed_count(
    connection: &Connection,
    quarantine: &Quarantine,
    requester: Option<&Requester>,
) -> rusqlite::Result<u64> {
    let count = |row: &rusqlite::Row<'_>| row.get(0).map(unsigned);
    let all = match requester {
        None => connection.prepare_cached("SELECT count(*) FROM outbox")?.query_row([], count)?,
        Some(requester) => connection
            .prepare_cached("SELECT count(*) FROM outbox WHERE requester = ?1")?
            .query_row([requester.as_str()], count)?,
    };
    let sql = "SELECT count(*) FROM outbox WHERE id = ?1 AND (?2 IS NULL OR requester = ?2)";
    quarantine.subagents().into_iter().try_fold(all, |left, id| {
        let values = params![id_bytes(id), requester.map(Requester::as_str)];
        Ok(left.saturating_sub(connection.prepare_cached(sql)?.query_row(values, count)?))
    })
}

pub(crate) fn events(
    connection: &Connection,
    quarantine: &Quarantine,
    after: Cursor,
    limit: u32,
) -> rusqlite::Result<Vec<Event>> {
    let limit = limit as usize;
    let mut after = i64::try_from(after.0).unwrap_or(i64::MAX);
    let mut events = Vec::new();
    let sql = format!("SELECT {EVENT} FROM event WHERE seq > ?1 ORDER BY seq LIMIT ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    loop {
        let wanted = i64::try_from(limit - events.len()).unwrap_or(i64::MAX);
        let mut found = statement.query(params![after, wanted])?;
        let mut read = 0;
        while let Some(row) = found.next()? {
            read += 1;
            after = row.get(0)?;
            match codec::event(row)?.1 {
                Ok(event) => events.push(event),
                Err(row) => quarantine.put(&row),
            }
        }
        // An empty answer means the end of the log, so a page of damaged events is passed over here.
        if read < wanted || events.len() >= limit {
            return Ok(events);
        }
    }
}

pub(crate) fn content(
    connection: &Connection,
    id: SubagentId,
    (run, kind): (RunNumber, ContentKind),
    offset: u64,
    max: u32,
) -> rusqlite::Result<Option<ContentPart>> {
    let size = CHUNK as u64;
    let (first, last) = (offset / size, offset.saturating_add(u64::from(max)).saturating_sub(1) / size);
    let sql = "SELECT chunk, total, bytes FROM content WHERE n = (SELECT n FROM subagent WHERE id = ?1) \
               AND run = ?2 AND kind = ?3 AND (chunk = 0 OR chunk BETWEEN ?4 AND ?5) ORDER BY chunk";
    let mut statement = connection.prepare_cached(sql)?;
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let values = params![id_bytes(id), run.0, kind.as_str(), number(first), number(last)];
    let mut found = statement.query(values)?;
    let mut part: Option<ContentPart> = None;
    while let Some(row) = found.next()? {
        let (chunk, total) = (unsigned(row.get(0)?), unsigned(row.get(1)?));
        let part = part.get_or_insert_with(|| ContentPart { bytes: Vec::new(), total });
        // The first piece is always read, for the size of the whole.
        if chunk < first {
            continue;
        }
        let bytes = row.get_ref(2)?.as_blob()?;
        let start =
            usize::try_from(offset.saturating_sub(chunk * size)).unwrap_or(usize::MAX).min(bytes.len());
        let room = max as usize - part.bytes.len();
        let end = start.saturating_add(room).min(bytes.len());
        part.bytes.extend_from_slice(&bytes[start..end]);
    }
    Ok(part)
}

pub(crate) fn children(connection: &Connection, parent: SubagentId) -> rusqlite::Result<Vec<SubagentId>> {
    let mut statement = connection.prepare_cached("SELECT id FROM subagent WHERE parent = ?1 ORDER BY id")?;
    let children = statement.query_map([id_bytes(parent)], |row| id_at(row, 0))?;
    children.collect()
}

pub(crate) fn tree(
    connection: &Connection,
    quarantine: &Quarantine,
    root: SubagentId,
) -> rusqlite::Result<Vec<Arc<Subagent>>> {
    // The root has no parent; one that has, in damaged links, stands in the index with the others.
    let top = format!("SELECT {RECORD} FROM subagent WHERE id = ?1 AND root = ?1 AND parent IS NULL");
    let others = format!(
        "SELECT {RECORD} FROM subagent INDEXED BY subagent_tree WHERE root = ?1 AND parent IS NOT NULL \
         ORDER BY id LIMIT ?2"
    );
    let mut found = rows(connection, quarantine, &top, [id_bytes(root)])?;
    found.extend(rows(connection, quarantine, &others, params![id_bytes(root), TREE_MOST])?);
    found.sort_by_key(|(id, _)| *id);
    let sound = found.into_iter().filter_map(|(_, found)| found.ok());
    Ok(sound.take(TREE_MOST as usize).collect())
}

pub(crate) fn first_event(connection: &Connection) -> rusqlite::Result<Cursor> {
    let mut statement = connection.prepare_cached("SELECT coalesce(min(seq), 1) FROM event")?;
    statement.query_row([], |row| row.get(0).map(|seq| Cursor(unsigned(seq))))
}

pub(crate) fn tree_total(connection: &Connection, root: SubagentId) -> rusqlite::Result<u32> {
    let sql = "SELECT coalesce((SELECT below FROM tree WHERE root = ?1), 0) \
               + EXISTS (SELECT 1 FROM subagent WHERE id = ?1)";
    let total: i64 = connection.prepare_cached(sql)?.query_row([id_bytes(root)], |row| row.get(0))?;
    Ok(u32::try_from(total).unwrap_or(u32::MAX))
}

pub(crate) fn rows(
    connection: &Connection,
    quarantine: &Quarantine,
    sql: &str,
    values: impl Params,
) -> rusqlite::Result<Vec<Found>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = statement.query(values)?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        rows.push(set_aside(quarantine, codec::record(row)?));
    }
    Ok(rows)
}

/// The place of rows whose very id cannot be read: after all others.
pub(crate) fn no_place() -> SubagentId {
    SubagentId::from_uuid(Uuid::nil())
}

/// A row with its place; a damaged one is remembered.
fn set_aside(quarantine: &Quarantine, decoded: Decoded) -> Found {
    match decoded {
        Decoded::Sound(state) => (state.id, Ok(state)),
        Decoded::Damaged { row, id } => {
            quarantine.put(&row);
            (id.unwrap_or_else(no_place), Err(row))
        }
    }
}
