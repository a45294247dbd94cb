//! The agents that are known by name: how each is started, and in what it differs from what the protocol lets expect.
//! What stands here was seen on the versions that `docs/adr/0016` names; an agent that is not listed is driven as
//! `acp`, with its program.

/// An agent that speaks the protocol.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, and none excludes another")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agent {
    /// The name of its provider.
    pub name: &'static str,
    /// Its program, looked for on the child's own `PATH`.
    pub program: &'static str,
    /// Its arguments.
    pub args: &'static [&'static str],
    /// Variables that it needs to be supervised; what the requester set goes before.
    pub env: &'static [(&'static str, &'static str)],
    /// How it is installed.
    pub install: &'static str,
    /// Its modes that ask us and not a model of its own. Where nobody asks for a mode and a session begins in another one,
    /// it is put into the first.
    pub asks_in: &'static [&'static str],
    /// The option before a model on its command line. Without one a model is chosen over the protocol.
    pub model_option: Option<&'static str>,
    /// Another process of it can go on with a session.
    pub resumes: bool,
    /// It tells all the tokens that a turn used.
    pub tells_usage: bool,
    /// It tells what a turn cost.
    pub tells_cost: bool,
    /// It says in its messages that it tries again, and ends a turn whose tries were all in vain like a good one.
    pub retries_in_text: bool,
    /// It is the agent of this program, and says and takes what the protocol has no words for: messages into a turn, turns
    /// of the model, its tools, the shape of its answer.
    pub own: bool,
}

impl Agent {
    /// Any agent: everything is possible that is told only once it runs, and nothing is counted on that may never be told.
    pub(crate) const ANY: Self = Self {
        name: "acp",
        program: "",
        args: &[],
        env: &[],
        install: "",
        asks_in: &[],
        model_option: None,
        resumes: true,
        tells_usage: false,
        tells_cost: false,
        retries_in_text: false,
        own: false,
    };

    /// The agent of this program. Where that program is, only the program knows.
    pub(crate) const BUILTIN: Self = Self {
        name: "builtin",
        args: &["agent"],
        asks_in: &["ask", "read-only"],
        model_option: Some("--model"),
        tells_usage: true,
        own: true,
        ..Self::ANY
    };
}

/// The agents known by name.
pub const AGENTS: &[Agent] = &[
    Agent {
        name: "claude-acp",
        program: "claude-agent-acp",
        install: "npm install -g @agentclientprotocol/claude-agent-acp (Node 22 or newer)",
        // By itself it begins in `auto`.
        asks_in: &["default", "plan"],
        tells_usage: true,
        tells_cost: true,
        ..Agent::ANY
    },
    Agent {
        name: "codex-acp",
        program: "codex-acp",
        install: "npm install -g @agentclientprotocol/codex-acp",
        // By itself it begins in `agent`, where its guardian judges.
        asks_in: &["workspace-write", "read-only"],
        tells_usage: true,
        ..Agent::ANY
    },
    Agent {
        name: "dsh",
        program: "dsh",
        args: &["acp"],
        install: "pip install deepseek-harness-runtime-bin, and put its program on PATH as `dsh`",
        ..Agent::ANY
    },
    Agent {
        name: "gemini",
        program: "gemini",
        args: &["--acp"],
        // Relaunched by itself it ignores signals.
        env: &[("GEMINI_CLI_NO_RELAUNCH", "true")],
        install: "npm install -g @google/gemini-cli",
        asks_in: &["default", "plan"],
        model_option: Some("-m"),
        // It announces that it loads sessions, and refuses those of another process.
        resumes: false,
        ..Agent::ANY
    },
    Agent {
        name: "opencode",
        program: "opencode",
        args: &["acp"],
        // It must not be replaced while it works.
        env: &[("OPENCODE_DISABLE_AUTOUPDATE", "1")],
        install: "npm install -g opencode-ai",
        ..Agent::ANY
    },
    Agent {
        name: "pi-acp",
        program: "pi-acp",
        install: "npm install -g pi-acp @earendil-works/pi-coding-agent",
        retries_in_text: true,
        ..Agent::ANY
    },
    Agent {
        name: "qwen",
        program: "qwen",
        args: &["--acp"],
        install: "npm install -g @qwen-code/qwen-code",
        ..Agent::ANY
    },
];
