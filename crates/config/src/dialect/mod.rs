//! The rules by which files are read, one module for each product. They differ in where the name stands and in what keys
//! are called; what values may be, and what becomes of an untrusted file, is the same for all.

mod claude;
mod codex;
mod common;
mod gemini;
mod opencode;
mod own;
mod permission;
mod pi;

use camino::{Utf8Path, Utf8PathBuf};

use crate::definition::{AgentDefinition, Dialect, Scope, Source};
use crate::diagnostic::{Diagnostic, Position, Severity};
use crate::fields::Fields;
use crate::front::{self, FrontError};
use crate::known::Known;
use crate::raw::{self, Node, Syntax, Value};
use crate::{name, trust};

pub(crate) use self::codex::config_files;
#[cfg(test)]
pub(crate) use self::own::KEYS as OWN_KEYS;

/// One file, or one part of a file.
#[derive(Debug, Clone)]
pub(crate) struct Input<'a> {
    /// The file.
    pub(crate) path: &'a Utf8Path,
    /// Its path below the directory of definitions, without its ending, with `/` between the parts.
    pub(crate) stem: &'a str,
    /// Where what is in it comes from.
    pub(crate) source: &'a Source,
    /// What names it may use.
    pub(crate) known: &'a Known,
}

/// What was found.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    /// A definition.
    Good(Box<AgentDefinition>),
    /// Something that was meant to be one.
    Bad {
        /// Its name, where that can be known.
        name: Option<String>,
        /// Its file.
        path: Utf8PathBuf,
        /// The first thing that is wrong with it.
        reason: String,
    },
}

/// Everything that came out of a file.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) found: Vec<Found>,
    pub(crate) remarks: Vec<Diagnostic>,
}

/// The text that stands beside the fields of a definition.
#[derive(Debug, Clone)]
pub(crate) struct Body {
    pub(crate) text: String,
    /// The line of the file in which it begins.
    pub(crate) line: u32,
}

/// How one dialect reads the fields of one definition. Nothing means that it is none, which was told in the remarks.
type Reader = fn(&Input<'_>, &mut Fields<'_>, Body) -> Option<AgentDefinition>;

/// How one dialect reads.
struct Rules {
    reader: Reader,
    /// Keys that have a meaning.
    known: &'static [&'static str],
    /// Keys that are known and have no meaning here.
    quiet: &'static [&'static str],
}

fn rules(dialect: Dialect) -> Rules {
    match dialect {
        Dialect::Subagent => own::RULES,
        Dialect::Claude => claude::RULES,
        Dialect::Codex => codex::RULES,
        Dialect::Opencode => opencode::RULES,
        Dialect::Pi => pi::RULES,
        Dialect::Gemini => gemini::RULES,
    }
}

impl Read {
    /// What cannot be read at all.
    pub(crate) fn bad(name: Option<String>, remark: Diagnostic) -> Self {
        let bad = Found::Bad { name, path: remark.path.clone(), reason: reason(&remark) };
        Self { found: vec![bad], remarks: vec![remark] }
    }
}

/// Reads a Markdown file: a header, and a body that is its prompt.
pub(crate) fn markdown(input: &Input<'_>, text: &str) -> Read {
    let front = match front::split(text) {
        Ok(front) => front,
        Err(error @ FrontError::None) => {
            let note = Diagnostic::new(Severity::Note, input.path, error.to_string());
            return Read { remarks: vec![note], ..Read::default() };
        }
        Err(error) => {
            let remark = Diagnostic::error(input.path, error.to_string()).at(Position::START);
            return Read::bad(likely_name(input, text), remark);
        }
    };
    let mut node = match raw::yaml(&front.header) {
        Ok(node) => node,
        Err(mut error) => {
            error.at = error.at.map(|at| at.down(1));
            return Read::bad(likely_name(input, &front.header), syntax(input.path, &error));
        }
    };
    move_down(&mut node, 1);
    definition(input, node, Body { text: front.body, line: front.body_line })
}

/// Reads a TOML file that is one definition.
pub(crate) fn role(input: &Input<'_>, text: &str) -> Read {
    match raw::toml(text) {
        Ok(node) => definition(input, node, Body { text: String::new(), line: 1 }),
        Err(error) => Read::bad(likely_name(input, text), syntax(input.path, &error)),
    }
}

