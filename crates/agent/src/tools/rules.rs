//! The lists of allowed and denied tools, as agent files have them: names in any case (`Read`), patterns in which `*`
//! stands for any text (`mcp__tracker__*`), and what a tool may be called with (`Bash(git *)`, `Edit(src/*)`). What is
//! understood is enforced at each call; what could not be is refused when the session opens.

mod command;
mod path;

use std::sync::Arc;

use serde_json::Value;
use thiserror::Error;

use super::bash;
use command::CommandPattern;
pub(super) use path::{PathPattern, PathRule};

/// A limit that cannot be kept, and what to do instead.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// A command can be told in more ways than a list can name.
    #[error(
        "a list of tools denies {0:?}, which cannot be enforced: a shell can be asked for the same thing in other words; \
         deny Bash as a whole, or allow only some commands, such as Bash(git status)"
    )]
    DeniedCommand(String),
    /// Only commands and paths can be limited.
    #[error(
        "a list of tools says {0:?}, and what this tool is called with cannot be limited; name the tool without brackets"
    )]
    Argument(String),
    /// Brackets that do not fit.
    #[error(
        "a list of tools has {0:?}, which is neither a name nor a name with one pair of brackets at its end"
    )]
    Form(String),
}

/// Tools whose argument is a path.
const PATH_TOOLS: &[&str] = &["read", "edit", "write", "ls", "find", "grep"];
/// Names that other agents give to these tools.
const ALIASES: &[(&str, &str)] =
    &[("glob", "find"), ("list", "ls"), ("multiedit", "edit"), ("task", "subagent"), ("agent", "subagent")];

/// The name here of a tool that other agents call so, in any case.
pub(super) fn alias(name: &str) -> Option<&'static str> {
    ALIASES.iter().find(|(theirs, _)| theirs.eq_ignore_ascii_case(name)).map(|(_, ours)| *ours)
}

/// One entry of a list.
#[derive(Clone, Debug)]
struct Entry {
    /// As it was written.
    text: String,
    /// The name or pattern, in lower case.
    name: String,
    /// What stands in brackets.
    argument: Option<String>,
}

/// Both lists, understood.
#[derive(Debug)]
pub(super) struct Rules {
    allow: Option<Vec<Entry>>,
    deny: Vec<Entry>,
    denied_reads: Vec<PathPattern>,
}

impl Rules {
    pub(super) fn new(allow: Option<&[String]>, deny: &[String]) -> Result<Self, Refusal> {
        let allow = allow.map(|list| list.iter().map(|text| Entry::new(text)).collect()).transpose()?;
        let deny: Vec<Entry> = deny.iter().map(|text| Entry::new(text)).collect::<Result<_, _>>()?;
        for entry in allow.iter().flatten().chain(&deny) {
            let Some(argument) = &entry.argument else { continue };
            let denied = deny.iter().any(|other| std::ptr::eq(other, entry));
            if entry.name == "bash" {
                if denied && !argument.trim_matches('*').is_empty() {
                    return Err(Refusal::DeniedCommand(entry.text.clone()));
                }
            } else if !PATH_TOOLS.contains(&entry.name.as_str()) || argument.is_empty() {
                return Err(Refusal::Argument(entry.text.clone()));
            }
        }
        // What may not be read may not be found, searched or overwritten unseen either.
        let denied_reads = deny
            .iter()
            .filter(|entry| {
                matches!(entry.name.as_str(), "read" | "grep" | "find" | "ls") && !entry.is_whole()
            })
            .filter_map(|entry| entry.argument.as_deref().map(PathPattern::new))
            .collect();
        Ok(Self { allow, deny, denied_reads })
    }

    /// Paths that no file tool may touch.
    pub(super) fn denied_reads(&self) -> &[PathPattern] {
        &self.denied_reads
    }

    /// Whether a tool may be used for anything at all.
    pub(super) fn may_use(&self, tool: &str) -> bool {
        let allowed = self.allow.as_ref().is_none_or(|list| list.iter().any(|entry| entry.fits(tool)));
        allowed && !self.denies(tool)
    }

    /// Whether a tool is allowed by its very name.
    pub(super) fn asks_for(&self, tool: &str) -> bool {
        self.allow.iter().flatten().any(|entry| entry.name == tool)
    }

    /// Whether a tool is denied as a whole.
    pub(super) fn denies(&self, tool: &str) -> bool {
        self.deny.iter().any(|entry| entry.fits(tool) && entry.is_whole())
    }

