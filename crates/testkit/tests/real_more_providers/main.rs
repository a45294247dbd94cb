//! The same table as `real_providers`, for the agents that a full test leaves out.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../real_providers/cases.rs"]
mod cases;
#[path = "../real_providers/table.rs"]
mod table;
#[path = "../real_providers/world.rs"]
mod world;

table::agent!(claude_acp, ClaudeAcp);
table::agent!(codex_acp, CodexAcp);
table::agent!(gemini, Gemini);
table::agent!(opencode, Opencode);
table::agent!(qwen, Qwen);
