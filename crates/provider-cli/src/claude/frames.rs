//! What Claude Code says: the frames of its standard output, as far as they are used here. Unknown types and fields are
//! skipped, and a known field that does not fit counts as absent, unless nothing can be made of the frame without it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// One line of its standard output.
#[derive(Debug)]
pub(super) enum Frame {
    /// A turn begins.
    Init(Init),
    /// Whether it works, waits for an answer, or is idle.
    State(String),
    /// What became of a line of ours.
    Lifecycle(Lifecycle),
    Assistant(Assistant),
    User(User),
    Stream(Stream),
    TaskStarted(TaskStarted),
    TaskUpdated(TaskUpdated),
    TaskNotification(TaskNotification),
    BackgroundTasks(BackgroundTasks),
    Retry(Retry),
    RateLimit(RateLimit),
    Compacted,
    Notice(String),
    Denied(Denial),
    Result(Box<ResultFrame>),
    Request(Box<Request>),
    Cancelled(String),
    Response(Response),
    /// Nothing that is used here, or no frame at all.
    Other,
}

/// Reads a line. `Err` says why nothing can be made of a frame that is needed.
pub(super) fn read(line: &[u8]) -> Result<Frame, String> {
    let Ok(head) = serde_json::from_slice::<Head<'_>>(line) else { return Ok(Frame::Other) };
    let frame = match (&*head.kind, head.subtype.as_deref().unwrap_or_default()) {
        ("result", _) => Frame::Result(needed(line)?),
        ("control_request", _) => return request(line),
        ("control_cancel_request", _) => Frame::Cancelled(needed::<Cancel>(line)?.request_id),
        ("control_response", _) => or_other(line, |it: Responding| Frame::Response(it.response)),
        ("system", "init") => or_other(line, Frame::Init),
        ("system", "session_state_changed") => or_other(line, |it: StateChanged| Frame::State(it.state)),
        ("command_lifecycle", _) => or_other(line, Frame::Lifecycle),
        ("assistant", _) => or_other(line, Frame::Assistant),
        ("user", _) => or_other(line, Frame::User),
        ("stream_event", _) => or_other(line, Frame::Stream),
        ("system", "task_started") => or_other(line, Frame::TaskStarted),
        ("system", "task_updated") => or_other(line, Frame::TaskUpdated),
        ("system", "task_notification") => or_other(line, Frame::TaskNotification),
        ("system", "background_tasks_changed") => or_other(line, Frame::BackgroundTasks),
        ("system", "api_retry") => or_other(line, Frame::Retry),
        ("rate_limit_event", _) => or_other(line, |it: RateLimited| Frame::RateLimit(it.rate_limit_info)),
        ("system", "compact_boundary") => Frame::Compacted,
        ("system", "informational" | "model_refusal_fallback") => {
            or_other(line, |it: Said| Frame::Notice(it.content))
        }
        ("system", "permission_denied") => or_other(line, Frame::Denied),
        _ => Frame::Other,
    };
    Ok(frame)
}

fn request(line: &[u8]) -> Result<Frame, String> {
    let asking = needed::<Asking>(line)?;
    let whole = asking.whole.get();
    let subtype = serde_json::from_str::<Subtype>(whole).map(|it| it.subtype).unwrap_or_default();
    let ask = match &*subtype {
        "can_use_tool" => serde_json::from_str(whole).map_or(Asked::Unfit, Asked::Tool),
        "elicitation" => Asked::Elicitation,
        "request_user_dialog" => Asked::Dialog,
        "hook_callback" => Asked::Hook,
        _ => Asked::Unknown(subtype),
    };
    Ok(Frame::Request(Box::new(Request { id: asking.request_id, ask })))
}

fn needed<T: DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|error| error.to_string())
}

fn or_other<T: DeserializeOwned>(line: &[u8], frame: impl FnOnce(T) -> Frame) -> Frame {
    serde_json::from_slice(line).map_or(Frame::Other, frame)
}

/// A field that counts as absent where it does not fit.
fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(reader: D) -> Result<T, D::Error> {
    let raw = Box::<RawValue>::deserialize(reader)?;
    Ok(serde_json::from_str(raw.get()).unwrap_or_default())
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    subtype: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Subtype {
    subtype: String,
}

#[derive(Deserialize)]
struct Cancel {
    request_id: String,
}

#[derive(Deserialize)]
struct StateChanged {
    state: String,
}

#[derive(Deserialize)]
struct Said {
    content: String,
}

#[derive(Deserialize)]
struct RateLimited {
    rate_limit_info: RateLimit,
}

#[derive(Debug, Deserialize)]
pub(super) struct Init {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) session_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) model: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Lifecycle {
    pub(super) command_uuid: String,
    pub(super) state: String,
}

/// A part of a message of a model. Each has one or more of its blocks; all parts of a message have its id.
#[derive(Debug, Deserialize)]
pub(super) struct Assistant {
    pub(super) message: Message,
    /// The call by which an inner subagent came to be, where it says this.
    #[serde(default)]
    pub(super) parent_tool_use_id: Option<String>,
    /// The class of the failure that stands in the place of a message.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) error: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) is_api_error_message: bool,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) rate_limit_info: Option<RateLimit>,
    /// It was broken off.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) aborted: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct User {
    pub(super) message: Message,
    #[serde(default)]
    pub(super) parent_tool_use_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Message {
    /// A text, or a list of blocks.
    content: Box<RawValue>,
}

impl Message {
    /// Its blocks, as far as they can be read. A bare text is no block: only we say such.
    pub(super) fn blocks(&self) -> Vec<Block> {
        let blocks: Vec<Box<RawValue>> = serde_json::from_str(self.content.get()).unwrap_or_default();
        blocks.iter().filter_map(|block| serde_json::from_str(block.get()).ok()).collect()
    }
}

/// A piece of a message. Which fields it has follows from its kind.
#[derive(Debug, Deserialize)]
pub(super) struct Block {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) text: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) thinking: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) input: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) tool_use_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) is_error: Option<bool>,
    #[serde(default)]
    pub(super) content: Option<Box<RawValue>>,
}

