use serde_json::{Value, json};
use subagent_model::{MessageNumber, Usage};
use subagent_provider::{Codec, Inner, InnerState, Order, PlanState, PlanStep, Said, TurnEnd};

use super::{
    THREAD, TURN, at_work, begin, begins, end_of, ends, finished, hear, item, message, note, open, prompt,
    said, told,
};
use crate::testing::{files, steer, with_files};

#[test]
fn prov_13_what_comes_before_the_answer_to_the_turn_start_is_kept_and_used() {
    let mut codec = open();
    told(&mut codec, &prompt("do it"));
    assert_eq!(said(&mut codec, &begins(THREAD, TURN)), []);
    assert_eq!(said(&mut codec, &message("early", &Value::Null)), []);
    assert_eq!(said(&mut codec, &ends(THREAD, TURN, "completed", &Value::Null)), []);
    let all = said(&mut codec, &json!({"id": "prompt:1", "result": {"turn": {"id": TURN}}}));
    assert_eq!(all, [Said::Message("early".into()), Said::Turn { more: false }, finished("early")]);
}

#[test]
fn prov_13_conflicting_turn_ids_are_an_error() {
    let mut codec = open();
    told(&mut codec, &prompt("do it"));
    said(&mut codec, &begins(THREAD, "another"));
    let heard = said(&mut codec, &json!({"id": "prompt:1", "result": {"turn": {"id": TURN}}}));
    assert!(matches!(heard[..], [Said::Broken(_)]), "{heard:?}");
    let nameless = json!({"id": "prompt:1", "result": {}});
    let mut codec = open();
    told(&mut codec, &prompt("do it"));
    assert!(matches!(said(&mut codec, &nameless)[..], [Said::Broken(_)]));
}

#[test]
fn prov_13_late_words_of_the_turn_before_are_no_conflict() {
    let mut codec = at_work();
    said(&mut codec, &ends(THREAD, TURN, "completed", &Value::Null));
    told(&mut codec, &prompt("more"));
    assert_eq!(said(&mut codec, &ends(THREAD, TURN, "completed", &Value::Null)), []);
    assert_eq!(said(&mut codec, &json!({"id": "prompt:2", "result": {"turn": {"id": "next"}}})), []);
    // Nor do they count for the turn that is open now.
    assert_eq!(said(&mut codec, &message("late", &Value::Null)), []);
    assert_eq!(said(&mut codec, &ends(THREAD, TURN, "failed", &Value::Null)), []);
}

#[test]
fn prov_13_frames_of_other_threads_are_routed_by_ancestry_or_ignored() {
    let mut codec = at_work();
    let stranger = |method: &str| {
        json!({"method": method, "params": {"threadId": "stranger", "turnId": TURN, "turn": {"id": TURN},
            "item": {"type": "agentMessage", "id": "i", "text": "not mine"}, "itemId": "i", "delta": "x"}})
    };
    for method in ["item/completed", "item/agentMessage/delta", "turn/completed", "turn/started", "error"] {
        assert_eq!(said(&mut codec, &stranger(method)), [], "{method}");
    }
    // Observed: the first word of a subagent comes before it is named; its turn goes back to ours.
    let below = json!({"method": "turn/started", "params": {"threadId": "below",
        "turn": {"id": "b-1", "rootTurnId": TURN}}});
    let running = Inner {
        id: "below".into(),
        parent: None,
        title: None,
        state: Some(InnerState::Running),
        can_cancel: None,
    };
    assert_eq!(said(&mut codec, &below), [Said::Inner(running)]);
    let text = json!({"method": "item/completed", "params": {"threadId": "below", "turnId": "b-1",
        "item": {"type": "agentMessage", "id": "i", "text": "of below"}}});
    assert_eq!(said(&mut codec, &text), [], "its text is never ours");
    assert_eq!(
        end_of(&said(&mut codec, &ends(THREAD, TURN, "completed", &Value::Null))),
        &TurnEnd::Finished { answer: Some(String::new()), truncated: false }
    );
}

