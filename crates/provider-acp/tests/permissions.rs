//! What an agent asks for: permissions, forms, files and terminals. Frames as agents send them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::needless_pass_by_value, reason = "tests read better with values")]

mod support;

use serde_json::{Value, json};
use subagent_model::{Answer, Ask, AskOption, Choice, Subject};
use subagent_provider::{Order, Said, TurnEnd, WasTold};
use support::{Talk, asked, choice, finished, prompt, text};

const PERMISSION: &str = "session/request_permission";
const FORM: &str = "elicitation/create";

fn permission(kinds: &[&str]) -> Value {
    let options: Vec<_> = kinds
        .iter()
        .map(|kind| json!({"optionId": format!("id-{kind}"), "name": kind, "kind": kind}))
        .collect();
    let call = json!({"toolCallId": "t", "title": "`npm test`", "kind": "execute", "status": "pending",
        "rawInput": {"command": "npm test", "description": "Run the tests"}});
    json!({"sessionId": "s1", "toolCall": call, "options": options})
}

fn form(properties: Value, required: &[&str]) -> Value {
    json!({"mode": "form", "sessionId": "s1", "message": "Which?",
        "requestedSchema": {"type": "object", "properties": properties, "required": required}})
}

fn selected(option: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": option}})
}

fn cancelled() -> Value {
    json!({"outcome": {"outcome": "cancelled"}})
}

fn ask(talk: &mut Talk, id: impl Into<Value>, method: &str, params: Value) -> Ask {
    let (said, wrote) = talk.request(id, method, params);
    assert!(wrote.is_empty(), "it waits");
    asked(&said)
}

#[test]
fn perm_01_a_permission_is_asked_with_the_full_action() {
    let mut talk = Talk::prompted();
    let options = ["allow_always", "allow_once", "reject_once", "allow_on_tuesdays"];
    let ask = ask(&mut talk, 5, PERMISSION, permission(&options));
    let option = |id: &str, kind| AskOption { id: format!("id-{id}"), name: id.to_owned(), kind };
    let expected = Subject::Approval {
        action: "execute".into(),
        title: "npm test".into(),
        detail: Some("`npm test`\n{\"command\":\"npm test\",\"description\":\"Run the tests\"}".into()),
        options: vec![
            option("allow_always", Choice::AllowAlways),
            option("allow_once", Choice::AllowOnce),
            option("reject_once", Choice::DenyOnce),
        ],
    };
    assert_eq!((ask.key.as_str(), ask.subject.clone()), ("5", expected));
    let wrote = talk.tell_answer(&ask, choice(Choice::AllowOnce)).unwrap();
    assert_eq!((&wrote["id"], &wrote["result"]), (&json!(5), &selected("id-allow_once")));
    assert!(talk.tell_answer(&ask, choice(Choice::DenyOnce)).is_err(), "it is answered once");
    assert_eq!(talk.ends(json!({"stopReason": "end_turn"})), [finished()], "the run goes on");
    assert_eq!(talk.taken_over().1, [WasTold::Prompt, WasTold::Answer("5".into())]);
}

