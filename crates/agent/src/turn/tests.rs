//! The turn by the case catalogue: every step in milliseconds, no model and no clock.

use serde_json::json;
use subagent_model::{ErrorCode, Limit, Usage};

use super::{Limits, Rules, Schema, Step, Turn};
use crate::conversation::{Call, Message, Reply, Stop};
use crate::fact::{End, Fact, Nudge};
use crate::failure::Failure;

fn prompt(text: &str) -> Fact {
    Fact::Prompt { text: text.into(), at: 0, run: None }
}

fn usage(input: u64, output: u64) -> Usage {
    Usage::default().plus(Usage { input, output, ..Usage::default() })
}

fn says(text: &str) -> Fact {
    Fact::Reply {
        reply: Reply { text: text.into(), ..Reply::default() },
        usage: usage(100, 20),
        counted: true,
    }
}

fn calls(ids: &[&str]) -> Fact {
    let calls = ids.iter().map(|id| call(id)).collect();
    Fact::Reply { reply: Reply { calls, ..Reply::default() }, usage: usage(100, 20), counted: true }
}

fn call(id: &str) -> Call {
    Call { id: id.into(), tool: "bash".into(), input: json!({"command": "x"}), seal: None }
}

fn result(id: &str) -> Fact {
    Fact::Result { call: id.into(), text: format!("result of {id}"), failed: false }
}

fn started(id: &str) -> Fact {
    Fact::Started { call: id.into() }
}

fn steer(text: &str, number: u64) -> Fact {
    Fact::Steer { text: text.into(), number: Some(number) }
}

fn ask() -> Step {
    Step::Ask { answer_only: false }
}

fn ends(end: End) -> Step {
    Step::Record(Fact::Ended { end })
}

fn finished() -> Step {
    ends(End::Finished { truncated: false })
}

/// The step after these facts.
fn after(rules: &Rules, facts: &[Fact]) -> Step {
    Turn::of(facts).next(rules, 0)
}

/// Every call has its result right behind it, and every result its call.
#[track_caller]
fn balanced(turn: &Turn) {
    let messages = turn.messages();
    for (at, message) in messages.iter().enumerate() {
        match message {
            Message::Assistant(reply) if !reply.calls.is_empty() && at + 1 < messages.len() => {
                let Message::Results(results) = &messages[at + 1] else {
                    panic!("no results: {messages:#?}")
                };
                let ids: Vec<_> = results.iter().map(|result| &result.call).collect();
                let mut asked: Vec<_> = reply.calls.iter().map(|call| &call.id).collect();
                asked.sort();
                let mut given = ids.clone();
                given.sort();
                assert_eq!(given, asked);
            }
            Message::Results(_) => assert!(matches!(messages[at - 1], Message::Assistant(_))),
            _ => {}
        }
    }
}

#[test]
fn a_turn_asks_runs_tools_asks_again_and_ends() {
    let rules = Rules::default();
    let mut facts = vec![];
    assert_eq!(after(&rules, &facts), Step::Rest);
    for (fact, step) in [
        (prompt("do"), ask()),
        (calls(&["a", "b"]), Step::Run(vec![call("a"), call("b")])),
        (started("a"), Step::Run(vec![call("a"), call("b")])),
        (result("a"), Step::Run(vec![call("b")])),
        (result("b"), ask()),
        (says("done"), finished()),
        (Fact::Ended { end: End::Finished { truncated: false } }, Step::Rest),
        (prompt("more"), ask()),
    ] {
        facts.push(fact.clone());
        assert_eq!(after(&rules, &facts), step, "after {fact:?}");
    }
    let turn = Turn::of(&facts);
    balanced(&turn);
    assert_eq!((turn.prompts(), turn.replies(), turn.usage().total), (2, 2, 240));
}

#[test]
fn steer_a_message_comes_behind_the_results_and_keeps_a_turn_from_ending() {
    let rules = Rules::default();
    let facts = [prompt("do"), calls(&["a"]), steer("instead", 7), result("a")];
    let turn = Turn::of(&facts);
    balanced(&turn);
    assert_eq!(turn.messages().last(), Some(&Message::User("instead".into())));
    assert!(turn.has_taken(7) && !turn.has_taken(8));
    assert_eq!(after(&rules, &[prompt("do"), says("done"), steer("wait", 1)]), ask());
}

