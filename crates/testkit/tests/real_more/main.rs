//! The agents that a full test leaves out, against the scripted model: `cargo xtask test --agents all`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod one_shot;
mod spoken;
