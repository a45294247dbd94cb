//! Random lives: sequences of commands with random attempts, messages, requests and times. Most of them begin in a turn or
//! in a second run, so that what comes late in a life is met as well.

use proptest::prelude::*;
use subagent_core::replay::{Sequence, Step};
use subagent_core::run::{Command, Left};
use subagent_model::{
    Answer, AttemptNumber, Cause, Choice, Conclusion, ErrorCode, ExitFacts, Limit, MessageMode,
    MessageNumber, Mode, NodeId, Nudge, OnLoss, Outcome, PolicyWord, RequestNumber, Requester, ReturnReason,
    RunNumber, SpawnSpec, Steering, StopInfo, Timestamp, Usage, Written,
};

use super::commands::*;
use super::{agent, at, birth_of, completed, failed, failed_for_now, failed_until, owner, spec, text};

fn attempts() -> impl Strategy<Value = AttemptNumber> {
    prop_oneof![6 => Just(1_u32), 3 => Just(2), 1 => 0_u32..5].prop_map(AttemptNumber)
}

fn runs() -> impl Strategy<Value = RunNumber> {
    prop_oneof![4 => Just(1), 3 => Just(2), 1 => Just(3)].prop_map(RunNumber)
}

fn times() -> impl Strategy<Value = Timestamp> {
    (0_i64..60).prop_map(at)
}

fn leases() -> impl Strategy<Value = Timestamp> {
    prop_oneof![3 => Just(Timestamp::never()), 1 => times()]
}

fn messages() -> impl Strategy<Value = MessageNumber> {
    (1_u64..4).prop_map(MessageNumber)
}

fn requests() -> impl Strategy<Value = RequestNumber> {
    (1_u64..4).prop_map(RequestNumber)
}

fn limits() -> impl Strategy<Value = Limit> {
    prop_oneof![Just(Limit::Deadline), Just(Limit::Stall), Just(Limit::TreeTokens), Just(Limit::Turns)]
}

fn conclusions() -> impl Strategy<Value = Conclusion> {
    let stop = StopInfo { actor: "the child".into(), cause: Cause::Requested, at: at(0) };
    prop_oneof![
        4 => Just(completed("done")),
        1 => Just(completed("  ")),
        2 => Just(failed(ErrorCode::Crashed)),
        2 => Just(failed_for_now(ErrorCode::Crashed)),
        1 => Just(failed(ErrorCode::RateLimited)),
        1 => Just(failed_until(ErrorCode::QuotaExhausted, Some(at(500)))),
        1 => Just(Conclusion { outcome: Outcome::Aborted { limit: Limit::Deadline }, ..completed("half") }),
        1 => Just(Conclusion { outcome: Outcome::Stopped { stop }, ..completed("cancelled") }),
        1 => Just(Conclusion { outcome: Outcome::Lost { evidence: "nothing".into() }, ..completed("half") }),
    ]
}

fn requesters() -> impl Strategy<Value = Requester> {
    prop_oneof![3 => Just(owner()), 1 => Just(Requester::from("user:2000"))]
}

fn usages() -> impl Strategy<Value = Option<Usage>> {
    prop::option::of((0_u64..100, 0_u64..100, 0_u64..100, 0_u64..100, prop::option::of(0_u32..9)).prop_map(
        |(input, output, cache_write, cache_read, cents)| Usage {
            input,
            output,
            cache_write,
            cache_read,
            total: 0,
            cost_usd: cents.map(|cents| f64::from(cents) / 4.0),
        },
    ))
}

