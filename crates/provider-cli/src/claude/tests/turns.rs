//! Turns: what is said in them, when they are over, and what is said into them.

use serde_json::{Value, json};
use subagent_model::{MessageNumber, Usage};
use subagent_provider::{Codec, Inner, InnerState, Order, Said, TurnEnd, WasTold};

use crate::testing::{files, with_files};

use super::{
    assistant, begins, ended, init, lifecycle, line, opened, prompt, prompted, result, said, session, spec,
    state, steer, stream, text, told, user, welcome,
};

fn finished(answer: &str) -> TurnEnd {
    TurnEnd::Finished { answer: Some(answer.to_owned()), truncated: false }
}

fn used(input: u64, output: u64, cost_usd: Option<f64>) -> Said {
    let used = Usage { input, output, cost_usd, ..Usage::default() };
    Said::Used(Usage::default().plus(used))
}

#[test]
fn prov_09_it_is_begun_without_a_system_prompt_so_that_its_own_stands() {
    let job = super::job(spec());
    let mut claude = super::Claude::new(&job);
    let request = json!({"type": "control_request", "request_id": "initialize",
        "request": {"subtype": "initialize"}});
    assert_eq!(line(&claude.open(&job)), request);
}

#[test]
fn it_opens_when_it_has_answered_and_its_session_is_known_before_its_first_turn() {
    let mut claude = super::begun(spec());
    assert!(claude.tell(&prompt("x")).is_err() && claude.tell(&steer(1)).is_err(), "it is not ready");
    assert_eq!(claude.tell(&Order::Close), Ok(vec![]), "the end of its input says it");
    assert_eq!(said(&mut claude, &welcome()), [Said::Opened { session: Some(session()) }]);
    assert_eq!(said(&mut claude, &welcome()), [], "once");
    let resumed = Some(String::from("0199-old"));
    let mut claude = super::Claude::new(&super::Job { session: resumed.clone(), ..super::job(spec()) });
    assert_eq!(said(&mut claude, &welcome()), [Said::Opened { session: resumed }]);
    let refused = json!({"type": "control_response",
        "response": {"subtype": "error", "request_id": "initialize", "error": "no"}});
    let mut claude = super::begun(spec());
    assert!(matches!(&said(&mut claude, &refused)[..], [Said::Broken(why)] if why.contains("no")));
    assert!(claude.tell(&prompt("x")).is_err());
}

