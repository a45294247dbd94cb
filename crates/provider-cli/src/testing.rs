//! What the tests of natively driven agents have in common.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fmt::Debug;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::Value;
use subagent_model::{
    Answer, Ask, Attachment, AttemptKey, AttemptNumber, BoundedText, Choice, ExitFacts, MessageNumber,
    RunNumber, SpawnSpec, SubagentId, Subject,
};
use subagent_provider::{
    Attached, Codec, EndReason, Job, Launch, Order, ProcessEnd, ProcessLaunch, Provider, WasTold,
};

pub(crate) fn job(provider: &str, session: Option<&str>, change: impl FnOnce(&mut SpawnSpec)) -> Job {
    let text = BoundedText::whole("x").unwrap();
    let mut spec = SpawnSpec::new(provider, text.clone(), "/work".into());
    change(&mut spec);
    let key = AttemptKey {
        subagent: SubagentId::from_uuid(uuid::Uuid::from_u128(7)),
        run: RunNumber(1),
        attempt: AttemptNumber(1),
    };
    let session = session.map(str::to_owned);
    Job { key, spec: Arc::new(spec), prompt: text, prompt_text: None, dir: "/jobs/7".into(), session }
}

pub(crate) fn launched(provider: &dyn Provider, job: &Job) -> ProcessLaunch {
    match provider.launch(job).unwrap() {
        Launch::Conversation(launch) => launch,
        _ => panic!("it is spoken with"),
    }
}

/// The end of a process by itself.
pub(crate) fn process_end(code: Option<i32>, signal: Option<i32>, stderr: &str) -> ProcessEnd {
    ProcessEnd {
        reason: EndReason::Natural,
        exit: ExitFacts { code, signal, at: None },
        stdout_head: vec![],
        stdout_tail: vec![],
        stdout_omitted: 0,
        stderr_tail: stderr.as_bytes().to_vec(),
        incomplete: None,
        leftovers: 0,
        out_of_memory: false,
    }
}

pub(crate) fn prompt(text: &str) -> Order {
    Order::Prompt { number: None, from: "user:1".into(), text: text.to_owned(), attached: vec![] }
}

pub(crate) fn steer(number: u64) -> Order {
    Order::Steer {
        number: MessageNumber(number),
        from: "user:1".into(),
        text: String::from("left"),
        attached: vec![],
    }
}

pub(crate) fn answer(ask: &Ask, answer: Answer) -> Order {
    Order::Answer { key: ask.key.clone(), ask: Box::new(ask.clone()), answer, reason: None }
}

/// Orders of every kind, with answers to these keys.
pub(crate) fn orders(keys: Vec<&'static str>) -> impl Strategy<Value = Order> {
    let number = || (1..6_u64).prop_map(MessageNumber);
    let subject = Subject::Question { text: String::new(), choices: vec![] };
    let answers = prop::sample::select(vec![
        Answer::Choice { choice: Choice::AllowOnce },
        Answer::Choice { choice: Choice::DenyAlways },
        Answer::Text { text: String::from("a") },
        Answer::None,
    ]);
    prop_oneof![
        4 => (proptest::option::of(number()), any::<String>())
            .prop_map(|(number, text)| Order::Prompt { number, from: "user:1".into(), text, attached: vec![] }),
        4 => (number(), any::<String>())
            .prop_map(|(number, text)| Order::Steer { number, from: "subagent:2".into(), text, attached: vec![] }),
        2 => Just(Order::Interrupt),
        3 => (prop::sample::select(keys), answers).prop_map(move |(key, given)| {
            answer(&Ask { key: key.to_owned(), subject: subject.clone() }, given)
        }),
        1 => Just(Order::Close),
    ]
}

/// Steps of a conversation: what is heard, and what is told.
pub(crate) fn steps(
    lines: impl Strategy<Value = Vec<u8>>,
    orders: impl Strategy<Value = Order>,
) -> impl Strategy<Value = Vec<Result<Vec<u8>, Order>>> {
    proptest::collection::vec(prop_oneof![3 => lines.prop_map(Ok), 2 => orders.prop_map(Err)], 0..60)
}

/// One of the known lines, or anything.
pub(crate) fn lines(known: Vec<Value>) -> impl Strategy<Value = Vec<u8>> {
    let known = known.into_iter().map(|line| line.to_string().into_bytes()).collect::<Vec<_>>();
    prop_oneof![
        16 => prop::sample::select(known),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => "\\{\"(id|method|params|type)\":[0-9\"a-z_{}\\[\\]]{0,12}\\}".prop_map(String::into_bytes),
    ]
}

/// Two codecs of the same conversation, one that is live and one that learns of it from the log, are the same at each
/// step.
pub(crate) fn stay_the_same<C: Codec + PartialEq + Debug>(
    mut live: C,
    mut anew: C,
    steps: Vec<Result<Vec<u8>, Order>>,
) -> Result<(), TestCaseError> {
    for step in steps {
        match step {
            Ok(words) => {
                let heard = live.hear(&words);
                prop_assert_eq!(&heard, &anew.hear(&words));
                recall_all(&mut anew, &heard.reply);
            }
            Err(order) => match live.tell(&order) {
                // What waits for the turn is owed by the state, and given again.
                Ok(bytes) if bytes.is_empty() => prop_assert_eq!(anew.tell(&order), Ok(vec![])),
                Ok(bytes) => {
                    recall_all(&mut anew, &bytes);
                }
                Err(_) => {}
            },
        }
        prop_assert_eq!(&live, &anew);
    }
    Ok(())
}

/// What these lines, as they were written before, were.
pub(crate) fn recall_all(codec: &mut dyn Codec, bytes: &[u8]) -> Vec<WasTold> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.flat_map(|line| codec.recall(line)).collect()
}

/// The lines of these bytes, each whole.
pub(crate) fn lines_of(bytes: &[u8]) -> Vec<Value> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines.map(|line| serde_json::from_slice(line.strip_suffix(b"\n").unwrap()).unwrap()).collect()
}

/// What it says to this, and nothing is answered.
pub(crate) fn said(codec: &mut dyn Codec, line: &Value) -> Vec<subagent_provider::Said> {
    let heard = codec.hear(line.to_string().as_bytes());
    assert_eq!(String::from_utf8_lossy(&heard.reply), "");
    heard.said
}

/// The request that it makes of this, as its only word.
pub(crate) fn asked(codec: &mut dyn Codec, line: &Value) -> Ask {
    match &said(codec, line)[..] {
        [subagent_provider::Said::Asked(ask)] => ask.clone(),
        other => panic!("{line} was not asked: {other:?}"),
    }
}

/// The lines that an order makes.
pub(crate) fn told(codec: &mut dyn Codec, order: &Order) -> Vec<Value> {
    lines_of(&codec.tell(order).unwrap())
}

/// An image and a text.
pub(crate) fn files() -> Vec<Attached> {
    let file = |name: &str, media_type: &str, content: &[u8]| Attached {
        about: Attachment {
            name: name.to_owned(),
            media_type: media_type.to_owned(),
            bytes: content.len() as u64,
            sha256: String::from("d"),
        },
        path: format!("/kept/{name}").into(),
        content: content.into(),
    };
    vec![file("shot.png", "image/png", &[0, 1]), file("note.md", "text/markdown", b"Read me.\n")]
}

/// The order with these files.
pub(crate) fn with_files(order: Order, files: Vec<Attached>) -> Order {
    match order {
        Order::Prompt { number, from, text, .. } => Order::Prompt { number, from, text, attached: files },
        Order::Steer { number, from, text, .. } => Order::Steer { number, from, text, attached: files },
        other => other,
    }
}