/// What belongs to attempts, slots and ends.
fn of_lives() -> impl Strategy<Value = Command> {
    let node = || NodeId::from("A");
    prop_oneof![
        4 => leases().prop_map(move |lease_until| Command::Claim { owner: node(), lease_until }),
        1 => (attempts(), times()).prop_map(|(attempt, lease_until)| Command::Renew { attempt, lease_until }),
        1 => (leases(), 1_u32..4).prop_map(|(lease_until, max_attempts)| Command::Reclaim {
            owner: NodeId::from("B"),
            lease_until,
            max_attempts,
        }),
        3 => attempts().prop_map(started_as),
        3 => attempts().prop_map(opened_as),
        3 => attempts().prop_map(prompted_as),
        3 => (attempts(), usages(), 0_u32..3, any::<bool>()).prop_map(|(attempt, usage, turns, more)| {
            Command::Progress {
                attempt,
                turns,
                more,
                tool_uses: 1,
                compactions: turns / 2,
                usage,
                position: None,
            }
        }),
        3 => (attempts(), conclusions(), any::<bool>(), 1_u32..4).prop_map(
            |(attempt, conclusion, children_live, max_attempts)| Command::Conclude {
                attempt,
                conclusion: Box::new(conclusion),
                children_live,
                max_attempts,
            }
        ),
        2 => (attempts(), prop::option::of(times()), 1_u32..4).prop_map(
            |(attempt, not_before, max_attempts)| Command::Requeue {
                attempt,
                reason: "no start".into(),
                exit: None,
                not_before,
                max_attempts,
            }
        ),
        1 => (attempts(), 1_u32..4).prop_map(|(attempt, max_attempts)| Command::Gone {
            attempt,
            evidence: "nothing is left".into(),
            children_live: false,
            max_attempts,
        }),
        1 => attempts().prop_map(|attempt| {
            let exit = Some(ExitFacts { code: Some(0), signal: None, at: None });
            Command::SessionGone { attempt, reason: "it ended".into(), exit }
        }),
        1 => Just(Command::Unpark),
        1 => (0_u32..2).prop_map(|unread| Command::ChildrenEnded { unread }),
        1 => attempts().prop_map(|attempt| Command::BackgroundEnded { attempt }),
        1 => (requesters(), any::<bool>()).prop_map(|(who, drop)| stop_by(&who.0, drop)),
        2 => requesters().prop_map(|requester| Command::Resume { prompt: text("go on"), attachments: vec![], requester, key: None }),
    ]
}

/// What belongs to turns, messages and requests.
fn of_conversations() -> impl Strategy<Value = Command> {
    let modes = prop_oneof![
        3 => Just(MessageMode::Steer),
        2 => Just(MessageMode::FollowUp),
        1 => Just(MessageMode::Interrupt),
    ];
    let written = prop_oneof![
        3 => Just(Written::Yes),
        1 => Just(Written::No),
        1 => Just(Written::Refused),
        1 => Just(Written::Unknown),
    ];
    let asks =
        prop_oneof![Just(approval("a", "make")), Just(approval("b", "make install")), Just(question("c")),];
    let words =
        prop_oneof![4 => Just(PolicyWord::Ask), 1 => Just(PolicyWord::Allow), 1 => Just(PolicyWord::Deny)];
    let answers = prop_oneof![
        Just(Answer::Choice { choice: Choice::AllowOnce }),
        Just(Answer::Choice { choice: Choice::DenyAlways }),
        Just(Answer::Text { text: "the second".into() }),
        Just(Answer::None),
    ];
    prop_oneof![
        4 => (attempts(), conclusions(), any::<bool>(), any::<bool>()).prop_map(
            |(attempt, conclusion, children, background)| turn_done_as(attempt, conclusion, Left {
                children,
                background,
                ..Left::default()
            })
        ),
        1 => attempts().prop_map(|attempt| turn_done_as(attempt, completed("done"), Left::default())),
        2 => attempts().prop_map(|attempt| {
            Command::TurnCancelled { attempt, conclusion: Box::new(completed("half")), given: subagent_core::run::Given::Unsaid }
        }),
        1 => attempts().prop_map(|attempt| Command::Nudge { attempt, nudge: Nudge::FinalAnswer, given: subagent_core::run::Given::Unsaid }),
        4 => (requesters(), modes, any::<bool>()).prop_map(|(from, mode, or_follow_up)| {
            Command::Post { from, mode, text: "also the words".into(), attachments: vec![], or_follow_up, key: None }
        }),
        3 => (attempts(), messages(), written)
            .prop_map(|(attempt, number, written)| Command::Settle { attempt, number, written }),
        1 => messages().prop_map(|number| Command::SetAside { number }),
        1 => messages().prop_map(|number| Command::Withdraw { number }),
        1 => Just(Command::NextRun { prompt: text("also the words") }),
        1 => Just(Command::ReturnFollowUps { reason: ReturnReason::NotResumed }),
        2 => any::<bool>().prop_map(|with| interrupt(with.then_some("rather this"))),
        4 => (attempts(), asks, words, times()).prop_map(|(attempt, ask, policy, expires_at)| Command::Ask {
            attempt,
            ask,
            policy,
            reason: None,
            expires_at,
        }),
        3 => (requests(), requesters(), answers)
            .prop_map(|(number, by, answer)| Command::Answer { number, by, answer, reason: None }),
        1 => requests().prop_map(|number| Command::Expire { number }),
        2 => (attempts(), requests()).prop_map(|(attempt, number)| Command::Told { attempt, number }),
        1 => attempts().prop_map(|attempt| Command::TakeBack { attempt, key: "a".into() }),
        1 => (requests(), requesters()).prop_map(|(number, by)| Command::Revoke { number, by }),
        1 => limits().prop_map(|limit| Command::WrapUp { limit }),
        1 => limits().prop_map(|limit| Command::Cut { limit }),
        1 => (0_u32..4).prop_map(change_budget),
        1 => (attempts(), times()).prop_map(|(attempt, since)| Command::Stall { attempt, since }),
        1 => attempts().prop_map(|attempt| Command::Revive { attempt }),
    ]
}

