//! The SQLite store passes the suite.

mod common;

use common::Temp;
use subagent_store::conformance_tests;

conformance_tests!(Temp::new);