#[test]
fn each_frame_of_a_turn_has_its_meaning() {
    let mut claude = opened();
    prompted(&mut claude);
    let call = json!({"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls", "n": 1.0}});
    let done = json!({"tool_use_id": "t1", "type": "tool_result", "content": "a\nb", "is_error": false});
    let blocks = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    let failed = json!({"tool_use_id": "t1", "type": "tool_result", "content": blocks, "is_error": true});
    let picture = json!({"tool_use_id": "t1", "type": "tool_result", "content": [{"type": "image"}]});
    let ended =
        |failed, output: &str| Said::ToolEnded { id: "t1".into(), failed, output: Some(output.into()) };
    let delta = |delta: Value| stream(&json!({"type": "content_block_delta", "index": 0, "delta": delta}));
    let input = Some(String::from(r#"{"command":"ls","n":1.0}"#));
    for (frame, expected) in [
        (text("hello"), Some(Said::Message("hello".into()))),
        (
            assistant(&json!({"type": "thinking", "thinking": "hm", "signature": "x"})),
            Some(Said::Thought("hm".into())),
        ),
        (assistant(&json!({"type": "thinking", "thinking": "", "signature": "x"})), None),
        (assistant(&call), Some(Said::ToolStarted { id: "t1".into(), name: "Bash".into(), input })),
        (user(&done), Some(ended(Some(false), "a\nb"))),
        (user(&failed), Some(ended(Some(true), "a\nb"))),
        (user(&picture), Some(ended(None, r#"[{"type":"image"}]"#))),
        (user(&json!({"type": "text", "text": "[Request interrupted by user]"})), None),
        (delta(json!({"type": "text_delta", "text": "he"})), Some(Said::Delta("he".into()))),
        (delta(json!({"type": "thinking_delta", "thinking": "h"})), None),
        (delta(json!({"type": "input_json_delta", "partial_json": "{"})), None),
        (
            json!({"type": "system", "subtype": "compact_boundary", "compact_metadata": {"trigger": "auto"}}),
            Some(Said::Compacted),
        ),
        (
            json!({"type": "system", "subtype": "informational", "content": "note", "level": "notice"}),
            Some(Said::Notice("note".into())),
        ),
    ] {
        assert_eq!(said(&mut claude, &frame), Vec::from_iter(expected), "{frame}");
    }
}

#[test]
fn prov_06_init_before_every_turn_is_no_second_start_and_what_is_unknown_is_ignored() {
    let mut claude = opened();
    assert_eq!(said(&mut claude, &init()), [Said::Model("claude-opus-5-5".into())]);
    assert_eq!(said(&mut claude, &init()), []);
    let before = claude.clone();
    for frame in [
        json!({"type": "system", "subtype": "thinking_tokens", "estimated_tokens": 3}),
        json!({"type": "system"}),
        json!({"type": "mood", "value": "good"}),
        json!({"type": 7}),
        json!({"no": "type"}),
        json!([1, 2]),
        json!({"type": "keep_alive"}),
        json!({"type": "assistant", "message": 3}),
        json!({"type": "user", "message": {"role": "user", "content": "a bare text"}}),
        json!({"type": "control_response", "response": {"subtype": "success", "request_id": "elsewhere"}}),
        json!({"type": "system", "subtype": "init", "session_id": 7, "model": {}}),
    ] {
        assert_eq!(said(&mut claude, &frame), [], "{frame}");
    }
    for noise in ["", "  \r", "Loading...", "{\"type\":\"result\"", "\u{1b}[2J", "null"] {
        assert_eq!(claude.hear(noise.as_bytes()).said, [], "{noise}");
    }
    assert_eq!(claude, before);
    // Keys in any order, and fields that nobody knows.
    let odd =
        r#"{"x":[{}],"message":{"content":[{"text":"hi","type":"text","y":1}],"z":0},"type":"assistant"}"#;
    assert_eq!(claude.hear(odd.as_bytes()).said, [Said::Message("hi".into())]);
}

#[test]
fn a_frame_that_everything_depends_on_must_fit_and_a_broken_child_is_not_believed() {
    for frame in [
        r#"{"type":"result","subtype":"success"}"#,
        r#"{"type":"result","is_error":false}"#,
        r#"{"type":"control_request","request":{"subtype":"can_use_tool"}}"#,
        r#"{"type":"control_cancel_request"}"#,
    ] {
        let mut claude = opened();
        let heard = claude.hear(frame.as_bytes());
        assert!(matches!(&heard.said[..], [Said::Broken(why)] if why.contains("type")), "{heard:?}");
        assert_eq!(claude.hear(result(&json!({})).to_string().as_bytes()).said, []);
        assert!(claude.tell(&prompt("x")).is_err());
    }
}

#[test]
fn a_session_that_goes_on_under_another_name_is_known_by_that() {
    let mut claude = opened();
    let mut other = init();
    other["session_id"] = "another".into();
    let opened = Said::Opened { session: Some("another".into()) };
    assert_eq!(said(&mut claude, &other), [opened, Said::Model("claude-opus-5-5".into())]);
}

#[test]
fn steer_18_a_prompt_and_a_steer_are_lines_with_names_that_tell_them_apart() {
    let mut claude = opened();
    let name = told(&mut claude, &prompt("do it"));
    let expected = json!({"type": "user", "uuid": name["uuid"], "parent_tool_use_id": null, "session_id": "",
        "message": {"role": "user", "content": "do it"}});
    assert_eq!(name, expected);
    let content = json!("<message from=\"me\">\na\nb\n</message>");
    let steered = told(&mut claude, &steer(5));
    assert_eq!((steered["priority"].as_str(), &steered["message"]["content"]), (Some("next"), &content));
    assert_ne!(steered["uuid"], told(&mut claude, &steer(5))["uuid"], "it drops what it met before");
}

#[test]
fn steer_12_a_steer_is_taken_when_the_model_has_it_and_not_before() {
    let mut claude = opened();
    assert!(!claude.acknowledges(), "a version that does not tell what becomes of a line");
    prompted(&mut claude);
    assert!(claude.acknowledges());
    let name = told(&mut claude, &steer(3))["uuid"].as_str().unwrap().to_owned();
    assert_eq!(said(&mut claude, &lifecycle(&name, "queued")), []);
    assert_eq!(said(&mut claude, &lifecycle(&name, "started")), [Said::Took(MessageNumber(3))]);
    assert_eq!(said(&mut claude, &lifecycle(&name, "completed")), [], "once");
    assert_eq!(ended(&mut claude, &result(&json!({}))), finished("done"));
    // By its result where nothing else told of it.
    prompted(&mut claude);
    let name = told(&mut claude, &steer(4))["uuid"].clone();
    let took = said(&mut claude, &result(&json!({"user_message_uuids": ["0-not-ours", name]})));
    assert!(took.contains(&Said::Took(MessageNumber(4))), "{took:?}");
}

#[test]
fn steer_12_a_steer_that_is_too_late_for_the_turn_is_worked_on_before_the_turn_is_over() {
    let mut claude = opened();
    prompted(&mut claude);
    let name = told(&mut claude, &steer(3))["uuid"].as_str().unwrap().to_owned();
    said(&mut claude, &lifecycle(&name, "queued"));
    let first = said(&mut claude, &result(&json!({"result": "first"})));
    assert!(!first.iter().any(|said| matches!(said, Said::Done(_))), "{first:?}");
    assert_eq!(said(&mut claude, &lifecycle(&name, "started")), [Said::Took(MessageNumber(3))]);
    assert_eq!(ended(&mut claude, &result(&json!({"result": "second"}))), finished("second"));
    assert_eq!(said(&mut claude, &state("idle")), [], "once");
}

#[test]
fn a_failure_that_it_went_on_after_is_told_and_the_last_result_counts() {
    let mut claude = opened();
    prompted(&mut claude);
    told(&mut claude, &steer(3));
    let failure = json!({"is_error": true, "terminal_reason": "api_error", "result": "API Error: 500"});
    said(&mut claude, &result(&failure));
    let heard = said(&mut claude, &result(&json!({"result": "second"})));
    assert!(
        heard.iter().any(|said| matches!(said, Said::Notice(text) if text.contains("API Error: 500"))),
        "{heard:?}"
    );
    said(&mut claude, &lifecycle("elsewhere", "queued"));
}

#[test]
fn a_version_that_does_not_tell_when_it_is_idle_ends_its_turn_by_its_result() {
    let mut claude = opened();
    told(&mut claude, &prompt("do it"));
    let heard = said(&mut claude, &result(&json!({"total_cost_usd": null})));
    assert_eq!(heard, [Said::Done(finished("done"))]);
}

#[test]
fn an_end_before_a_line_was_read_is_not_the_end_of_what_it_asks() {
    let mut claude = opened();
    prompted(&mut claude);
    said(&mut claude, &result(&json!({"result": "first"})));
    // It is written while the first end is on its way.
    let name = told(&mut claude, &prompt("more"))["uuid"].as_str().unwrap().to_owned();
    assert_eq!(said(&mut claude, &state("idle")), []);
    said(&mut claude, &lifecycle(&name, "started"));
    assert_eq!(ended(&mut claude, &result(&json!({"result": "second"}))), finished("second"));
    // One that it never reads holds nothing up for ever.
    prompted(&mut claude);
    told(&mut claude, &prompt("lost"));
    said(&mut claude, &result(&json!({"result": "third"})));
    assert_eq!(said(&mut claude, &state("idle")), []);
    assert_eq!(said(&mut claude, &state("idle")), [Said::Done(finished("third"))]);
}

#[test]
fn prov_10_an_interrupt_ends_the_turn_and_the_next_message_begins_one() {
    let mut claude = opened();
    prompted(&mut claude);
    let interrupt = told(&mut claude, &Order::Interrupt);
    let expected = json!({"subtype": "interrupt", "cancel_queued": true});
    assert_eq!((&interrupt["type"], &interrupt["request"]), (&json!("control_request"), &expected));
    let receipt = json!({"still_queued": [], "cancelled": []});
    let answered = json!({"type": "control_response", "response": {"subtype": "success",
        "request_id": interrupt["request_id"], "response": receipt}});
    assert_eq!(said(&mut claude, &answered), []);
    let mut partial = text("half of");
    partial["aborted"] = true.into();
    assert_eq!(said(&mut claude, &partial), [], "what was broken off is no message");
    let aborted = json!({"subtype": "error_during_execution", "is_error": true, "result": null,
        "terminal_reason": "aborted_streaming", "errors": ["[ede_diagnostic] x"], "stop_reason": null});
    assert_eq!(ended(&mut claude, &result(&aborted)), TurnEnd::Cancelled);
    begins(
        &mut claude,
        &Order::Prompt {
            number: Some(MessageNumber(1)),
            from: "me".into(),
            text: "on".into(),
            attached: vec![],
        },
    );
    assert_eq!(ended(&mut claude, &result(&json!({}))), finished("done"));
    let tools = json!({"terminal_reason": "aborted_tools", "result": ""});
    prompted(&mut claude);
    assert_eq!(ended(&mut claude, &result(&tools)), TurnEnd::Cancelled, "whatever it calls it");
}

#[test]
fn prov_10_what_had_not_begun_is_cancelled_with_the_turn_and_comes_back() {
    let mut claude = opened();
    prompted(&mut claude);
    let name = told(&mut claude, &steer(2))["uuid"].as_str().unwrap().to_owned();
    let interrupt = told(&mut claude, &Order::Interrupt);
    said(&mut claude, &lifecycle(&name, "queued"));
    assert_eq!(said(&mut claude, &lifecycle(&name, "cancelled")), [Said::Declined(MessageNumber(2))]);
    let receipt = json!({"type": "control_response", "response": {"subtype": "success",
        "request_id": interrupt["request_id"], "response": {"still_queued": [], "cancelled": [name]}}});
    assert_eq!(said(&mut claude, &receipt), [], "once");
    let aborted = json!({"subtype": "error_during_execution", "is_error": true, "result": null,
        "terminal_reason": "aborted_streaming"});
    assert_eq!(ended(&mut claude, &result(&aborted)), TurnEnd::Cancelled);
    // A turn that had not begun itself has no result.
    let name = told(&mut claude, &prompt("x"))["uuid"].clone();
    let interrupt = told(&mut claude, &Order::Interrupt);
    let receipt = json!({"type": "control_response", "response": {"subtype": "success",
        "request_id": interrupt["request_id"], "response": {"still_queued": [], "cancelled": [name]}}});
    assert_eq!(said(&mut claude, &receipt), []);
    assert_eq!(said(&mut claude, &state("idle")), [Said::Done(TurnEnd::Cancelled)]);
}

fn task(fields: &Value) -> Value {
    let mut task = json!({"type": "system", "task_id": "a1", "run_id": "r", "uuid": "u", "session_id": "s"});
    for (name, value) in fields.as_object().unwrap() {
        task[name] = value.clone();
    }
    task
}

fn live(tasks: &[&str]) -> Value {
    let tasks: Vec<_> = tasks
        .iter()
        .map(|id| json!({"task_id": id, "task_type": "local_agent", "description": "d"}))
        .collect();
    json!({"type": "system", "subtype": "background_tasks_changed", "tasks": tasks, "uuid": "u"})
}

#[test]
fn prov_11_a_single_inner_subagent_is_stopped_by_its_task() {
    let mut claude = opened();
    prompted(&mut claude);
    let stop = Order::StopInner { key: String::from("a1") };
    assert!(claude.tell(&stop).is_err(), "nothing of it was told");
    let started = task(&json!({"subtype": "task_started", "task_id": "a1", "subagent_type": "Explore"}));
    said(&mut claude, &started);
    let wrote = claude.tell(&stop).unwrap();
    let request = json!({"type": "control_request", "request_id": "stop-task-a1",
        "request": {"subtype": "stop_task", "task_id": "a1"}});
    assert_eq!(line(&wrote), request);
    assert_eq!(claude.recall(&wrote), [WasTold::StopInner("a1".into())]);
    let answer = |subtype: &str| {
        json!({"type": "control_response",
            "response": {"subtype": subtype, "request_id": "stop-task-a1", "error": "No task found"}})
    };
    assert_eq!(said(&mut claude, &answer("success")), []);
    let refused = said(&mut claude, &answer("error"));
    assert!(
        matches!(&refused[..], [Said::Notice(why)] if why.contains("a1") && why.contains("No task found"))
    );
    let over = task(&json!({"subtype": "task_notification", "status": "stopped", "summary": ""}));
    said(&mut claude, &over);
    assert!(claude.tell(&stop).is_err(), "it is over");
}

#[test]
fn prov_11_inner_subagents_are_shown_and_their_text_is_never_the_answer() {
    let mut claude = opened();
    prompted(&mut claude);
    let started = task(&json!({"subtype": "task_started", "description": "look", "subagent_type": "Explore",
        "task_type": "local_agent", "parent_task_id": "a0", "is_backgrounded": false, "prompt": "p"}));
    let news =
        |state| Inner { id: "a1".into(), parent: None, title: None, state: Some(state), can_cancel: None };
    let begun = Inner {
        parent: Some("a0".into()),
        title: Some("look".into()),
        can_cancel: Some(true),
        ..news(InnerState::Running)
    };
    assert_eq!(said(&mut claude, &started), [Said::Inner(begun)]);
    for mut inner in [
        text("I am the inner one"),
        user(&json!({"type": "tool_result", "tool_use_id": "t", "content": "x"})),
        stream(&json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}})),
        stream(&json!({"type": "message_start", "message": {"usage": {"input_tokens": 9}}})),
        stream(&json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})),
    ] {
        inner["parent_tool_use_id"] = "toolu_1".into();
        assert_eq!(said(&mut claude, &inner), [], "{inner}");
    }
    let progress = task(&json!({"subtype": "task_progress", "usage": {"total_tokens": 1}}));
    assert_eq!(said(&mut claude, &progress), []);
    let patched = task(&json!({"subtype": "task_updated", "patch": {"status": "killed", "end_time": 1}}));
    assert_eq!(said(&mut claude, &patched), [Said::Inner(news(InnerState::Stopped))]);
    let over = task(&json!({"subtype": "task_notification", "status": "stopped", "summary": "I say"}));
    assert_eq!(said(&mut claude, &over), [], "its end was told");
    said(&mut claude, &started);
    let over = task(&json!({"subtype": "task_notification", "status": "completed", "summary": "I say"}));
    assert_eq!(said(&mut claude, &over), [Said::Inner(news(InnerState::Completed))]);
    // A command is no subagent.
    let shell = task(&json!({"subtype": "task_started", "task_id": "b1", "task_type": "local_bash"}));
    assert_eq!(said(&mut claude, &shell), []);
    assert_eq!(
        said(
            &mut claude,
            &task(&json!({"subtype": "task_updated", "task_id": "b1", "patch": {"status": "completed"}}))
        ),
        []
    );
    assert_eq!(ended(&mut claude, &result(&json!({}))), finished("done"));
}

