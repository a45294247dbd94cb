//! What it asks, and how it is answered.

use serde_json::{Value, json};
use subagent_model::{Answer, Ask, Choice, Permissions, Subject, ToolFilter};
use subagent_provider::{Codec, Order, Said, WasTold};

use super::super::Claude;
use super::{ended, hear, line, opened, opened_with, prompted, replied, request, result, said, spec, told};

fn tool(name: &str, input: &Value) -> Value {
    json!({"subtype": "can_use_tool", "tool_name": name, "display_name": name, "input": input,
        "tool_use_id": "toolu_1", "permission_suggestions": [{"type": "addRules", "behavior": "allow",
        "rules": [{"toolName": name}], "destination": "localSettings"}]})
}

fn asked(claude: &mut Claude, key: &str, asking: &Value) -> Ask {
    match said(claude, &request(key, asking)).pop() {
        Some(Said::Asked(ask)) => ask,
        other => panic!("{asking} asks nobody: {other:?}"),
    }
}

fn answer(ask: Ask, answer: Answer, reason: Option<&str>) -> Order {
    Order::Answer { key: ask.key.clone(), ask: Box::new(ask), answer, reason: reason.map(str::to_owned) }
}

fn choice(choice: Choice) -> Answer {
    Answer::Choice { choice }
}

const QUESTION: &str = r#"{"questions":[{"question":"Which?","header":"Pick","multiSelect":false,
    "options":[{"label":"A","description":"the first"},{"label":"B","description":"the other"}]}]}"#;

fn question() -> Value {
    tool("AskUserQuestion", &serde_json::from_str(QUESTION).unwrap())
}