#[test]
fn perm_01_the_action_is_what_policies_can_match() {
    let of = |call: Value| {
        let mut talk = Talk::prompted();
        // What was told of the call before counts as well.
        let known = json!({"toolCallId": "t", "title": "Known title", "kind": "edit", "rawInput": {"path": "/known"}});
        talk.update("tool_call", known);
        let params = json!({"sessionId": "s1", "toolCall": call, "options": []});
        match ask(&mut talk, 1, PERMISSION, params).subject {
            Subject::Approval { action, title, .. } => (action, title),
            Subject::Question { .. } => panic!("it is an approval"),
        }
    };
    let pair = |action: &str, title: &str| (action.to_owned(), title.to_owned());
    assert_eq!(of(json!({"toolCallId": "t"})), pair("edit", "/known"));
    for (call, expected) in [
        (json!({"kind": "execute", "rawInput": {"command": ["ls", "-l"]}}), pair("execute", "ls -l")),
        (json!({"kind": "execute", "title": "rm x"}), pair("execute", "rm x")),
        (json!({"kind": "fetch", "title": "t", "rawInput": {"url": "http://x"}}), pair("fetch", "http://x")),
        (json!({"kind": "edit", "title": "t", "locations": [{"path": "/a", "line": 3}]}), pair("edit", "/a")),
        (json!({"kind": "read", "rawInput": {"filePath": "/b"}, "locations": []}), pair("read", "/b")),
        (json!({"title": "Use the tool x"}), pair("other", "Use the tool x")),
        (json!({"kind": 7, "title": null, "rawInput": "x"}), pair("other", "an action without a name")),
    ] {
        let mut call = call;
        call["toolCallId"] = json!("other");
        assert_eq!(of(call.clone()), expected, "{call}");
    }
}

#[test]
fn acp_08_an_option_is_chosen_by_its_kind_in_any_order() {
    use Choice::{AllowAlways, AllowOnce, DenyAlways, DenyOnce};
    for (offered, answer, expected) in [
        (&["allow_always", "allow_once", "reject_once"][..], AllowOnce, selected("id-allow_once")),
        (&["reject_once", "allow_once", "allow_always"], AllowOnce, selected("id-allow_once")),
        // "Always" is remembered by the daemon, which can take it back.
        (&["allow_always", "allow_once"], AllowAlways, selected("id-allow_once")),
        (&["reject_once", "allow_always"], AllowAlways, selected("id-allow_always")),
        // A yes for once is never made one for ever.
        (&["allow_always", "reject_once"], AllowOnce, cancelled()),
        (&["reject_always", "allow_once", "reject_once"], DenyAlways, selected("id-reject_once")),
        (&["allow_once", "reject_always"], DenyOnce, selected("id-reject_always")),
        // Without a fitting option nothing is chosen.
        (&["allow_once", "allow_always"], DenyOnce, cancelled()),
        (&["allow_session", "maybe"], AllowOnce, cancelled()),
        (&[], AllowOnce, cancelled()),
    ] {
        let mut talk = Talk::prompted();
        let ask = ask(&mut talk, 1, PERMISSION, permission(offered));
        let wrote = talk.tell_answer(&ask, choice(answer)).unwrap();
        assert_eq!(wrote["result"], expected, "{answer:?} of {offered:?}");
    }
}

#[test]
fn acp_08_ids_of_requests_are_given_back_as_they_are() {
    for id in [json!(0), json!(7), json!(-1), json!("7"), json!("a \"b\"")] {
        let mut talk = Talk::prompted();
        let ask = ask(&mut talk, id.clone(), PERMISSION, permission(&["allow_once"]));
        let wrote = talk.tell_answer(&ask, choice(Choice::AllowOnce)).unwrap();
        assert_eq!(wrote["id"], id);
        assert_eq!(talk.taken_over().1, [WasTold::Prompt, WasTold::Answer(ask.key.clone())]);
    }
    let mut talk = Talk::prompted();
    let number = ask(&mut talk, 7, PERMISSION, permission(&["allow_once"]));
    let text = ask(&mut talk, "7", PERMISSION, permission(&["reject_once"]));
    assert_ne!(number.key, text.key, "a number and its text are two ids");
}