#[test]
fn prov_14_the_final_answer_wins_then_a_message_without_a_phase_and_commentary_never() {
    let (none, last) = (Value::Null, json!("final_answer"));
    for (messages, answer) in [
        (vec![("a", none.clone()), ("b", last.clone()), ("c", none.clone())], "b"),
        (vec![("a", none.clone()), ("b", none.clone()), ("c", json!("commentary"))], "b"),
        (vec![("a", json!("commentary")), ("b", json!("partial_answer"))], ""),
        (vec![("a", last.clone()), ("b", last.clone())], "b"),
        (vec![("a", json!("a_phase_to_come"))], "a"),
        (vec![("a", json!(7)), ("  \n", none.clone())], "a"),
        (vec![("a", last), (" ", json!("final_answer"))], "a"),
        (vec![], ""),
    ] {
        let mut codec = at_work();
        for (text, phase) in &messages {
            let heard = said(&mut codec, &message(text, phase));
            let commentary = matches!(phase.as_str(), Some("commentary" | "partial_answer"));
            assert_eq!(matches!(heard[..], [Said::Thought(_)]), commentary, "{messages:?}");
        }
        let heard = said(&mut codec, &ends(THREAD, TURN, "completed", &none));
        assert_eq!(heard.last(), Some(&finished(answer)), "{messages:?}");
    }
    let absent = item("completed", &json!({"type": "agentMessage", "id": "1", "text": "no phase at all"}));
    assert_eq!(said(&mut at_work(), &absent), [Said::Message("no phase at all".into())]);
}

#[test]
fn prov_14_what_is_streamed_of_commentary_is_no_part_of_an_answer() {
    let started = |phase: Value| {
        item("started", &json!({"type": "agentMessage", "id": "1", "text": "", "phase": phase}))
    };
    let delta = note("item/agentMessage/delta", &json!({"itemId": "1", "delta": "he"}));
    let mut codec = at_work();
    said(&mut codec, &started(Value::Null));
    assert_eq!(said(&mut codec, &delta), [Said::Delta("he".into())]);
    let mut codec = at_work();
    said(&mut codec, &started(json!("commentary")));
    assert_eq!(said(&mut codec, &delta), []);
}

#[test]
fn prov_18_a_steer_is_taken_once_it_stands_in_the_turn() {
    let mut codec = at_work();
    let order = told(&mut codec, &steer(3));
    assert_eq!(order[0]["method"], "turn/steer");
    assert_eq!((&order[0]["id"], &order[0]["params"]["expectedTurnId"]), (&json!("m3"), &json!(TURN)));
    assert_eq!(said(&mut codec, &json!({"id": "m3", "result": {"turnId": TURN}})), []);
    let taken = item("started", &json!({"type": "userMessage", "id": "u", "clientId": "m3", "content": []}));
    assert_eq!(said(&mut codec, &taken), [Said::Took(MessageNumber(3))]);
    assert_eq!(said(&mut codec, &taken), [], "once");
}

#[test]
fn prov_18_a_peer_that_gives_no_names_back_takes_messages_in_their_order() {
    let mut codec = at_work();
    let user =
        |client: Value| item("started", &json!({"type": "userMessage", "id": "u", "clientId": client}));
    assert_eq!(said(&mut codec, &user(Value::Null)), [], "the prompt itself");
    told(&mut codec, &steer(3));
    assert_eq!(said(&mut codec, &user(Value::Null)), [Said::Took(MessageNumber(3))]);
    let mut codec = at_work();
    said(&mut codec, &user(json!("prompt:1")));
    told(&mut codec, &steer(3));
    assert_eq!(said(&mut codec, &user(Value::Null)), [], "news of a subagent, among others");
}

