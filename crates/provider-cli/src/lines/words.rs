//! The messages of the protocol as they stand on the wire, and what they mean. How they may follow one another is the
//! codec's.

use serde::{Deserialize, Serialize};
use subagent_model::text::cut_at_boundary;
use subagent_model::{
    Ask, AskOption, Choice, ErrorCode, ErrorInfo, MessageNumber, Requester, Subject, Timestamp, Usage,
};
use subagent_provider::{Said, TurnEnd};

/// Most bytes of a name: a key, a session, a tool, an option. Names are given back to the child, so a longer one is an
/// error and is not cut.
const NAME_BYTES: usize = 1024;
/// Most bytes of a title, and of the headline of a failure.
const TITLE_BYTES: usize = 4 * 1024;
/// Most bytes of a detail and of a question.
const DETAIL_BYTES: usize = 16 * 1024;
/// Most options and choices of one request.
const MOST_OPTIONS: usize = 32;

/// What we say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ToChild {
    Hello {
        version: u32,
        subagent: String,
        run: u32,
        attempt: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    Prompt {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        number: Option<MessageNumber>,
        from: Requester,
        text: String,
    },
    Steer {
        number: MessageNumber,
        from: Requester,
        text: String,
    },
    Interrupt,
    Answer {
        key: String,
        answer: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        option: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    Close,
    #[serde(other)]
    Unknown,
}

impl ToChild {
    /// The message as a line.
    pub(super) fn line(&self) -> Vec<u8> {
        // Strings and numbers can always be written.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// What the child says.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum FromChild {
    Hello {
        version: u32,
        #[serde(default)]
        session: Option<String>,
        #[serde(default)]
        can: Vec<String>,
    },
    Ready {
        #[serde(default)]
        session: Option<String>,
    },
    Delta {
        text: String,
    },
    Message {
        text: String,
    },
    Turn {
        more: bool,
    },
    Thought {
        text: String,
    },
    Notice {
        text: String,
    },
    ToolStarted {
        id: String,
        name: String,
        #[serde(default)]
        input: Option<serde_json::Value>,
    },
    ToolEnded {
        id: String,
        #[serde(default)]
        failed: Option<bool>,
        #[serde(default)]
        output: Option<serde_json::Value>,
    },
    Usage(Used),
    Compacted,
    Took {
        number: MessageNumber,
    },
    Declined {
        number: MessageNumber,
    },
    Ask {
        key: String,
        action: String,
        title: String,
        #[serde(default)]
        detail: Option<String>,
        #[serde(default)]
        options: Vec<Offered>,
    },
    Question {
        key: String,
        text: String,
        #[serde(default)]
        choices: Vec<String>,
    },
    TookBack {
        key: String,
    },
    Background {
        live: u32,
    },
    HeldUp {
        #[serde(default)]
        until: Option<Timestamp>,
    },
    Done {
        #[serde(default)]
        answer: Option<String>,
        #[serde(default)]
        truncated: bool,
    },
    Cancelled,
    Failed(Failure),
    #[serde(other)]
    Unknown,
}

/// Tokens and money since it last said so.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Used {
    input: u64,
    output: u64,
    cache_write: u64,
    cache_read: u64,
    cost_usd: Option<f64>,
}

/// An answer that the child takes. A kind that is not known cannot be chosen, and does no harm.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Offered {
    id: String,
    #[serde(default)]
    name: Option<String>,
    kind: String,
}

/// A turn that failed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Failure {
    code: String,
    message: String,
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    retryable: Option<bool>,
    #[serde(default)]
    reset_at: Option<Timestamp>,
}