#[test]
fn prov_11_while_background_work_lives_the_run_waits_and_the_turn_that_it_begins_counts() {
    let mut claude = opened();
    prompted(&mut claude);
    assert_eq!(said(&mut claude, &live(&["b1", "b2"])), [Said::Background { live: 2 }]);
    assert_eq!(said(&mut claude, &live(&["b1"])), [Said::Background { live: 1 }]);
    assert_eq!(ended(&mut claude, &result(&json!({"result": "it runs"}))), finished("it runs"));
    // It ends, and a turn follows on that.
    assert_eq!(said(&mut claude, &live(&[])), []);
    said(&mut claude, &init());
    said(&mut claude, &result(&json!({"result": "it ran", "origin": {"kind": "task-notification"}})));
    let over = [Said::Done(finished("it ran")), Said::Background { live: 0 }];
    assert_eq!(said(&mut claude, &state("idle")), over, "the end is heard before the waiting is over");
    // It ends within a turn.
    prompted(&mut claude);
    said(&mut claude, &live(&["b3"]));
    said(&mut claude, &live(&[]));
    said(&mut claude, &result(&json!({})));
    let over = [Said::Background { live: 0 }, Said::Done(finished("done"))];
    assert_eq!(said(&mut claude, &state("idle")), over);
    // It ends, and no turn follows.
    prompted(&mut claude);
    said(&mut claude, &live(&["b4"]));
    ended(&mut claude, &result(&json!({})));
    assert_eq!(said(&mut claude, &live(&[])), []);
    assert_eq!(said(&mut claude, &state("idle")), [Said::Background { live: 0 }]);
    // A watcher is no work.
    let watcher = json!({"type": "system", "subtype": "background_tasks_changed",
        "tasks": [{"task_id": "w", "task_type": "local_bash", "description": "d", "ambient": true}]});
    assert_eq!(said(&mut claude, &watcher), []);
    // Of a version that does not tell when it is idle.
    let mut claude = opened();
    said(&mut claude, &live(&["b1"]));
    assert_eq!(said(&mut claude, &live(&[])), [Said::Background { live: 0 }]);
}

