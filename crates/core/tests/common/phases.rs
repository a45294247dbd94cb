//! A subagent in every state that its operations can tell apart, each reached by real commands.

use subagent_core::replay;
use subagent_core::run::{Command, Subagent};
use subagent_model::{AttemptNumber, Budget, Choice, ErrorCode, Mode, SpawnSpec, Written};

pub use super::commands::*;
use super::{agent, at, born, completed, failed, failed_until, spec};

/// Born at 0, then one command a second.
pub fn led(spec: SpawnSpec, commands: &[Command]) -> Subagent {
    let mut state = born(spec);
    for (command, second) in commands.iter().zip(1..) {
        let decision = replay::step(&mut state, command, at(second)).unwrap();
        assert!(decision.is_ok(), "{command:?}: {decision:?}");
    }
    state
}

/// The life of a program.
pub fn after(mode: Mode, commands: &[Command]) -> Subagent {
    led(spec(mode), commands)
}

/// The life of an agent.
pub fn agent_after(mode: Mode, commands: &[Command]) -> Subagent {
    led(agent(mode), commands)
}

/// In its first turn.
pub fn in_turn() -> Vec<Command> {
    vec![claim(), started(), opened(), prompted()]
}

fn then<const N: usize>(begin: Vec<Command>, more: [Command; N]) -> Vec<Command> {
    begin.into_iter().chain(more).collect()
}

/// A state and its name.
pub type Named = (&'static str, Subagent);

/// A program that gets its prompt and ends. Nothing of it can be continued.
pub fn program_phases() -> Vec<Named> {
    let led = |commands: &[Command]| after(Mode::Async, commands);
    let fail = conclude_with(ONE, failed(ErrorCode::Crashed), false);
    let done = conclude(false);
    vec![
        ("queued", led(&[])),
        ("queued-retry", led(&[claim(), requeue(MOST, Some(at(90)))])),
        ("starting", led(&[claim()])),
        ("running", led(&[claim(), started()])),
        ("waiting", led(&[claim(), started(), conclude(true)])),
        ("stopping", led(&[claim(), started(), stop()])),
        ("completed", led(&[claim(), started(), done.clone()])),
        ("error", led(&[claim(), started(), fail])),
        ("lost", led(&[claim(), started(), gone(ONE)])),
        ("stopped", led(&[claim(), started(), stop(), done.clone()])),
        ("consumed", led(&[claim(), started(), done.clone(), receipt(1)])),
        ("detached", after(Mode::Detached, &[claim(), started(), done])),
    ]
}

/// An agent that can do everything, and whose process ends with its run.
pub fn agent_phases() -> Vec<Named> {
    let led = |commands: Vec<Command>| agent_after(Mode::Async, &commands);
    let quota = failed_until(ErrorCode::QuotaExhausted, Some(at(1_000)));
    let one_turn = Budget { max_turns: Some(1), ..Budget::default() };
    let wrapped_up = [progress(ONE, 1, true), settle(1, Written::Yes), turn_done(), conclude(false)];
    let steered = super::phases::led(
        SpawnSpec { budget: one_turn, ..agent(Mode::Async) },
        &then(in_turn(), wrapped_up),
    );
    vec![
        ("queued", led(vec![])),
        ("starting", led(vec![claim()])),
        ("not-open", led(vec![claim(), started()])),
        ("not-prompted", led(vec![claim(), started(), opened()])),
        ("in-turn", led(in_turn())),
        ("handing-over", led(then(in_turn(), [steer()]))),
        ("stalled", led(then(in_turn(), [Command::Stall { attempt: ONE, since: at(1) }]))),
        ("interrupting", led(then(in_turn(), [interrupt(None)]))),
        ("done", led(then(in_turn(), [turn_done()]))),
        ("cut", led(then(in_turn(), [cut()]))),
        ("approval", led(then(in_turn(), [ask(approval("a", "make"))]))),
        ("question", led(then(in_turn(), [ask(question("a"))]))),
        ("answered", led(then(in_turn(), [ask(approval("a", "make")), answer(1, Choice::AllowOnce)]))),
        ("children-alive", led(then(in_turn(), [turn_done_with_children()]))),
        ("children-gone", led(then(in_turn(), [turn_done_with_children(), conclude(true)]))),
        ("quota", led(then(in_turn(), [conclude_with(ONE, quota, false)]))),
        ("stopping", led(then(in_turn(), [stop()]))),
        ("completed", led(then(in_turn(), [turn_done(), conclude(false)]))),
        ("steered", steered),
        ("aborted", led(then(in_turn(), [cut(), conclude(false)]))),
        ("stopped", led(then(in_turn(), [stop(), conclude(false)]))),
        ("error", led(then(in_turn(), [conclude_with(ONE, failed(ErrorCode::Refused), false)]))),
        ("lost", lost_agent()),
        ("no-session", led(vec![stop()])),
        ("resumed", led(then(in_turn(), [turn_done(), conclude(false), resume()]))),
        ("follow-up-waits", led(then(in_turn(), [follow_up(), turn_done(), conclude(false)]))),
    ]
}

fn lost_agent() -> Subagent {
    let on_loss = subagent_model::OnLoss::Fail;
    led(SpawnSpec { on_loss, ..agent(Mode::Async) }, &then(in_turn(), [gone(ONE)]))
}

/// An agent whose process stays between its runs.
pub fn warm_phases() -> Vec<Named> {
    let led = |commands: Vec<Command>| agent_after(Mode::Warm, &commands);
    let idle = || then(in_turn(), [turn_done()]);
    vec![
        ("idle", led(idle())),
        ("idle-closing", led(then(idle(), [stop()]))),
        ("idle-closed", led(then(idle(), [stop(), session_gone()]))),
        ("queued-warm", led(then(idle(), [resume()]))),
        ("queued-closing", led(then(idle(), [stop(), resume()]))),
        ("woken", led(then(idle(), [resume(), claim()]))),
        ("woken-in-turn", led(then(idle(), [resume(), claim(), prompted()]))),
        ("idle-again", led(then(idle(), [resume(), claim(), prompted(), turn_done()]))),
    ]
}

/// All of them, with names that tell the three kinds apart.
pub fn phases() -> Vec<(String, Subagent)> {
    let kinds = [("program", program_phases()), ("agent", agent_phases()), ("warm", warm_phases())];
    let named = kinds.into_iter().flat_map(|(kind, phases)| {
        phases.into_iter().map(move |(name, state)| (format!("{kind}:{name}"), state))
    });
    named.collect()
}

/// One of them.
pub fn phase(name: &str) -> Subagent {
    phases().into_iter().find(|(phase, _)| phase == name).unwrap_or_else(|| panic!("no phase {name}")).1
}

/// The attempt that a late fact is from.
pub fn second() -> AttemptNumber {
    ONE.next()
}

/// What a child brings when nobody waits for it any more.
pub fn late() -> Command {
    conclude_with(ONE, completed("too late"), false)
}
