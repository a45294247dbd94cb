//! What holds whatever is said.

use proptest::prelude::*;
use serde_json::json;
use subagent_model::{Answer, Ask, AskOption, Choice, MessageNumber, Requester, Subject};
use subagent_provider::{Codec, Order, Said, WasTold};

use super::super::Claude;
use super::{
    assistant, begun, init, job, lifecycle, opened, request, result, spec, state, stream, text, user, welcome,
};

/// The names of the first lines of a conversation, whatever kinds they are of.
fn names() -> Vec<String> {
    let mut names = Vec::new();
    for kind in 0..3_u64 {
        let mut claude = opened();
        for number in 0..3 {
            let (from, text, number) = (Requester::from("me"), String::new(), MessageNumber(number));
            let order = match kind {
                0 => Order::Prompt { number: None, from, text, attached: vec![] },
                1 => Order::Prompt { number: Some(number), from, text, attached: vec![] },
                _ => Order::Steer { number, from, text, attached: vec![] },
            };
            let line: serde_json::Value = serde_json::from_slice(&claude.tell(&order).unwrap()).unwrap();
            names.push(line["uuid"].as_str().unwrap().to_owned());
        }
    }
    names
}

fn frames() -> Vec<serde_json::Value> {
    let mut frames = vec![
        welcome(),
        init(),
        state("running"),
        state("idle"),
        state("idle"),
        text("hi"),
        assistant(&json!({"type": "tool_use", "id": "t", "name": "Bash", "input": {}})),
        user(&json!({"type": "tool_result", "tool_use_id": "t", "content": "x"})),
        stream(&json!({"type": "message_start", "message": {"usage": {"input_tokens": 1}}})),
        stream(
            &json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}}),
        ),
        stream(&json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}})),
        result(&json!({})),
        result(&json!({"is_error": true, "api_error_status": 529})),
        result(
            &json!({"subtype": "error_during_execution", "terminal_reason": "aborted_tools", "is_error": true}),
        ),
        request("k", &json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}})),
        request("l", &json!({"subtype": "can_use_tool", "tool_name": "ExitPlanMode", "input": {}})),
        request("m", &json!({"subtype": "elicitation"})),
        json!({"type": "control_cancel_request", "request_id": "k"}),
        json!({"type": "system", "subtype": "background_tasks_changed", "tasks": [{"task_id": "b"}]}),
        json!({"type": "system", "subtype": "background_tasks_changed", "tasks": []}),
        json!({"type": "system", "subtype": "task_started", "task_id": "a", "task_type": "local_agent"}),
        json!({"type": "system", "subtype": "task_notification", "task_id": "a", "status": "completed"}),
        json!({"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1e300}}),
    ];
    for name in names() {
        frames.extend(["queued", "started", "cancelled"].map(|state| lifecycle(&name, state)));
    }
    frames
}

/// A line of a child: a good one of any kind, one with a field that does not fit, or anything.
fn lines() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(frames());
    let odd = (prop::sample::select(frames()), any::<prop::sample::Index>(), 0..4).prop_map(
        |(mut frame, at, how)| {
            let fields = frame.as_object_mut().unwrap();
            let name = fields.keys().nth(at.index(fields.len())).unwrap().clone();
            match how {
                0 => drop(fields.remove(&name)),
                1 => drop(fields.insert(name, json!(null))),
                2 => drop(fields.insert(name, json!(-1))),
                _ => drop(fields.insert(name, json!([{}]))),
            }
            frame.to_string().into_bytes()
        },
    );
    prop_oneof![
        8 => known.prop_map(|frame| frame.to_string().into_bytes()),
        2 => odd,
        1 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => "\\{\"type\":\"[a-z_]{0,12}\",\"[a-z]{1,5}\":[0-9\"a{}\\[\\]]{0,9}\\}".prop_map(String::into_bytes),
    ]
}

fn subjects() -> impl Strategy<Value = Subject> {
    let options = vec![AskOption { id: "o".into(), name: "Yes".into(), kind: Choice::AllowOnce }];
    let approval = Subject::Approval { action: "execute".into(), title: "ls".into(), detail: None, options };
    prop::sample::select(vec![approval, Subject::Question { text: "?".into(), choices: vec![] }])
}

