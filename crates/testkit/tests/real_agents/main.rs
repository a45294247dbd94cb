//! Real agents against the scripted model, without a supervisor: that the model is good enough for them, and that they
//! behave as the drivers expect.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod claude;
mod codex;
mod pi;
mod pi_acp;
