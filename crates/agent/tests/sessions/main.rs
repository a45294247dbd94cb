//! Sessions over the protocol, in this process, against the scripted model: each wire format, crashes at every step,
//! steering, limits, failures, keys.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod client;
mod crash;
mod endpoints;
mod turns;
