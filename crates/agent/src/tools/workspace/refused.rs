//! Why a file tool did not do what it was asked: what happened, and what to do next. The model reads it.

use std::io;

use thiserror::Error;

/// Why nothing was done.
#[derive(Debug, Error)]
pub(in super::super) enum Refused {
    #[error("the input of {tool} is not right: {why}")]
    Input { tool: String, why: String },
    #[error("{path:?} is no usable path: {why}")]
    Path { path: String, why: &'static str },
    #[error("{path} leads out of the workspace; file tools reach only what lies in {roots}")]
    Outside { path: String, roots: String },
    #[error("{path} is kept from the tools: {why}. If it is needed, ask the person you work for")]
    Hidden { path: String, why: &'static str },
    #[error("the tools of this session may not touch {path} in this way")]
    Rule { path: String },
    #[error("{path} can be read and not changed")]
    ReadOnly { path: String },
    #[error("{path} is not changed by file tools: {why}")]
    Guarded { path: String, why: &'static str },
    #[error("there is no {path}{}", similar(near))]
    Missing { path: String, near: Vec<String> },
    #[error("{path} is {what}, not a file{}", if *what == "a directory" { "; `ls` lists it" } else { "" })]
    NotFile { path: String, what: &'static str },
    #[error("{path} is a file, not a directory")]
    NotDirectory { path: String },
    #[error("cannot {what} {path}: {source}")]
    Io { path: String, what: &'static str, source: io::Error },
    #[error("cancelled")]
    Cancelled,
    /// What only one tool can say.
    #[error("{0}")]
    Other(String),
}

fn similar(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) }
}