#[test]
fn prov_18_a_steer_for_a_turn_that_has_just_changed_is_returned() {
    // Observed: "no active turn to steer", "expected active turn id `a` but found `b`".
    let refused = json!({"id": "m3", "error": {"code": -32600, "message": "no active turn to steer"}});
    let mut codec = at_work();
    told(&mut codec, &steer(3));
    assert_eq!(said(&mut codec, &refused), [Said::Declined(MessageNumber(3))]);
    // The end waits for its last word, so that the run knows where the message is.
    let mut codec = at_work();
    told(&mut codec, &steer(3));
    let turn = Said::Turn { more: false };
    assert_eq!(said(&mut codec, &ends(THREAD, TURN, "completed", &Value::Null)), [turn]);
    assert!(codec.tell(&steer(4)).is_err(), "the turn is over");
    assert_eq!(said(&mut codec, &refused), [Said::Declined(MessageNumber(3)), finished("")]);
}

#[test]
fn prov_18_a_steer_that_was_accepted_and_never_read_is_returned() {
    // Observed: an interrupt right after it.
    let mut codec = at_work();
    told(&mut codec, &steer(3));
    told(&mut codec, &Order::Interrupt);
    said(&mut codec, &json!({"id": "m3", "result": {"turnId": TURN}}));
    let heard = said(&mut codec, &ends(THREAD, TURN, "interrupted", &Value::Null));
    assert_eq!(heard, [Said::Declined(MessageNumber(3)), Said::Done(TurnEnd::Cancelled)]);
}

#[test]
fn prov_18_before_the_turn_has_begun_steers_and_interrupts_wait_for_it() {
    // Observed: an interrupt between the answer and the begin of the turn is lost.
    let mut codec = open();
    told(&mut codec, &prompt("do it"));
    assert_eq!(told(&mut codec, &steer(3)), Vec::<Value>::new());
    assert_eq!(told(&mut codec, &Order::Interrupt), Vec::<Value>::new());
    assert_eq!(said(&mut codec, &json!({"id": "prompt:1", "result": {"turn": {"id": TURN}}})), []);
    let heard = hear(&mut codec, &begins(THREAD, TURN));
    let reply = super::frames(&heard.reply);
    assert_eq!((&reply[0]["id"], &reply[1]["id"]), (&json!("m3"), &json!("interrupt")));
    assert_eq!(reply[1]["params"], json!({"threadId": THREAD, "turnId": TURN}));
    // A turn that never begins gives them back.
    let mut codec = open();
    told(&mut codec, &prompt("do it"));
    told(&mut codec, &steer(3));
    let failed = said(&mut codec, &json!({"id": "prompt:1", "error": {"code": -32603, "message": "no"}}));
    assert!(matches!(failed[..], [Said::Declined(MessageNumber(3)), Said::Done(TurnEnd::Failed(_))]));
}

#[test]
fn prov_18_no_interrupt_without_a_live_turn_and_no_prompt_into_one() {
    let mut codec = open();
    assert!(codec.tell(&Order::Interrupt).is_err());
    begin(&mut codec, TURN);
    // Observed: the app-server would take it into the turn that is open.
    assert!(codec.tell(&prompt("second")).is_err());
    assert_eq!(told(&mut codec, &Order::Interrupt)[0]["method"], "turn/interrupt");
    said(&mut codec, &ends(THREAD, TURN, "interrupted", &Value::Null));
    assert!(codec.tell(&Order::Interrupt).is_err(), "after its end");
    assert_eq!(
        codec.tell(&Order::Close),
        Ok(vec![]),
        "a close is the end of its input, and no stray interrupt"
    );
    let stray =
        json!({"id": "interrupt", "error": {"code": -32600, "message": "no active turn to interrupt"}});
    assert_eq!(said(&mut codec, &stray), []);
}