fn message(start: &Value, delta: &Value, why: &str) -> [Value; 2] {
    [
        stream(&json!({"type": "message_start", "message": {"id": "m", "usage": start}})),
        stream(&json!({"type": "message_delta", "delta": {"stop_reason": why}, "usage": delta})),
    ]
}

#[test]
fn rec_14_tokens_are_counted_once_and_money_by_what_the_turn_cost() {
    let mut claude = opened();
    prompted(&mut claude);
    let [start, end] = message(
        &json!({"input_tokens": 100, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 1000, "output_tokens": 1}),
        &json!({"output_tokens": 20}),
        "tool_use",
    );
    assert_eq!(said(&mut claude, &start), []);
    // Its parts tell of the same message.
    said(&mut claude, &text("a"));
    said(&mut claude, &text("b"));
    let whole =
        Usage { input: 100, output: 20, cache_write: 10, cache_read: 1000, total: 130, cost_usd: None };
    assert_eq!(said(&mut claude, &end), [Said::Used(whole), Said::Turn { more: true }]);
    assert_eq!(said(&mut claude, &end), [], "a message ends once");
    let [start, end] =
        message(&json!({"input_tokens": 1}), &json!({"input_tokens": 3, "output_tokens": 4}), "end_turn");
    said(&mut claude, &start);
    assert_eq!(said(&mut claude, &end), [used(3, 4, None), Said::Turn { more: false }]);
    // What inner subagents used comes with the result.
    let models = json!({"big": {"inputTokens": 103, "outputTokens": 24, "cacheReadInputTokens": 1000,
        "cacheCreationInputTokens": 10, "costUSD": 0.25}, "small": {"inputTokens": 50, "outputTokens": 6, "costUSD": 0.5}});
    let end = result(&json!({"model_usage_since_last_result": models, "total_cost_usd": 9.0}));
    assert_eq!(said(&mut claude, &end), [used(50, 6, Some(0.75))]);
    assert_eq!(
        said(&mut claude, &result(&json!({"model_usage_since_last_result": {}, "total_cost_usd": 9.0}))),
        []
    );
}

