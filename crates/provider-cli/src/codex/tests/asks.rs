use serde_json::{Value, json};
use subagent_model::{Answer, Ask, Choice, Subject};
use subagent_provider::{Codec, Said, WasTold};

use super::{THREAD, TURN, at_work, ends, frames, hear, item, said, told};
use crate::testing::{answer, asked};

fn request(id: &Value, method: &str, params: &Value) -> Value {
    let mut params = params.clone();
    params["threadId"] = json!(THREAD);
    params["turnId"] = json!(TURN);
    json!({"id": id, "method": method, "params": params})
}

fn choice(choice: Choice) -> Answer {
    Answer::Choice { choice }
}

fn text(text: &str) -> Answer {
    Answer::Text { text: text.to_owned() }
}

fn titled(ask: &Ask) -> (&str, &str) {
    match &ask.subject {
        Subject::Approval { action, title, .. } => (action, title),
        Subject::Question { text, .. } => ("question", text),
    }
}

const COMMAND: &str = "item/commandExecution/requestApproval";

#[test]
fn perm_01_a_command_is_asked_for_with_the_full_action_and_the_answer_goes_on() {
    for (given, decision) in [
        (Choice::AllowOnce, "accept"),
        // For ever is remembered by the supervisor, where it can be taken back.
        (Choice::AllowAlways, "accept"),
        // Observed: a "cancel" would end the turn, and a decline is taken though it is not offered.
        (Choice::DenyOnce, "decline"),
        (Choice::DenyAlways, "decline"),
    ] {
        let mut codec = at_work();
        let params = json!({"kind": "command", "itemId": "i", "command": "/bin/bash -lc 'rm x'", "cwd": "/work",
            "reason": "to clean up", "availableDecisions": ["accept", "cancel"]});
        let ask = asked(&mut codec, &request(&json!(0), COMMAND, &params));
        assert_eq!((ask.key.as_str(), titled(&ask)), ("0", ("execute", "rm x")));
        let Subject::Approval { detail, options, .. } = &ask.subject else { panic!() };
        assert_eq!(detail.as_deref(), Some("to clean up\nin /work"));
        assert!(options.iter().all(|option| matches!(option.kind, Choice::AllowOnce | Choice::DenyOnce)));
        let answered = told(&mut codec, &answer(&ask, choice(given)));
        assert_eq!(answered, [json!({"id": 0, "result": {"decision": decision}})]);
        assert!(codec.tell(&answer(&ask, choice(given))).is_err(), "once");
    }
}

#[test]
fn what_a_request_is_about_is_told_whole() {
    let mut codec = at_work();
    let change = json!({"type": "fileChange", "id": "i", "status": "inProgress", "changes": [
        {"path": "/w/a", "kind": {"type": "add"}, "diff": "x"},
        {"path": "/w/b", "kind": {"type": "update", "move_path": "/w/c"}, "diff": "y"}]});
    said(&mut codec, &item("started", &change));
    let edit = asked(
        &mut codec,
        &request(&json!("r-1"), "item/fileChange/requestApproval", &json!({"itemId": "i"})),
    );
    assert_eq!((edit.key.as_str(), titled(&edit)), ("\"r-1\"", ("edit", "add /w/a, /w/b -> /w/c")));
    let network = json!({"itemId": "j", "command": "curl x", "networkApprovalContext": {"host": "x.org", "protocol": "https"}});
    assert_eq!(
        titled(&asked(&mut codec, &request(&json!(1), COMMAND, &network))),
        ("fetch", "https://x.org")
    );
    let typed = json!({"kind": "writeStdin", "itemId": "j", "command": "y"});
    assert_eq!(titled(&asked(&mut codec, &request(&json!(2), COMMAND, &typed))), ("input", "y"));
    let long = |end: &str| json!({"itemId": "k", "command": format!("echo {}{end}", "x".repeat(20_000))});
    let one = asked(&mut codec, &request(&json!(3), COMMAND, &long("a")));
    let two = asked(&mut codec, &request(&json!(4), COMMAND, &long("b")));
    assert_ne!(titled(&one), titled(&two), "a standing answer to one is none to the other");
}

#[test]
fn permissions_are_granted_as_they_were_asked_for_and_for_this_turn() {
    let params = json!({"itemId": "i", "cwd": "/w", "reason": null,
        "permissions": {"network": {"enabled": true}, "fileSystem": null}});
    let frame = request(&json!(5), "item/permissions/requestApproval", &params);
    let mut codec = at_work();
    let ask = asked(&mut codec, &frame);
    let granted = told(&mut codec, &answer(&ask, choice(Choice::AllowAlways)));
    assert_eq!(granted[0]["result"], json!({"permissions": {"network": {"enabled": true}}, "scope": "turn"}));
    let mut codec = at_work();
    let ask = asked(&mut codec, &frame);
    let denied = told(&mut codec, &answer(&ask, choice(Choice::DenyOnce)));
    assert_eq!(denied[0]["result"], json!({"permissions": {}, "scope": "turn"}));
}

