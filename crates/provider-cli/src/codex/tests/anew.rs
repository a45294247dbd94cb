//! A codec that is made anew from the log of a conversation.

use proptest::prelude::*;
use serde_json::{Value, json};
use subagent_model::MessageNumber;
use subagent_provider::{Codec, Order, Said, TurnEnd, WasTold};

use super::{
    AppServer, THREAD, TURN, at_work, begins, end_of, ends, finished, frames, item, job, message, note,
    opened_with, prompt, said,
};
use crate::testing::{lines, orders, recall_all, stay_the_same, steer, steps};

/// A line of an app-server: a good one of any kind, or anything.
fn known() -> impl Strategy<Value = Vec<u8>> {
    let usage =
        json!({"tokenUsage": {"total": {"inputTokens": 9, "outputTokens": 3}, "last": {"inputTokens": 9}}});
    let mut known = vec![
        json!({"id": "open:start", "result": {}}),
        json!({"id": "thread", "error": {"code": -32600, "message": "no"}}),
        opened_with("untrusted", "workspaceWrite"),
        opened_with("never", "workspaceWrite"),
        begins(THREAD, TURN),
        begins(THREAD, "t-2"),
        begins("below", "b-1"),
        ends(THREAD, TURN, "completed", &Value::Null),
        ends(THREAD, TURN, "interrupted", &Value::Null),
        ends(THREAD, "t-2", "failed", &json!({"message": "m", "codexErrorInfo": "other"})),
        ends("below", "b-1", "completed", &Value::Null),
        json!({"method": "turn/started", "params": {"threadId": "below", "turn": {"id": "b-1", "rootTurnId": TURN}}}),
        message("hello", &Value::Null),
        message("done", &json!("final_answer")),
        message("hm", &json!("commentary")),
        item("started", &json!({"type": "agentMessage", "id": "a", "text": ""})),
        item("started", &json!({"type": "fileChange", "id": "f", "changes": [{"path": "p"}]})),
        item(
            "completed",
            &json!({"type": "fileChange", "id": "f", "changes": [{"path": "p"}], "status": "completed"}),
        ),
        item(
            "completed",
            &json!({"type": "collabAgentToolCall", "id": "c", "receiverThreadIds": ["below"],
            "tool": "spawnAgent", "prompt": "p", "agentsStates": {"below": {"status": "running"}}}),
        ),
        note("item/agentMessage/delta", &json!({"itemId": "a", "delta": "x"})),
        note("thread/tokenUsage/updated", &usage),
        note("error", &json!({"willRetry": true, "error": {"message": "m", "additionalDetails": "m"}})),
        note("turn/plan/updated", &json!({"plan": []})),
        json!({"method": "account/rateLimits/updated", "params": {"rateLimits": {"primary": {"usedPercent": 9, "resetsAt": 7}}}}),
        json!({"method": "to/come"}),
    ];
    for id in [json!(0), json!(1), json!("x")] {
        let params = json!({"threadId": THREAD, "itemId": "f", "command": "ls"});
        known.push(json!({"id": id, "method": "item/commandExecution/requestApproval", "params": params}));
        known.push(json!({"id": id, "method": "serverRequest/unheardOf"}));
        known.push(json!({"method": "serverRequest/resolved", "params": {"requestId": id}}));
    }
    for number in 1..6 {
        let user = json!({"type": "userMessage", "id": "u", "clientId": format!("m{number}")});
        known.push(item("started", &user));
        for id in [format!("m{number}"), format!("prompt:{number}")] {
            known.push(json!({"id": id, "result": {"turn": {"id": TURN}, "turnId": TURN}}));
            known.push(json!({"id": id, "result": {"turn": {"id": "t-2"}}}));
            known.push(json!({"id": id, "error": {"code": -32600, "message": "no active turn to steer"}}));
        }
    }
    lines(known)
}

/// Two of the same conversation: one is live, the other learns of it from the log. It knows the session already.
fn both(open: bool) -> (AppServer, AppServer) {
    let (mut live, mut anew) = (AppServer::default(), AppServer::default());
    let hello = live.open(&job(None, |_| {}));
    anew.open(&job(Some(THREAD), |_| {}));
    assert_eq!(anew.recall(&hello[..hello.len() - 1]), []);
    if open {
        for line in [json!({"id": "open:start", "result": {}}), opened_with("untrusted", "workspaceWrite")] {
            let frame = line.to_string();
            assert_eq!(live.hear(frame.as_bytes()), anew.hear(frame.as_bytes()));
        }
    }
    (live, anew)
}

