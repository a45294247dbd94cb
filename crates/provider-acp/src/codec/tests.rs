#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use proptest::prelude::*;
use serde_json::json;
use subagent_model::{
    Answer, Ask, AskOption, AttemptKey, AttemptNumber, BoundedText, Choice, MessageNumber, Requester,
    RunNumber, SpawnSpec, SubagentId, Subject,
};
use subagent_provider::{Codec, Job, Order, Said, WasTold};

use super::Acp;
use crate::agents::{AGENTS, Agent};

fn job(session: Option<&str>) -> Job {
    let prompt = BoundedText::whole("x").unwrap();
    let spec = SpawnSpec {
        model: Some(String::from("large")),
        ..SpawnSpec::new("acp", prompt.clone(), "/work".into())
    };
    let key = AttemptKey {
        subagent: SubagentId::from_uuid(uuid::Uuid::from_u128(7)),
        run: RunNumber(1),
        attempt: AttemptNumber(1),
    };
    Job {
        key,
        spec: spec.into(),
        prompt,
        prompt_text: None,
        dir: "/jobs/7".into(),
        session: session.map(str::to_owned),
    }
}

/// A conversation that has begun, of an agent that is put into a mode of its own; and its first line.
fn begun() -> (Acp, Vec<u8>) {
    let agent = AGENTS.iter().find(|agent| agent.name == "claude-acp").unwrap();
    let mut codec = Acp::of(agent);
    let opening = codec.open(&job(None));
    (codec, opening)
}

fn update(fields: &serde_json::Value) -> String {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": fields}})
        .to_string()
}

fn answer(id: u64, result: &serde_json::Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

fn request(id: u64, method: &str, params: &serde_json::Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

const OPENING: usize = 4;

/// What an agent says: the whole opening first, then anything in any order.
fn known() -> Vec<String> {
    let text = json!({"type": "text", "text": "x"});
    let models = json!({"id": "m", "category": "model", "type": "select", "currentValue": "small",
        "options": [{"value": "small"}, {"value": "large"}]});
    let both = json!({"currentModeId": "auto", "availableModes": [{"id": "default"}, {"id": "auto"}]});
    let session = json!({"sessionId": "s", "configOptions": [models], "modes": both});
    let call = json!({"toolCallId": "t", "title": "ls"});
    let permission = json!({"sessionId": "s", "toolCall": call,
        "options": [{"optionId": "y", "kind": "allow_once"}, {"optionId": "n", "kind": "reject_once"}]});
    let form = json!({"mode": "form", "message": "?", "sessionId": "c",
        "requestedSchema": {"properties": {"a": {"type": "integer"}}, "required": ["a"]}});
    let chunk = |id: &str| json!({"sessionUpdate": "agent_message_chunk", "content": text, "messageId": id});
    let child = |state: &str| {
        json!({"sessionUpdate": "subagent_update", "sessionId": "c", "capabilities": {"cancel": {}},
        "state": {"state": state, "stopReason": "end_turn"}})
    };
    let capabilities = json!({"loadSession": true});
    let mut all = vec![
        answer(0, &json!({"protocolVersion": 1, "agentCapabilities": capabilities})),
        answer(2, &session),
        answer(4, &json!({"configOptions": [models]})),
        answer(6, &json!({})),
        update(&chunk("a")),
        update(&chunk("b")),
        update(&json!({"sessionUpdate": "agent_message_chunk", "content": text})),
        update(&json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "ls"})),
        update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"})),
        update(&json!({"sessionUpdate": "usage_update", "cost": {"amount": 0.5, "currency": "USD"}})),
        update(&json!({"sessionUpdate": "config_option_update", "configOptions": [models]})),
        update(&child("running")),
        update(&child("idle")),
        request(1, "session/request_permission", &permission),
        request(2, "session/request_permission", &permission),
        request(3, "elicitation/create", &form),
        request(4, "fs/read_text_file", &json!({})),
        json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 2}}).to_string(),
        String::from("noise"),
    ];
    for id in [8, 10, 12, 3, 5] {
        all.push(answer(id, &json!({"stopReason": "end_turn"})));
        all.push(answer(id, &json!({"stopReason": "cancelled"})));
    }
    all
}