#[test]
fn perm_01_a_permission_is_asked_with_the_whole_action_in_words_that_policies_match() {
    let mut claude = opened();
    let asking = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "rm -rf x"},
        "agent_id": "a1", "blocked_path": "/work/x", "decision_reason": "a rule", "description": "tidy up"});
    let ask = asked(&mut claude, "k", &asking);
    let Subject::Approval { action, title, detail, options } = &ask.subject else { panic!() };
    assert_eq!((ask.key.as_str(), action.as_str(), title.as_str()), ("k", "execute", "rm -rf x"));
    let detail = detail.as_ref().unwrap();
    for part in ["tidy up", "a1", "/work/x", "a rule", r#"{"command":"rm -rf x"}"#] {
        assert!(detail.contains(part), "{detail}");
    }
    let kinds: Vec<_> = options.iter().map(|option| option.kind).collect();
    assert_eq!(kinds, [Choice::AllowOnce, Choice::AllowAlways, Choice::DenyOnce]);
    assert_eq!(said(&mut claude, &request("k", &asking)), [], "asked twice it is one question");
    for (name, input, action, title) in [
        ("Write", json!({"file_path": "/a/b", "content": "x"}), "edit", "/a/b"),
        ("NotebookEdit", json!({"notebook_path": "/n"}), "edit", "/n"),
        ("Read", json!({"file_path": "/a"}), "read", "/a"),
        ("Grep", json!({"pattern": "x", "path": "/a"}), "read", "x in /a"),
        ("Glob", json!({"pattern": "*.rs"}), "read", "*.rs"),
        ("WebFetch", json!({"url": "https://a.example", "prompt": "p"}), "fetch", "https://a.example"),
        ("WebSearch", json!({"query": "q"}), "fetch", "q"),
        ("mcp__db__drop", json!({"table": "t"}), "other", r#"mcp__db__drop {"table":"t"}"#),
        // Not as it should be: then all of it is shown.
        ("Bash", json!({"command": ["a", "b"]}), "execute", r#"Bash {"command":["a","b"]}"#),
        ("Bash", json!(7), "execute", "Bash 7"),
    ] {
        let ask = asked(&mut opened(), "k", &tool(name, &input));
        let Subject::Approval { action: found, title: shown, .. } = &ask.subject else { panic!() };
        assert_eq!((found.as_str(), shown.as_str()), (action, title));
    }
}

#[test]
fn perm_01_an_action_that_is_too_long_to_show_is_told_from_every_other() {
    let title = |end: &str| {
        let command = format!("{}{end}", "é".repeat(40_000));
        let ask = asked(&mut opened(), "k", &tool("Bash", &json!({"command": command})));
        let Subject::Approval { title, detail, .. } = ask.subject else { panic!() };
        assert!(title.len() <= 16 * 1024 && detail.unwrap().len() <= 16 * 1024);
        title
    };
    assert!(title("a").contains("80001 bytes"));
    assert_ne!(title("a"), title("b"));
}

#[test]
fn perm_04_an_answer_is_given_as_it_was_meant_and_changes_no_setting_of_the_user() {
    for (chosen, reason, expected) in [
        (Choice::AllowOnce, None, json!({"behavior": "allow", "updatedInput": {"command": "ls", "n": 1.50}})),
        (
            Choice::AllowAlways,
            Some("x"),
            json!({"behavior": "allow", "updatedInput": {"command": "ls", "n": 1.50}}),
        ),
        (Choice::DenyOnce, Some("rule 1"), json!({"behavior": "deny", "message": "rule 1"})),
        (Choice::DenyAlways, None, json!({"behavior": "deny", "message": "This was denied."})),
    ] {
        let mut claude = opened();
        let ask = asked(&mut claude, "k", &tool("Bash", &json!({"command": "ls", "n": 1.50})));
        let given = told(&mut claude, &answer(ask, choice(chosen), reason));
        let response = json!({"subtype": "success", "request_id": "k", "response": expected});
        assert_eq!(given, json!({"type": "control_response", "response": response}));
        assert_eq!(opened().recall(given.to_string().as_bytes()), [WasTold::Answer("k".into())]);
    }
    // An input that is not kept holds as it is; so does one that was asked for before this daemon's time.
    let mut claude = opened();
    let ask =
        asked(&mut claude, "k", &tool("Write", &json!({"file_path": "/a", "content": "x".repeat(100_000)})));
    let order = answer(ask, choice(Choice::AllowOnce), None);
    assert_eq!(told(&mut claude, &order)["response"]["response"], json!({"behavior": "allow"}));
    assert_eq!(told(&mut claude, &order)["response"]["response"], json!({"behavior": "allow"}));
}

#[test]
fn prov_07_everything_that_it_asks_is_answered_and_the_unknown_with_an_error() {
    let mut claude = opened();
    let succeeds = |id: &str, response: Value| {
        json!({"type": "control_response",
            "response": {"subtype": "success", "request_id": id, "response": response}})
    };
    for (asking, expected) in [
        (json!({"subtype": "elicitation", "message": "m"}), json!({"action": "decline"})),
        (json!({"subtype": "request_user_dialog", "dialog": {}}), json!({"behavior": "cancelled"})),
        (json!({"subtype": "hook_callback", "callback_id": "c", "input": {}}), json!({})),
    ] {
        assert_eq!(replied(&mut claude, &request("k", &asking)), succeeds("k", expected));
    }
    for asking in
        [json!({"subtype": "fly", "to": "Mars"}), json!({"subtype": "mcp_message"}), json!({}), json!(7)]
    {
        let heard = hear(&mut claude, &request("k", &asking));
        let reply = line(&heard.reply);
        assert_eq!(
            (&reply["response"]["subtype"], &reply["response"]["request_id"]),
            (&json!("error"), &json!("k"))
        );
        assert!(matches!(&heard.said[..], [Said::Notice(_)]), "and people are told: {heard:?}");
    }
    // What cannot be read cannot be put before anybody.
    let unfit = json!({"subtype": "can_use_tool", "input": {}});
    assert_eq!(replied(&mut claude, &request("k", &unfit))["response"]["subtype"], "error");
    let long = "k".repeat(2_000);
    assert_eq!(
        replied(&mut claude, &request(&long, &tool("Bash", &json!({}))))["response"]["subtype"],
        "error"
    );
    // However deep the input is.
    let deep = format!(
        r#"{{"type":"control_request","request_id":"k","request":{{"subtype":"can_use_tool","tool_name":"mcp__x__y","input":{{"x":{}{}}}}}}}"#,
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    assert!(matches!(&claude.hear(deep.as_bytes()).said[..], [Said::Asked(_)]));
}

#[test]
fn prov_07_a_question_goes_to_whoever_can_answer_and_else_it_goes_on_without() {
    let mut claude = opened();
    let ask = asked(&mut claude, "k", &question());
    let choices = vec![String::from("A"), String::from("B")];
    let text = String::from("Which?\n- A: the first\n- B: the other");
    assert_eq!(ask.subject, Subject::Question { text, choices });
    let given = told(&mut claude, &answer(ask, Answer::Text { text: "B".into() }, None));
    let updated = &given["response"]["response"]["updatedInput"];
    assert_eq!(
        (&updated["answers"], &updated["questions"][0]["header"]),
        (&json!({"Which?": "B"}), &json!("Pick"))
    );
    let ask = asked(&mut claude, "l", &question());
    let given = told(&mut claude, &answer(ask, Answer::None, None));
    let denied = json!({"behavior": "deny", "message": "Nobody answers. Decide by yourself."});
    assert_eq!(given["response"]["response"], denied);
    // Several at once are answered by one text.
    let two = json!({"questions": [{"question": "a?"}, {"question": "b?", "options": [{"label": "x"}]}]});
    let ask = asked(&mut claude, "m", &tool("AskUserQuestion", &two));
    assert_eq!(ask.subject, Subject::Question { text: "a?\nb?\n- x: ".trim().into(), choices: vec![] });
    let given = told(&mut claude, &answer(ask, Answer::Text { text: "both".into() }, None));
    let answers = json!({"a?": "both", "b?": "both"});
    assert_eq!(given["response"]["response"]["updatedInput"]["answers"], answers);
    // With nobody there it is denied at once.
    let unattended = Permissions { unattended: true, ..Permissions::default() };
    let mut claude = opened_with(subagent_model::SpawnSpec { permissions: unattended, ..spec() });
    let reply = replied(&mut claude, &request("k", &question()));
    assert_eq!(reply["response"]["response"]["behavior"], "deny");
}

#[test]
fn prov_08_leaving_plan_mode_and_asking_a_person_in_it_stay_forbidden() {
    let mut plan = spec();
    plan.setup.permission_mode = Some(String::from("plan"));
    for (spec, asking) in [
        (plan.clone(), tool("ExitPlanMode", &json!({"plan": "p"}))),
        (plan, question()),
        (spec(), tool("ExitPlanMode", &json!({"plan": "p"}))),
        (spec(), tool("EnterPlanMode", &json!({}))),
    ] {
        let reply = replied(&mut opened_with(spec), &request("k", &asking));
        assert_eq!(reply["response"]["response"]["behavior"], "deny", "{asking}");
    }
}

#[test]
fn perm_07_a_tool_that_is_not_among_its_tools_is_refused_before_anybody_is_asked() {
    let allow = Some(["Read", "mcp__db", "mcp__web__get"].map(String::from).to_vec());
    let mut spec = spec();
    spec.setup.tools = ToolFilter { allow, deny: vec![String::from("mcp__db__drop")] };
    for (name, allowed) in [
        ("Read", true),
        ("Bash", false),
        ("mcp__db__query", true),
        ("mcp__db__drop", false),
        ("mcp__dbx__query", false),
        ("mcp__web__get", true),
        ("mcp__web__put", false),
        ("StructuredOutput", true),
    ] {
        let heard = hear(&mut opened_with(spec.clone()), &request("k", &tool(name, &json!({}))));
        assert_eq!((heard.said.len() == 1, heard.reply.is_empty()), (allowed, allowed), "{name}");
    }
    spec.setup.tools = ToolFilter { allow: Some(vec![]), deny: vec![] };
    assert!(hear(&mut opened_with(spec), &request("k", &tool("Read", &json!({})))).said.is_empty());
}

#[test]
fn perm_03_a_question_is_taken_back_and_none_is_left_open_at_the_end_of_a_turn() {
    let mut claude = opened();
    prompted(&mut claude);
    asked(&mut claude, "k", &tool("Bash", &json!({"command": "ls"})));
    let cancel = json!({"type": "control_cancel_request", "request_id": "k"});
    assert_eq!(said(&mut claude, &cancel), [Said::TookBack { key: "k".into() }]);
    assert_eq!(said(&mut claude, &cancel), []);
    // One of an inner subagent outlives the turn, and nobody would answer it.
    asked(&mut claude, "l", &tool("Bash", &json!({"command": "ls"})));
    said(&mut claude, &result(&json!({})));
    let heard = hear(&mut claude, &super::state("idle"));
    assert!(matches!(&heard.said[..], [Said::Done(_)]));
    assert_eq!(line(&heard.reply)["response"]["response"]["behavior"], "deny");
    // A turn that was cut off does not take it back by itself, and is not idle as long as it is open.
    prompted(&mut claude);
    asked(&mut claude, "m", &tool("Bash", &json!({"command": "ls"})));
    let cut = json!({"subtype": "error_max_budget_usd", "is_error": true, "result": null,
        "terminal_reason": "budget_exhausted"});
    let heard = hear(&mut claude, &result(&cut));
    assert!(heard.said.contains(&Said::TookBack { key: "m".into() }), "{heard:?}");
    assert_eq!(line(&heard.reply)["response"]["request_id"], "m");
}

#[test]
fn prov_12_what_was_denied_is_told_once() {
    let mut claude = opened();
    prompted(&mut claude);
    let denied = json!({"type": "system", "subtype": "permission_denied", "tool_name": "Bash",
        "tool_use_id": "t1", "decision_reason_type": "rule", "message": "a rule of the user"});
    assert_eq!(said(&mut claude, &denied), [Said::Denied("Bash: a rule of the user".into())]);
    let denials = json!([{"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"command": "ls"}},
        {"tool_name": "Write", "tool_use_id": "t2", "tool_input": {"file_path": "/a", "content": "x"}}]);
    let heard = said(&mut claude, &result(&json!({"permission_denials": denials.clone()})));
    let told: Vec<_> = heard.iter().filter(|said| matches!(said, Said::Denied(_))).collect();
    assert_eq!(told, [&Said::Denied("Write /a".into())]);
    said(&mut claude, &super::state("idle"));
    prompted(&mut claude);
    ended(&mut claude, &result(&json!({"permission_denials": denials})));
}

/// A yes to one action is never a yes to another that came under the same id.
#[test]
fn perm_01_an_id_that_is_used_again_while_it_waits_is_answered_with_a_no() {
    let bash = |command: &str| tool("Bash", &json!({ "command": command }));
    for again in
        [bash("rm -rf /"), tool("ExitPlanMode", &json!({"command": "ls"})), json!({"subtype": "elicitation"})]
    {
        let mut claude = opened();
        let ask = asked(&mut claude, "k", &bash("ls"));
        assert_eq!(said(&mut claude, &request("k", &bash("ls"))), [], "the same once more is the same");
        let heard = hear(&mut claude, &request("k", &again));
        assert_eq!(heard.said, [Said::TookBack { key: "k".into() }], "{again}");
        let reply = String::from_utf8(heard.reply).unwrap();
        assert!(!reply.is_empty() && !reply.contains("\"allow\""), "{reply}");
        assert!(claude.tell(&answer(ask, choice(Choice::AllowOnce), None)).is_err(), "nothing waits");
    }
}
