use serde_json::{Value, json};
use subagent_model::{Answer, Choice, Subject};
use subagent_provider::{Codec, Order, Said};

use super::{Rpc, at_work, hear, lines_of, open, said, told};
use crate::testing::{answer, asked};

fn ui(method: &str, params: Value) -> Value {
    let mut request = params;
    request["type"] = json!("extension_ui_request");
    request["id"] = json!("u-1");
    request["method"] = json!(method);
    request
}

#[test]
fn prov_20_each_dialog_of_an_extension_is_answered_in_its_own_form() {
    let choice = |choice| Answer::Choice { choice };
    let text = |text: &str| Answer::Text { text: text.to_owned() };
    let gate = || ui("select", json!({"title": "Dangerous command: rm x", "options": ["Allow", "Block"]}));
    let confirm = || ui("confirm", json!({"title": "Clear?", "message": "All is lost."}));
    let select = || ui("select", json!({"title": "Which?", "options": ["red", "Green", "blue"]}));
    for (request, given, field, value) in [
        (confirm(), choice(Choice::AllowAlways), "confirmed", json!(true)),
        (confirm(), choice(Choice::DenyOnce), "confirmed", json!(false)),
        (confirm(), Answer::None, "cancelled", json!(true)),
        // A permission by any other name: chosen by its kind, never by its place.
        (gate(), choice(Choice::AllowOnce), "value", json!("Allow")),
        (gate(), choice(Choice::DenyAlways), "value", json!("Block")),
        (
            ui("select", json!({"title": "t", "options": ["No", "Yes"]})),
            choice(Choice::AllowOnce),
            "value",
            json!("Yes"),
        ),
        (select(), text("green"), "value", json!("Green")),
        (select(), text("pink"), "cancelled", json!(true)),
        (select(), Answer::None, "cancelled", json!(true)),
        (ui("input", json!({"title": "Name?", "placeholder": "p"})), text("Bob"), "value", json!("Bob")),
        (ui("editor", json!({"title": "Edit", "prefill": "a\nb"})), text("c"), "value", json!("c")),
        (ui("editor", json!({"title": "Edit"})), Answer::None, "cancelled", json!(true)),
    ] {
        let mut codec = at_work();
        let ask = asked(&mut codec, &request);
        let told = told(&mut codec, &answer(&ask, given.clone()));
        let mut expected = json!({"type": "extension_ui_response", "id": "u-1"});
        expected[field] = value;
        assert_eq!(told, [expected], "{request} {given:?}");
        assert!(codec.tell(&answer(&ask, given)).is_err(), "once");
    }
}

#[test]
fn a_permission_is_told_with_its_action_and_a_question_with_its_choices() {
    let gate = asked(
        &mut at_work(),
        &ui("select", json!({"title": "Dangerous command: rm x", "options": ["Allow", "Block"]})),
    );
    let Subject::Approval { action, title, options, .. } = gate.subject else { panic!() };
    assert_eq!((action.as_str(), title.as_str(), options.len()), ("confirm", "Dangerous command: rm x", 2));
    let wide = ui("select", json!({"title": "t", "options": ["Allow", "Allow always", "Block"]}));
    let Subject::Question { choices, .. } = asked(&mut at_work(), &wide).subject else { panic!() };
    assert_eq!(choices.len(), 3);
}

#[test]
fn prov_20_what_nobody_can_answer_is_cancelled_at_once_and_told() {
    for (mut codec, request) in [
        (at_work(), ui("to_come", json!({}))),
        // Between turns, and before the first.
        (open(), ui("confirm", json!({"title": "Trust this project?"}))),
        (Rpc::default(), ui("confirm", json!({"title": "Trust this project?"}))),
    ] {
        let heard = hear(&mut codec, &request);
        let cancelled = json!({"type": "extension_ui_response", "id": "u-1", "cancelled": true});
        assert_eq!(lines_of(&heard.reply), [cancelled]);
        assert!(matches!(heard.said[..], [Said::Notice(_)]));
    }
    let mut codec = at_work();
    let notify = ui("notify", json!({"message": "done", "notifyType": "info"}));
    assert_eq!(said(&mut codec, &notify), [Said::Notice("done".into())]);
    for method in ["setStatus", "setWidget", "setTitle", "set_editor_text"] {
        assert_eq!(said(&mut codec, &ui(method, json!({}))), []);
    }
}

#[test]
fn an_abort_cancels_what_it_would_wait_for() {
    // Observed: an abort waits for an open dialog without end.
    let mut codec = at_work();
    asked(&mut codec, &ui("confirm", json!({"title": "Sure?"})));
    let orders = told(&mut codec, &Order::Interrupt);
    let kinds: Vec<_> = orders.iter().map(|order| order["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["clear_queue", "abort", "extension_ui_response"]);
    let heard = hear(&mut codec, &ui("confirm", json!({"title": "Really?"})));
    assert_eq!(lines_of(&heard.reply)[0]["cancelled"], true, "nor does it wait for another");
}
