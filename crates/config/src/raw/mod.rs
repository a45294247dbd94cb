//! What the three notations have in common: a tree of values, each with its place in the file. Dialects read this tree
//! and never see a parser.

mod json;
mod toml;
mod yaml;

use crate::diagnostic::Position;

pub(crate) use self::json::read as json;
pub(crate) use self::toml::read as toml;
pub(crate) use self::yaml::read as yaml;

/// The deepest nesting of a file that is read.
const DEPTH: usize = 32;
/// The most values in one file.
const NODES: usize = 20_000;

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Position,
    pub(crate) value: Value,
}

/// A value of any notation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// The name of an entry and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) at: Position,
}

/// Why a text could not be read, and where.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Syntax {
    pub(crate) at: Option<Position>,
    pub(crate) message: String,
}

impl Node {
    /// What it is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a switch",
            Value::Int(_) | Value::Float(_) => "a number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a table",
        }
    }

    /// The same as JSON, for keys that are kept and for parts that others read.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(it) => (*it).into(),
            Value::Int(it) => (*it).into(),
            // A number that JSON does not have is told as a text, and is not lost.
            Value::Float(it) => {
                serde_json::Number::from_f64(*it).map_or_else(|| it.to_string().into(), Into::into)
            }
            Value::Text(it) => it.clone().into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => entries
                .iter()
                .map(|(key, node)| (key.text.clone(), node.to_json()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }

    /// How much text is in it.
    fn text_bytes(&self) -> usize {
        match &self.value {
            Value::Text(text) => text.len(),
            Value::List(items) => items.iter().map(Self::text_bytes).sum(),
            Value::Map(entries) => entries.iter().map(|(key, node)| key.text.len() + node.text_bytes()).sum(),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => 0,
        }
    }

    /// A value made by the program.
    pub(crate) fn text(at: Position, text: impl Into<String>) -> Self {
        Self { at, value: Value::Text(text.into()) }
    }
}
