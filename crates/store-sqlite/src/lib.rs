//! SQLite store of subagent: one file, one writer with group commit, readers in parallel. The bundled SQLite runs in WAL
//! mode with `synchronous=FULL`: one commit is one transaction and one flush. Readers have connections of their own and
//! never wait for the writer's flush; a thread of its own moves the log into the database, off the path of commits.
//! A row that cannot be read is set aside and told; a store of a newer version is served read-only.

mod checkpoint;
mod codec;
mod connect;
mod error;
mod list;
mod open;
mod pool;
mod quarantine;
mod read;
mod release;
mod schema;
mod store;
mod write;
mod writer;

pub use open::{FILE_NAME, OpenOptions};
pub use schema::{APPLICATION_ID, FORMAT};
pub use store::SqliteStore;
