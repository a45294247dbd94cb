//! A program that speaks the Agent Client Protocol, version 1, and plays scripts: an agent of that kind as a real process,
//! with the ways to misbehave that were seen of real ones. The prompt is the script; `player` has its steps.
//!
//! `acp-agent [KNOB VALUE]...`, where a knob is one of
//!
//! - `--version N`: the version of the protocol that it answers with; `none` for none at all.
//! - `--can WORDS`: what it announces: `load`, `resume`, `fork`, `close`, `image`, `instructions`; by default all but `image`.
//! - `--slow-start MS`, `--slow-leave MS`, `--slow-close MS`: how long it takes to answer the first request, to end after the
//!   end of its input, and to answer `session/close`. Too much of the last, and it answers never.
//! - `--session NAME`: every process of it has a session of this name; `none` answers without an id.
//! - `--login MESSAGE`: it needs a login, and says so in these words when a session is begun.
//! - `--banner TEXT`: it says this before its first prompt, and writes a line that is no message of the protocol.
//!
//! With `ACP_SESSIONS` set, that directory keeps its sessions, so that another process can load them, and one file more,
//! `told.jsonl`, with all that any of them was told.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test program fails by panicking")]

mod player;
mod sessions;

use std::time::Duration;

use player::{Knobs, Player};

fn main() {
    let mut args = std::env::args().skip(1);
    let mut knobs = Knobs::default();
    while let Some(knob) = args.next() {
        let value = args.next().expect("each knob has a value");
        let time = || Duration::from_millis(value.parse().expect("milliseconds"));
        match knob.as_str() {
            "--version" => knobs.version = value.parse().ok(),
            "--can" => knobs.can = value.split(',').map(str::to_owned).collect(),
            "--slow-start" => knobs.slow_start = time(),
            "--slow-leave" => knobs.slow_leave = time(),
            "--slow-close" => knobs.slow_close = time(),
            "--session" => knobs.session = Some(value),
            "--login" => knobs.login = Some(value),
            "--banner" => knobs.banner = Some(value),
            other => panic!("{other} is no knob"),
        }
    }
    Player::new(knobs).play();
}