#[test]
fn queue_13_turns_are_asked_to_wrap_up_once_and_cut_after_the_grace() {
    let limits = Limits { max_turns: Some(2), grace_turns: Some(2), ..Limits::default() };
    let rules = Rules { limits, ..Rules::default() };
    let mut facts = vec![prompt("do"), calls(&["a"]), result("a"), calls(&["b"])];
    assert_eq!(
        after(&rules, &facts),
        Step::Run(vec![call("b")]),
        "what was called before the limit is carried out"
    );
    facts.push(result("b"));
    let Step::Record(nudge @ Fact::Nudge { why: Nudge::WrapUp(Limit::Turns), .. }) = after(&rules, &facts)
    else {
        panic!("{:?}", after(&rules, &facts));
    };
    facts.push(nudge);
    assert_eq!(after(&rules, &facts), ask(), "told once");
    let in_time = [facts.as_slice(), &[says("wrapped up")]].concat();
    assert_eq!(after(&rules, &in_time), finished());
    facts.extend([calls(&["c"]), result("c")]);
    assert_eq!(after(&rules, &facts), Step::Ask { answer_only: true }, "the last one can only be an answer");
    facts.push(calls(&["d"]));
    assert_eq!(after(&rules, &facts), ends(End::CutOff { limit: Limit::Turns }), "no call behind the limit");
    facts.push(Fact::Ended { end: End::CutOff { limit: Limit::Turns } });
    balanced(&Turn::of(&facts));
    facts.push(prompt("again"));
    assert_eq!(after(&rules, &facts), ask(), "each prompt has a budget of its own");
}

#[test]
fn queue_13_tokens_money_calls_and_time_are_told_at_90_and_cut_at_100_percent() {
    let of = |limits| Rules { limits, ..Rules::default() };
    let spent = |tokens: u64, dollars: f64| Fact::Reply {
        reply: Reply { calls: vec![call("a")], ..Reply::default() },
        usage: Usage { cost_usd: Some(dollars), ..usage(tokens, 0) },
        counted: true,
    };
    for (rules, near, over, limit) in [
        (
            of(Limits { max_tokens: Some(1_000), ..Limits::default() }),
            spent(900, 0.0),
            spent(1_000, 0.0),
            Limit::Tokens,
        ),
        (
            of(Limits { max_cost_usd: Some(1.0), ..Limits::default() }),
            spent(1, 0.9),
            spent(1, 1.0),
            Limit::Cost,
        ),
    ] {
        let Step::Record(Fact::Nudge { why, .. }) = after(&rules, &[prompt("do"), near, result("a")]) else {
            panic!("{limit:?}");
        };
        assert_eq!(why, Nudge::WrapUp(limit));
        assert_eq!(after(&rules, &[prompt("do"), over, result("a")]), ends(End::CutOff { limit }));
    }
    let rules = of(Limits { max_tool_calls: Some(2), ..Limits::default() });
    let many = [prompt("do"), calls(&["a", "b", "c"]), result("a"), result("b")];
    assert_eq!(after(&rules, &many), ends(End::CutOff { limit: Limit::ToolCalls }));
    let rules = of(Limits { max_ms: Some(1_000), ..Limits::default() });
    let turn = Turn::of(&[prompt("do")]);
    assert_eq!(turn.deadline(&rules), Some(1_000));
    assert_eq!(turn.next(&rules, 899), ask());
    assert!(matches!(
        turn.next(&rules, 900),
        Step::Record(Fact::Nudge { why: Nudge::WrapUp(Limit::Deadline), .. })
    ));
    assert_eq!(turn.next(&rules, 1_000), ends(End::CutOff { limit: Limit::Deadline }));
    let answered = Turn::of(&[prompt("do"), says("just in time")]);
    assert_eq!(answered.next(&rules, 5_000), finished(), "an answer that is there counts");
}

#[test]
fn queue_18_a_limit_of_zero_is_none() {
    let limits = Limits {
        max_turns: Some(0),
        max_tokens: Some(0),
        max_cost_usd: Some(0.0),
        max_tool_calls: Some(0),
        max_ms: Some(0),
        ..Limits::default()
    };
    let turn = Turn::of(&[prompt("do"), calls(&["a"]), result("a")]);
    assert_eq!(turn.next(&Rules { limits, ..Rules::default() }, u64::MAX), ask());
}

#[test]
fn an_empty_answer_is_asked_for_again_and_not_for_ever() {
    let rules = Rules::default();
    let mut facts = vec![prompt("do"), says(" \n")];
    for _ in 0..2 {
        let Step::Record(nudge @ Fact::Nudge { why: Nudge::Empty, .. }) = after(&rules, &facts) else {
            panic!()
        };
        facts.push(nudge);
        assert_eq!(after(&rules, &facts), Step::Ask { answer_only: true });
        facts.push(says(""));
    }
    assert_eq!(after(&rules, &facts), finished());
    let mut steered = facts[..3].to_vec();
    steered.push(steer("look again", 1));
    assert_eq!(after(&rules, &steered), ask(), "a new message may need tools");
}

