//! What an agent says while it works, what counts as its answer, and how its turns end. Frames as agents send them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use serde_json::{Value, json};
use subagent_model::{ErrorCode, Limit, Usage};
use subagent_provider::{Order, PlanState, PlanStep, Provider, Said, TurnEnd, WasTold};
use subagent_provider_acp::AcpProvider;
use support::{Talk, able, failed, finished, message, message_said, prompt, spec};

fn delta(text: &str) -> Said {
    Said::Delta(text.to_owned())
}

fn started(id: &str, name: &str, input: Option<&str>) -> Said {
    Said::ToolStarted { id: id.to_owned(), name: name.to_owned(), input: input.map(str::to_owned) }
}

fn ended(id: &str, failed: bool, output: Option<&str>) -> Said {
    Said::ToolEnded { id: id.to_owned(), failed: Some(failed), output: output.map(str::to_owned) }
}

/// The last whole message before the end: what the runtime takes as the answer.
fn answer(said: &[Said]) -> Option<&str> {
    said.iter().rev().find_map(|said| match said {
        Said::Message(text) if !text.trim().is_empty() => Some(text.as_str()),
        _ => None,
    })
}

#[test]
fn acp_03_the_result_is_the_last_message_of_our_prompt_only() {
    let end = json!({"stopReason": "end_turn"});
    // pi-acp: a banner as a message, before any prompt.
    let mut talk = Talk::open();
    assert_eq!(talk.chunk("pi v1.6.0\n", None), []);
    talk.tell(&prompt("do it")).unwrap();
    assert_eq!(talk.chunk("I will ", None), [delta("I will ")]);
    talk.chunk("look.", None);
    let call = json!({"toolCallId": "t", "title": "Read a", "kind": "read", "status": "pending"});
    let said = talk.update("tool_call", call);
    assert_eq!(said, [message_said("I will look."), started("t", "read", Some("Read a"))], "a call ends it");
    talk.update("tool_call_update", json!({"toolCallId": "t", "status": "completed"}));
    talk.chunk("It is ", None);
    talk.update("agent_thought_chunk", json!({"content": {"type": "text", "text": "hm"}}));
    talk.chunk("42.", None);
    let said = talk.ends(end.clone());
    assert_eq!(said, [message_said("It is 42."), finished()]);
    // Late chunks are of no prompt.
    assert_eq!(talk.chunk("late", None), []);

    // claude-agent-acp, codex-acp: messages have ids, and a call in the middle of one does not end it.
    let mut talk = Talk::prompted();
    talk.chunk("Interim.", Some("m1"));
    assert_eq!(talk.chunk("The ", Some("m2")), [message_said("Interim."), delta("The ")]);
    let call = json!({"toolCallId": "t", "title": "x", "status": "completed"});
    assert_eq!(talk.update("tool_call", call).len(), 2);
    talk.chunk("answer.", Some("m2"));
    assert_eq!(talk.ends(end.clone()), [message_said("The answer."), finished()]);

    // Warnings come as notices, which are no part of it.
    let mut talk = Talk::prompted();
    talk.chunk("Done.", None);
    let notice = json!({"severity": "warning", "title": "Slow", "description": "the network"});
    assert_eq!(talk.update("notice", notice), [Said::Notice("warning: Slow: the network".into())]);
    let said = talk.ends(end);
    assert_eq!((answer(&said), said.len()), (Some("Done."), 2));
}

#[test]
fn acp_03_what_is_blank_or_no_text_is_told_as_what_it_is() {
    let mut talk = Talk::prompted();
    let block = |block: Value| json!({"content": block});
    for (content, expected) in [
        (
            json!({"type": "resource_link", "name": "a.rs", "uri": "file:///a.rs"}),
            Some("[a.rs](file:///a.rs)"),
        ),
        (json!({"type": "resource", "resource": {"uri": "x", "text": "body"}}), Some("body")),
        (json!({"type": "image", "data": "AAAA", "mimeType": "image/png"}), Some("[image: image/png]")),
        (json!({"type": "hologram"}), None),
        (json!("text"), None),
        (json!(null), None),
    ] {
        let said = talk.update("agent_message_chunk", block(content.clone()));
        assert_eq!(said, expected.map(delta).into_iter().collect::<Vec<_>>(), "{content}");
    }
    let mut talk = Talk::prompted();
    assert_eq!(talk.ends(json!({"stopReason": "end_turn"})), [finished()], "nothing is no message");
}