impl FromChild {
    /// What it means, where that does not depend on what was said before.
    pub(super) fn said(self) -> Result<Said, String> {
        Ok(match self {
            Self::Delta { text } => Said::Delta(text),
            Self::Message { text } => Said::Message(text),
            Self::Turn { more } => Said::Turn { more },
            Self::Thought { text } => Said::Thought(text),
            Self::Notice { text } => Said::Notice(cut(text, DETAIL_BYTES)),
            Self::ToolStarted { id, name, input } => Said::ToolStarted {
                id: short("id", id)?,
                name: short("name", name)?,
                input: input.map(as_text),
            },
            Self::ToolEnded { id, failed, output } => {
                Said::ToolEnded { id: short("id", id)?, failed, output: output.map(as_text) }
            }
            Self::Usage(used) => Said::Used(used.usage()?),
            Self::Compacted => Said::Compacted,
            Self::Took { number } => Said::Took(number),
            Self::Declined { number } => Said::Declined(number),
            Self::Ask { key, action, title, detail, options } => {
                let options = options.into_iter().take(MOST_OPTIONS).filter_map(Offered::option).collect();
                let (action, title) = (short("action", action)?, cut(title, TITLE_BYTES));
                let detail = detail.map(|detail| cut(detail, DETAIL_BYTES));
                let subject = Subject::Approval { action, title, detail, options: all_short(options)? };
                Said::Asked(Ask { key: short("key", key)?, subject })
            }
            Self::Question { key, text, choices } => {
                let choices =
                    choices.into_iter().take(MOST_OPTIONS).map(|choice| cut(choice, TITLE_BYTES)).collect();
                let subject = Subject::Question { text: cut(text, DETAIL_BYTES), choices };
                Said::Asked(Ask { key: short("key", key)?, subject })
            }
            Self::TookBack { key } => Said::TookBack { key: short("key", key)? },
            Self::Background { live } => Said::Background { live },
            Self::HeldUp { until } => Said::HeldUp { until },
            Self::Done { answer, truncated } => Said::Done(TurnEnd::Finished { answer, truncated }),
            Self::Cancelled => Said::Done(TurnEnd::Cancelled),
            Self::Failed(failure) => Said::Done(TurnEnd::Failed(failure.info())),
            Self::Hello { .. } | Self::Ready { .. } | Self::Unknown => {
                return Err(String::from("it is no message of a turn"));
            }
        })
    }
}

impl Used {
    fn usage(self) -> Result<Usage, String> {
        let Self { input, output, cache_write, cache_read, cost_usd } = self;
        if cost_usd.is_some_and(|cost| !cost.is_finite() || cost < 0.0) {
            return Err(String::from("`cost_usd` is no amount"));
        }
        // Adding makes the total.
        Ok(Usage::default().plus(Usage { input, output, cache_write, cache_read, total: 0, cost_usd }))
    }
}

impl Offered {
    fn option(self) -> Option<AskOption> {
        let choices = [Choice::AllowOnce, Choice::AllowAlways, Choice::DenyOnce, Choice::DenyAlways];
        let kind = choices.into_iter().find(|choice| answer(*choice) == self.kind)?;
        let name = cut(self.name.unwrap_or(self.kind), NAME_BYTES);
        Some(AskOption { id: self.id, name, kind })
    }
}

impl Failure {
    fn info(self) -> ErrorInfo {
        let known = CODES.iter().copied().find(|code| code.as_str() == self.code);
        let code = known.unwrap_or(ErrorCode::Crashed);
        let mut detail = self.detail;
        if known.is_none() && self.code != code.as_str() {
            let note = format!("(its own code: {:?})", cut_at_boundary(&self.code, 100));
            detail = Some(detail.map_or_else(|| note.clone(), |detail| format!("{note}\n{detail}")));
        }
        let often = matches!(code, ErrorCode::RateLimited | ErrorCode::Overloaded | ErrorCode::Timeout);
        ErrorInfo {
            code,
            message: cut(self.message, TITLE_BYTES),
            detail: detail.map(|detail| cut(detail, DETAIL_BYTES)),
            retryable: self.retryable.unwrap_or(often),
            reset_at: self.reset_at,
            exit: None,
        }
    }
}

/// What a child may say of its own failures. The other codes are about what we did.
const CODES: &[ErrorCode] = &[
    ErrorCode::Crashed,
    ErrorCode::RateLimited,
    ErrorCode::QuotaExhausted,
    ErrorCode::Overloaded,
    ErrorCode::Auth,
    ErrorCode::ContextOverflow,
    ErrorCode::Refused,
    ErrorCode::Timeout,
    ErrorCode::SessionGone,
];

/// The word of a choice.
pub(super) fn answer(choice: Choice) -> &'static str {
    match choice {
        Choice::AllowOnce => "allow_once",
        Choice::AllowAlways => "allow_always",
        Choice::DenyOnce => "deny_once",
        Choice::DenyAlways => "deny_always",
    }
}

/// A name that may be absent.
pub(super) fn name(field: &str, name: Option<String>) -> Result<Option<String>, String> {
    name.map(|name| short(field, name)).transpose()
}

fn short(field: &str, name: String) -> Result<String, String> {
    if name.is_empty() {
        return Err(format!("`{field}` is empty"));
    }
    if name.len() > NAME_BYTES {
        return Err(format!("`{field}` has {} bytes, the limit is {NAME_BYTES}", name.len()));
    }
    Ok(name)
}

fn all_short(options: Vec<AskOption>) -> Result<Vec<AskOption>, String> {
    options.into_iter().map(|option| Ok(AskOption { id: short("id", option.id)?, ..option })).collect()
}

fn cut(mut text: String, most: usize) -> String {
    let end = cut_at_boundary(&text, most).len();
    text.truncate(end);
    text
}

/// A value as people read it: a text as it is, anything else as JSON.
fn as_text(value: serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    }
}