#[test]
fn prov_19_subagents_of_codex_are_shown_counted_and_waited_for() {
    let mut codec = at_work();
    let call = |status: &str, states: Value| {
        item(
            "completed",
            &json!({"type": "collabAgentToolCall", "id": "c", "tool": "spawnAgent", "status": status,
            "senderThreadId": THREAD, "receiverThreadIds": ["below"], "prompt": "look around", "agentsStates": states}),
        )
    };
    let heard = said(&mut codec, &call("completed", json!({"below": {"status": "pendingInit"}})));
    let inner = |state, title: Option<&str>| {
        let title = title.map(str::to_owned);
        Said::Inner(Inner { id: "below".into(), parent: None, title, state: Some(state), can_cancel: None })
    };
    assert!(heard.contains(&inner(InnerState::Running, Some("look around"))), "{heard:?}");
    said(&mut codec, &begins("below", "b-1"));
    let used = json!({"method": "thread/tokenUsage/updated", "params": {"threadId": "below", "turnId": "b-1",
        "tokenUsage": {"total": {"inputTokens": 100, "outputTokens": 20}, "last": {"inputTokens": 100, "outputTokens": 20}}}});
    let usage = Usage { input: 100, output: 20, total: 120, ..Usage::default() };
    assert_eq!(said(&mut codec, &used), [Said::Used(usage)]);
    assert_eq!(said(&mut codec, &used), [], "not twice");
    said(&mut codec, &message("mine", &Value::Null));
    let heard = said(&mut codec, &ends(THREAD, TURN, "completed", &Value::Null));
    assert_eq!(heard[1..], [Said::Background { live: 1 }, finished("mine")]);
    let heard = said(&mut codec, &ends("below", "b-1", "completed", &Value::Null));
    assert_eq!(heard, [inner(InnerState::Completed, None), Said::Background { live: 0 }]);
}

#[test]
fn prov_19_an_interrupt_reaches_the_turns_below() {
    let mut codec = at_work();
    said(
        &mut codec,
        &json!({"method": "turn/started", "params": {"threadId": "below",
        "turn": {"id": "b-1", "rootTurnId": TURN}}}),
    );
    let orders = told(&mut codec, &Order::Interrupt);
    assert_eq!(orders[1]["params"], json!({"threadId": "below", "turnId": "b-1"}));
    assert_eq!(codec.recall(orders[1].to_string().as_bytes()), [], "it is no interrupt of ours");
}

#[test]
fn tokens_are_differences_and_never_counted_twice() {
    let told_total = |turn: &str, total: u64, last: u64| {
        note(
            "thread/tokenUsage/updated",
            &json!({"turnId": turn, "tokenUsage": {
            "total": {"inputTokens": total, "cachedInputTokens": total / 2, "cacheWriteInputTokens": total / 10, "outputTokens": total},
            "last": {"inputTokens": last, "outputTokens": last}}}),
        )
    };
    let used = |input, output, cache_write, cache_read| {
        Said::Used(Usage {
            input,
            output,
            cache_write,
            cache_read,
            total: input + output + cache_write,
            cost_usd: None,
        })
    };
    let turn = Said::Turn { more: false };
    let mut codec = at_work();
    assert_eq!(said(&mut codec, &told_total(TURN, 100, 100)), [used(40, 100, 10, 50), turn.clone()]);
    assert_eq!(said(&mut codec, &told_total(TURN, 100, 100)), [], "observed: told again with an interrupt");
    assert_eq!(said(&mut codec, &told_total(TURN, 300, 200)), [used(80, 200, 20, 100), turn.clone()]);
    // A resumed thread tells of its past first.
    let mut codec = super::open_for(&super::job(Some(THREAD), |_| {}));
    assert_eq!(said(&mut codec, &told_total("past", 1000, 100)), []);
    begin(&mut codec, TURN);
    assert_eq!(said(&mut codec, &told_total(TURN, 1100, 100)), [used(40, 100, 10, 50), turn.clone()]);
    // A forked one does not.
    let mut codec = super::open_for(&super::job(None, |spec| spec.setup.fork_of = Some("t".into())));
    begin(&mut codec, TURN);
    assert_eq!(said(&mut codec, &told_total(TURN, 1100, 100)), [used(100, 100, 0, 0), turn]);
}