#[test]
fn acp_09_a_cancel_answers_every_open_request_and_takes_each_back() {
    let mut talk = Talk::prompted();
    let one = ask(&mut talk, 1, PERMISSION, permission(&["allow_once"]));
    let two = ask(&mut talk, "two", PERMISSION, permission(&["allow_once"]));
    let three = ask(&mut talk, 3, FORM, form(json!({"a": {"type": "string"}}), &["a"]));
    let done = ask(&mut talk, 4, PERMISSION, permission(&["allow_once"]));
    talk.tell_answer(&done, choice(Choice::AllowOnce)).unwrap();
    let wrote = talk.tell(&Order::Interrupt).unwrap();
    assert_eq!(wrote[0]["method"], "session/cancel", "the cancel goes first");
    let mut answers: Vec<_> =
        wrote[1..].iter().map(|line| (line["id"].clone(), line["result"].clone())).collect();
    answers.sort_by_key(|(id, _)| id.to_string());
    let expected =
        [(json!("two"), cancelled()), (json!(1), cancelled()), (json!(3), json!({"action": "cancel"}))];
    assert_eq!(answers, expected);
    // Whoever answers now is too late.
    assert!(talk.tell_answer(&one, choice(Choice::AllowOnce)).is_err());
    // What it asks before it hears of the cancel is answered at once, and nobody is asked.
    let (said, wrote) = talk.request(5, PERMISSION, permission(&["allow_once"]));
    assert_eq!(wrote[0]["result"], cancelled());
    let mut taken: Vec<_> = said.into_iter().collect();
    taken.sort_by_key(|said| format!("{said:?}"));
    let back = |ask: &Ask| Said::TookBack { key: ask.key.clone() };
    let mut expected = vec![back(&one), back(&two), back(&three)];
    expected.sort_by_key(|said| format!("{said:?}"));
    assert_eq!(taken, expected, "each leaves the list");
    assert_eq!(talk.ends(json!({"stopReason": "cancelled"})), [Said::Done(TurnEnd::Cancelled)]);
    let (_, told) = talk.taken_over();
    assert!(told.contains(&WasTold::Interrupt) && told.contains(&WasTold::Answer(one.key)));
}

#[test]
fn acp_09_what_is_open_at_the_end_of_a_turn_is_answered_as_well() {
    let mut talk = Talk::prompted();
    let one = ask(&mut talk, 1, PERMISSION, permission(&["allow_once"]));
    let (said, wrote) = talk.answer(4, json!({"stopReason": "end_turn"}));
    assert_eq!(said, [Said::TookBack { key: one.key.clone() }, finished()]);
    assert_eq!(wrote[0]["result"], cancelled());
    assert!(talk.tell_answer(&one, choice(Choice::AllowOnce)).is_err());
}

#[test]
fn acp_09_nobody_can_be_asked_before_the_first_prompt_and_between_two() {
    let mut talk = Talk::open();
    for _ in 0..2 {
        let (said, wrote) = talk.request(1, PERMISSION, permission(&["allow_once"]));
        assert_eq!((said, &wrote[0]["result"]), (vec![], &cancelled()));
        let (said, wrote) = talk.request(2, FORM, form(json!({}), &[]));
        assert_eq!((said, &wrote[0]["result"]), (vec![], &json!({"action": "cancel"})));
        let id = talk.tell(&prompt("x")).unwrap()[0]["id"].as_u64().unwrap();
        talk.answer(id, json!({"stopReason": "end_turn"}));
    }
}

#[test]
fn a_request_that_the_agent_gives_up_is_taken_back() {
    let mut talk = Talk::prompted();
    let one = ask(&mut talk, "p", PERMISSION, permission(&["allow_once"]));
    let cancel = json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "p"}});
    let (said, wrote) = talk.hears(&cancel);
    assert_eq!(said, [Said::TookBack { key: one.key.clone() }]);
    assert_eq!((&wrote[0]["id"], &wrote[0]["error"]["code"]), (&json!("p"), &json!(-32800)));
    assert_eq!(talk.hears(&cancel), (vec![], vec![]), "once");
    assert!(talk.tell_answer(&one, choice(Choice::AllowOnce)).is_err());
}