fn orders() -> impl Strategy<Value = Order> {
    let number = (0..3_u64).prop_map(MessageNumber);
    let from = Just(Requester::from("me"));
    let answers = prop::sample::select(vec![
        Answer::Choice { choice: Choice::AllowAlways },
        Answer::Choice { choice: Choice::DenyOnce },
        Answer::Text { text: "x\ny".into() },
        Answer::None,
    ]);
    prop_oneof![
        3 => (proptest::option::of(number.clone()), from.clone(), any::<String>())
            .prop_map(|(number, from, text)| Order::Prompt { number, from, text, attached: vec![] }),
        3 => (number, from, any::<String>()).prop_map(|(number, from, text)| Order::Steer { number, from, text, attached: vec![] }),
        1 => Just(Order::Interrupt),
        3 => (prop::sample::select(vec!["k", "unknown"]), subjects(), answers, proptest::option::of(any::<String>()))
            .prop_map(|(key, subject, answer, reason)| Order::Answer {
                key: key.into(),
                ask: Box::new(Ask { key: key.into(), subject }),
                answer,
                reason,
            }),
        1 => Just(Order::Close),
    ]
}

proptest! {
    #[test]
    fn anything_can_be_heard_and_what_is_answered_is_whole_lines(all in proptest::collection::vec(lines(), 0..40)) {
        let mut claude = begun(spec());
        for line in &all {
            let heard = claude.hear(line);
            prop_assert!(heard.said.len() <= 8, "{:?}", heard.said);
            prop_assert!(heard.reply.is_empty() || heard.reply.ends_with(b"\n"));
            for reply in heard.reply.split_inclusive(|byte| *byte == b'\n') {
                prop_assert!(serde_json::from_slice::<serde_json::Value>(reply).is_ok());
            }
        }
        claude.recall(&all.concat());
    }

    #[test]
    fn a_turn_ends_once(all in proptest::collection::vec(lines(), 0..60)) {
        let mut claude = opened();
        let mut results = 0;
        let mut ends = 0;
        for line in &all {
            let is = |kind: &str| serde_json::from_slice::<serde_json::Value>(line).is_ok_and(|it| it["type"] == kind);
            results += usize::from(is("result") || is("command_lifecycle"));
            ends += claude.hear(line).said.iter().filter(|said| matches!(said, Said::Done(_))).count();
        }
        prop_assert!(ends <= results);
    }

    #[test]
    fn res_12_what_was_written_is_recalled_for_what_it_was(order in orders()) {
        let line = opened().tell(&order).unwrap();
        let expected = match order {
            Order::Prompt { number: None, .. } => vec![WasTold::Prompt],
            Order::Prompt { number: Some(number), .. } | Order::Steer { number, .. } => {
                vec![WasTold::Message(number)]
            }
            Order::Interrupt => vec![WasTold::Interrupt],
            Order::Answer { key, .. } => vec![WasTold::Answer(key)],
            Order::StopInner { key } => vec![WasTold::StopInner(key)],
            Order::Close => vec![],
        };
        prop_assert_eq!(line.split_inclusive(|byte| *byte == b'\n').count(), expected.len());
        prop_assert_eq!(opened().recall(line.trim_ascii_end()), expected);
    }

    #[test]
    fn res_12_a_codec_made_anew_from_the_log_is_the_one_that_was(
        steps in proptest::collection::vec(prop_oneof![2 => lines().prop_map(Ok), 1 => orders().prop_map(Err)], 0..40),
    ) {
        let job = job(spec());
        let (mut live, mut anew) = (Claude::new(&job), Claude::new(&job));
        // The opening is in the log as well.
        let opening = live.open(&job);
        anew.open(&job);
        anew.recall(opening.trim_ascii_end());
        for step in steps {
            match step {
                Ok(line) => {
                    let heard = live.hear(&line);
                    prop_assert_eq!(&heard, &anew.hear(&line));
                    for reply in heard.reply.split(|byte| *byte == b'\n') {
                        anew.recall(reply);
                    }
                }
                Err(order) => {
                    if let Ok(line) = live.tell(&order) {
                        anew.recall(line.trim_ascii_end());
                    }
                }
            }
            prop_assert_eq!(&live, &anew);
        }
    }
}

#[test]
fn what_is_kept_is_bounded() {
    let mut claude = opened();
    let big = "x".repeat(60_000);
    for n in 0..2_000 {
        let asking = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": big}});
        let _ = claude.hear(request(&n.to_string(), &asking).to_string().as_bytes());
        let _ = claude.tell(&super::prompt("x"));
        let denial = json!({"type": "system", "subtype": "permission_denied", "tool_use_id": format!("{n}"), "tool_name": "B"});
        let _ = claude.hear(denial.to_string().as_bytes());
        let task = json!({"type": "system", "subtype": "task_started", "task_id": format!("{n}"), "task_type": "local_agent"});
        let _ = claude.hear(task.to_string().as_bytes());
    }
    assert!(format!("{claude:?}").len() < 17 << 20);
}
