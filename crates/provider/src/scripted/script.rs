//! The language of the scripts: lines to steps. Nothing is played here.

use std::time::Duration;

use subagent_model::{AttemptNumber, ErrorCode, Limit, Usage};

use crate::ModelOffer;

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Say(String),
    Delta(String),
    Turn { more: bool },
    Use(Usage),
    ToolStart { id: String, name: String },
    ToolEnd { id: String },
    Tool(String),
    Compact,
    Offer(Vec<ModelOffer>),
    Denied(String),
    Background(u32),
    HeldUp(Option<Duration>),
    Ask { action: String, title: String, always: bool },
    Question { text: String, choices: Vec<String> },
    AwaitAnswer,
    TakeBack,
    AwaitSteer,
    Steers(Manner),
    Gate(String),
    Sleep(Duration),
    Done,
    Truncated,
    Blank,
    Fail { code: ErrorCode, reset: Option<Duration>, text: String },
    Cancelled,
    Limit(Limit),
    Break(String),
    Exit,
    Panic(String),
    Deaf,
    Hang,
}

/// What a child does with messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Manner {
    #[default]
    Take,
    Decline,
    Ignore,
}

/// A script, sorted by when its lines are played.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Script {
    pub(super) before_open: Vec<Step>,
    pub(super) steps: Vec<Step>,
    /// Lines for a later prompt that is no script.
    pub(super) on_continue: String,
}

/// The words that a step begins with.
const WORDS: &[&str] = &[
    "say",
    "delta",
    "turn",
    "last",
    "use",
    "tool",
    "compact",
    "offer",
    "denied",
    "background",
    "held-up",
    "ask",
    "ask-once",
    "start-ask",
    "question",
    "await",
    "take-back",
    "steers",
    "gate",
    "sleep",
    "done",
    "truncated",
    "blank",
    "fail",
    "refuse",
    "cancelled",
    "limit",
    "break",
    "exit",
    "panic",
    "deaf",
    "hang",
    "attempt",
    "before-open",
    "on-continue",
    "repeat",
];

/// True for a text that begins as a script does.
pub(super) fn is_script(text: &str) -> bool {
    text.split_whitespace().next().is_some_and(|word| WORDS.contains(&word))
}

/// Reads a script, as far as it is meant for this attempt.
pub(super) fn read(text: &str, attempt: AttemptNumber) -> Result<Script, String> {
    let mut script = Script::default();
    for whole in text.lines().filter(|line| !line.trim().is_empty()) {
        let mut line = whole;
        if let Some(rest) = line.strip_prefix("attempt ") {
            let (number, rest) = words(rest);
            if number.parse() != Ok(attempt.0) {
                continue;
            }
            line = rest;
        }
        let before_open = line.strip_prefix("before-open ");
        line = before_open.unwrap_or(line);
        if let Some(rest) = line.strip_prefix("on-continue ") {
            script.on_continue.push_str(rest);
            script.on_continue.push('\n');
            continue;
        }
        let mut times = 1;
        if let Some(rest) = line.strip_prefix("repeat ") {
            let (number, rest) = words(rest);
            times =
                number.parse().map_err(|_| format!("the script repeats {number:?} times in {whole:?}"))?;
            line = rest;
        }
        let steps = steps(line).ok_or_else(|| format!("the script has no step {whole:?}"))?;
        let to = if before_open.is_some() { &mut script.before_open } else { &mut script.steps };
        for _ in 0..times {
            to.extend(steps.iter().cloned());
        }
    }
    Ok(script)
}