#[test]
fn acp_11_each_stop_reason_has_its_end() {
    let cut = || Said::Done(TurnEnd::Finished { answer: None, truncated: true });
    for (reason, cancels, expected) in [
        ("end_turn", false, finished()),
        ("end_turn", true, finished()),
        ("max_tokens", false, cut()),
        ("max_turn_requests", false, Said::Done(TurnEnd::CutOff(Limit::Turns))),
        ("cancelled", true, Said::Done(TurnEnd::Cancelled)),
    ] {
        let mut talk = Talk::prompted();
        if cancels {
            talk.tell(&Order::Interrupt).unwrap();
        }
        assert_eq!(talk.ends(json!({"stopReason": reason})), [expected], "{reason}");
        assert!(talk.tell(&prompt("more")).is_ok(), "it takes the next prompt");
    }
    for (answer, code, words) in [
        (json!({"stopReason": "refusal"}), ErrorCode::Refused, "refused the task"),
        (json!({"stopReason": "cancelled"}), ErrorCode::Crashed, "nobody had asked"),
        (json!({"stopReason": "tired"}), ErrorCode::Protocol, "\"tired\""),
        (json!({"stopReason": 7}), ErrorCode::Protocol, "without a reason"),
        (json!({}), ErrorCode::Protocol, "without a reason"),
        (json!(null), ErrorCode::Protocol, "without a reason"),
    ] {
        let mut talk = Talk::prompted();
        talk.chunk("so far", None);
        let said = talk.ends(answer.clone());
        let error = failed(&said);
        assert_eq!((error.code, error.retryable), (code, false), "{answer}");
        assert!(error.message.contains(words), "{}", error.message);
        assert_eq!(said[0], message_said("so far"), "what it had said is kept");
    }
}

#[test]
fn acp_11_an_error_for_an_answer_has_the_class_that_it_names() {
    use ErrorCode::{Auth, ContextOverflow, Crashed, Overloaded, QuotaExhausted, RateLimited};
    for (error, code, retryable) in [
        (json!({"code": 429, "message": "Rate limit exceeded. Try again later."}), RateLimited, true),
        (json!({"code": -32603, "message": "Internal error", "data": {"status": 529}}), Overloaded, true),
        (json!({"code": -32603, "message": "You've hit your usage limit"}), QuotaExhausted, false),
        (json!({"code": -32603, "message": "Prompt is too long"}), ContextOverflow, false),
        (json!({"code": -32000, "message": "Authentication required"}), Auth, false),
        (json!({"code": -32603, "message": "Internal error", "data": "API Error: 500"}), Crashed, false),
        (json!({"code": -32800, "message": "cancelled"}), Crashed, false),
        (json!({"message": 7}), Crashed, false),
        (json!("no object"), Crashed, false),
    ] {
        let mut talk = Talk::prompted();
        let (said, _) = talk.hears(&json!({"jsonrpc": "2.0", "id": 4, "error": error.clone()}));
        let failure = failed(&said);
        assert_eq!((failure.code, failure.retryable), (code, retryable), "{error}");
        assert!(failure.message.len() <= 4 * 1024 && !failure.message.is_empty());
        assert!(talk.tell(&prompt("more")).is_ok(), "the session is as good as before");
    }
    // Cancelled on our word, however the agent puts it.
    let mut talk = Talk::prompted();
    talk.tell(&Order::Interrupt).unwrap();
    assert_eq!(talk.error(4, -32_603, "aborted").0, [Said::Done(TurnEnd::Cancelled)]);
}

#[test]
fn acp_12_usage_that_is_not_sent_is_unknown_and_not_zero() {
    let mut talk = Talk::prompted();
    assert_eq!(talk.ends(json!({"stopReason": "end_turn", "usage": null})), [finished()], "pi-acp");
    let mut talk = Talk::prompted();
    assert_eq!(talk.update("usage_update", json!({"used": 100, "size": 200_000})), [], "without a cost");
    let usage = json!({"totalTokens": 42, "inputTokens": 30, "outputTokens": 12});
    let used = Usage { input: 30, output: 12, total: 42, ..Usage::default() };
    let said = talk.ends(json!({"stopReason": "end_turn", "usage": usage}));
    assert_eq!(said, [Said::Used(used), finished()]);
    let mut talk = Talk::prompted();
    let cost = |amount: f64| json!({"used": 1, "size": 2, "cost": {"amount": amount, "currency": "USD"}});
    let dollars = |amount| Said::Used(Usage { cost_usd: Some(amount), ..Usage::default() });
    assert_eq!(talk.update("usage_update", cost(0.25)), [dollars(0.25)]);
    assert_eq!(talk.update("usage_update", cost(0.25)), []);
    assert_eq!(talk.update("usage_update", cost(1.0)), [dollars(0.75)], "the difference counts");
}