proptest! {
    #[test]
    fn res_12_a_codec_made_anew_from_the_log_is_the_one_that_was(
        open in prop::bool::weighted(0.9),
        steps in steps(known(), orders(vec!["0", "1", "\"x\"", "9"])),
    ) {
        let (live, anew) = both(open);
        stay_the_same(live, anew, steps)?;
    }

    #[test]
    fn res_12_what_was_written_is_recalled_for_what_it_was(order in orders(vec!["0", "1", "\"x\"", "9"])) {
        let mut codec = at_work();
        for id in [json!(0), json!(1), json!("x")] {
            let params = json!({"threadId": THREAD, "command": "ls"});
            said(&mut codec, &json!({"id": id, "method": "item/commandExecution/requestApproval", "params": params}));
        }
        if matches!(order, Order::Prompt { .. }) {
            said(&mut codec, &ends(THREAD, TURN, "completed", &Value::Null));
        }
        let mut anew = codec.clone();
        let expected = match &order {
            Order::Prompt { number: None, .. } => vec![WasTold::Prompt],
            Order::Prompt { number: Some(number), .. } | Order::Steer { number, .. } => vec![WasTold::Message(*number)],
            Order::Interrupt => vec![WasTold::Interrupt],
            Order::Answer { key, .. } => vec![WasTold::Answer(key.clone())],
            Order::StopInner { key } => vec![WasTold::StopInner(key.clone())],
            Order::Close => vec![],
        };
        if let Ok(bytes) = codec.tell(&order) {
            prop_assert_eq!(recall_all(&mut anew, &bytes), expected);
            prop_assert_eq!(&codec, &anew);
        }
    }

    #[test]
    fn anything_can_be_heard(all in proptest::collection::vec(known(), 0..40)) {
        let (mut codec, _) = both(false);
        for line in &all {
            codec.hear(line);
        }
        codec.recall(&all.concat());
    }
}

#[test]
fn res_12_a_steer_that_the_log_has_after_the_end_of_its_turn_gets_its_last_word_and_the_end_is_said_again() {
    let (mut live, mut anew) = (at_work(), at_work());
    let over = ends(THREAD, TURN, "completed", &Value::Null);
    // Given before the end was heard; the log has it after that.
    let told = live.tell(&steer(4)).unwrap();
    assert_eq!(said(&mut live, &over), [Said::Turn { more: false }]);
    assert_eq!(said(&mut anew, &over), [Said::Turn { more: false }, finished("")]);
    assert_eq!(recall_all(&mut anew, &told), [WasTold::Message(MessageNumber(4))]);
    let refused = json!({"id": "m4", "error": {"code": -32600, "message": "no active turn to steer"}});
    let last = [Said::Declined(MessageNumber(4)), finished("")];
    assert_eq!((said(&mut live, &refused), said(&mut anew, &refused)), (last.to_vec(), last.to_vec()));
    assert_eq!(live, anew);
}

#[test]
fn a_conversation_whose_beginning_is_lost_is_taken_over_all_the_same() {
    let mut anew = AppServer::default();
    anew.open(&job(Some(THREAD), |_| {}));
    let (mut live, _) = both(true);
    let told = live.tell(&prompt("x")).unwrap();
    assert_eq!(recall_all(&mut anew, &told), [WasTold::Prompt]);
    let begun = json!({"id": "prompt:1", "result": {"turn": {"id": TURN}}});
    assert_eq!(said(&mut anew, &begun), [Said::Opened { session: Some(THREAD.into()) }]);
    said(&mut anew, &begins(THREAD, TURN));
    assert_eq!(said(&mut anew, &message("hi", &Value::Null)), [Said::Message("hi".into())]);
    // Even the prompt may be lost.
    let mut anew = AppServer::default();
    anew.open(&job(Some(THREAD), |_| {}));
    let mut live = at_work();
    let told = live.tell(&steer(1)).unwrap();
    assert_eq!(recall_all(&mut anew, &told), [WasTold::Message(MessageNumber(1))]);
    said(&mut anew, &json!({"id": "m1", "result": {}}));
    let heard = said(&mut anew, &ends(THREAD, TURN, "completed", &Value::Null));
    assert!(matches!(end_of(&heard), TurnEnd::Finished { .. }));
}

#[test]
fn res_12_what_was_meant_is_read_from_the_first_line_and_not_from_what_is_known_by_now() {
    // The session is known by the time that another daemon takes over: it does not resume what was begun here.
    let (mut live, mut anew) = both(false);
    let greeted = json!({"id": "open:start", "result": {}}).to_string();
    let (one, two) = (live.hear(greeted.as_bytes()), anew.hear(greeted.as_bytes()));
    assert_eq!(one, two);
    assert_eq!(frames(&one.reply)[1]["method"], "thread/start");
}
