//! A codec that is made anew from the log of a conversation.

use proptest::prelude::*;
use serde_json::json;
use subagent_model::MessageNumber;
use subagent_provider::{Codec, Order, Said, WasTold};

use super::{
    Rpc, SESSION, at_work, broken, finished, hear, job, message, ok, open, prompt, queue, said, settled,
    state, stats,
};
use crate::testing::{lines, orders, recall_all, stay_the_same, steer, steps};

/// A line of pi: a good one of any kind, or anything.
fn known() -> impl Strategy<Value = Vec<u8>> {
    let mut known = vec![
        state(),
        stats("open:stats", 5, 0.1),
        stats("stats", 70, 0.5),
        stats("stats", 700, 1.5),
        json!({"type": "agent_start"}),
        message("hello", "stop"),
        message("part", "aborted"),
        message("tool", "toolUse"),
        broken("401: no"),
        settled(false),
        settled(true),
        queue(0),
        queue(1),
        queue(2),
        json!({"type": "turn_end", "message": {"role": "assistant", "stopReason": "stop"}}),
        json!({"type": "auto_retry_start", "errorMessage": "429: slow"}),
        json!({"type": "to_come"}),
        json!({"id": "interrupt", "type": "response", "success": true}),
    ];
    for id in ["clear", "interrupt:clear"] {
        for removed in [vec![], vec!["x"], vec!["x", "y"]] {
            known.push(json!({"id": id, "type": "response", "success": true, "data": {"steering": removed}}));
        }
    }
    for id in ["u", "v"] {
        for method in ["confirm", "input", "to_come"] {
            known.push(json!({"type": "extension_ui_request", "id": id, "method": method, "title": "t"}));
        }
    }
    for number in 1..6 {
        for id in [format!("m{number}"), format!("prompt:{number}")] {
            known.extend(["started", "queued", "handled"].map(|disposition| ok(&id, disposition)));
            known.push(json!({"id": id, "type": "response", "success": false, "error": "no"}));
        }
    }
    lines(known)
}

/// Two of the same conversation: one is live, the other learns of it from the log. It knows the session already.
fn both(open: bool) -> (Rpc, Rpc) {
    let (mut live, mut anew) = (Rpc::default(), Rpc::default());
    live.open(&job(Some(SESSION), |_| {}));
    anew.open(&job(Some(SESSION), |_| {}));
    if open {
        for line in [state(), stats("open:stats", 5, 0.1)] {
            assert_eq!(hear(&mut live, &line), hear(&mut anew, &line));
        }
    }
    (live, anew)
}

proptest! {
    #[test]
    fn res_12_a_codec_made_anew_from_the_log_is_the_one_that_was(
        open in prop::bool::weighted(0.9),
        steps in steps(known(), orders(vec!["u", "v"])),
    ) {
        let (live, anew) = both(open);
        stay_the_same(live, anew, steps)?;
    }

    #[test]
    fn res_12_what_was_written_is_recalled_for_what_it_was(order in orders(vec!["u", "v"])) {
        let mut codec = at_work();
        if matches!(order, Order::Prompt { .. }) {
            codec = open();
        } else {
            for id in ["u", "v"] {
                said(&mut codec, &json!({"type": "extension_ui_request", "id": id, "method": "input", "title": "t"}));
            }
        }
        let mut anew = codec.clone();
        let told = codec.tell(&order).unwrap();
        let recalled = recall_all(&mut anew, &told);
        let expected = match order {
            Order::Prompt { number: None, .. } => vec![WasTold::Prompt],
            Order::Prompt { number: Some(number), .. } | Order::Steer { number, .. } => vec![WasTold::Message(number)],
            // It cancels the dialogs as well.
            Order::Interrupt => {
                vec![WasTold::Interrupt, WasTold::Answer("u".into()), WasTold::Answer("v".into())]
            }
            Order::Answer { key, .. } => vec![WasTold::Answer(key)],
            Order::StopInner { key } => vec![WasTold::StopInner(key)],
            Order::Close => vec![],
        };
        prop_assert_eq!(recalled, expected);
        prop_assert_eq!(&codec, &anew);
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
fn res_12_a_steer_that_the_log_has_after_the_end_of_its_turn_is_taken_out_of_the_queue_all_the_same() {
    let (mut live, mut anew) = (at_work(), at_work());
    // Given before the end was heard; the log has it after that.
    let told = live.tell(&steer(4)).unwrap();
    let asked = hear(&mut live, &settled(false));
    assert_eq!(asked, hear(&mut anew, &settled(false)));
    assert_eq!(recall_all(&mut anew, &told), [WasTold::Message(MessageNumber(4))]);
    let cleared = json!({"id": "clear", "type": "response", "success": true, "data": {"steering": ["left"]}});
    for event in [queue(1), ok("m4", "queued"), stats("stats", 0, 0.0), queue(0)] {
        assert_eq!(hear(&mut live, &event), hear(&mut anew, &event), "{event}");
    }
    let last = [Said::Declined(MessageNumber(4)), finished("")];
    assert_eq!((said(&mut live, &cleared), said(&mut anew, &cleared)), (last.to_vec(), last.to_vec()));
    assert_eq!(live, anew);
}

#[test]
fn a_conversation_whose_beginning_is_lost_is_taken_over_all_the_same() {
    let told = open().tell(&prompt("x")).unwrap();
    let mut anew = Rpc::default();
    anew.open(&job(Some(SESSION), |_| {}));
    assert_eq!(recall_all(&mut anew, &told), [WasTold::Prompt]);
    assert_eq!(said(&mut anew, &ok("prompt:1", "started")), [Said::Opened { session: None }]);
    assert_eq!(said(&mut anew, &message("hi", "stop"))[0], Said::Message("hi".into()));
}