#[test]
fn each_item_has_its_meaning_and_unknown_ones_none() {
    let id = || String::from("i");
    for (state, what, expected) in [
        (
            "started",
            json!({"type": "commandExecution", "id": "i", "command": "ls", "status": "inProgress"}),
            vec![Said::ToolStarted { id: id(), name: "shell".into(), input: Some("ls".into()) }],
        ),
        (
            "completed",
            json!({"type": "commandExecution", "id": "i", "status": "failed", "exitCode": 3, "aggregatedOutput": "no"}),
            vec![Said::ToolEnded { id: id(), failed: Some(true), output: Some("no".into()) }],
        ),
        (
            "completed",
            json!({"type": "commandExecution", "id": "i", "status": "declined", "aggregatedOutput": null}),
            vec![Said::ToolEnded { id: id(), failed: Some(true), output: None }],
        ),
        (
            "completed",
            json!({"type": "mcpToolCall", "id": "i", "server": "s", "tool": "t", "status": "completed", "result": {"a": 1}}),
            vec![Said::ToolEnded { id: id(), failed: Some(false), output: Some("{\"a\":1}".into()) }],
        ),
        (
            "started",
            json!({"type": "mcpToolCall", "id": "i", "server": "s", "tool": "t", "arguments": {"q": 1}}),
            vec![Said::ToolStarted { id: id(), name: "mcp__s__t".into(), input: Some("{\"q\":1}".into()) }],
        ),
        (
            "completed",
            json!({"type": "reasoning", "id": "i", "summary": ["a"], "content": ["b"]}),
            vec![Said::Thought("a\nb".into())],
        ),
        ("completed", json!({"type": "contextCompaction", "id": "i"}), vec![Said::Compacted]),
        ("started", json!({"type": "contextCompaction", "id": "i"}), vec![]),
        ("started", json!({"type": "aKindToCome", "id": "i"}), vec![]),
        ("completed", json!({"type": 7}), vec![]),
        ("completed", json!(null), vec![]),
    ] {
        assert_eq!(said(&mut at_work(), &item(state, &what)), expected, "{what}");
    }
    let plan = note(
        "turn/plan/updated",
        &json!({"plan": [{"step": "one", "status": "completed"},
        {"step": "two", "status": "inProgress"}, {"step": "three", "status": "pending"}]}),
    );
    let step = |text: &str, state| PlanStep { text: text.into(), state };
    let steps =
        vec![step("one", PlanState::Done), step("two", PlanState::Active), step("three", PlanState::Pending)];
    assert_eq!(said(&mut at_work(), &plan), [Said::Plan(steps)]);
}

#[test]
fn lines_that_are_no_frames_are_told_of_a_few_times_and_change_nothing() {
    let mut codec = at_work();
    let notices: usize = (0..20).map(|_| codec.hear(b"WARNING: something").said.len()).sum();
    assert_eq!(notices, 3);
    for line in [&b""[..], b" \r", b"[1]", b"{\"id\":{}}", b"{\"method\":7}", b"{}"] {
        assert_eq!(codec.hear(line).said, []);
    }
    assert_eq!(said(&mut codec, &message("fine", &Value::Null)), [Said::Message("fine".into())]);
}

#[test]
fn prompts_and_messages_hold_images_by_their_path_and_texts_in_a_frame() {
    let image = json!({"type": "localImage", "path": "/kept/shot.png"});
    let mut codec = open();
    let written = told(&mut codec, &with_files(prompt("Look."), files()));
    let text = "Look.\n\n<attachment name=\"note.md\" type=\"text/markdown\">\nRead me.\n</attachment>";
    let input = json!([image, {"type": "text", "text": text, "text_elements": []}]);
    assert_eq!(written[0]["params"]["input"], input);
    // A message that waits for its turn keeps its files.
    assert_eq!(codec.tell(&with_files(steer(1), files())).unwrap(), b"");
    said(&mut codec, &json!({"id": "prompt:1", "result": {"turn": {"id": TURN}}}));
    let heard = hear(&mut codec, &begins(THREAD, TURN));
    let released: Value = serde_json::from_slice(&heard.reply).unwrap();
    assert_eq!((&released["method"], &released["params"]["input"][0]), (&json!("turn/steer"), &image));
}
