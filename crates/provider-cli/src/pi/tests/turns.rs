use serde_json::{Value, json};
use subagent_model::{ErrorCode, MessageNumber, Usage};
use subagent_provider::{Codec, Order, Said, TurnEnd};

use super::{
    Rpc, at_work, broken, finished, hear, lines_of, message, ok, open, prompt, queue, said, settle, settled,
    state, stats, told,
};
use crate::testing::{files, steer, with_files};

fn used() -> Said {
    let parts = Usage { input: 10, output: 2, cache_write: 1, cache_read: 5, total: 13, cost_usd: Some(0.5) };
    Said::Used(parts)
}

#[test]
fn prov_20_the_end_is_agent_settled_and_not_an_event_that_will_retry() {
    let mut codec = at_work();
    assert_eq!(said(&mut codec, &json!({"type": "agent_start"})), []);
    assert_eq!(said(&mut codec, &broken("terminated: other side closed")), []);
    let turn_end =
        |stop: &str| json!({"type": "turn_end", "message": {"role": "assistant", "stopReason": stop}});
    assert_eq!(said(&mut codec, &turn_end("error")), []);
    assert_eq!(said(&mut codec, &json!({"type": "agent_end", "messages": [], "willRetry": true})), []);
    let retry =
        json!({"type": "auto_retry_start", "attempt": 1, "errorMessage": "terminated: other side closed"});
    assert!(matches!(said(&mut codec, &retry)[..], [Said::Notice(_)]), "it holds nobody else up");
    assert_eq!(said(&mut codec, &message("good", "stop")), [Said::Message("good".into()), used()]);
    assert_eq!(said(&mut codec, &turn_end("stop")), [Said::Turn { more: false }]);
    assert_eq!(said(&mut codec, &json!({"type": "agent_end", "messages": [], "willRetry": false})), []);
    assert!(codec.tell(&prompt("next")).is_err(), "it is not over");
    assert_eq!(settle(&mut codec, false), [finished("good")]);
    assert_eq!(said(&mut codec, &settled(false)), [], "of nobody's turn");
}

#[test]
fn prov_20_lines_are_split_at_line_feeds_only() {
    let mut codec = at_work();
    let line = "{\"type\":\"message_update\",\"assistantMessageEvent\":{\"type\":\"text_delta\",\"delta\":\"a\u{2028}b\u{2029}c\"}}\r";
    assert_eq!(codec.hear(line.as_bytes()).said, [Said::Delta("a\u{2028}b\u{2029}c".into())]);
    let order = codec.tell(&steer(1)).unwrap();
    assert_eq!(lines_of(&order).len(), 1);
}

#[test]
fn prov_20_it_is_open_once_its_extensions_are_started() {
    let mut codec = Rpc::default();
    codec.open(&super::job(None, |_| {}));
    assert!(codec.tell(&prompt("x")).is_err());
    assert_eq!(said(&mut codec, &state()), [Said::Model("p/m".into())]);
    assert!(codec.tell(&prompt("x")).is_err(), "its sums are not known");
    said(&mut codec, &stats("open:stats", 0, 0.0));
    assert!(codec.tell(&prompt("x")).is_ok());
}

#[test]
fn a_session_that_is_another_one_is_not_gone_on_with() {
    let mut codec = Rpc::default();
    codec.open(&super::job(Some("another"), |_| {}));
    let heard = said(&mut codec, &state());
    assert!(
        matches!(&heard[..], [Said::Done(TurnEnd::Failed(error))] if error.code == ErrorCode::SessionGone)
    );
}

#[test]
fn a_failed_message_of_the_model_is_a_failed_turn_of_the_right_class() {
    use ErrorCode as E;
    for (why, code) in [
        // Observed.
        ("401: {\"message\":\"scripted 401\",\"type\":\"scripted\",\"code\":401}", E::Auth),
        ("429: {\"message\":\"scripted 429\"}", E::RateLimited),
        ("503: {\"message\":\"scripted 503\"}", E::Overloaded),
        ("400: {\"message\":\"scripted 400\"}", E::Refused),
        ("terminated: other side closed (UND_ERR_SOCKET)", E::Overloaded),
        ("400: {\"message\":\"maximum context length is 8192 tokens\"}", E::ContextOverflow),
        ("429: {\"message\":\"You exceeded your current quota\"}", E::QuotaExhausted),
        ("529 {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}", E::Overloaded),
        ("Error: 403 forbidden", E::Auth),
        ("something broke", E::Crashed),
    ] {
        let mut codec = at_work();
        said(&mut codec, &broken(why));
        let heard = settle(&mut codec, false);
        let [Said::Done(TurnEnd::Failed(error))] = &heard[..] else { panic!("{why}: {heard:?}") };
        assert_eq!((error.code, error.message.as_str()), (code, why));
    }
}

