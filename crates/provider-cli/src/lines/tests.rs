#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use proptest::prelude::*;
use subagent_model::{Answer, Ask, AskOption, Choice, ErrorCode, MessageNumber, Requester, Subject, Usage};
use subagent_provider::{Codec, Heard, Order, Said, TurnEnd, WasTold};

use super::{Lines, Stage};

const HELLO: &str = r#"{"type":"hello","version":1,"session":"s1","can":["steer","interrupt","took","fly"]}"#;
const OUR_HELLO: &str = r#"{"type":"hello","version":1,"subagent":"x","run":1,"attempt":1}"#;

/// A conversation that has just begun.
fn begun() -> Lines {
    let mut lines = Lines::default();
    assert_eq!(lines.recall(OUR_HELLO.as_bytes()), []);
    lines
}

/// A child that has opened its session, after this hello.
fn opened(hello: &str) -> Lines {
    let mut lines = begun();
    assert_eq!(lines.hear(hello.as_bytes()), Heard::default());
    assert!(matches!(lines.hear(br#"{"type":"ready"}"#).said[..], [Said::Opened { .. }]));
    lines
}

fn said(lines: &mut Lines, line: &str) -> Vec<Said> {
    let heard = lines.hear(line.as_bytes());
    assert!(heard.reply.is_empty());
    heard.said
}

fn broken(lines: &mut Lines, line: &str) -> String {
    match &said(lines, line)[..] {
        [Said::Broken(why)] => why.clone(),
        other => panic!("{line} was taken: {other:?}"),
    }
}

fn told(lines: &mut Lines, order: &Order) -> serde_json::Value {
    let line = lines.tell(order).unwrap();
    let whole = line.strip_suffix(b"\n").unwrap();
    assert!(!whole.contains(&b'\n'), "one line");
    serde_json::from_slice(whole).unwrap()
}

fn steer(number: u64) -> Order {
    Order::Steer {
        number: MessageNumber(number),
        from: Requester::from("me"),
        text: String::from("a\nb"),
        attached: vec![],
    }
}

#[test]
fn a_session_opens_with_a_hello_and_ready() {
    let mut lines = begun();
    assert_eq!(said(&mut lines, HELLO), []);
    assert!(lines.tell(&steer(1)).is_err(), "it is not ready");
    assert!(lines.tell(&Order::Close).is_ok(), "it can be closed at any time");
    let open = |session: &str| [Said::Opened { session: Some(session.to_owned()) }];
    assert_eq!(said(&mut lines.clone(), r#"{"type":"ready","session":"s2"}"#), open("s2"));
    assert_eq!(said(&mut lines, r#"{"type":"ready"}"#), open("s1"));
    assert_eq!(said(&mut lines, r#"{"type":"ready"}"#), []);
    assert!(broken(&mut begun(), r#"{"type":"ready"}"#).contains("no hello"));
    assert!(broken(&mut begun(), r#"{"type":"hello","version":2}"#).contains("version 2"));
}

#[test]
fn each_word_of_the_child_has_its_meaning() {
    let key = || String::from("k");
    let options =
        vec![AskOption { id: String::from("o"), name: String::from("Yes"), kind: Choice::AllowOnce }];
    let approval =
        Subject::Approval { action: "execute".into(), title: "rm x".into(), detail: None, options };
    let used = Usage { input: 1, output: 2, cache_write: 3, cache_read: 4, total: 6, cost_usd: Some(0.25) };
    for (line, expected) in [
        (r#"{"type":"delta","text":"he"}"#, Said::Delta("he".into())),
        (r#"{"type":"message","text":"hello","new":{"field":[1]}}"#, Said::Message("hello".into())),
        (r#"{"type":"turn","more":true}"#, Said::Turn { more: true }),
        (
            r#"{"type":"tool_started","id":"k","name":"grep"}"#,
            Said::ToolStarted { id: key(), name: "grep".into(), input: None },
        ),
        (
            r#"{"type":"tool_started","id":"k","name":"grep","input":{"for":"x"}}"#,
            Said::ToolStarted { id: key(), name: "grep".into(), input: Some(r#"{"for":"x"}"#.into()) },
        ),
        (r#"{"type":"tool_ended","id":"k"}"#, Said::ToolEnded { id: key(), failed: None, output: None }),
        (
            r#"{"type":"tool_ended","id":"k","failed":true,"output":"no\nfile"}"#,
            Said::ToolEnded { id: key(), failed: Some(true), output: Some("no\nfile".into()) },
        ),
        (r#"{"type":"thought","text":"hm"}"#, Said::Thought("hm".into())),
        (r#"{"type":"notice","text":"slow"}"#, Said::Notice("slow".into())),
        (
            r#"{"type":"usage","input":1,"output":2,"cache_write":3,"cache_read":4,"cost_usd":0.25}"#,
            Said::Used(used),
        ),
        (r#"{"type":"compacted"}"#, Said::Compacted),
        (r#"{"type":"took","number":3}"#, Said::Took(MessageNumber(3))),
        (r#"{"type":"declined","number":3}"#, Said::Declined(MessageNumber(3))),
        (
            r#"{"type":"ask","key":"k","action":"execute","title":"rm x","options":[
                {"id":"o","name":"Yes","kind":"allow_once"},{"id":"p","kind":"allow_on_tuesdays"}]}"#,
            Said::Asked(Ask { key: key(), subject: approval }),
        ),
        (
            r#"{"type":"question","key":"k","text":"why?","choices":["a"]}"#,
            Said::Asked(Ask {
                key: key(),
                subject: Subject::Question { text: "why?".into(), choices: vec!["a".into()] },
            }),
        ),
        (r#"{"type":"took_back","key":"k"}"#, Said::TookBack { key: key() }),
        (r#"{"type":"background","live":2}"#, Said::Background { live: 2 }),
        (
            r#"{"type":"held_up","until":"2026-11-30T00:53:20.123456Z"}"#,
            Said::HeldUp { until: Some(subagent_model::Timestamp::from_micros(1_796_000_000_123_456)) },
        ),
        (
            r#"{"type":"done","answer":"42","truncated":true}"#,
            Said::Done(TurnEnd::Finished { answer: Some("42".into()), truncated: true }),
        ),
        (r#"{"type":"done"}"#, Said::Done(TurnEnd::Finished { answer: None, truncated: false })),
        (r#"{"type":"cancelled"}"#, Said::Done(TurnEnd::Cancelled)),
    ] {
        assert_eq!(said(&mut opened(HELLO), &line.replace('\n', " ")), [expected], "{line}");
    }
    for ignored in ["", "  \r", r#"{"type":"mood","value":"good"}"#, HELLO] {
        assert_eq!(said(&mut opened(HELLO), ignored), [], "{ignored}");
    }
}

#[test]
fn a_failure_is_of_a_known_class_and_no_child_speaks_for_the_daemon() {
    let failed = |line: &str| match said(&mut opened(HELLO), line).pop() {
        Some(Said::Done(TurnEnd::Failed(error))) => error,
        other => panic!("{other:?}"),
    };
    let limited = failed(
        r#"{"type":"failed","code":"rate_limited","message":"slow","reset_at":"2026-11-30T00:53:20Z"}"#,
    );
    assert_eq!((limited.code, limited.retryable), (ErrorCode::RateLimited, true));
    assert_eq!(limited.reset_at.unwrap().as_micros(), 1_796_000_000_000_000);
    let own = failed(r#"{"type":"failed","code":"store_full","message":"m","detail":"d","retryable":true}"#);
    assert_eq!((own.code, own.retryable), (ErrorCode::Crashed, true));
    assert_eq!(own.detail.unwrap(), "(its own code: \"store_full\")\nd");
    assert_eq!(failed(r#"{"type":"failed","code":"crashed","message":"m"}"#).detail, None);
    let long = failed(&format!(r#"{{"type":"failed","code":"auth","message":"{}"}}"#, "é".repeat(5_000)));
    assert_eq!(long.message.len(), 4 * 1024);
}

#[test]
fn what_is_known_must_fit_and_a_broken_child_is_not_spoken_with() {
    for line in [
        "Loading model...",
        "[1,2]",
        "null",
        r#"{"type":"took"}"#,
        r#"{"type":"took","number":-1}"#,
        r#"{"type":"message","text":7}"#,
        r#"{"text":"no type"}"#,
        r#"{"type":"usage","cost_usd":-1}"#,
        r#"{"type":"turn"}"#,
        r#"{"type":"ask","key":"","action":"a","title":"t"}"#,
        r#"{"type":"held_up","until":"soon"}"#,
        r#"{"type":"done""#,
    ] {
        let mut lines = opened(HELLO);
        let why = broken(&mut lines, line);
        assert!(why.contains(&format!("{line:?}")), "{why} does not show {line}");
        assert_eq!(said(&mut lines, r#"{"type":"done"}"#), [], "what follows is not believed");
        assert!(lines.tell(&Order::Close).is_err());
    }
    let long = format!(r#"{{"type":"took_back","key":"{}"}}"#, "k".repeat(2_000));
    assert!(broken(&mut opened(HELLO), &long).len() < 400, "a long line is shown in part");
    let deep = format!(r#"{{"type":"mood","x":{}{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    broken(&mut opened(HELLO), &deep);
}

#[test]
fn steer_10_a_child_is_told_only_what_it_can_take() {
    let mut able = opened(HELLO);
    let steered = serde_json::json!({"type": "steer", "number": 5, "from": "me", "text": "a\nb"});
    assert_eq!(told(&mut able, &steer(5)), steered);
    assert_eq!(told(&mut able, &Order::Interrupt), serde_json::json!({"type": "interrupt"}));
    assert!(able.acknowledges());
    let mut plain = opened(r#"{"type":"hello","version":1}"#);
    assert!(plain.tell(&steer(5)).is_err() && plain.tell(&Order::Interrupt).is_err());
    let from = Requester::from("me");
    let prompt =
        Order::Prompt { number: None, from: from.clone(), text: String::from("x"), attached: vec![] };
    let expected = serde_json::json!({"type": "prompt", "from": "me", "text": "x"});
    assert_eq!(told(&mut plain, &prompt), expected);
    assert!(!plain.acknowledges());
    assert_eq!(told(&mut plain, &Order::Close), serde_json::json!({"type": "close"}));
}

#[test]
fn an_option_is_chosen_by_its_kind_and_a_yes_is_never_made_wider() {
    use Choice::{AllowAlways, AllowOnce, DenyAlways, DenyOnce};
    for (offered, choice, word, option) in [
        (&[DenyOnce, AllowAlways, AllowOnce][..], AllowOnce, "allow_once", Some("2")),
        (&[DenyOnce, AllowAlways, AllowOnce], AllowAlways, "allow_always", Some("1")),
        (&[DenyOnce, AllowOnce], AllowAlways, "allow_once", Some("1")),
        (&[AllowAlways], AllowOnce, "allow_once", None),
        (&[AllowOnce, DenyAlways], DenyOnce, "deny_always", Some("1")),
        (&[AllowOnce, DenyOnce], DenyAlways, "deny_once", Some("1")),
        (&[AllowOnce], DenyOnce, "deny_once", None),
        (&[], AllowAlways, "allow_always", None),
    ] {
        let options = offered.iter().enumerate().map(|(at, kind)| AskOption {
            id: at.to_string(),
            name: String::new(),
            kind: *kind,
        });
        let subject = Subject::Approval {
            action: String::new(),
            title: String::new(),
            detail: None,
            options: options.collect(),
        };
        let ask = Box::new(Ask { key: String::from("k"), subject });
        let order = Order::Answer {
            key: String::from("k"),
            ask,
            answer: Answer::Choice { choice },
            reason: Some(String::from("because")),
        };
        let told = told(&mut opened(HELLO), &order);
        assert_eq!((told["answer"].as_str(), told["option"].as_str()), (Some(word), option), "{offered:?}");
        assert_eq!((told["key"].as_str(), told["reason"].as_str()), (Some("k"), Some("because")));
    }
}

#[test]
fn a_conversation_whose_beginning_is_lost_is_taken_over_all_the_same() {
    let mut lines = Lines::default();
    assert_eq!(said(&mut lines, r#"{"type":"delta","text":"x"}"#), [Said::Delta("x".into())]);
    assert_eq!(told(&mut lines, &steer(1))["number"], 1);
    let open = [Said::Opened { session: Some(String::from("s")) }];
    assert_eq!(said(&mut lines, r#"{"type":"ready","session":"s"}"#), open);
}

fn orders() -> impl Strategy<Value = Order> {
    let number = any::<u64>().prop_map(MessageNumber);
    let from = "[a-z:]{1,9}".prop_map(Requester);
    let question = Subject::Question { text: String::from("?"), choices: vec![] };
    prop_oneof![
        (proptest::option::of(number.clone()), from.clone(), any::<String>())
            .prop_map(|(number, from, text)| Order::Prompt { number, from, text, attached: vec![] }),
        (number, from, any::<String>()).prop_map(|(number, from, text)| Order::Steer {
            number,
            from,
            text,
            attached: vec![]
        }),
        Just(Order::Interrupt),
        (any::<String>(), any::<String>()).prop_map(move |(key, text)| Order::Answer {
            ask: Box::new(Ask { key: key.clone(), subject: question.clone() }),
            key,
            answer: Answer::Text { text },
            reason: None,
        }),
        Just(Order::Close),
    ]
}

/// A line of a child: a good one of any kind, or anything.
fn lines() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        HELLO.to_owned(),
        String::from(r#"{"type":"hello","version":1}"#),
        String::from(r#"{"type":"ready","session":"s"}"#),
        String::from(r#"{"type":"message","text":"x"}"#),
        String::from(r#"{"type":"took","number":1}"#),
        String::from(r#"{"type":"question","key":"k","text":"?"}"#),
        String::from(r#"{"type":"done"}"#),
        String::from(r#"{"type":"later"}"#),
    ]);
    prop_oneof![
        8 => known.prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => "\\{\"type\":\"[a-z_]{0,12}\",\"[a-z]{1,5}\":[0-9\"a{}\\[\\]]{0,9}\\}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn anything_can_be_heard_and_no_unknown_type_is_believed(all in proptest::collection::vec(lines(), 0..30)) {
        let mut codec = begun();
        for line in &all {
            let heard = codec.hear(line);
            prop_assert!(heard.said.len() <= 1 && heard.reply.is_empty());
        }
        codec.recall(&all.concat());
    }

    #[test]
    fn res_12_what_was_written_is_recalled_for_what_it_was(order in orders()) {
        let Ok(line) = opened(HELLO).tell(&order) else { panic!("an able child takes everything") };
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
        prop_assert_eq!(opened(HELLO).recall(&line[..line.len() - 1]), expected);
    }

    #[test]
    fn res_12_a_codec_made_anew_from_the_log_is_the_one_that_was(
        steps in proptest::collection::vec(prop_oneof![lines().prop_map(Ok), orders().prop_map(Err)], 0..30),
    ) {
        let (mut live, mut anew) = (begun(), begun());
        for step in steps {
            match step {
                Ok(line) => prop_assert_eq!(live.hear(&line), anew.hear(&line)),
                Err(order) => {
                    if let Ok(line) = live.tell(&order) {
                        anew.recall(&line);
                    }
                }
            }
            prop_assert_eq!(&live, &anew);
        }
        prop_assert!(anew.stage != Stage::Unknown);
    }
}