/// A line of an agent: a good one of any kind, or anything.
fn lines() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        12 => prop::sample::select(known()).prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => "\\{\"jsonrpc\":\"2.0\",\"(id|method|result|params|error)\":[0-9\"a{}\\[\\]]{0,9}\\}"
            .prop_map(String::into_bytes),
    ]
}

fn orders() -> impl Strategy<Value = Order> {
    let from = || Requester::from("me");
    let number = prop_oneof![Just(1_u64), Just(2), 3..LARGEST];
    let options = ["y", "n"].map(|id| AskOption {
        id: id.to_owned(),
        name: String::new(),
        kind: if id == "y" { Choice::AllowOnce } else { Choice::DenyOnce },
    });
    let permission = Subject::Approval {
        action: String::new(),
        title: String::new(),
        detail: None,
        options: options.to_vec(),
    };
    let question = Subject::Question { text: String::new(), choices: vec![] };
    let answered = |key: String, subject: &Subject, answer| Order::Answer {
        ask: Box::new(Ask { key: key.clone(), subject: subject.clone() }),
        key,
        answer,
        reason: None,
    };
    let choices = prop::sample::select(vec![Choice::AllowOnce, Choice::AllowAlways, Choice::DenyOnce]);
    prop_oneof![
        3 => (proptest::option::of(number.clone()), any::<String>()).prop_map(move |(number, text)| Order::Prompt {
            number: number.map(MessageNumber),
            from: from(),
            text,
            attached: vec![],
        }),
        1 => number.prop_map(move |number| Order::Steer {
            number: MessageNumber(number),
            from: from(),
            text: String::new(),
            attached: vec![],
        }),
        1 => Just(Order::Interrupt),
        2 => (1_u64..4, choices).prop_map(move |(key, choice)| {
            answered(key.to_string(), &permission, Answer::Choice { choice })
        }),
        1 => "[0-9a-z]{0,3}".prop_map(move |text| answered(String::from("3"), &question, Answer::Text { text })),
        1 => prop::sample::select(vec!["c", "x"]).prop_map(|key| Order::StopInner { key: key.to_owned() }),
        1 => Just(Order::Close),
    ]
}

const LARGEST: u64 = super::LARGEST_NUMBER / 2;

/// The codec that a daemon has which reads this log.
fn from_log(opening: &[u8]) -> Acp {
    let mut anew = Acp::of(&begun().0.agent);
    // The job knows by now the session that was opened.
    anew.open(&job(Some("s")));
    assert_eq!(anew.recall(opening), []);
    anew
}

#[test]
fn res_12_the_session_that_the_job_knows_by_now_is_not_the_one_that_was_to_be_continued() {
    let (mut live, opening) = begun();
    let mut anew = from_log(&opening);
    let answered = answer(0, &json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}}));
    let heard = live.hear(answered.as_bytes());
    assert!(String::from_utf8_lossy(&heard.reply).contains("session/new"));
    assert_eq!(anew.hear(answered.as_bytes()), heard);
}

#[test]
fn memory_is_bounded_whatever_is_heard() {
    let (mut codec, _) = begun();
    for line in &known()[..OPENING] {
        codec.hear(line.as_bytes());
    }
    let from = Requester::from("me");
    codec.tell(&Order::Prompt { number: None, from, text: String::new(), attached: vec![] }).unwrap();
    let long = "x".repeat(40_000);
    for at in 0..400 {
        let call = json!({"sessionUpdate": "tool_call", "toolCallId": at.to_string(), "title": long, "rawInput": long});
        for said in codec.hear(update(&call).as_bytes()).said {
            let Said::ToolStarted { name, input, .. } = said else { panic!("{said:?}") };
            assert!(name.len() <= 1024 && input.unwrap().len() <= 16 * 1024);
        }
        let child = json!({"sessionUpdate": "subagent_update", "sessionId": at.to_string(), "title": long});
        codec.hear(update(&child).as_bytes());
        codec.hear(
            request(at, "session/request_permission", &json!({"toolCall": {"toolCallId": "t"}})).as_bytes(),
        );
        let options: Vec<_> =
            (0..50).map(|at| json!({"id": at.to_string(), "options": [{"value": "x"}]})).collect();
        let option = json!({"sessionUpdate": "config_option_update", "configOptions": options});
        codec.hear(update(&option).as_bytes());
    }
    let size = format!("{codec:?}").len();
    assert!(size < 8 << 20, "{size} bytes");
}

