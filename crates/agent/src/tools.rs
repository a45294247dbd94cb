//! The tools of the built-in agent: what a tool is, what one call is given, and the box that decides which tools may
//! be used. Each tool has a file below; the loop that calls them is elsewhere, and so is everything that asks a person.
//!
//! What may be used is decided when a tool is **called**, not by what the model was told: see [`Toolbox::call`].

mod bash;
mod context;
mod edit;
mod environment;
mod find;
mod grep;
mod groups;
mod input;
mod ls;
mod mcp;
mod nested;
mod read;
mod rules;
mod spill;
mod text;
mod toolbox;
mod walk;
mod workspace;
mod write;

use futures_util::future::BoxFuture;
use serde_json::Value;

pub use context::Context;
pub use environment::for_commands;
pub use mcp::{McpServer, McpTransport};
pub use nested::Nested;
pub use toolbox::{OpenError, Settings, Toolbox};

/// The most bytes of text that one call of a built-in or MCP tool brings: 50 KiB. The rest is named, and where to find it.
pub const MAX_OUTPUT: usize = 50 * 1024;

/// One thing that a model can ask for.
pub trait Tool: Send + Sync {
    /// The name in requests of the model.
    fn name(&self) -> &str;
    /// What the model is told of it.
    fn description(&self) -> &str;
    /// The JSON Schema of its input.
    fn parameters(&self) -> Value;
    /// What kind of work it does.
    fn kind(&self) -> Kind;
    /// What people are told of this call, one line, such as `read src/lib.rs 1-40`.
    fn title(&self, input: &Value) -> String;
    /// Does it. A failure is an output too: the model is to read it.
    fn call<'a>(&'a self, input: Value, cx: &'a Context) -> BoxFuture<'a, Output>;
}

/// Kinds of work, as the Agent Client Protocol has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Looks at a file or a directory.
    Read,
    /// Looks for something.
    Search,
    /// Changes files.
    Edit,
    /// Runs a command.
    Execute,
    /// Asks another machine.
    Fetch,
    /// Anything else.
    Other,
}

/// What a call brought, for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The text, bounded.
    pub text: String,
    /// Whether it is the account of a failure.
    pub failed: bool,
}

impl Output {
    /// What was asked for.
    pub fn done(text: impl Into<String>) -> Self {
        Self { text: text.into(), failed: false }
    }

    /// Why there is nothing, or not all of it.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { text: text.into(), failed: true }
    }
}

/// What a model is told of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// The JSON Schema of its input.
    pub parameters: Value,
    /// What kind of work it does.
    pub kind: Kind,
}