#[test]
fn rec_13_a_version_that_tells_the_whole_cost_only_is_charged_by_the_difference() {
    let turn = |claude: &mut super::Claude, cost: f64| {
        said(
            claude,
            &result(&json!({"total_cost_usd": cost, "usage": {"input_tokens": 5, "output_tokens": 1}})),
        )
    };
    let mut claude = opened();
    assert_eq!(turn(&mut claude, 0.5)[0], used(5, 1, Some(0.5)));
    assert_eq!(turn(&mut claude, 0.75)[0], used(5, 1, Some(0.25)));
    // A session that goes on tells what it cost before as well, and how much of it that is cannot be known.
    let session = Some(String::from("old"));
    let mut claude = super::Claude::new(&super::Job { session, ..super::job(spec()) });
    said(&mut claude, &welcome());
    assert_eq!(turn(&mut claude, 7.0)[0], used(5, 1, None));
    assert_eq!(turn(&mut claude, 7.5)[0], used(5, 1, Some(0.5)));
}

#[test]
fn res_12_a_session_that_this_attempt_began_is_its_own_after_a_change_of_daemons_as_well() {
    let taken_over = super::Job { session: Some(session()), ..super::job(spec()) };
    assert_eq!(super::Claude::new(&taken_over), super::Claude::new(&super::job(spec())));
}