#[test]
fn acp_10_files_and_terminals_are_refused_wherever_they_lie() {
    let mut talk = Talk::prompted();
    for (at, (method, params)) in [
        ("fs/read_text_file", json!({"sessionId": "s1", "path": "/etc/shadow"})),
        ("fs/read_text_file", json!({"sessionId": "s1", "path": "/work/a"})),
        ("fs/write_text_file", json!({"sessionId": "s1", "path": "/etc/passwd", "content": "x"})),
        ("terminal/create", json!({"sessionId": "s1", "command": "sh", "cwd": "/"})),
        ("terminal/output", json!({"sessionId": "s1", "terminalId": "t"})),
    ]
    .into_iter()
    .enumerate()
    {
        let (_, wrote) = talk.request(at, method, params);
        assert_eq!((&wrote[0]["id"], &wrote[0]["error"]["code"]), (&json!(at), &json!(-32601)), "{method}");
        assert!(wrote[0]["error"]["message"].as_str().unwrap().contains("not served here"));
    }
    assert_eq!(talk.ends(json!({"stopReason": "end_turn"})), [finished()]);
}

#[test]
fn acp_08_a_permission_that_cannot_be_understood_is_refused() {
    let mut talk = Talk::prompted();
    for params in [json!({"sessionId": "s1"}), json!({"toolCall": {"title": "x"}}), json!(null)] {
        let (said, wrote) = talk.request(1, PERMISSION, params);
        assert_eq!(wrote[0]["error"]["code"], -32602);
        assert!(matches!(said[..], [Said::Notice(_)]));
    }
}