#[test]
fn an_answer_by_a_schema_is_corrected_within_bounds() {
    let schema =
        Schema::new(json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}))
            .unwrap();
    let rules = Rules { schema: Some(schema), corrections: 2, ..Rules::default() };
    for fine in ["{\"n\": 1}", "```json\n{\"n\": 1}\n```", "Here:\n```\n{\"n\": 2}\n```\n"] {
        assert_eq!(after(&rules, &[prompt("do"), says(fine)]), finished(), "{fine}");
    }
    let mut facts = vec![prompt("do"), says("{\"n\": \"x\"}")];
    let Step::Record(nudge @ Fact::Nudge { why: Nudge::Schema, .. }) = after(&rules, &facts) else {
        panic!()
    };
    let Fact::Nudge { text, .. } = &nudge else { panic!() };
    assert!(text.contains("/n") && text.contains("required"), "what is wrong, and the schema: {text}");
    facts.push(nudge);
    assert_eq!(after(&rules, &facts), Step::Ask { answer_only: true });
    facts.extend([
        says("no json"),
        Fact::Nudge { why: Nudge::Schema, text: String::new() },
        says("still none"),
    ]);
    let Step::Record(Fact::Ended { end: End::Failed { failure } }) = after(&rules, &facts) else { panic!() };
    assert_eq!(failure.code, ErrorCode::SchemaMismatch);
    assert!(Schema::new(json!({"type": "never"})).is_err());
}

#[test]
fn acp_11_refusals_and_cut_off_answers_are_told_apart() {
    let rules = Rules::default();
    let with = |text: &str, stop| {
        let reply = Reply { text: text.into(), stop, ..Reply::default() };
        [prompt("do"), Fact::Reply { reply, usage: Usage::default(), counted: true }]
    };
    let Step::Record(Fact::Ended { end: End::Failed { failure } }) =
        after(&rules, &with("no", Stop::Refusal))
    else {
        panic!()
    };
    assert_eq!(failure.code, ErrorCode::Refused);
    assert_eq!(after(&rules, &with("half", Stop::Length)), ends(End::Finished { truncated: true }));
}

#[test]
fn queue_19_passing_failures_are_tried_again_with_growing_waits_and_then_told() {
    let rules = Rules { retries: 3, ..Rules::default() };
    let mut turn = Turn::of(&[prompt("do")]);
    let failure = Failure::new(ErrorCode::Overloaded, "busy");
    let mut now = 0;
    for least in [500, 1_000, 2_000] {
        assert_eq!(turn.failed(&failure, &rules, now, 42), None);
        let Step::Pause { until } = turn.next(&rules, now) else { panic!() };
        let wait = until - now;
        assert!((least..=least * 5 / 4).contains(&wait), "{wait} for {least}");
        now = until;
        assert_eq!(turn.next(&rules, now), ask());
    }
    let end = turn.failed(&failure, &rules, now, 42);
    assert_eq!(end, Some(Fact::Ended { end: End::Failed { failure: failure.clone() } }));
    let mut others: Vec<_> = (0..50_u64)
        .map(|salt| {
            let mut turn = Turn::of(&[prompt("do")]);
            turn.failed(&failure, &rules, 0, salt);
            turn.next(&rules, 0)
        })
        .map(|step| if let Step::Pause { until } = step { until } else { 0 })
        .collect();
    others.sort_unstable();
    others.dedup();
    assert!(others.len() > 10, "they do not come back together: {others:?}");
}

#[test]
fn what_the_endpoint_tells_of_waiting_holds_and_long_waits_are_not_sat_out() {
    let rules = Rules::default();
    let told = |code, wait| Failure { retry_after_ms: Some(wait), ..Failure::new(code, "x") };
    let mut turn = Turn::of(&[prompt("do")]);
    assert_eq!(turn.failed(&told(ErrorCode::RateLimited, 3_000), &rules, 0, 1), None);
    let Step::Pause { until } = turn.next(&rules, 0) else { panic!() };
    assert!((3_000..=3_750).contains(&until), "never earlier: {until}");
    for failure in [
        told(ErrorCode::RateLimited, 600_000),
        Failure::new(ErrorCode::Auth, "x"),
        Failure::new(ErrorCode::InvalidRequest, "x"),
        Failure { reset_at_ms: Some(9), ..Failure::new(ErrorCode::QuotaExhausted, "x") },
    ] {
        let end = Turn::of(&[prompt("do")]).failed(&failure, &rules, 0, 1);
        assert_eq!(end, Some(Fact::Ended { end: End::Failed { failure } }));
    }
}