/// The steps of one line: a few lines are two.
fn steps(line: &str) -> Option<Vec<Step>> {
    let (word, rest) = words(line);
    let text = || rest.to_owned();
    let ask = |always| {
        let (action, title) = words(rest);
        (!action.is_empty()).then(|| Step::Ask { action: action.to_owned(), title: title.to_owned(), always })
    };
    let one = match word {
        "say" => Step::Say(text()),
        "delta" => Step::Delta(text()),
        "turn" => Step::Turn { more: true },
        "last" if rest == "turn" => Step::Turn { more: false },
        "use" => Step::Use(usage(rest)?),
        "tool" => tool(rest)?,
        "compact" => Step::Compact,
        "offer" => Step::Offer(rest.split_whitespace().map(offer).collect()),
        "denied" => Step::Denied(text()),
        "background" => Step::Background(rest.parse().ok()?),
        "held-up" if rest.is_empty() => Step::HeldUp(None),
        "held-up" => Step::HeldUp(Some(millis(rest)?)),
        "start-ask" => ask(true)?,
        "ask" => return Some(vec![ask(true)?, Step::AwaitAnswer]),
        "ask-once" => return Some(vec![ask(false)?, Step::AwaitAnswer]),
        "question" => return Some(vec![question(rest), Step::AwaitAnswer]),
        "await" if rest == "answer" => Step::AwaitAnswer,
        "await" if rest == "steer" => Step::AwaitSteer,
        "take-back" => Step::TakeBack,
        "steers" => Step::Steers(match rest {
            "take" => Manner::Take,
            "decline" => Manner::Decline,
            "ignore" => Manner::Ignore,
            _ => return None,
        }),
        "gate" => Step::Gate(text()),
        "sleep" => Step::Sleep(millis(rest)?),
        "done" => Step::Done,
        "truncated" => Step::Truncated,
        "blank" => Step::Blank,
        "fail" => fail(rest),
        "refuse" => Step::Fail { code: ErrorCode::Refused, reset: None, text: text() },
        "cancelled" => Step::Cancelled,
        "limit" if rest == "turns" => Step::Limit(Limit::Turns),
        "limit" if rest == "cost" => Step::Limit(Limit::Cost),
        "break" => Step::Break(text()),
        "exit" => Step::Exit,
        "panic" => Step::Panic(text()),
        "deaf" => Step::Deaf,
        "hang" => Step::Hang,
        _ => return None,
    };
    Some(vec![one])
}

/// The first word and what follows it.
fn words(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

fn offer(id: &str) -> ModelOffer {
    ModelOffer { id: id.to_owned(), name: id.to_owned() }
}

fn millis(text: &str) -> Option<Duration> {
    text.parse().ok().map(Duration::from_millis)
}

fn usage(rest: &str) -> Option<Usage> {
    let mut numbers = rest.split(' ');
    let input = numbers.next()?.parse().ok()?;
    let output = numbers.next()?.parse().ok()?;
    let cost_usd = match numbers.next() {
        Some(cost) => Some(cost.parse().ok()?),
        None => None,
    };
    // Adding makes the total.
    Some(Usage::default().plus(Usage { input, output, cost_usd, ..Usage::default() }))
}

fn tool(rest: &str) -> Option<Step> {
    match words(rest) {
        ("start", rest) if rest.contains(' ') => {
            let (id, name) = words(rest);
            Some(Step::ToolStart { id: id.to_owned(), name: name.to_owned() })
        }
        ("end", id) if !id.is_empty() => Some(Step::ToolEnd { id: id.to_owned() }),
        ("", _) => None,
        _ => Some(Step::Tool(rest.to_owned())),
    }
}

fn question(rest: &str) -> Step {
    let mut parts = rest.split('|').map(|part| part.trim().to_owned());
    Step::Question { text: parts.next().unwrap_or_default(), choices: parts.collect() }
}

fn fail(rest: &str) -> Step {
    let (word, after) = words(rest);
    let Some(code) = ErrorCode::ALL.iter().copied().find(|code| code.as_str() == word) else {
        return Step::Fail { code: ErrorCode::Crashed, reset: None, text: rest.to_owned() };
    };
    let timed = after.strip_prefix("reset ").map(words);
    match timed.and_then(|(number, text)| Some((millis(number)?, text))) {
        Some((by, text)) => Step::Fail { code, reset: Some(by), text: text.to_owned() },
        None => Step::Fail { code, reset: None, text: after.to_owned() },
    }
}
