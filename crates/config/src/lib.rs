//! Agent definition files: what a type of subagent is, and how a file, a call and the defaults become one.
//!
//! One loader reads several dialects and brings each to one [`AgentDefinition`]. A [`Catalog`] is all of them at one
//! moment; [`combine()`] says what counts for one run; [`models`] finds the model that a name means; [`prompt`] makes the
//! system prompt. The caller says which directories there are and which projects are trusted ([`Places`]): nothing here
//! reads the environment or the home directory, and nothing is written. What a project's file may not do before the
//! project is trusted is held back here, for every dialect alike.

mod builtin;
mod catalog;
mod combine;
mod definition;
mod diagnostic;
mod dialect;
mod fields;
mod fingerprint;
mod front;
mod given;
mod known;
pub mod models;
mod name;
mod places;
pub mod prompt;
mod raw;
mod read;
mod schema;
mod tools;
mod trust;
mod words;

pub use catalog::{Catalog, Catalogs, Shadowed, TypeError};
pub use combine::{Call, Ceiling, Combined, Effective, Note, Why, combine};
pub use definition::{
    AgentDefinition, ContextOptions, Dialect, Field, Limits, McpServer, Prompt, Scope, Skills, Source,
};
pub use diagnostic::{Diagnostic, Position, Severity};
pub use dialect::claude_agents;
pub use fingerprint::{Fingerprint, fingerprint};
pub use given::Given;
pub use known::Known;
pub use name::{AgentName, MAX_NAME, NameError, escape};
pub use places::{Homes, Places, Project};
pub use schema::agent_file as agent_file_schema;
pub use tools::ToolList;
pub use trust::{TRUST_VERSION, TrustError, TrustStore, Trusted};
pub use words::{
    ContextStart, Effort, Isolation, MemoryScope, ModelChoice, PermissionMode, PromptMode, Sandbox,
    Visibility,
};
