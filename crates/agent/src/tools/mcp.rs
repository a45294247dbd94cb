//! Tools of MCP servers, over their standard streams or HTTP. A server is started when its tools are first needed,
//! within a bound; it is no friend: what it announces, sends and leaves running is bounded too. The protocol itself is
//! the official crate's.

mod answer;
mod connect;
mod metered;
mod server;
mod tool;

use std::path::PathBuf;
use std::time::Duration;

pub(super) use server::Server;

/// An MCP server whose tools are offered.
#[derive(Clone)]
pub struct McpServer {
    /// Its name, which the names of its tools carry: `mcp__name__tool`.
    pub name: String,
    /// How it is reached.
    pub transport: McpTransport,
    /// How long its start and the list of its tools may take.
    pub start_within: Duration,
    /// How long one call may take.
    pub call_within: Duration,
}

/// How an MCP server is reached.
#[derive(Clone)]
pub enum McpTransport {
    /// A program that speaks on its standard streams.
    Stdio {
        /// The program, looked for along `PATH` of the commands' environment.
        program: PathBuf,
        /// Its arguments.
        arguments: Vec<String>,
        /// Variables beside those of commands. Their values are kept out of all messages.
        environment: Vec<(String, String)>,
    },
    /// Streamable HTTP.
    Http {
        /// Where. With headers it must be `https`, or on this machine.
        url: String,
        /// Headers of each request. Their values are kept out of all messages.
        headers: Vec<(String, String)>,
    },
}

impl McpServer {
    /// A server with the usual bounds: 30 seconds for its start, 5 minutes for a call.
    pub fn new(name: impl Into<String>, transport: McpTransport) -> Self {
        let (start_within, call_within) = (Duration::from_secs(30), Duration::from_mins(5));
        Self { name: name.into(), transport, start_within, call_within }
    }

    /// Whether the name can stand in a name of a tool, and be told apart there.
    pub(super) fn has_usable_name(&self) -> bool {
        let usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        !self.name.is_empty()
            && self.name.len() <= 32
            && self.name.chars().all(usual)
            && !self.name.contains("__")
            && !self.name.starts_with('_')
            && !self.name.ends_with('_')
    }
}

impl std::fmt::Debug for McpServer {
    // Its environment and headers are secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpServer").field("name", &self.name).finish_non_exhaustive()
    }
}
