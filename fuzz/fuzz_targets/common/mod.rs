//! A conversation that one codec lives through while another one reads it from the log: after each step they are equal.
//!
//! The input is a script, so that it comes to deep states with few bytes. Its first byte chooses the job and whether the
//! conversation is opened; each line after it is a step:
//!
//! | Step | Meaning |
//! |---|---|
//! | `@` line, pairs of bytes | hear a known line; each pair puts a value into one of its places |
//! | `?` which, how | hear what answers one of the last lines that the codec wrote |
//! | `=` which, how, reason | answer one of the last things that were asked |
//! | `!` order, number, text | give an order |
//! | anything else | hear the line as it is |

use std::collections::VecDeque;
use std::sync::LazyLock;

use serde_json::{Value, json};
use subagent_model::{
    Answer, Ask, AttemptKey, AttemptNumber, BoundedText, Choice, MessageNumber, Requester, RunNumber,
    SpawnSpec, SubagentId,
};
use subagent_provider::{Codec, Heard, Job, Order, Said, WasTold};

/// Most steps of a script: what is deeper is found by more runs, not by longer ones.
const MOST_STEPS: usize = 400;
/// Most lines and requests that a step can go back to.
const MOST_KEPT: usize = 32;

/// Values that a place of a known line can have.
static VALUES: LazyLock<Vec<Value>> = LazyLock::new(|| {
    vec![
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(2),
        json!(-1),
        json!(0.5),
        json!(1e308),
        json!(-1e308),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(""),
        json!(" \n"),
        json!("s"),
        json!("m1"),
        json!("prompt:1"),
        json!("x".repeat(2_000)),
        json!("\u{e9}\u{1f600}".repeat(5_000)),
        json!([]),
        json!([{}]),
        json!(["x", "y"]),
        json!({}),
        json!({"x": 1}),
    ]
});

/// Who is spoken with.
pub struct Peer {
    /// The job, of one of several kinds.
    pub job: fn(u8) -> Job,
    /// The session that the opening leads to.
    pub session: &'static str,
    /// The lines after which prompts are taken.
    pub opening: Vec<Value>,
    /// What may be said besides.
    pub known: Vec<Value>,
    /// Texts that mean something to the codec.
    pub words: &'static [&'static str],
    /// What answers a line of ours, in one of several ways.
    pub answer: fn(&Value, u8) -> Vec<Value>,
}

/// A job of this provider.
pub fn job(provider: &str, change: impl FnOnce(&mut SpawnSpec)) -> Job {
    let prompt = BoundedText::whole("x").expect("it is short");
    let mut spec = SpawnSpec::new(provider, prompt.clone(), "/work".into());
    change(&mut spec);
    let subagent = SubagentId::from_uuid(uuid::Uuid::from_u128(7));
    let key = AttemptKey { subagent, run: RunNumber(1), attempt: AttemptNumber(1) };
    Job { key, spec: spec.into(), prompt, prompt_text: None, dir: "/jobs/7".into(), session: None }
}

/// Drives two codecs by a script. `same` says that they are equal, where more than their words can be compared.
pub fn converse<C: Codec + ?Sized>(
    peer: &Peer,
    input: &[u8],
    make: impl Fn(&Job) -> Box<C>,
    same: impl Fn(&C, &C),
) {
    let Some((&flags, script)) = input.split_first() else { return };
    let mut job = (peer.job)(flags >> 2);
    if flags & 2 != 0 {
        job.session = Some(peer.session.to_owned());
    }
    let opens = flags & 1 == 0;
    let mut later = job.clone();
    if opens && let Some(session) = session_of(peer, &job, make(&job)) {
        // Whoever takes the conversation over knows the session by then.
        later.session = Some(session);
    }
    let (mut live, mut anew) = (make(&job), make(&later));
    let first = live.open(&job);
    anew.open(&later);
    let mut talk = Talk { peer, live, anew, told: VecDeque::new(), asks: VecDeque::new() };
    talk.wrote(&first);
    if opens {
        for line in &peer.opening {
            talk.hear(line.to_string().as_bytes());
        }
        same(&talk.live, &talk.anew);
    }
    for step in script.split(|byte| *byte == b'\n').take(MOST_STEPS) {
        talk.step(step);
        same(&talk.live, &talk.anew);
    }
    // A log may hold anything.
    let mut stranger = make(&later);
    stranger.open(&later);
    for line in script.split(|byte| *byte == b'\n').take(MOST_STEPS) {
        stranger.recall(line);
        stranger.hear(line);
    }
    stranger.recall(script);
}

fn session_of<C: Codec + ?Sized>(peer: &Peer, job: &Job, mut codec: Box<C>) -> Option<String> {
    codec.open(job);
    let heard = peer.opening.iter().flat_map(|line| codec.hear(line.to_string().as_bytes()).said);
    heard.fold(None, |known, said| match said {
        Said::Opened { session } => session.or(known),
        _ => known,
    })
}

struct Talk<'a, C: Codec + ?Sized> {
    peer: &'a Peer,
    live: Box<C>,
    anew: Box<C>,
    /// The last lines of ours.
    told: VecDeque<Value>,
    /// What was asked of late.
    asks: VecDeque<Ask>,
}

