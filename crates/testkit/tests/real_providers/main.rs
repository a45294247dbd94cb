//! Real agents as children of a real daemon, against the scripted model. One table: every agent, every case.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod cases;
mod table;
mod world;

table::agent!(claude, Claude);
table::agent!(codex, Codex);
table::agent!(pi, Pi);
table::agent!(pi_acp, PiAcp);
