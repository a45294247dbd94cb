//! Commands with short names, all of attempt 1 where nothing else is said.

use subagent_core::run::{Command, Left};
use subagent_model::{
    Answer, Ask, AttemptNumber, Budget, Cause, Choice, Conclusion, Limit, MessageMode, MessageNumber, NodeId,
    Nudge, PolicyWord, RequestNumber, Requester, RunNumber, Subject, Timestamp, Usage, Written,
};

use super::{at, completed, owner, text};

pub const ONE: AttemptNumber = AttemptNumber(1);
/// Most attempts of a run.
pub const MOST: u32 = 3;

pub fn claim() -> Command {
    Command::Claim { owner: NodeId::from("node-a"), lease_until: at(100) }
}

/// A slot that is never taken away.
pub fn claim_for_good() -> Command {
    Command::Claim { owner: NodeId::from("node-a"), lease_until: Timestamp::never() }
}

pub fn started() -> Command {
    started_as(ONE)
}

pub fn started_as(attempt: AttemptNumber) -> Command {
    Command::Started { attempt, process: None }
}

pub fn opened() -> Command {
    opened_as(ONE)
}

pub fn opened_as(attempt: AttemptNumber) -> Command {
    Command::Opened { attempt, session: Some("session-1".into()) }
}

pub fn prompted() -> Command {
    prompted_as(ONE)
}

pub fn prompted_as(attempt: AttemptNumber) -> Command {
    Command::Prompted { attempt, position: 0 }
}

pub fn progress(attempt: AttemptNumber, turns: u32, more: bool) -> Command {
    Command::Progress { attempt, turns, more, tool_uses: 0, compactions: 0, usage: None, position: None }
}

pub fn spent(attempt: AttemptNumber, usage: Usage) -> Command {
    Command::Progress {
        attempt,
        turns: 0,
        more: false,
        tool_uses: 0,
        compactions: 0,
        usage: Some(usage),
        position: None,
    }
}

pub fn tokens(tokens: u64) -> Usage {
    Usage { input: tokens, ..Usage::default() }
}

pub fn stop() -> Command {
    stop_by("user:1000", false)
}

pub fn stop_by(actor: &str, drop_follow_ups: bool) -> Command {
    Command::Stop { actor: actor.into(), cause: Cause::Requested, drop_follow_ups }
}

pub fn conclude(children_live: bool) -> Command {
    conclude_with(ONE, completed("42 lines"), children_live)
}

pub fn conclude_with(attempt: AttemptNumber, conclusion: Conclusion, children_live: bool) -> Command {
    Command::Conclude { attempt, conclusion: Box::new(conclusion), children_live, max_attempts: MOST }
}

pub fn gone(attempt: AttemptNumber) -> Command {
    Command::Gone {
        attempt,
        evidence: "nothing is left of it".into(),
        children_live: false,
        max_attempts: MOST,
    }
}

pub fn requeue(max_attempts: u32, not_before: Option<Timestamp>) -> Command {
    Command::Requeue { attempt: ONE, reason: "no start".into(), exit: None, not_before, max_attempts }
}

pub fn turn_done() -> Command {
    turn_done_as(ONE, completed("42 lines"), Left::default())
}

pub fn turn_done_as(attempt: AttemptNumber, conclusion: Conclusion, left: Left) -> Command {
    Command::TurnDone { attempt, conclusion: Box::new(conclusion), left }
}

pub fn turn_done_with_children() -> Command {
    turn_done_as(ONE, completed("42 lines"), Left { children: true, ..Left::default() })
}

pub fn turn_cancelled() -> Command {
    Command::TurnCancelled {
        attempt: ONE,
        conclusion: Box::new(completed("half of it")),
        given: subagent_core::run::Given::Unsaid,
    }
}

pub fn nudge() -> Command {
    Command::Nudge { attempt: ONE, nudge: Nudge::FinalAnswer, given: subagent_core::run::Given::Unsaid }
}

pub fn session_gone() -> Command {
    Command::SessionGone { attempt: ONE, reason: "it ended".into(), exit: None }
}

pub fn resume() -> Command {
    Command::Resume { prompt: text("go on"), attachments: vec![], requester: owner(), key: None }
}

pub fn receipt(run: u32) -> Command {
    Command::Acknowledge { run: RunNumber(run), by: owner() }
}

pub fn post(mode: MessageMode, or_follow_up: bool) -> Command {
    Command::Post {
        from: owner(),
        mode,
        text: "also the words".into(),
        attachments: vec![],
        or_follow_up,
        key: None,
    }
}

pub fn steer() -> Command {
    post(MessageMode::Steer, false)
}

pub fn follow_up() -> Command {
    post(MessageMode::FollowUp, false)
}

pub fn settle(number: u64, written: Written) -> Command {
    Command::Settle { attempt: ONE, number: MessageNumber(number), written }
}

pub fn interrupt(text: Option<&str>) -> Command {
    Command::Interrupt { by: owner(), text: text.map(Into::into) }
}

pub fn approval(key: &str, title: &str) -> Ask {
    let subject =
        Subject::Approval { action: "execute".into(), title: title.into(), detail: None, options: vec![] };
    Ask { key: key.into(), subject }
}

pub fn question(key: &str) -> Ask {
    Ask { key: key.into(), subject: Subject::Question { text: "which one?".into(), choices: vec![] } }
}

pub fn ask(ask: Ask) -> Command {
    ask_under(ask, PolicyWord::Ask)
}

pub fn ask_under(ask: Ask, policy: PolicyWord) -> Command {
    Command::Ask { attempt: ONE, ask, policy, reason: None, expires_at: at(80) }
}

pub fn answer(number: u64, choice: Choice) -> Command {
    let answer = Answer::Choice { choice };
    Command::Answer { number: RequestNumber(number), by: owner(), answer, reason: None }
}

pub fn answer_text(number: u64) -> Command {
    let answer = Answer::Text { text: "the second".into() };
    Command::Answer { number: RequestNumber(number), by: owner(), answer, reason: None }
}

pub fn told(number: u64) -> Command {
    Command::Told { attempt: ONE, number: RequestNumber(number) }
}

pub fn cut() -> Command {
    Command::Cut { limit: Limit::Deadline }
}

pub fn wrap_up() -> Command {
    Command::WrapUp { limit: Limit::Deadline }
}

pub fn change_budget(max_turns: u32) -> Command {
    let budget = Budget { max_turns: Some(max_turns), ..Budget::default() };
    Command::ChangeBudget { budget, by: owner() }
}

pub fn claim_delivery(carrier: &str, until: Timestamp) -> Command {
    Command::ClaimDelivery { run: RunNumber(1), carrier: carrier.into(), until }
}

pub fn return_delivery(carrier: &str) -> Command {
    Command::ReturnDelivery { run: RunNumber(1), carrier: carrier.into(), reason: "it failed".into() }
}

pub fn escalate(to: &str) -> Command {
    Command::Escalate { run: RunNumber(1), to: Requester::from(to) }
}
