//! The scripted model server over real HTTP: each wire format, and what a script can do to it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod asking;
mod chat;
mod control;
mod encodings;
mod gemini;
mod messages;
mod mishaps;
mod program;
mod responses;