#[test]
fn rec_16_a_call_is_told_as_it_becomes_known_and_ends_once() {
    let mut talk = Talk::prompted();
    // Announced before it is known: claude-agent-acp fills the input in later.
    let call = json!({"toolCallId": "t", "title": "Terminal", "kind": "execute", "status": "pending", "rawInput": {}});
    assert_eq!(talk.update("tool_call", call), [started("t", "execute", Some("Terminal"))]);
    let known = json!({"toolCallId": "t", "rawInput": {"command": "ls"}, "status": "in_progress"});
    assert_eq!(
        talk.update("tool_call_update", known.clone()),
        [started("t", "execute", Some(r#"{"command":"ls"}"#))]
    );
    assert_eq!(talk.update("tool_call_update", known), [], "nothing new");
    let content = json!([
        {"type": "content", "content": {"type": "text", "text": "a b"}},
        {"type": "diff", "path": "/a", "oldText": "x", "newText": "y"},
        {"type": "terminal", "terminalId": "z"},
        {"type": "session", "sessionId": "c"},
    ]);
    talk.update("tool_call_update", json!({"toolCallId": "t", "content": content}));
    let done = json!({"toolCallId": "t", "status": "completed", "rawOutput": {"raw": 1}});
    assert_eq!(talk.update("tool_call_update", done.clone()), [ended("t", false, Some("a b\n--- /a\ny"))]);
    assert_eq!(talk.update("tool_call_update", done), [], "an end is told once");
    // Never announced, failed at once, with nothing but an output.
    let failed = json!({"toolCallId": "u", "status": "failed", "rawOutput": {"error": "no"}});
    assert_eq!(
        talk.update("tool_call_update", failed),
        [started("u", "tool", None), ended("u", true, Some(r#"{"error":"no"}"#))]
    );
    // codex-acp: the output of a command comes beside the protocol.
    let run = json!({"toolCallId": "w", "kind": "execute", "title": "ls", "content": [{"type": "terminal", "terminalId": "w"}],
        "_meta": {"terminal_info": {"terminal_id": "w"}}});
    assert_eq!(talk.update("tool_call", run), [started("w", "execute", Some("ls"))]);
    for data in ["a ", "b\n"] {
        let part = json!({"toolCallId": "w", "_meta": {"terminal_output_delta": {"data": data, "terminal_id": "w"}}});
        assert_eq!(talk.update("tool_call_update", part), []);
    }
    let done =
        json!({"toolCallId": "w", "status": "completed", "_meta": {"terminal_exit": {"exit_code": 0}}});
    assert_eq!(talk.update("tool_call_update", done), [ended("w", false, Some("a b\n"))]);
    let named = json!({"toolCallId": "v", "title": "Search for x", "name": "web_search", "kind": "fetch"});
    assert_eq!(talk.update("tool_call", named), [started("v", "web_search", Some("Search for x"))]);
    for useless in [json!({}), json!({"toolCallId": 7}), json!({"toolCallId": "x".repeat(2_000)})] {
        assert_eq!(talk.update("tool_call", useless), []);
    }
    // The next turn may use the id again.
    talk.ends(json!({"stopReason": "end_turn"}));
    talk.tell(&message(1, "more")).unwrap();
    let again = json!({"toolCallId": "t", "title": "Read", "kind": "read"});
    assert_eq!(talk.update("tool_call", again), [started("t", "read", Some("Read"))]);
}

#[test]
fn plans_thoughts_and_compactions_are_told_as_such() {
    let mut talk = Talk::prompted();
    let step = |text: &str, state| PlanStep { text: text.to_owned(), state };
    let entries = json!([
        {"content": "a", "status": "completed", "priority": "high"},
        {"content": "b", "status": "in_progress"},
        {"content": "c", "status": "someday"},
        {"content": ""},
    ]);
    let steps = vec![step("a", PlanState::Done), step("b", PlanState::Active), step("c", PlanState::Pending)];
    assert_eq!(talk.update("plan", json!({"entries": entries})), [Said::Plan(steps.clone())]);
    let plan = json!({"plan": {"type": "items", "planId": "p", "entries": entries}});
    assert_eq!(talk.update("plan_update", plan), [Said::Plan(steps)]);
    assert_eq!(talk.update("plan_removed", json!({"planId": "p"})), [Said::Plan(vec![])]);
    let thought = json!({"content": {"type": "text", "text": "hm"}});
    assert_eq!(talk.update("agent_thought_chunk", thought), [Said::Thought("hm".into())]);
    let compaction = |status| json!({"compactionId": "k", "status": status});
    assert_eq!(talk.update("compaction_update", compaction("in_progress")), []);
    assert_eq!(talk.update("compaction_update", compaction("completed")), [Said::Compacted]);
    assert_eq!(talk.update("compaction_update", compaction("completed")), [], "once");
    assert_eq!(talk.ends(json!({"stopReason": "end_turn"})), [finished()]);
}

#[test]
fn acp_06_what_is_not_known_does_no_harm_and_is_answered_where_it_waits() {
    let mut talk = Talk::prompted();
    for kind in ["mood", "session_message", "available_commands_update", "session_info_update", ""] {
        assert_eq!(talk.update(kind, json!({"value": [1]})), [], "{kind}");
    }
    // Another session's text is not this one's.
    let text = json!({"content": {"type": "text", "text": "of somebody else"}});
    assert_eq!(talk.update_of("s2", "agent_message_chunk", text), []);
    for (id, method) in
        [(json!(1), "session/sing"), (json!("one"), "mcp/message"), (json!(3), "_vendor/thing")]
    {
        let (said, wrote) = talk.request(id.clone(), method, json!({"sessionId": "s1"}));
        assert_eq!((&wrote[0]["id"], &wrote[0]["error"]["code"]), (&id, &json!(-32601)), "{method}");
        assert!(matches!(&said[..], [Said::Notice(text)] if text.contains(method)), "it is named: {said:?}");
    }
    for line in [
        "Loading model...",
        "",
        "  \r",
        "[1,2]",
        "null",
        "{}",
        r#"{"jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"2.0","id":99,"result":{"stopReason":"end_turn"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
        r#"{"jsonrpc":"2.0","method":"session/update"}"#,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":null}}"#,
        r#"{"jsonrpc":"2.0","method":"elicitation/complete","params":{"elicitationId":"e"}}"#,
    ] {
        let (said, wrote) = talk.hear(line);
        assert!(said.iter().all(|said| matches!(said, Said::Notice(_))), "{line}: {said:?}");
        assert!(wrote.is_empty(), "{line}");
    }
    // A request whose id cannot be given back is refused without one.
    let (_, wrote) = talk.hear(r#"{"jsonrpc":"2.0","id":{"a":1},"method":"fs/read_text_file"}"#);
    assert_eq!((&wrote[0]["id"], &wrote[0]["error"]["code"]), (&json!(null), &json!(-32600)));
    // However often that happens, it is not told for ever.
    let told: usize = (0..100).map(|_| talk.hear("noise").0.len()).sum();
    assert!(told < 16);
    talk.chunk("still here", None);
    assert_eq!(talk.ends(json!({"stopReason": "end_turn"})), [message_said("still here"), finished()]);
}

#[test]
fn acp_06_deep_or_long_lines_do_no_harm() {
    let mut talk = Talk::prompted();
    let deep = format!(r#"{{"jsonrpc":"2.0","id":4,"result":{}{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    let (said, _) = talk.hear(&deep);
    assert!(matches!(&said[..], [Said::Notice(text)] if text.len() < 400), "it is shown in part");
    for _ in 0..5 {
        talk.chunk(&"x".repeat(1 << 20), None);
    }
    let said = talk.ends(json!({"stopReason": "end_turn"}));
    let [Said::Message(text), Said::Done(TurnEnd::Finished { truncated: true, .. })] = &said[..] else {
        panic!("a message that was cut says so");
    };
    assert_eq!(text.len(), 4 << 20);
}

#[test]
fn acp_07_only_text_is_sent_and_messages_go_between_turns() {
    let mut talk = Talk::prompted();
    let from = subagent_model::Requester::from("me");
    let steer = Order::Steer {
        number: subagent_model::MessageNumber(3),
        from,
        text: String::from("x"),
        attached: vec![],
    };
    assert!(talk.tell(&steer).unwrap_err().contains("no word for a message into a turn"));
    assert!(talk.tell(&prompt("x")).unwrap_err().contains("one at a time"));
    assert!(!talk.codec.acknowledges(), "a prompt counts as taken once it is written");
    talk.ends(json!({"stopReason": "end_turn"}));
    let wrote = talk.tell(&message(3, "look at image.png")).unwrap();
    assert_eq!(wrote[0]["id"], 7, "2n + 1");
    assert_eq!(wrote[0]["params"]["prompt"], json!([{"type": "text", "text": "look at image.png"}]));
    assert_eq!(talk.answer(4, json!({"stopReason": "end_turn"})).0, [], "that turn is over");
    assert_eq!(talk.answer(7, json!({"stopReason": "end_turn"})).0, [finished()]);
    assert_eq!(talk.tell(&prompt("go on")).unwrap()[0]["id"], 6, "counted on");
    let number = subagent_model::MessageNumber(3);
    assert_eq!(talk.taken_over().1, [WasTold::Prompt, WasTold::Message(number), WasTold::Prompt]);
}

#[test]
fn an_interrupt_cancels_the_turn_and_nothing_else() {
    let mut talk = Talk::open();
    assert!(talk.tell(&Order::Interrupt).is_err(), "there is nothing to cancel");
    talk.tell(&prompt("a")).unwrap();
    let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s1"}});
    assert_eq!(talk.tell(&Order::Interrupt).unwrap(), std::slice::from_ref(&cancel));
    assert_eq!(talk.tell(&Order::Interrupt).unwrap(), [cancel], "said again it does no harm");
    talk.chunk("so far", None);
    assert_eq!(
        talk.ends(json!({"stopReason": "cancelled"})),
        [message_said("so far"), Said::Done(TurnEnd::Cancelled)]
    );
    // The next turn is another one.
    talk.tell(&prompt("b")).unwrap();
    let said = talk.answer(6, json!({"stopReason": "cancelled"})).0;
    assert_eq!(failed(&said).code, ErrorCode::Crashed);
}

/// A turn whose model was lost is no good end, whatever the adapter says of it.
#[test]
fn acp_12_a_turn_whose_agent_failed_beneath_it_is_no_good_end() {
    let mut talk = Talk::open();
    talk.tell(&prompt("do it")).unwrap();
    talk.chunk("begun", None);
    let error = json!({"_meta": {"codex": {"error": {"message": "Reconnecting... 1/1"}}}});
    assert_eq!(talk.update("session_info_update", error), []);
    let lost = json!({"_meta": {"codex": {"threadStatus": {"type": "systemError"}}}});
    assert_eq!(talk.update("session_info_update", lost), []);
    let said = talk.ends(json!({"stopReason": "end_turn"}));
    let Some(Said::Done(TurnEnd::Failed(error))) = said.last() else { panic!("{said:?}") };
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::Overloaded, "Reconnecting... 1/1"));
    // The next turn is judged by itself.
    talk.tell(&message(1, "more")).unwrap();
    assert_eq!(talk.answer(3, json!({"stopReason": "end_turn"})).0, [finished()]);
}

/// What is tried in vain leaves no answer; what comes in the end counts.
#[test]
fn acp_12_retries_that_are_told_in_messages_are_no_answer() {
    for (last, good) in [("Retry finished, resuming.", false), ("42", true)] {
        let provider = AcpProvider::all().find(|it| it.name() == "pi-acp").unwrap();
        let (mut talk, _) = Talk::begin(provider, spec(), None);
        talk.answer(0, able());
        talk.answer(2, json!({"sessionId": "s1"}));
        talk.tell(&prompt("do it")).unwrap();
        talk.chunk("begun", None);
        let said = talk.chunk("Retrying (attempt 1/3, waiting 2s)...", None);
        assert_eq!(said, [Said::Notice(String::from("Retrying (attempt 1/3, waiting 2s)..."))]);
        talk.chunk(last, None);
        let said = talk.ends(json!({"stopReason": "end_turn"}));
        if good {
            assert_eq!(said, [message_said("42"), finished()]);
        } else {
            assert!(matches!(said[..], [Said::Done(TurnEnd::Failed(_))]), "{said:?}");
        }
    }
}