/// Part of a message while it comes.
#[derive(Debug, Deserialize)]
pub(super) struct Stream {
    pub(super) event: StreamEvent,
    #[serde(default)]
    pub(super) parent_tool_use_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct StreamEvent {
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// Of `message_start`.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) message: Option<Started>,
    /// Of `content_block_delta` and `message_delta`.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) delta: Option<Delta>,
    /// Of `message_delta`.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<Tokens>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Started {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<Tokens>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Delta {
    #[serde(default, rename = "type", deserialize_with = "lenient")]
    pub(super) kind: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) text: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) stop_reason: Option<String>,
}

/// Tokens as the API counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Tokens {
    #[serde(rename = "input_tokens", deserialize_with = "lenient")]
    pub(super) input: Option<u64>,
    #[serde(rename = "output_tokens", deserialize_with = "lenient")]
    pub(super) output: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens", deserialize_with = "lenient")]
    pub(super) cache_write: Option<u64>,
    #[serde(rename = "cache_read_input_tokens", deserialize_with = "lenient")]
    pub(super) cache_read: Option<u64>,
}

/// Tokens and money of one model, as Claude Code counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ModelUsage {
    #[serde(deserialize_with = "lenient")]
    pub(super) input_tokens: u64,
    #[serde(deserialize_with = "lenient")]
    pub(super) output_tokens: u64,
    #[serde(deserialize_with = "lenient")]
    pub(super) cache_creation_input_tokens: u64,
    #[serde(deserialize_with = "lenient")]
    pub(super) cache_read_input_tokens: u64,
    #[serde(rename = "costUSD", deserialize_with = "lenient")]
    pub(super) cost_usd: Option<f64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TaskStarted {
    pub(super) task_id: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) parent_task_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) task_type: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) subagent_type: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) description: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TaskUpdated {
    pub(super) task_id: String,
    pub(super) patch: TaskPatch,
}

#[derive(Debug, Deserialize)]
pub(super) struct TaskPatch {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) status: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) description: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TaskNotification {
    pub(super) task_id: String,
    pub(super) status: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct BackgroundTasks {
    pub(super) tasks: Vec<BackgroundTask>,
}

#[derive(Debug, Deserialize)]
pub(super) struct BackgroundTask {
    /// A watcher, and no work.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) ambient: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Retry {
    #[serde(deserialize_with = "lenient")]
    pub(super) attempt: u64,
    #[serde(deserialize_with = "lenient")]
    pub(super) max_retries: u64,
    #[serde(rename = "retry_delay_ms", deserialize_with = "lenient")]
    pub(super) delay_ms: f64,
    #[serde(deserialize_with = "lenient")]
    pub(super) error_status: Option<u16>,
    #[serde(deserialize_with = "lenient")]
    pub(super) error: Option<String>,
}

/// How a quota stands.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct RateLimit {
    pub(super) status: String,
    /// In seconds since 1970.
    #[serde(default, rename = "resetsAt", deserialize_with = "lenient")]
    pub(super) resets_at: Option<f64>,
    #[serde(default, rename = "rateLimitType", deserialize_with = "lenient")]
    pub(super) kind: Option<String>,
    /// The requests go on, and are paid for apart.
    #[serde(default, rename = "isUsingOverage", deserialize_with = "lenient")]
    pub(super) overage: bool,
}

/// A use of a tool that was denied.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Denial {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) tool_name: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) tool_use_id: String,
    #[serde(default)]
    pub(super) tool_input: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) message: Option<String>,
}

/// The end of a turn.
#[derive(Debug, Deserialize)]
pub(super) struct ResultFrame {
    pub(super) subtype: String,
    pub(super) is_error: bool,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) result: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) errors: Vec<String>,
    #[serde(default)]
    pub(super) structured_output: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) stop_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) terminal_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) api_error_status: Option<u16>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) api_error: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) rate_limit_info: Option<RateLimit>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<Tokens>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) total_cost_usd: Option<f64>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) model_usage_since_last_result: Option<BTreeMap<String, ModelUsage>>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) permission_denials: Vec<Denial>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) user_message_uuids: Vec<String>,
}

#[derive(Deserialize)]
struct Asking {
    request_id: String,
    #[serde(rename = "request")]
    whole: Box<RawValue>,
}

/// It asks something, and waits for the answer.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: String,
    pub(super) ask: Asked,
}

#[derive(Debug)]
pub(super) enum Asked {
    /// A permission, or a question to a person: for Claude Code both are the use of a tool.
    Tool(ToolAsk),
    /// The same, and it cannot be read.
    Unfit,
    Elicitation,
    Dialog,
    Hook,
    Unknown(String),
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolAsk {
    pub(super) tool_name: String,
    pub(super) input: Box<RawValue>,
    /// The inner subagent that wants to use it.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) agent_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) blocked_path: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) decision_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) description: Option<String>,
}

#[derive(Deserialize)]
struct Responding {
    response: Response,
}

/// The answer to a request of ours.
#[derive(Debug, Deserialize)]
pub(super) struct Response {
    pub(super) subtype: String,
    pub(super) request_id: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) error: Option<String>,
    #[serde(default, rename = "response", deserialize_with = "lenient")]
    pub(super) receipt: Option<Receipt>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Receipt {
    /// Lines of ours that an interrupt took out of the queue.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) cancelled: Vec<String>,
}
