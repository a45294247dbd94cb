//! Listing: each filter becomes queries that walk one index from the newest on and stop when the page is full.

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, ToSql, params};
use subagent_model::{Status, SubagentId};
use subagent_store::{ListFilter, ListPage, filter};

use crate::codec::{RECORD, id_bytes};
use crate::quarantine::Quarantine;
use crate::read::{Found, no_place, rows};

pub(crate) fn list(
    connection: &Connection,
    quarantine: &Quarantine,
    asked: &ListFilter,
) -> rusqlite::Result<ListPage> {
    let len = filter::page_len(asked);
    let mut found: Vec<Found> = Vec::new();
    for (sql, of) in sources(asked) {
        let before = asked.before.map_or([0xff; 16], id_bytes);
        let limit = i64::try_from(len + 1).unwrap_or(i64::MAX);
        let (requester, root) = (asked.requester.as_deref(), asked.root.map(id_bytes));
        found.extend(rows(connection, quarantine, &sql, params![before, limit, requester, of, root])?);
    }
    // Each source is in order; together they are not.
    found.sort_by_key(|(id, _)| std::cmp::Reverse(*id));
    let more = found.len() > len;
    found.truncate(len);
    let next = found.iter().rev().map(|(id, _)| *id).find(|id| *id != no_place()).filter(|_| more);
    let mut page = ListPage { next, ..ListPage::default() };
    for (_, found) in found {
        match found {
            Ok(state) => page.items.push(state),
            Err(row) => page.damaged.push(row),
        }
    }
    Ok(page)
}

/// The value of a source's own column.
enum Of {
    Nothing,
    Parent(SubagentId),
    Status(Status),
}

impl ToSql for Of {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Nothing => ToSqlOutput::Owned(Value::Null),
            Self::Parent(id) => ToSqlOutput::Owned(Value::Blob(id_bytes(*id).to_vec())),
            Self::Status(status) => ToSqlOutput::Borrowed(ValueRef::Text(status.as_str().as_bytes())),
        })
    }
}

/// The queries that together give a page; no row stands in two of them. Named indices, because without statistics SQLite
/// would rather walk all ids. Parameters: 1 the place, 2 the length, 3 the requester, 4 the source's own, 5 the root.
fn sources(asked: &ListFilter) -> Vec<(String, Of)> {
    let wanted = |status: &Status| {
        (asked.status.is_empty() || asked.status.contains(status)) && !(asked.live && status.is_final())
    };
    let wanted: Vec<Status> = Status::ALL.into_iter().filter(wanted).collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let words: Vec<String> = wanted.iter().map(|status| format!("'{status}'")).collect();
    let words = words.join(", ");
    // The last condition says nothing; it lets every query take the same parameters.
    let select = |from: &str, which: &str| {
        format!(
            "SELECT {RECORD} FROM subagent {from} WHERE {which} AND id < ?1 AND (?3 IS NULL OR requester = ?3) \
             AND (?5 IS NULL OR root = ?5) AND (TRUE OR ?4 IS NULL) ORDER BY id DESC LIMIT ?2"
        )
    };
    let all = wanted.len() == Status::ALL.len();
    let among = |which: &str| if all { which.to_owned() } else { format!("{which} AND status IN ({words})") };
    if let Some(parent) = asked.parent {
        return vec![(select("INDEXED BY subagent_child", &among("parent = ?4")), Of::Parent(parent))];
    }
    if asked.root.is_some() {
        // The root has no parent; the others of its tree have one.
        let (top, others) = ("id = ?5 AND parent IS NULL", "root = ?5 AND parent IS NOT NULL");
        return vec![
            (select("", &among(top)), Of::Nothing),
            (select("INDEXED BY subagent_tree", &among(others)), Of::Nothing),
        ];
    }
    if all && asked.requester.is_some() {
        return vec![(select("INDEXED BY subagent_requester", "requester = ?3"), Of::Nothing)];
    }
    if all {
        return vec![(select("", "TRUE"), Of::Nothing)];
    }
    // What is live may have a final status: its process is being closed.
    let mut sources = vec![(select("INDEXED BY subagent_live", &among("live = 1")), Of::Nothing)];
    let ended = wanted.into_iter().filter(|status| status.is_final());
    sources.extend(
        ended.map(|status| {
            (select("INDEXED BY subagent_ended", "live = 0 AND status = ?4"), Of::Status(status))
        }),
    );
    sources
}

#[cfg(test)]
mod tests {
    use super::{Of, sources};
    use rusqlite::{Connection, params};
    use subagent_model::{Status, SubagentId};
    use subagent_store::ListFilter;

    /// How SQLite would go about it.
    fn plan(connection: &Connection, sql: &str, of: &Of) -> String {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let details = statement
            .query_map(params![[0_u8; 16], 50, "me", of, [0_u8; 16]], |row| row.get::<_, String>(3))
            .unwrap();
        details.map(Result::unwrap).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn no_list_sorts_or_walks_what_it_need_not() {
        let mut connection = Connection::open_in_memory().unwrap();
        crate::schema::migrate(&mut connection).unwrap();
        let some = Some(SubagentId::from_uuid(uuid::Uuid::nil()));
        for status in [vec![], vec![Status::Completed], vec![Status::Running, Status::Error, Status::Lost]] {
            for live in [false, true] {
                for parent in [None, some] {
                    for root in [None, some] {
                        for requester in [None, Some(String::from("me"))] {
                            let status = status.clone();
                            let filter =
                                ListFilter { status, live, root, parent, requester, ..ListFilter::default() };
                            for (sql, of) in sources(&filter) {
                                let plan = plan(&connection, &sql, &of);
                                assert!(plan.starts_with("SEARCH subagent USING INDEX"), "{plan}: {sql}");
                                assert!(!plan.contains("B-TREE") && !plan.contains("SCAN"), "{plan}: {sql}");
                            }
                        }
                    }
                }
            }
        }
    }
}
