//! The tables, and the steps that lead a store of any older format to the present one. A step is never changed once it
//! was released. Newer formats may add tables, columns and indices; they may not take away what an older version
//! reads, because older versions serve newer stores read-only.

use rusqlite::{Connection, TransactionBehavior};

/// Marks the file as ours: `subA` in its header.
pub const APPLICATION_ID: i32 = 0x7375_6241;

/// The format that this version writes.
pub const FORMAT: u32 = 2;

/// The steps: the first makes format 1 out of an empty file, the next format 2 out of 1, and so on.
const STEPS: &[&str] = &[include_str!("schema/v1.sql"), include_str!("schema/v2.sql")];

/// Leads the store to the present format, in one transaction. An empty file becomes a new store.
pub(crate) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    migrate_by(connection, STEPS)
}

fn migrate_by(connection: &mut Connection, steps: &[&str]) -> rusqlite::Result<()> {
    if format(connection)? as usize == steps.len() {
        return Ok(());
    }
    let step = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Asked again inside of the transaction: another process may have been faster.
    let from = format(&step)? as usize;
    for sql in steps.iter().skip(from) {
        step.execute_batch(sql)?;
    }
    if from < steps.len() {
        step.pragma_update(None, "application_id", APPLICATION_ID)?;
        step.pragma_update(None, "user_version", i64::try_from(steps.len()).unwrap_or(i64::MAX))?;
    }
    step.commit()
}

/// The format of a store; 0 for an empty file.
pub(crate) fn format(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// What the file says that it is.
pub(crate) fn application_id(connection: &Connection) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, "application_id", |row| row.get(0))
}

/// True when nothing was ever made in the file.
pub(crate) fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::{APPLICATION_ID, FORMAT, STEPS, application_id, format, migrate, migrate_by};
    use rusqlite::Connection;

    #[test]
    fn daemon_04_every_older_format_is_led_to_the_present_one() {
        assert_eq!(STEPS.len(), FORMAT as usize);
        let mut connection = Connection::open_in_memory().unwrap();
        assert_eq!(format(&connection).unwrap(), 0);
        migrate(&mut connection).unwrap();
        assert_eq!(
            (format(&connection).unwrap(), application_id(&connection).unwrap()),
            (FORMAT, APPLICATION_ID)
        );
        migrate(&mut connection).unwrap();
        // The next step finds what the one before has made, and runs once.
        let mut steps = STEPS.to_vec();
        steps.push("ALTER TABLE subagent ADD COLUMN note TEXT; UPDATE meta SET value = value || '!' WHERE name = 'node'");
        migrate_by(&mut connection, &steps).unwrap();
        migrate_by(&mut connection, &steps).unwrap();
        assert_eq!(format(&connection).unwrap(), FORMAT + 1);
        let node: String =
            connection.query_row("SELECT value FROM meta WHERE name = 'node'", [], |row| row.get(0)).unwrap();
        assert!(node.ends_with('!') && !node.ends_with("!!"), "{node}");
    }

    #[test]
    fn a_step_that_fails_leaves_the_format_before_it() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        let mut steps = STEPS.to_vec();
        steps.push("CREATE TABLE half (x INTEGER); CREATE TABLE half (x INTEGER)");
        migrate_by(&mut connection, &steps).unwrap_err();
        assert_eq!(format(&connection).unwrap(), FORMAT);
        connection.query_row("SELECT count(*) FROM half", [], |row| row.get::<_, i64>(0)).unwrap_err();
    }
}