#[test]
fn res_12_what_was_written_is_known_again_by_its_name_alone() {
    let number = MessageNumber(u64::MAX);
    let from = || "me".into();
    for (order, expected) in [
        (prompt("x"), vec![WasTold::Prompt]),
        (
            Order::Prompt { number: Some(number), from: from(), text: "x".into(), attached: vec![] },
            vec![WasTold::Message(number)],
        ),
        (
            Order::Steer { number, from: from(), text: "x".into(), attached: vec![] },
            vec![WasTold::Message(number)],
        ),
        (Order::Interrupt, vec![WasTold::Interrupt]),
    ] {
        let line = opened().tell(&order).unwrap();
        assert_eq!(opened().recall(&line[..line.len() - 1]), expected);
    }
    let strange = json!({"type": "user", "uuid": uuid::Uuid::nil(), "message": {}});
    assert_eq!(opened().recall(strange.to_string().as_bytes()), []);
    assert_eq!(opened().recall(b"{"), []);
}

#[test]
fn prompts_and_messages_hold_images_as_blocks_and_texts_in_a_frame() {
    let mut claude = opened();
    let written = told(&mut claude, &with_files(prompt("Look."), files()));
    let image = json!({"type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "AAE="}});
    let text = "Look.\n\n<attachment name=\"note.md\" type=\"text/markdown\">\nRead me.\n</attachment>";
    assert_eq!(written["message"]["content"], json!([image, {"type": "text", "text": text}]));
    // After a restart it is known by its name, as any other.
    let mut again = opened();
    let bytes = serde_json::to_vec(&written).unwrap();
    assert_eq!(again.recall(&bytes), vec![WasTold::Prompt]);
    let mut claude = opened();
    prompted(&mut claude);
    let written = told(&mut claude, &with_files(steer(3), files()));
    assert_eq!(written["message"]["content"][0], image);
    let texts = files().split_off(1);
    let written = told(&mut claude, &with_files(steer(4), texts));
    let content = written["message"]["content"].as_str().unwrap();
    assert!(content.ends_with("</attachment>") && content.starts_with("<message from"), "{content}");
}
