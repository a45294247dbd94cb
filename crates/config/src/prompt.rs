//! The system prompt of a child, made of what there is. The text is a promise: for the same parts it is the same, byte
//! for byte.
//!
//! ```text
//! {base}                                  the parent's prompt or that of the provider; with `append` only
//!
//! <project_instructions>                  where they enter
//! ## {name of the file}
//!
//! {its text}
//! </project_instructions>
//!
//! {prompt of the type}
//!
//! <subagent>                              all that differs between siblings, and nothing of it before
//! name: {name}
//! type: {type}
//! directory: {directory}
//! branch: {branch}
//! </subagent>
//! ```
//!
//! Parts are separated by an empty line; one that is empty is left out with its line. Instruction files of the project
//! enter with `append` unless `context.instructions` is false, and with `replace` only when it is true.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::definition::{AgentDefinition, ContextOptions};
use crate::diagnostic::Position;
use crate::fields::join;
use crate::name::escape;
use crate::words::PromptMode;

mod template;
mod traces;

pub(crate) use self::template::check;
pub use self::template::{MOVING, PromptError, VARIABLES};
pub use self::traces::Traces;

/// A file of instructions that a project has for every agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction<'a> {
    /// Its name, relative to the project.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// What differs between siblings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity<'a> {
    /// Name of the child.
    pub name: &'a str,
    /// Its working directory.
    pub directory: Option<&'a str>,
    /// Its branch.
    pub branch: Option<&'a str>,
}

/// Everything that a prompt is made of beside the definition.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The prompt that is there without the definition.
    pub base: Option<&'a str>,
    /// Instruction files of the project.
    pub instructions: &'a [Instruction<'a>],
    /// Further variables. They have to be the same for all siblings.
    pub variables: &'a BTreeMap<String, String>,
    /// Who the child is.
    pub identity: Identity<'a>,
    /// What a child with files of its own must not be told of its parent.
    pub isolated_from: Option<&'a Traces>,
}

/// A prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Composed {
    /// The text.
    pub text: String,
    /// How many bytes of it are the same for all siblings of the type.
    pub shared: usize,
}

/// Makes the prompt. `context` is what counts after the call was combined with the definition.
pub fn compose(
    definition: &AgentDefinition,
    context: &ContextOptions,
    around: &Surroundings<'_>,
) -> Result<Composed, PromptError> {
    let prompt = &definition.prompt;
    let own =
        if prompt.template { template::fill(definition, around.variables)? } else { prompt.text.clone() };
    let append = prompt.mode == PromptMode::Append;
    let base = around.base.filter(|_| append).map(without_identity).unwrap_or_default();
    let instructions = if context.instructions.unwrap_or(append) {
        instructions(around.instructions)
    } else {
        String::new()
    };
    let parts: Vec<&str> =
        [base, &instructions, &own].into_iter().map(str::trim_end).filter(|part| !part.is_empty()).collect();
    let mut text = parts.join("\n\n");
    if let Some(traces) = around.isolated_from {
        text = traces.removed_from(&text);
    }
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    let shared = text.len();
    text.push_str(&identity(definition, &around.identity));
    Ok(Composed { text, shared })
}

const OPEN: &str = "<subagent>\n";
const CLOSE: &str = "</subagent>";

fn identity(definition: &AgentDefinition, identity: &Identity<'_>) -> String {
    let mut text = String::from(OPEN);
    let lines = [
        ("name", Some(identity.name)),
        ("type", Some(definition.name.as_str())),
        ("directory", identity.directory),
        ("branch", identity.branch),
    ];
    for (key, value) in lines {
        if let Some(value) = value {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{key}: {}", escape(value));
        }
    }
    text.push_str(CLOSE);
    text
}

/// A prompt without the part at its end that says who its reader is: the child is another one.
fn without_identity(base: &str) -> &str {
    let base = base.trim_end();
    if !base.ends_with(CLOSE) {
        return base;
    }
    match base.rfind(OPEN) {
        Some(0) => "",
        Some(at) if base[..at].ends_with('\n') => base[..at].trim_end(),
        _ => base,
    }
}

fn instructions(files: &[Instruction<'_>]) -> String {
    let texts: Vec<String> = files
        .iter()
        .filter(|file| !file.text.trim().is_empty())
        .map(|file| format!("## {}\n\n{}", escape(file.name), enclosed(file.text.trim())))
        .collect();
    if texts.is_empty() {
        return String::new();
    }
    format!("<project_instructions>\n{}\n</project_instructions>", texts.join("\n\n"))
}

/// A text that cannot end the part that it stands in.
fn enclosed(text: &str) -> String {
    text.replace("</project_instructions", "&lt;/project_instructions")
}

/// The place and the reason of a wrong template, for the loader.
pub(crate) type Wrong = (Position, PromptError);

/// The list of variables, for messages.
pub(crate) fn variables<'a>(more: impl IntoIterator<Item = &'a str>) -> String {
    join(VARIABLES.iter().copied().chain(more))
}