#[test]
fn a_prompt_that_is_not_taken_fails_and_one_that_is_handled_makes_no_turn() {
    let mut codec = open();
    told(&mut codec, &prompt("x"));
    // Observed.
    let refused = json!({"id": "prompt:1", "type": "response", "command": "prompt", "success": false,
        "error": "No API key found for anthropic.\n\nUse /login to log into a provider"});
    let heard = said(&mut codec, &refused);
    assert!(
        matches!(&heard[..], [Said::Done(TurnEnd::Failed(error))] if error.code == ErrorCode::Auth),
        "{heard:?}"
    );
    told(&mut codec, &prompt("/command"));
    let heard = said(&mut codec, &ok("prompt:2", "handled"));
    assert_eq!(heard, [Said::Done(TurnEnd::Finished { answer: None, truncated: false })]);
}

#[test]
fn a_limit_holds_others_up() {
    let retry =
        json!({"type": "auto_retry_start", "attempt": 1, "errorMessage": "429: {\"message\":\"slow down\"}"});
    let heard = said(&mut at_work(), &retry);
    assert_eq!(heard[1], Said::HeldUp { until: None });
}

#[test]
fn the_answer_is_the_last_whole_message_and_a_cut_one_says_so() {
    for (messages, end) in [
        (vec![("a", "toolUse"), ("b", "stop")], finished("b")),
        (vec![("a", "stop"), (" ", "stop")], finished("a")),
        (vec![("part", "error"), ("b", "stop")], finished("b")),
        (vec![], finished("")),
        (vec![("b", "length")], Said::Done(TurnEnd::Finished { answer: Some("b".into()), truncated: true })),
        (vec![("b", "aborted")], Said::Done(TurnEnd::Cancelled)),
    ] {
        let mut codec = at_work();
        for (text, stop) in &messages {
            said(&mut codec, &message(text, stop));
        }
        assert_eq!(settle(&mut codec, false), [end], "{messages:?}");
    }
}

#[test]
fn a_steer_is_taken_once_it_has_left_the_queue_by_itself() {
    let mut codec = at_work();
    let order = told(&mut codec, &steer(3));
    assert_eq!(order, [json!({"id": "m3", "type": "steer", "message": "left"})]);
    assert_eq!(said(&mut codec, &queue(1)), []);
    assert_eq!(said(&mut codec, &ok("m3", "queued")), []);
    told(&mut codec, &steer(4));
    assert_eq!(said(&mut codec, &queue(2)), []);
    assert_eq!(said(&mut codec, &ok("m4", "queued")), []);
    assert_eq!(said(&mut codec, &queue(1)), [Said::Took(MessageNumber(3))]);
    assert_eq!(said(&mut codec, &queue(0)), [Said::Took(MessageNumber(4))]);
    told(&mut codec, &steer(5));
    assert_eq!(said(&mut codec, &ok("m5", "handled")), [Said::Took(MessageNumber(5))], "by an extension");
    told(&mut codec, &steer(6));
    let refused =
        json!({"id": "m6", "type": "response", "command": "steer", "success": false, "error": "no"});
    assert_eq!(said(&mut codec, &refused), [Said::Declined(MessageNumber(6))]);
}

#[test]
fn a_steer_that_meets_the_end_of_its_turn_does_not_come_along_with_the_next_prompt() {
    // Observed: pi keeps it in its queue and gives it to the next turn.
    let mut codec = at_work();
    told(&mut codec, &steer(3));
    let heard = hear(&mut codec, &settled(false));
    assert_eq!(lines_of(&heard.reply).len(), 1, "the sums; whether it is in the queue is not known yet");
    assert_eq!(said(&mut codec, &queue(1)), []);
    assert_eq!(said(&mut codec, &stats("stats", 0, 0.0)), []);
    let heard = hear(&mut codec, &ok("m3", "queued"));
    assert_eq!((lines_of(&heard.reply)[0]["type"].as_str(), &heard.said[..]), (Some("clear_queue"), &[][..]));
    assert!(codec.tell(&prompt("next")).is_err());
    assert_eq!(said(&mut codec, &queue(0)), [], "it did not leave the queue by itself");
    let cleared = json!({"id": "clear", "type": "response", "command": "clear_queue", "success": true,
        "data": {"steering": ["left"], "followUp": []}});
    assert_eq!(said(&mut codec, &cleared), [Said::Declined(MessageNumber(3)), finished("")]);
}