    /// Whether any tool of a server may be used.
    pub(super) fn may_use_server(&self, server: &str) -> bool {
        let prefix = format!("mcp__{}__", server.to_lowercase());
        let allowed = self.allow.as_ref().is_none_or(|list| {
            list.iter().any(|entry| {
                let fixed = entry.name.split('*').next().unwrap_or_default();
                entry.fits(&prefix)
                    || fixed.starts_with(&prefix)
                    || prefix.starts_with(fixed) && entry.name.contains('*')
            })
        });
        let denied = self.deny.iter().any(|entry| {
            entry.is_whole()
                && (entry.name == prefix.trim_end_matches('_') || entry.name == format!("{prefix}*"))
        });
        allowed && !denied
    }

    /// Whether this call may be made, and which paths it may touch. The answer for the model when it may not.
    pub(super) fn check(&self, tool: &str, input: &Value) -> Result<Arc<PathRule>, String> {
        if !self.may_use(tool) {
            return Err(format!("the tool {tool} may not be used in this session"));
        }
        let tool = tool.to_lowercase();
        let entries: Vec<&Entry> = self.allow.iter().flatten().filter(|entry| entry.fits(&tool)).collect();
        // An entry without brackets allows all.
        let limited = self.allow.is_some() && entries.iter().all(|entry| entry.argument.is_some());
        let arguments = || entries.iter().filter_map(|entry| entry.argument.as_deref());
        if tool == "bash" {
            if limited {
                let line = bash::command_of(input).unwrap_or_default();
                let patterns: Vec<_> = arguments().map(CommandPattern::new).collect();
                command::check(&line, &patterns)?;
            }
            return Ok(Arc::default());
        }
        let denied = self.deny.iter().filter(|entry| {
            // To replace a file by `write` is to edit it.
            entry.name == tool
                || (matches!(tool.as_str(), "edit" | "write")
                    && matches!(entry.name.as_str(), "edit" | "write"))
        });
        Ok(Arc::new(PathRule {
            allow: (limited && PATH_TOOLS.contains(&tool.as_str()))
                .then(|| arguments().map(PathPattern::new).collect()),
            deny: denied.filter_map(|entry| entry.argument.as_deref().map(PathPattern::new)).collect(),
        }))
    }

    /// What people should know of how the lists were understood, for these built-in tools: names that mean none of them
    /// (a mistake, or another agent's tool), and limits that a shell gets around.
    pub(super) fn notes(&self, tools: &[&str]) -> Vec<String> {
        let unknown = self
            .allow
            .iter()
            .flatten()
            .filter(|entry| !entry.name.starts_with("mcp__") && !tools.iter().any(|tool| entry.fits(tool)))
            .map(|entry| format!("{:?} is allowed, and there is no such tool here", entry.text));
        let paths = |entry: &&Entry| entry.argument.is_some() && PATH_TOOLS.contains(&entry.name.as_str());
        let limited: Vec<_> = self
            .allow
            .iter()
            .flatten()
            .chain(&self.deny)
            .filter(paths)
            .map(|entry| entry.text.as_str())
            .collect();
        let around = (!limited.is_empty() && self.may_use("bash")).then(|| {
            format!("{} limits file tools; commands of bash are not held by it", limited.join(", "))
        });
        unknown.chain(around).collect()
    }
}

impl Entry {
    fn new(text: &str) -> Result<Self, Refusal> {
        let trimmed = text.trim();
        let (name, argument) = match trimmed.split_once('(') {
            None => (trimmed, None),
            Some((name, rest)) => match rest.strip_suffix(')') {
                Some(argument) => (name, Some(argument.trim().to_owned())),
                None => return Err(Refusal::Form(text.to_owned())),
            },
        };
        let mut name = name.trim().to_lowercase();
        if name.is_empty() || name.contains(')') {
            return Err(Refusal::Form(text.to_owned()));
        }
        if let Some(ours) = alias(&name) {
            name = ours.to_owned();
        }
        // A whole server, by its name alone.
        if let Some(server) = name.strip_prefix("mcp__")
            && !server.contains("__")
            && !server.contains('*')
        {
            name.push_str("__*");
        }
        Ok(Self { text: text.to_owned(), name, argument })
    }

    fn fits(&self, tool: &str) -> bool {
        fits(&self.name, &tool.to_lowercase())
    }

    /// Whether it means the tool whatever it is called with.
    fn is_whole(&self) -> bool {
        self.argument
            .as_deref()
            .is_none_or(|argument| !argument.is_empty() && argument.trim_matches('*').is_empty())
    }
}

/// True when `text` fits `pattern`, in which `*` stands for any text.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts: Vec<_> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests;
