//! A subagent in every phase, each reached by real commands.

use subagent_core::replay;
use subagent_core::run::{Command, Subagent};
use subagent_model::{AttemptNumber, Cause, ErrorCode, Mode, NodeId, RunNumber};

use super::{at, completed, failed, owner, queued, text};

pub const ONE: AttemptNumber = AttemptNumber(1);

pub fn claim() -> Command {
    Command::Claim { owner: NodeId::from("node-a"), lease_until: at(100) }
}

pub fn started() -> Command {
    Command::Started { attempt: ONE, process: None }
}

pub fn stop() -> Command {
    Command::Stop { actor: "user:1000".into(), cause: Cause::Requested }
}

pub fn conclude(children_live: bool) -> Command {
    Command::Conclude { attempt: ONE, conclusion: Box::new(completed("42 lines")), children_live }
}

pub fn resume() -> Command {
    Command::Resume { prompt: text("go on"), requester: owner() }
}

pub fn receipt(run: u32) -> Command {
    Command::Acknowledge { run: RunNumber(run), by: owner() }
}

/// Born at 0, then one command a second.
pub fn after(mode: Mode, commands: &[Command]) -> Subagent {
    let mut state = queued(1, &owner(), mode, at(0));
    for (command, second) in commands.iter().zip(1..) {
        replay::step(&mut state, command, at(second)).unwrap().unwrap();
    }
    state
}

/// Every phase that can be reached, by name.
pub fn phases() -> Vec<(&'static str, Subagent)> {
    let asynchronous = |commands: &[Command]| after(Mode::Async, commands);
    let fail = Command::Conclude {
        attempt: ONE,
        conclusion: Box::new(failed(ErrorCode::Crashed)),
        children_live: false,
    };
    let gone = Command::Gone { attempt: ONE, evidence: "the machine was lost".into() };
    let done = conclude(false);
    vec![
        ("queued", asynchronous(&[])),
        ("starting", asynchronous(&[claim()])),
        ("running", asynchronous(&[claim(), started()])),
        ("waiting", asynchronous(&[claim(), started(), conclude(true)])),
        ("stopping", asynchronous(&[claim(), started(), stop()])),
        ("completed", asynchronous(&[claim(), started(), done.clone()])),
        ("error", asynchronous(&[claim(), started(), fail])),
        ("lost", asynchronous(&[claim(), started(), gone])),
        ("stopped", asynchronous(&[claim(), started(), stop(), done.clone()])),
        ("consumed", asynchronous(&[claim(), started(), done.clone(), receipt(1)])),
        ("detached", after(Mode::Detached, &[claim(), started(), done.clone()])),
        ("resumed", asynchronous(&[claim(), started(), done, resume()])),
    ]
}