#[test]
fn perm_05_a_question_is_asked_and_its_answer_fills_the_form() {
    let colors = json!({"type": "string", "title": "The color", "oneOf": [
        {"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]});
    let plain = |kind: &str| json!({"type": kind});
    let two = json!({"a": {"type": "string", "enum": ["x", "y"]}, "n": {"type": "integer", "description": "how many"}});
    let accept = |content: Value| json!({"action": "accept", "content": content});
    let decline = || json!({"action": "decline"});
    for (properties, required, answer, expected) in [
        (json!({"color": colors}), &["color"][..], "Blue", accept(json!({"color": "b"}))),
        (json!({"color": colors}), &["color"], "r", accept(json!({"color": "r"}))),
        (json!({"color": colors}), &["color"], "green", decline()),
        (json!({"a": plain("string")}), &["a"], "as it is\n", accept(json!({"a": "as it is\n"}))),
        (json!({"n": plain("integer")}), &["n"], " 7 ", accept(json!({"n": 7}))),
        (json!({"n": plain("integer")}), &["n"], "7.5", decline()),
        (json!({"n": plain("number")}), &["n"], "7.5", accept(json!({"n": 7.5}))),
        (json!({"b": plain("boolean")}), &["b"], "Yes", accept(json!({"b": true}))),
        (json!({"b": plain("boolean")}), &["b"], "perhaps", decline()),
        (
            json!({"s": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}}}),
            &["s"],
            "x, y",
            accept(json!({"s": ["x", "y"]})),
        ),
        (two.clone(), &["a"], r#"{"a":"x","n":2}"#, accept(json!({"a": "x", "n": 2}))),
        (two.clone(), &["a"], r#"{"a":"x"}"#, accept(json!({"a": "x"}))),
        (two.clone(), &["a"], r#"{"n":2}"#, decline()),
        (two.clone(), &["a"], r#"{"a":"z"}"#, decline()),
        (two.clone(), &["a"], r#"{"a":"x","more":1}"#, decline()),
        (two, &["a"], "x", decline()),
        (json!({}), &[], "yes", accept(json!({}))),
        (json!({}), &[], "no", decline()),
    ] {
        let mut talk = Talk::prompted();
        let ask = ask(&mut talk, "f", FORM, form(properties.clone(), required));
        let wrote = talk.tell_answer(&ask, text(answer)).unwrap();
        assert_eq!(wrote["result"], expected, "{answer:?} for {properties}");
        let said = talk.ends(json!({"stopReason": "end_turn"}));
        assert_eq!(
            said.len(),
            if expected == decline() { 2 } else { 1 },
            "what did not fit is told: {said:?}"
        );
    }
}

#[test]
fn perm_05_a_question_names_what_can_be_answered() {
    let question = |properties, required: &[&str]| {
        let mut talk = Talk::prompted();
        match ask(&mut talk, 1, FORM, form(properties, required)).subject {
            Subject::Question { text, choices } => (text, choices),
            Subject::Approval { .. } => panic!("it is a question"),
        }
    };
    let one = json!({"color": {"type": "string", "title": "The color", "enum": ["red", "blue"]}});
    let (text, choices) = question(one, &[]);
    assert_eq!((text.as_str(), choices), ("Which?\nThe color", vec!["red".into(), "blue".into()]));
    let two =
        json!({"a": {"type": "string", "enum": ["x", "y"]}, "n": {"type": "integer", "title": "How many"}});
    let (text, choices) = question(two, &["a"]);
    assert_eq!(
        text,
        "Which?\nAnswer with a JSON object of these fields:\n- a: text, one of x | y\n- n: whole number, How many, may \
         be left out"
    );
    assert!(choices.is_empty());
}

#[test]
fn perm_02_nobody_who_answers_is_told_and_the_run_goes_on() {
    let mut talk = Talk::prompted();
    let question = ask(&mut talk, 1, FORM, form(json!({"a": {"type": "string"}}), &["a"]));
    assert_eq!(talk.tell_answer(&question, Answer::None).unwrap()["result"], json!({"action": "cancel"}));
    let permission = ask(&mut talk, 2, PERMISSION, permission(&["allow_once", "reject_once"]));
    let wrote = talk.tell_answer(&permission, choice(Choice::DenyOnce)).unwrap();
    assert_eq!(wrote["result"], selected("id-reject_once"));
    // What no text can answer is declined at once, and told.
    for params in [
        json!({"mode": "url", "sessionId": "s1", "elicitationId": "e", "url": "http://x", "message": "Log in"}),
        form(json!({"o": {"type": "object"}}), &["o"]),
    ] {
        let (said, wrote) = talk.request(3, FORM, params);
        assert_eq!(wrote[0]["result"], json!({"action": "decline"}));
        assert!(matches!(said[..], [Said::Notice(_)]));
    }
    assert_eq!(talk.ends(json!({"stopReason": "end_turn"})), [finished()]);
}

#[test]
fn perm_03_an_open_request_is_still_open_after_a_restart() {
    let mut talk = Talk::prompted();
    let permission = ask(&mut talk, 1, PERMISSION, permission(&["allow_once"]));
    let question = ask(&mut talk, 2, FORM, form(json!({"n": {"type": "integer"}}), &["n"]));
    let (mut anew, _) = talk.taken_over();
    for (ask, answer, expected) in [
        (&permission, choice(Choice::AllowOnce), selected("id-allow_once")),
        (&question, text("7"), json!({"action": "accept", "content": {"n": 7}})),
    ] {
        let order = Order::Answer { key: ask.key.clone(), ask: Box::new(ask.clone()), answer, reason: None };
        let wrote: Value = serde_json::from_slice(&anew.tell(&order).unwrap()).unwrap();
        assert_eq!(wrote["result"], expected);
    }
}

#[test]
fn so_many_requests_wait_and_no_more() {
    let mut talk = Talk::prompted();
    let mut asks = 0;
    for id in 0..100 {
        let (said, wrote) = talk.request(id, PERMISSION, permission(&["allow_once"]));
        asks += said.iter().filter(|said| matches!(said, Said::Asked(_))).count();
        assert_eq!(
            wrote.len(),
            usize::from(!matches!(said[..], [Said::Asked(_)])),
            "each waits or is answered"
        );
    }
    assert_eq!(asks, 64);
    assert_eq!(talk.tell(&Order::Interrupt).unwrap().len(), 65);
}