#[test]
fn an_abort_clears_the_queue_first_and_says_what_was_taken() {
    let mut codec = at_work();
    for number in [3, 4] {
        told(&mut codec, &steer(number));
        said(&mut codec, &queue(usize::try_from(number).unwrap() - 2));
        said(&mut codec, &ok(&format!("m{number}"), "queued"));
    }
    let orders = told(&mut codec, &Order::Interrupt);
    assert_eq!(
        orders,
        [
            json!({"id": "interrupt:clear", "type": "clear_queue"}),
            json!({"id": "interrupt", "type": "abort"})
        ]
    );
    assert!(codec.tell(&Order::Interrupt).is_err(), "once");
    // The first one had gone by then.
    assert_eq!(said(&mut codec, &queue(1)), []);
    assert_eq!(said(&mut codec, &queue(0)), []);
    let cleared =
        json!({"id": "interrupt:clear", "type": "response", "success": true, "data": {"steering": ["left"]}});
    let last = [Said::Took(MessageNumber(3)), Said::Declined(MessageNumber(4))];
    assert_eq!(said(&mut codec, &cleared), last);
    assert_eq!(said(&mut codec, &message("w0 w1", "aborted")), [used()], "a part of a message is no message");
    assert_eq!(settle(&mut codec, true), [], "an abort is answered when all is quiet");
    let aborted = json!({"id": "interrupt", "type": "response", "command": "abort", "success": true});
    assert_eq!(said(&mut codec, &aborted), [Said::Done(TurnEnd::Cancelled)]);
    assert!(codec.tell(&Order::Interrupt).is_err(), "nothing is open");
    assert!(codec.tell(&prompt("next")).is_ok());
}

#[test]
fn before_the_prompt_is_taken_steers_and_interrupts_wait_for_it() {
    let mut codec = open();
    told(&mut codec, &prompt("x"));
    assert_eq!(told(&mut codec, &steer(3)), Vec::<Value>::new());
    assert_eq!(told(&mut codec, &Order::Interrupt), Vec::<Value>::new());
    assert_eq!(said(&mut codec, &settled(false)), [], "of a run that an extension began");
    let heard = hear(&mut codec, &ok("prompt:1", "started"));
    let kinds: Vec<_> = lines_of(&heard.reply).into_iter().map(|line| line["type"].clone()).collect();
    assert_eq!(kinds, ["steer", "clear_queue", "abort"]);
    let mut codec = open();
    told(&mut codec, &prompt("x"));
    told(&mut codec, &steer(3));
    let refused = json!({"id": "prompt:1", "type": "response", "success": false, "error": "no"});
    assert!(matches!(
        said(&mut codec, &refused)[..],
        [Said::Declined(MessageNumber(3)), Said::Done(TurnEnd::Failed(_))]
    ));
}

#[test]
fn tokens_and_money_are_counted_once_and_what_messages_do_not_tell_is_counted_at_the_end() {
    let mut codec = at_work();
    assert_eq!(said(&mut codec, &message("a", "stop")), [Said::Message("a".into()), used()]);
    hear(&mut codec, &settled(false));
    // A summary was made, which is no message: 90 tokens and 0.25 more.
    let sums = json!({"id": "stats", "type": "response", "success": true, "data": {"cost": 0.75,
        "tokens": {"input": 100, "output": 2, "cacheRead": 5, "cacheWrite": 1, "total": 108}}});
    let rest = Usage { input: 90, total: 90, cost_usd: Some(0.25), ..Usage::default() };
    assert_eq!(said(&mut codec, &sums), [Said::Used(rest), finished("a")]);
    let request = told(&mut codec, &prompt("next"));
    said(&mut codec, &ok(request[0]["id"].as_str().unwrap(), "started"));
    hear(&mut codec, &settled(false));
    assert_eq!(said(&mut codec, &sums), [finished("")], "nothing twice");
    // Of a session that goes on, the past does not count.
    let mut codec = Rpc::default();
    codec.open(&super::job(Some(super::SESSION), |_| {}));
    said(&mut codec, &state());
    assert!(matches!(said(&mut codec, &stats("open:stats", 5_000, 9.0))[..], [Said::Opened { .. }]));
}