#[test]
fn rec_12_compaction_comes_near_the_limit_keeps_the_usage_and_is_counted() {
    let rules = Rules { window: 1_000, ..Rules::default() };
    let big = Fact::Reply {
        reply: Reply { calls: vec![call("a")], ..Reply::default() },
        usage: Usage { cache_read: 700, ..usage(100, 20) },
        counted: true,
    };
    let mut facts = vec![prompt("the task"), big, result("a")];
    assert_eq!(after(&rules, &facts), Step::Compact, "cached tokens fill the context too");
    let before = Turn::of(&facts).usage();
    facts.push(Fact::Compacted { summary: "so far".into(), usage: usage(50, 10) });
    let turn = Turn::of(&facts);
    assert_eq!(
        (turn.compactions(), turn.usage().total, turn.usage().cache_read),
        (1, before.total + 60, 700)
    );
    let [Message::User(text)] = turn.messages() else { panic!() };
    assert!(text.contains("so far") && text.contains("the task"), "{text}");
    assert_eq!(turn.next(&rules, 0), ask());
    let tiny = Rules { window: 10, ..Rules::default() };
    assert_eq!(turn.next(&tiny, 0), ask(), "what was just summed up is not summed up again");
}

#[test]
fn a_context_that_the_endpoint_finds_too_large_is_summed_up_once_and_else_the_class_is_told() {
    let rules = Rules::default();
    let failure = Failure::new(ErrorCode::ContextOverflow, "too long");
    let mut turn = Turn::of(&[prompt("do"), calls(&["a"]), result("a")]);
    assert_eq!(turn.failed(&failure, &rules, 0, 0), None);
    assert_eq!(turn.next(&rules, 0), Step::Compact);
    turn.apply(&Fact::Compacted { summary: "s".into(), usage: Usage::default() });
    assert_eq!(turn.next(&rules, 0), ask());
    assert!(turn.failed(&failure, &rules, 0, 0).is_some(), "there is nothing more to leave out");
    let mut alone = Turn::of(&[prompt("a prompt that alone is too long")]);
    assert!(alone.failed(&failure, &rules, 0, 0).is_some());
}

#[test]
fn res_20_a_session_cut_off_anywhere_goes_on_balanced_and_finished_calls_stay_finished() {
    let story = [
        prompt("do"),
        calls(&["a", "b", "c"]),
        started("a"),
        result("a"),
        started("b"),
        steer("hurry", 1),
        result("b"),
        started("c"),
        result("c"),
        says("done"),
        Fact::Ended { end: End::Finished { truncated: false } },
    ];
    for cut in 1..=story.len() {
        let mut turn = Turn::of(&story[..cut]);
        turn.apply(&prompt("go on"));
        balanced(&turn);
        assert_eq!(turn.next(&Rules::default(), 0), ask(), "cut at {cut}");
        let said: Vec<_> =
            turn.messages().iter().filter(|message| matches!(message, Message::User(_))).collect();
        let steered = usize::from(cut > 5);
        assert_eq!(said.len(), 2 + steered, "no message is lost or doubled, cut at {cut}");
        for message in turn.messages() {
            let Message::Results(results) = message else { continue };
            for result in results {
                let known = story[..cut]
                    .iter()
                    .any(|fact| matches!(fact, Fact::Result { call, .. } if *call == result.call));
                let begun = story[..cut]
                    .iter()
                    .any(|fact| matches!(fact, Fact::Started { call } if *call == result.call));
                let expected = match (known, begun) {
                    (true, _) => "result of",
                    (_, true) => "may have taken effect",
                    _ => "Not carried out",
                };
                assert!(result.text.contains(expected), "cut at {cut}: {result:?}");
            }
        }
    }
}

#[test]
fn facts_that_make_no_sense_change_nothing_that_matters() {
    let odd = [
        result("x"),
        started("y"),
        says("hello"),
        prompt("do"),
        result("x"),
        calls(&["a", "a"]),
        result("a"),
        prompt("on"),
    ];
    for cut in 0..=odd.len() {
        let turn = Turn::of(&odd[..cut]);
        let _ = turn.next(&Rules::default(), 0);
    }
    assert_eq!(after(&Rules::default(), &odd), ask());
}
