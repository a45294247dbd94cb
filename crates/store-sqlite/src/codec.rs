//! Between rows and values. Whatever a row holds, reading it gives a value or a damaged row, never a failure of the
//! whole answer.

use std::sync::Arc;

use rusqlite::Row;
use rusqlite::types::ValueRef;
use subagent_core::run::Subagent;
use subagent_model::{Cursor, Event, RunNumber, SubagentId, Timestamp};
use subagent_store::{DamagedRow, filter};
use uuid::Uuid;

use crate::quarantine;

/// The columns that [`record`] reads, in its order.
pub(crate) const RECORD: &str = "id, revision, state";

/// The columns that [`event`] reads, in its order.
pub(crate) const EVENT: &str = "seq, id, run, at, kind";

/// A record as far as it can be read.
pub(crate) enum Decoded {
    Sound(Arc<Subagent>),
    Damaged { row: DamagedRow, id: Option<SubagentId> },
}

/// The bytes of an id.
pub(crate) fn id_bytes(id: SubagentId) -> [u8; 16] {
    id.as_uuid().into_bytes()
}

/// The id in a column.
pub(crate) fn id_at(row: &Row<'_>, column: usize) -> rusqlite::Result<SubagentId> {
    let bytes: [u8; 16] = row.get(column)?;
    Ok(SubagentId::from_uuid(Uuid::from_bytes(bytes)))
}

/// When the current run was over, of what is not live.
pub(crate) fn ended_at(state: &Subagent) -> Option<i64> {
    filter::ended_at(state).map(Timestamp::as_micros)
}

/// Reads a record from the columns [`RECORD`].
pub(crate) fn record(row: &Row<'_>) -> rusqlite::Result<Decoded> {
    let id = id_at(row, 0);
    let revision = row.get_ref(1)?;
    let state = match (&id, row.get_ref(2)?) {
        (Err(_), _) => Err(String::from("its id is no id")),
        (Ok(id), ValueRef::Text(json)) => sound(*id, revision, json),
        (Ok(_), other) => Err(format!("its state is {:?}, not text", other.data_type())),
    };
    Ok(match state {
        Ok(state) => Decoded::Sound(Arc::new(state)),
        Err(reason) => {
            let told = id.as_ref().map_or_else(|_| raw(row, 0), |id| Ok(id.to_string()))?;
            Decoded::Damaged { row: DamagedRow { id: told, reason }, id: id.ok() }
        }
    })
}

fn sound(id: SubagentId, revision: ValueRef<'_>, json: &[u8]) -> Result<Subagent, String> {
    let state: Subagent = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let stored = revision.as_i64().ok().and_then(|revision| u64::try_from(revision).ok());
    if state.id != id {
        return Err(format!("its state is that of {}", state.id));
    }
    if stored != Some(state.revision) {
        return Err(format!("its state is at revision {}, the row at {stored:?}", state.revision));
    }
    Ok(state)
}

/// Reads an event from the columns [`EVENT`].
pub(crate) fn event(row: &Row<'_>) -> rusqlite::Result<(Cursor, Result<Event, DamagedRow>)> {
    let seq = Cursor(u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0));
    let parts = || -> Result<Event, String> {
        let told = |error: rusqlite::Error| error.to_string();
        let kind = row.get_ref(4).map_err(told)?;
        let kind = kind.as_bytes().map_err(|error| error.to_string())?;
        Ok(Event {
            seq,
            at: Timestamp::from_micros(row.get(3).map_err(told)?),
            subagent: id_at(row, 1).map_err(told)?,
            run: RunNumber(row.get(2).map_err(told)?),
            kind: serde_json::from_slice(kind).map_err(|error| error.to_string())?,
        })
    };
    let damaged = |reason| DamagedRow { id: format!("{}{seq}", quarantine::EVENT), reason };
    Ok((seq, parts().map_err(damaged)))
}

/// What stands in a column that is not what it must be, for people.
fn raw(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    use std::fmt::Write;
    let mut text = String::from("raw ");
    match row.get_ref(column)? {
        ValueRef::Blob(bytes) | ValueRef::Text(bytes) => {
            for byte in bytes.iter().take(32) {
                // Writing to a string cannot fail.
                let _ = write!(text, "{byte:02x}");
            }
        }
        other => text = format!("raw {other:?}"),
    }
    Ok(text)
}