#[test]
fn each_event_has_its_meaning_and_unknown_ones_none() {
    let id = || String::from("c");
    for (event, expected) in [
        (
            json!({"type": "tool_execution_start", "toolCallId": "c", "toolName": "bash", "args": {"command": "ls"}}),
            vec![Said::ToolStarted {
                id: id(),
                name: "bash".into(),
                input: Some("{\"command\":\"ls\"}".into()),
            }],
        ),
        (
            json!({"type": "tool_execution_end", "toolCallId": "c", "toolName": "bash", "isError": true,
                "result": {"content": [{"type": "text", "text": "no"}]}}),
            vec![Said::ToolEnded { id: id(), failed: Some(true), output: Some("no".into()) }],
        ),
        (json!({"type": "tool_execution_update", "toolCallId": "c", "partialResult": {}}), vec![]),
        (
            json!({"type": "compaction_end", "reason": "threshold", "result": {}, "aborted": false}),
            vec![Said::Compacted],
        ),
        (json!({"type": "compaction_end", "reason": "threshold", "aborted": true}), vec![]),
        (
            json!({"type": "turn_end", "message": {"role": "assistant", "stopReason": "toolUse"}}),
            vec![Said::Turn { more: true }],
        ),
        (
            json!({"type": "message_end", "message": {"role": "user", "content": [{"type": "text", "text": "x"}]}}),
            vec![],
        ),
        (
            json!({"type": "message_end", "message": {"role": "assistant", "stopReason": "stop",
                "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "hi"}, {"type": "to_come"}]}}),
            vec![Said::Thought("hm".into()), Said::Message("hi".into())],
        ),
        (json!({"type": "session", "version": 3}), vec![]),
        (json!({"type": "to_come", "x": [1]}), vec![]),
        (
            json!({"type": 7}),
            vec![Said::Notice("it said something that is no message: \"{\\\"type\\\":7}\"".into())],
        ),
    ] {
        assert_eq!(said(&mut at_work(), &event), expected, "{event}");
    }
    let mut codec = at_work();
    let notices: usize = (0..20).map(|_| codec.hear(b"(node:1) Warning").said.len()).sum();
    assert_eq!(notices, 3);
    let unread =
        json!({"type": "response", "command": "parse", "success": false, "error": "Failed to parse"});
    assert!(matches!(said(&mut codec, &unread)[..], [Said::Notice(_)]));
}

#[test]
fn prompts_and_messages_hold_images_beside_the_text_and_texts_in_a_frame() {
    let images = json!([{"type": "image", "data": "AAE=", "mimeType": "image/png"}]);
    let mut codec = open();
    let written = told(&mut codec, &with_files(prompt("Look."), files()));
    let text = "Look.\n\n<attachment name=\"note.md\" type=\"text/markdown\">\nRead me.\n</attachment>";
    assert_eq!((&written[0]["message"], &written[0]["images"]), (&json!(text), &images));
    // A message that waits for its turn keeps its files.
    assert_eq!(codec.tell(&with_files(steer(1), files())).unwrap(), b"");
    let heard = hear(&mut codec, &ok("prompt:1", "started"));
    let released: Value = serde_json::from_slice(&heard.reply).unwrap();
    assert_eq!((&released["type"], &released["images"]), (&json!("steer"), &images));
    let written = told(&mut at_work(), &steer(2));
    assert!(written[0].get("images").is_none(), "{written:?}");
}

#[test]
fn images_for_a_model_that_takes_none_are_refused_and_not_left_out_in_silence() {
    let mut codec = Rpc::default();
    codec.open(&super::job(None, |_| {}));
    let mut state = state();
    state["data"]["model"]["input"] = json!(["text"]);
    said(&mut codec, &state);
    said(&mut codec, &stats("open:stats", 0, 0.0));
    let why = codec.tell(&with_files(prompt("Look."), files())).unwrap_err();
    assert!(why.contains("takes no images"), "{why}");
    assert!(codec.tell(&with_files(prompt("Look."), files().split_off(1))).is_ok(), "a text is no image");
}