#[test]
fn questions_and_servers_are_answered_in_their_own_form() {
    let input = "item/tool/requestUserInput";
    let one = json!({"questions": [{"id": "q", "header": "h", "question": "why?", "options": [{"label": "a"}, {"label": "b"}]}]});
    let two = json!({"questions": [{"id": "q", "question": "why?"}, {"id": "r", "question": "how?"}]});
    let server = "mcpServer/elicitation/request";
    let form = |properties: Value| {
        json!({"serverName": "s", "mode": "form", "message": "m",
        "requestedSchema": {"type": "object", "properties": properties}})
    };
    let url =
        json!({"serverName": "s", "mode": "url", "message": "m", "url": "https://x", "elicitationId": "e"});
    let accepted = |content: Value| json!({"action": "accept", "content": content, "_meta": null});
    let declined = json!({"action": "decline", "content": null, "_meta": null});
    for (method, params, given, result) in [
        (input, one.clone(), text("a"), json!({"answers": {"q": {"answers": ["a"]}}})),
        (input, one, Answer::None, json!({"answers": {}})),
        (input, two, text("x"), json!({"answers": {"q": {"answers": ["x"]}, "r": {"answers": ["x"]}}})),
        (server, form(json!({})), choice(Choice::AllowOnce), accepted(json!({}))),
        (server, form(json!({})), choice(Choice::DenyOnce), declined.clone()),
        (server, form(json!({"name": {"type": "string"}})), text("Bob"), accepted(json!({"name": "Bob"}))),
        (server, form(json!({"a": {"type": "number"}})), text("{\"a\":1}"), accepted(json!({"a": 1}))),
        (server, form(json!({"a": {"type": "number"}})), text("one"), declined.clone()),
        (server, form(json!({"a": {"type": "number"}})), Answer::None, declined.clone()),
        (server, url.clone(), choice(Choice::AllowOnce), accepted(Value::Null)),
        (server, url, choice(Choice::DenyOnce), declined),
    ] {
        let mut codec = at_work();
        let ask = asked(&mut codec, &request(&json!(1), method, &params));
        assert_eq!(told(&mut codec, &answer(&ask, given.clone()))[0]["result"], result, "{params} {given:?}");
    }
}

#[test]
fn prov_15_a_request_that_is_not_known_is_answered_with_an_error_and_the_run_goes_on() {
    for method in
        ["item/tool/call", "attestation/generate", "execCommandApproval", "applyPatchApproval", "to/come"]
    {
        let mut codec = at_work();
        let heard = hear(&mut codec, &request(&json!(9), method, &json!({})));
        let reply = frames(&heard.reply);
        assert_eq!((&reply[0]["id"], &reply[0]["error"]["code"]), (&json!(9), &json!(-32601)), "{method}");
        assert!(matches!(&heard.said[..], [Said::Notice(text)] if text.contains(method)), "{:?}", heard.said);
        assert_eq!(codec.recall(reply[0].to_string().as_bytes()), [], "no answer of ours");
        // The end of the turn decides.
        let heard = said(&mut codec, &ends(THREAD, TURN, "completed", &Value::Null));
        assert!(matches!(heard.last(), Some(Said::Done(_))));
    }
}

#[test]
fn no_request_is_left_open() {
    let mut codec = at_work();
    let command = |id: u64| request(&json!(id), COMMAND, &json!({"itemId": "i", "command": "ls"}));
    for id in 0..64 {
        asked(&mut codec, &command(id));
    }
    let heard = hear(&mut codec, &command(64));
    assert_eq!(frames(&heard.reply)[0]["error"]["code"], -32603);
    assert_eq!(said(&mut codec, &command(3)), [], "known already");
    let resolved = |id: u64| json!({"method": "serverRequest/resolved", "params": {"threadId": THREAD, "requestId": id}});
    assert_eq!(said(&mut codec, &resolved(3)), [Said::TookBack { key: "3".into() }]);
    assert_eq!(said(&mut codec, &resolved(3)), []);
    said(&mut codec, &ends(THREAD, TURN, "interrupted", &Value::Null));
    // Between turns nobody would answer.
    let heard = hear(&mut codec, &command(70));
    assert_eq!((frames(&heard.reply).len(), heard.said.len()), (1, 1));
    // A subagent of codex asks like anybody else.
    let mut below = command(71);
    below["params"]["threadId"] = json!("below");
    asked(&mut codec, &below);
}

#[test]
fn perm_03_a_request_survives_a_restart_and_its_answer_is_recalled() {
    let mut codec = at_work();
    let ask = asked(&mut codec, &request(&json!(0), COMMAND, &json!({"itemId": "i", "command": "ls"})));
    let mut anew = codec.clone();
    let answered = codec.tell(&answer(&ask, choice(Choice::AllowOnce))).unwrap();
    assert_eq!(anew.recall(&answered[..answered.len() - 1]), [WasTold::Answer("0".into())]);
    assert_eq!(codec, anew);
}