/// Reads a file with a table of definitions beside other settings.
pub(crate) fn table(input: &Input<'_>, text: &str, beside: &mut dyn FnMut(&Utf8Path) -> Beside) -> Read {
    let root = match input.source.dialect {
        Dialect::Codex => raw::toml(text),
        _ => raw::json(text),
    };
    let root = match root {
        Ok(root) => root,
        // It is the settings of another program; that they cannot be read loses its types and nothing else.
        Err(error) => return Read { remarks: vec![syntax(input.path, &error)], ..Read::default() },
    };
    match input.source.dialect {
        Dialect::Codex => codex::table(input, root, beside),
        Dialect::Claude => claude::table(input, root),
        _ => opencode::table(input, root),
    }
}

/// Definitions as Claude Code takes them with `--agents`: a table of names in JSON. Whoever hands them over is trusted.
pub fn claude_agents(json: &str, known: &Known) -> (Vec<AgentDefinition>, Vec<Diagnostic>) {
    let source = Source { path: None, dialect: Dialect::Claude, scope: Scope::Runtime, trusted: true };
    let path = Utf8Path::new("(runtime)");
    let input = Input { path, stem: "", source: &source, known };
    let read = table(&input, json, &mut |_| Err(String::from("there is no file beside it")));
    let good = read.found.into_iter().filter_map(|found| match found {
        Found::Good(definition) => Some(*definition),
        Found::Bad { .. } => None,
    });
    (good.collect(), read.remarks)
}

/// What a file beside another one holds: its path and text, or why it cannot be read.
pub(crate) type Beside = Result<(Utf8PathBuf, String), String>;

/// Reads one definition.
fn definition(input: &Input<'_>, node: Node, body: Body) -> Read {
    let rules = rules(input.source.dialect);
    let name = written_name(&node).or_else(|| by_file(input));
    let mut fields = Fields::of(input.path, "", node);
    let definition = if fields.failed() { None } else { (rules.reader)(input, &mut fields, body) };
    finish(input, &rules, fields, definition, name)
}

/// What is the same for every dialect once the fields were read.
fn finish(
    input: &Input<'_>,
    rules: &Rules,
    mut fields: Fields<'_>,
    definition: Option<AgentDefinition>,
    name: Option<String>,
) -> Read {
    let mut found = Vec::new();
    if let Some(mut definition) = definition {
        definition.extra.append(&mut fields.rest(rules.quiet, rules.known));
        input.known.check(&definition, &mut fields);
        trust::hold_back(&mut definition, &mut fields);
        if !fields.failed() {
            found.push(Found::Good(Box::new(definition)));
        }
    }
    if let Some(error) = fields.first_error() {
        found.push(Found::Bad { name, path: input.path.to_owned(), reason: reason(error) });
    }
    Read { found, remarks: fields.into_remarks() }
}

/// A remark without its file.
fn reason(remark: &Diagnostic) -> String {
    let field = remark.field.as_ref().map(|field| format!("`{field}`: ")).unwrap_or_default();
    let at = remark.at.map(|at| format!("line {}: ", at.line)).unwrap_or_default();
    format!("{at}{field}{}", remark.message)
}

fn syntax(path: &Utf8Path, error: &Syntax) -> Diagnostic {
    let remark = Diagnostic::error(path, error.message.clone());
    match error.at {
        Some(at) => remark.at(at),
        None => remark,
    }
}

fn move_down(node: &mut Node, lines: u32) {
    node.at = node.at.down(lines);
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(|item| move_down(item, lines)),
        Value::Map(entries) => entries.iter_mut().for_each(|(key, node)| {
            key.at = key.at.down(lines);
            move_down(node, lines);
        }),
        _ => {}
    }
}

/// The name that a table says it has.
fn written_name(node: &Node) -> Option<String> {
    let Value::Map(entries) = &node.value else { return None };
    let (_, name) = entries.iter().find(|(key, _)| key.text.eq_ignore_ascii_case("name"))?;
    match &name.value {
        Value::Text(text) => Some(text.trim().to_owned()),
        _ => None,
    }
}

/// The name that a file has by its own, in dialects where it gives one.
pub(crate) fn by_file(input: &Input<'_>) -> Option<String> {
    matches!(input.source.dialect, Dialect::Subagent | Dialect::Opencode | Dialect::Pi)
        .then(|| input.stem.to_owned())
}

/// The name of a definition that cannot be read, so that another one of the same name, farther away and perhaps wider,
/// does not take its place.
fn likely_name(input: &Input<'_>, text: &str) -> Option<String> {
    let written = text.lines().take(200).find_map(|line| {
        let rest = line.strip_prefix("name")?.trim_start();
        let value = rest.strip_prefix([':', '='])?.trim().trim_matches(['"', '\'']);
        name::AgentName::nested(value).is_ok().then(|| value.to_owned())
    });
    written.or_else(|| by_file(input))
}