impl<C: Codec + ?Sized> Talk<'_, C> {
    fn step(&mut self, step: &[u8]) {
        match step {
            [b'@', which, changes @ ..] => {
                let mut line = self.peer.known[index(*which, self.peer.known.len())].clone();
                for pair in changes.chunks_exact(2).take(8) {
                    let mut place = index(pair[0], places(&line));
                    put(&mut line, &mut place, &self.value(pair[1]));
                }
                self.hear(line.to_string().as_bytes());
            }
            [b'?', which, how, ..] if !self.told.is_empty() => {
                let told = &self.told[self.told.len() - 1 - index(*which, self.told.len())];
                for line in (self.peer.answer)(told, how.wrapping_sub(b'0')) {
                    self.hear(line.to_string().as_bytes());
                }
            }
            [b'=', which, how, reason @ ..] if !self.asks.is_empty() => {
                let ask = self.asks[self.asks.len() - 1 - index(*which, self.asks.len())].clone();
                let text = String::from_utf8_lossy(reason).into_owned();
                let answer = match how.wrapping_sub(b'0') % 6 {
                    0 => Answer::Choice { choice: Choice::AllowOnce },
                    1 => Answer::Choice { choice: Choice::AllowAlways },
                    2 => Answer::Choice { choice: Choice::DenyOnce },
                    3 => Answer::Choice { choice: Choice::DenyAlways },
                    4 => Answer::Text { text: text.clone() },
                    _ => Answer::None,
                };
                let reason = Some(text).filter(|text| !text.is_empty());
                self.tell(&Order::Answer { key: ask.key.clone(), ask: Box::new(ask), answer, reason });
            }
            [b'!', order, number, text @ ..] => {
                let number = MessageNumber(u64::from(number.wrapping_sub(b'0')));
                let text = String::from_utf8_lossy(text).into_owned();
                let from = Requester::from("user:1");
                let order = match order {
                    b'p' => Order::Prompt { number: None, from, text, attached: vec![] },
                    b'm' => Order::Prompt { number: Some(number), from, text, attached: vec![] },
                    b's' => Order::Steer { number, from, text, attached: vec![] },
                    b'i' => Order::Interrupt,
                    b'c' => Order::Close,
                    b'k' => Order::StopInner { key: text },
                    _ => return self.hear(step),
                };
                self.tell(&order);
            }
            line => self.hear(line),
        }
    }

    fn value(&self, which: u8) -> Value {
        let words = self.peer.words;
        match index(which, VALUES.len() + words.len()) {
            at if at < VALUES.len() => VALUES[at].clone(),
            at => Value::from(words[at - VALUES.len()]),
        }
    }

    fn hear(&mut self, line: &[u8]) {
        let heard = self.live.hear(line);
        assert_eq!(heard, self.anew.hear(line));
        check(&heard);
        for said in heard.said {
            if let Said::Asked(ask) = said {
                keep(&mut self.asks, ask);
            }
        }
        self.wrote(&heard.reply);
    }

    fn tell(&mut self, order: &Order) {
        match self.live.tell(order) {
            // What waits for the turn is owed by the state, and given again.
            Ok(bytes) if bytes.is_empty() => assert_eq!(self.anew.tell(order), Ok(vec![])),
            Ok(bytes) => {
                let was = self.wrote(&bytes);
                let expected = match order {
                    Order::Prompt { number: None, .. } => WasTold::Prompt,
                    Order::Prompt { number: Some(number), .. } | Order::Steer { number, .. } => {
                        WasTold::Message(*number)
                    }
                    Order::Interrupt => WasTold::Interrupt,
                    Order::Answer { key, .. } => WasTold::Answer(key.clone()),
                    Order::StopInner { key } => WasTold::StopInner(key.clone()),
                    Order::Close => return assert_eq!(was, []),
                };
                assert_eq!(was.iter().filter(|was| **was == expected).count(), 1, "{order:?}: {was:?}");
            }
            Err(why) => assert!(!why.is_empty()),
        }
    }

    /// What was written stands in the log, where the other one reads it.
    fn wrote(&mut self, bytes: &[u8]) -> Vec<WasTold> {
        let mut was = Vec::new();
        for line in whole_lines(bytes) {
            keep(&mut self.told, serde_json::from_slice(line).expect("what we write is JSON"));
            was.extend(self.anew.recall(line));
        }
        was
    }
}

/// What holds whatever is heard.
fn check(heard: &Heard) {
    for said in &heard.said {
        if let Said::Used(usage) = said {
            assert!(usage.cost_usd.is_none_or(|cost| cost.is_finite() && cost >= 0.0), "{usage:?}");
        }
    }
}

fn whole_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    assert!(bytes.is_empty() || bytes.ends_with(b"\n"), "a line is written whole");
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

fn keep<T>(kept: &mut VecDeque<T>, one: T) {
    if kept.len() == MOST_KEPT {
        kept.pop_front();
    }
    kept.push_back(one);
}

/// The place in a list that a byte stands for, so that printable ones stand for the first.
fn index(byte: u8, length: usize) -> usize {
    usize::from(byte.wrapping_sub(b'0')) % length.max(1)
}

/// How many places a value has, itself included.
fn places(value: &Value) -> usize {
    1 + match value {
        Value::Array(all) => all.iter().map(places).sum::<usize>(),
        Value::Object(all) => all.values().map(places).sum::<usize>(),
        _ => 0,
    }
}

/// Puts something into a place, counted from the outside to the inside.
fn put(value: &mut Value, place: &mut usize, new: &Value) -> bool {
    if *place == 0 {
        *value = new.clone();
        return true;
    }
    *place -= 1;
    match value {
        Value::Array(all) => all.iter_mut().any(|one| put(one, place, new)),
        Value::Object(all) => all.values_mut().any(|one| put(one, place, new)),
        _ => false,
    }
}
