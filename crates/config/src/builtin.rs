//! Types that there always are, unless a file of the same name takes their place. Their texts are part of what is
//! promised: a changed one is a breaking change.

use crate::definition::{AgentDefinition, Dialect, Prompt, Scope, Source};
use crate::given::Given;
use crate::name::AgentName;
use crate::tools::ToolList;
use crate::words::{PromptMode, Sandbox};

/// Tools that only look, by the names that the agents give them.
const READ_ONLY: &[&str] = &[
    "Read",
    "Grep",
    "Glob",
    "LS",
    "WebFetch",
    "WebSearch",
    "read",
    "grep",
    "glob",
    "find",
    "ls",
    "list",
    "webfetch",
    "websearch",
];

const GENERAL: &str = "\
Work on the task until it is done, by yourself: nobody answers questions on the way. Report at the end what you did, \
what you found, and what is left, with the paths of the files that matter.";

const EXPLORE: &str = "\
Find out what was asked and report it. You only look: you change no file and nothing else. Search broadly first, then \
read what matters. Report what you found with paths and line numbers, and say what you did not find.";

const PLAN: &str = "\
Make a plan for what was asked. You only look: you change no file and nothing else. Read the code that the plan \
touches, then report the steps in order, each with its files, what may go wrong, and how to check that it worked.";

/// The built-in types.
pub(crate) fn all() -> Vec<AgentDefinition> {
    let make = |name: &str, description: &str, prompt: &str| {
        // The names below are checked by a test.
        let name = AgentName::new(name).ok()?;
        let prompt = Prompt { text: prompt.to_owned(), mode: PromptMode::Append, template: false };
        let source = Source { path: None, dialect: Dialect::Subagent, scope: Scope::Builtin, trusted: true };
        Some(AgentDefinition::new(name, description, prompt, source))
    };
    let looks = |definition: Option<AgentDefinition>| {
        definition.map(|definition| AgentDefinition {
            tools: Given::Value(ToolList::new(READ_ONLY.iter().copied())),
            sandbox: Some(Sandbox::ReadOnly),
            allowed_subagents: Given::Nothing,
            ..definition
        })
    };
    [
        make("general-purpose", "Any task of several steps, with every tool that there is.", GENERAL),
        looks(make("explore", "Finds things in code and documents, and changes nothing.", EXPLORE)),
        looks(make("plan", "Reads, and proposes how to do something, and changes nothing.", PLAN)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::all;
    use crate::given::Given;
    use crate::words::Sandbox;

    #[test]
    fn the_built_in_types_are_these() {
        let all = all();
        let names: Vec<_> = all.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["general-purpose", "explore", "plan"]);
        assert_eq!(all[0].tools, Given::Omitted);
        for looks in &all[1..] {
            assert_eq!(looks.sandbox, Some(Sandbox::ReadOnly));
            let tools = looks.tools.value().unwrap();
            assert!(
                tools.names("Read")
                    && !["Write", "Edit", "Bash", "bash", "write"].iter().any(|it| tools.names(it))
            );
        }
    }
}