/// What belongs to results.
fn of_deliveries() -> impl Strategy<Value = Command> {
    let carrier = || prop_oneof![Just(String::from("wait")), Just(String::from("notice"))];
    prop_oneof![
        (runs(), carrier(), times()).prop_map(|(run, carrier, until)| Command::ClaimDelivery {
            run,
            carrier,
            until
        }),
        (runs(), carrier()).prop_map(|(run, carrier)| Command::ReturnDelivery {
            run,
            carrier,
            reason: "it failed".into()
        }),
        (runs(), requesters()).prop_map(|(run, to)| Command::Escalate { run, to }),
        (runs(), requesters()).prop_map(|(run, by)| Command::Acknowledge { run, by }),
    ]
}

fn specs() -> impl Strategy<Value = SpawnSpec> {
    let modes = prop_oneof![1 => Just(Mode::Sync), 2 => Just(Mode::Async), 1 => Just(Mode::Detached), 2 => Just(Mode::Warm)];
    let losses = prop_oneof![2 => Just(OnLoss::Resume), 1 => Just(OnLoss::Rerun), 1 => Just(OnLoss::Fail)];
    let steering =
        prop_oneof![3 => Just(Steering::Live), 1 => Just(Steering::AtBoundary), 1 => Just(Steering::None)];
    (modes, losses, steering, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(mode, on_loss, steering, able, resume, limited)| {
            if !able && mode != Mode::Warm {
                return SpawnSpec { on_loss, ..spec(mode) };
            }
            let mut spec = SpawnSpec { on_loss, ..agent(mode) };
            (spec.can.steering, spec.can.resume) = (steering, resume);
            spec.budget.grace_turns = Some(1);
            if limited {
                (spec.budget.max_turns, spec.budget.max_tokens) = (Some(2), Some(300));
            }
            spec
        },
    )
}

/// Mostly forward in time, sometimes back: clocks are set.
pub fn sequences() -> impl Strategy<Value = Sequence> {
    let commands = prop_oneof![5 => of_lives(), 6 => of_conversations(), 1 => of_deliveries()];
    let steps = prop::collection::vec((-2_i64..8, commands), 1..50);
    // Nothing, a turn, or a second run of which an attempt was claimed.
    let begin = prop_oneof![2 => Just(0), 2 => Just(4), 1 => Just(8)];
    (specs(), begin, steps).prop_map(|(spec, begin, steps)| {
        let mut sequence = Sequence::new("a failing property", at(0), birth_of(1, &owner(), spec));
        let in_turn = [claim_for_good(), started(), opened(), prompted()];
        let again = [turn_done(), conclude(false), resume(), claim_for_good()];
        let begin = in_turn.into_iter().chain(again).take(begin);
        let mut now = 0;
        let steps = begin.map(|command| (1, command)).chain(steps);
        for (passed, command) in steps {
            now += passed;
            sequence.steps.push(Step { at: at(now), command });
        }
        sequence
    })
}
