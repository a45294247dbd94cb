//! A program that speaks the protocol "lines" (`docs/lines.md`) and plays scripts: the scripted fake as a real process,
//! with the ways to misbehave that only a process has. The prompt is the script; `player` has the steps.
//!
//! `talker [--can WORD,WORD] [--version N] [--before-open STEP;STEP]`. The steps of `--before-open` are played before it
//! says that it is ready. With `TALKER_SESSIONS` set, that directory keeps its sessions.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test program fails by panicking")]

mod player;
mod session;

use player::Player;
use session::Session;
use subagent_testkit::wire::{self, Wire};

fn main() {
    let mut args = std::env::args().skip(1);
    let (mut can, mut version, mut before_open) = (String::from("steer,interrupt,took"), 1, String::new());
    while let Some(flag) = args.next() {
        let value = args.next().expect("each flag has a value");
        match flag.as_str() {
            "--can" => can = value,
            "--version" => version = value.parse().expect("a number"),
            "--before-open" => before_open = value.replace(';', "\n"),
            other => panic!("{other} is no flag"),
        }
    }
    let wire = Wire::new();
    let Some(hello) = wire.next() else { return };
    let session = match Session::open(hello["session"].as_str()) {
        Ok(session) => session,
        Err(name) => {
            let can: [&str; 0] = [];
            wire.say(&serde_json::json!({"type": "hello", "version": version, "can": can}));
            let message = format!("there is no session {name}");
            wire.say(&serde_json::json!({"type": "failed", "code": "session_gone", "message": message}));
            return;
        }
    };
    let can: Vec<_> = can.split(',').filter(|word| !word.is_empty()).collect();
    wire.say(
        &serde_json::json!({"type": "hello", "version": version, "session": session.name(), "can": can}),
    );
    let attempt = hello["attempt"].as_u64().unwrap_or_default();
    Player::new(wire, session, attempt, can.contains(&"took")).play(&before_open);
}
