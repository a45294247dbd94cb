//! What Claude Code is told: the lines of its standard input, and how they are known again.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use subagent_provider::{Attached, with_texts};
use uuid::Uuid;

/// The name of our first request.
pub(super) const INITIALIZE: &str = "initialize";
/// How the names of our interrupts begin.
const INTERRUPT: &str = "interrupt-";
/// How the names of our requests to stop a task begin; the task follows.
pub(super) const STOP_TASK: &str = "stop-task-";

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line<'a> {
    User {
        uuid: Uuid,
        message: UserMessage<'a>,
        parent_tool_use_id: Option<&'a str>,
        session_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        priority: Option<&'a str>,
    },
    ControlRequest {
        request_id: &'a str,
        request: Request<'a>,
    },
    ControlResponse {
        response: Response<'a>,
    },
}

#[derive(Serialize)]
struct UserMessage<'a> {
    role: &'a str,
    content: Content<'a>,
}

/// What is said: a text, or a text with what goes with it.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Blocks(Vec<Block<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text { text: &'a str },
    Image { source: Source<'a> },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source<'a> {
    Base64 { media_type: &'a str, data: String },
}

#[derive(Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
enum Request<'a> {
    /// Without a system prompt: an empty one would take the place of its own.
    Initialize {},
    /// What waits behind the turn is cancelled with it: it comes back to us.
    Interrupt { cancel_queued: bool },
    /// One of its own tasks, subagents among them.
    StopTask { task_id: &'a str },
}

#[derive(Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
enum Response<'a> {
    Success { request_id: &'a str, response: Body<'a> },
    Error { request_id: &'a str, error: &'a str },
}

/// An answer.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Body<'a> {
    Permission(Permission<'a>),
    Elicitation { action: &'a str },
    Hook {},
}

/// An answer to the question whether it may use a tool.
#[derive(Serialize)]
#[serde(tag = "behavior", rename_all = "snake_case")]
pub(super) enum Permission<'a> {
    #[serde(rename_all = "camelCase")]
    Allow {
        #[serde(skip_serializing_if = "Option::is_none")]
        updated_input: Option<&'a RawValue>,
    },
    Deny {
        message: &'a str,
    },
    Cancelled,
}

impl Line<'_> {
    fn bytes(&self) -> Vec<u8> {
        // Strings and values that were read can always be written.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

pub(super) fn initialize() -> Vec<u8> {
    Line::ControlRequest { request_id: INITIALIZE, request: Request::Initialize {} }.bytes()
}

/// The `n`th interrupt of the conversation.
pub(super) fn interrupt(n: u32) -> Vec<u8> {
    let request_id = format!("{INTERRUPT}{n}");
    let request = Request::Interrupt { cancel_queued: true };
    Line::ControlRequest { request_id: &request_id, request }.bytes()
}

/// Stops one of its own tasks.
pub(super) fn stop_task(task_id: &str) -> Vec<u8> {
    let request_id = format!("{STOP_TASK}{task_id}");
    Line::ControlRequest { request_id: &request_id, request: Request::StopTask { task_id } }.bytes()
}

/// A text for the model. A steer is taken at the next safe point of the open turn, anything else when its turn comes.
pub(super) fn user(name: Uuid, text: &str, attached: &[Attached], steer: bool) -> Vec<u8> {
    let text = with_texts(text, attached);
    let images = attached.iter().filter(|file| file.is_image()).map(|file| Block::Image {
        source: Source::Base64 { media_type: &file.about.media_type, data: file.base64() },
    });
    // Images before the text that speaks of them.
    let mut blocks: Vec<_> = images.collect();
    let content = if blocks.is_empty() {
        Content::Text(&text)
    } else {
        blocks.push(Block::Text { text: &text });
        Content::Blocks(blocks)
    };
    let line = Line::User {
        uuid: name,
        message: UserMessage { role: "user", content },
        parent_tool_use_id: None,
        session_id: "",
        priority: steer.then_some("next"),
    };
    line.bytes()
}

/// The answer to a request of its.
pub(super) fn respond(request_id: &str, response: Body<'_>) -> Vec<u8> {
    Line::ControlResponse { response: Response::Success { request_id, response } }.bytes()
}

/// The answer to a request that cannot be met.
pub(super) fn refuse(request_id: &str, error: &str) -> Vec<u8> {
    Line::ControlResponse { response: Response::Error { request_id, error } }.bytes()
}

/// What a line was that an earlier daemon wrote.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Was {
    /// A text for the model, by this name.
    User(Uuid),
    Interrupt,
    /// The request to stop the task of this name.
    StopTask(String),
    /// An answer to the question of this name.
    Answer(String),
    /// It stands for nothing that anybody asks about.
    Other,
}

/// Reads a line of ours.
pub(super) fn read(line: &[u8]) -> Was {
    #[derive(Deserialize)]
    struct Written {
        #[serde(rename = "type")]
        kind: String,
        uuid: Option<Uuid>,
        request_id: Option<String>,
        response: Option<Answered>,
    }
    #[derive(Deserialize)]
    struct Answered {
        request_id: String,
        response: Option<Permitted>,
    }
    #[derive(Deserialize)]
    struct Permitted {
        behavior: Option<String>,
    }
    let Ok(written) = serde_json::from_slice::<Written>(line) else { return Was::Other };
    let Written { kind, uuid, request_id, response } = written;
    match (&*kind, uuid, request_id, response) {
        ("user", Some(name), ..) => Was::User(name),
        ("control_request", _, Some(id), _) if id.starts_with(INTERRUPT) => Was::Interrupt,
        ("control_request", _, Some(id), _) if id.starts_with(STOP_TASK) => {
            Was::StopTask(id[STOP_TASK.len()..].to_owned())
        }
        ("control_response", _, _, Some(Answered { request_id, response: Some(it) }))
            if matches!(it.behavior.as_deref(), Some("allow" | "deny")) =>
        {
            Was::Answer(request_id)
        }
        _ => Was::Other,
    }
}