proptest! {
    #[test]
    fn acp_06_anything_can_be_heard(all in proptest::collection::vec(lines(), 0..40)) {
        let (mut codec, _) = begun();
        for line in &all {
            let heard = codec.hear(line);
            prop_assert!(heard.reply.is_empty() || heard.reply.ends_with(b"\n"));
        }
        codec.recall(&all.concat());
        for line in &all {
            codec.recall(line);
        }
    }

    #[test]
    fn res_12_what_was_written_is_recalled_for_what_it_was(order in orders()) {
        let (mut codec, _) = begun();
        for line in &known()[..OPENING] {
            codec.hear(line.as_bytes());
        }
        let expected = match &order {
            Order::Prompt { number: None, .. } => vec![WasTold::Prompt],
            Order::Prompt { number: Some(number), .. } => vec![WasTold::Message(*number)],
            Order::Answer { key, .. } => vec![WasTold::Answer(key.clone())],
            Order::Interrupt | Order::Steer { .. } | Order::StopInner { .. } | Order::Close => vec![],
        };
        let Ok(line) = codec.tell(&order) else {
            prop_assert!(expected.is_empty(), "an open session takes it");
            return Ok(());
        };
        let (mut other, _) = begun();
        prop_assert_eq!(other.recall(&line[..line.len() - 1]), expected);
    }

    #[test]
    fn res_12_a_codec_made_anew_from_the_log_is_the_one_that_was(
        steps in proptest::collection::vec(prop_oneof![lines().prop_map(Ok), orders().prop_map(Err)], 0..40),
        opens in any::<bool>(),
    ) {
        let (mut live, opening) = begun();
        let mut anew = from_log(&opening);
        let opened = known().into_iter().take(if opens { OPENING } else { 0 }).map(|line| Ok(line.into_bytes()));
        for step in opened.chain(steps) {
            match step {
                Ok(line) => {
                    let heard = live.hear(&line);
                    prop_assert_eq!(&heard, &anew.hear(&line));
                    for line in heard.reply.split_inclusive(|byte| *byte == b'\n') {
                        anew.recall(line);
                    }
                }
                Err(order) => {
                    if let Ok(bytes) = live.tell(&order) {
                        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                            anew.recall(line);
                        }
                    }
                }
            }
            prop_assert_eq!(&live, &anew);
        }
    }

    #[test]
    fn acp_09_no_request_is_left_open_that_nobody_can_answer(
        steps in proptest::collection::vec(prop_oneof![lines().prop_map(Ok), orders().prop_map(Err)], 0..60),
    ) {
        let (mut codec, _) = begun();
        for line in &known()[..OPENING] {
            codec.hear(line.as_bytes());
        }
        // Requests that wait, by key; an id that is used again while it waits is the agent's own fault.
        let mut waiting = std::collections::BTreeSet::new();
        let answered = |bytes: &[u8], waiting: &mut std::collections::BTreeSet<String>| {
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                let line: serde_json::Value = serde_json::from_slice(line).unwrap();
                if line.get("method").is_none() {
                    waiting.remove(&line["id"].to_string());
                }
            }
        };
        for step in steps {
            match step {
                Ok(line) => {
                    let heard = codec.hear(&line);
                    for said in &heard.said {
                        match said {
                            Said::Asked(ask) => { waiting.insert(ask.key.clone()); }
                            Said::TookBack { key } => prop_assert!(!key.is_empty()),
                            _ => {}
                        }
                    }
                    answered(&heard.reply, &mut waiting);
                }
                Err(order) => if let Ok(bytes) = codec.tell(&order) {
                    answered(&bytes, &mut waiting);
                },
            }
            if codec.turn.is_none() && codec.below.live() == 0 {
                prop_assert!(waiting.is_empty(), "{waiting:?}");
            }
        }
    }
}

#[test]
fn every_agent_that_is_known_has_what_it_needs() {
    let mut names = std::collections::BTreeSet::from([Agent::ANY.name]);
    for agent in AGENTS {
        assert!(names.insert(agent.name), "{} is listed twice", agent.name);
        assert!(!agent.program.is_empty() && !agent.install.is_empty(), "{}", agent.name);
    }
}
