//! The tools of the built-in agent: what a tool is, what one call is given, and the box that enforces which tools may
//! be used. Each tool has a file below; the loop that calls them is elsewhere.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

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

/// What one call is given.
#[derive(Clone, Debug)]
pub struct Context {
    /// The directories that tools may touch; the first is where relative paths begin.
    pub roots: Vec<PathBuf>,
    /// The environment of commands, in full.
    pub environment: Vec<(String, String)>,
    /// Ends the call.
    pub cancel: CancellationToken,
}

/// The tools that may be used.
#[derive(Default)]
pub struct Toolbox {
    tools: Vec<Arc<dyn Tool>>,
}

impl Toolbox {
    /// What the model is told, in a fixed order.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools
            .iter()
            .map(|tool| ToolSpec {
                name: tool.name().to_owned(),
                description: tool.description().to_owned(),
                parameters: tool.parameters(),
                kind: tool.kind(),
            })
            .collect()
    }

    /// What people are told of a call.
    pub fn title(&self, name: &str, input: &Value) -> String {
        self.find(name).map_or_else(|| name.to_owned(), |tool| tool.title(input))
    }

    /// Carries out a call, if that tool may be used.
    pub async fn call(&self, name: &str, input: Value, cx: &Context) -> Output {
        match self.find(name) {
            Some(tool) => tool.call(input, cx).await,
            None => Output { text: format!("there is no tool {name:?} here"), failed: true },
        }
    }

    fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.name() == name)
    }
}
