//! `edit`: one exact piece of a file for another one. Bytes that are not touched stay as they are, line ends and a byte
//! order mark included.

mod nearest;
mod replace;

use std::io::Read as _;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::context::Context;
use super::workspace::{Refused, Want};
use super::{Kind, Output, Tool, input, text};
use replace::{Fault, Replaced, replace};

/// The largest file that is edited: 32 MiB.
const MAX_FILE: u64 = 32 << 20;

#[derive(Deserialize)]
struct Input {
    #[serde(alias = "file_path", alias = "filePath")]
    path: String,
    #[serde(alias = "old_string", alias = "oldText", alias = "oldString", alias = "old_str")]
    old_text: String,
    #[serde(alias = "new_string", alias = "newText", alias = "newString", alias = "new_str")]
    new_text: String,
    #[serde(default, alias = "replaceAll", deserialize_with = "input::flag")]
    replace_all: bool,
}

pub(super) struct Edit;

impl Tool for Edit {
    fn name(&self) -> &'static str {
        "edit"
    }

    fn description(&self) -> &'static str {
        "Replace one exact piece of a file. old_text must be in the file exactly as it is there, white space included, \
         and only once; take enough lines around the change to make it unique, or set replace_all. Line ends of the \
         file are kept."
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "The file, relative to the working directory or absolute" },
                "old_text": { "type": "string", "description": "What is there now, exactly" },
                "new_text": { "type": "string", "description": "What is to stand there instead; empty to delete" },
                "replace_all": { "type": "boolean", "description": "Replace every place where old_text stands" }
            },
            "required": ["path", "old_text", "new_text"]
        })
    }

    fn kind(&self) -> Kind {
        Kind::Edit
    }

    fn title(&self, input: &Value) -> String {
        format!("edit {}", input::text(input, &["path", "file_path", "filePath"]))
    }

    fn call<'a>(&'a self, input: Value, cx: &'a Context) -> BoxFuture<'a, Output> {
        cx.change(move |cx| {
            let input: Input = input::parse("edit", input)?;
            let place = cx.locate(&input.path, Want::Change)?;
            let mut old = cx.workspace.open_file(&place)?;
            if old.length > MAX_FILE {
                return Err(Refused::Other(format!(
                    "{} has {}; files over {} are not edited. Use `sed` in `bash`",
                    place.shown,
                    text::size(old.length),
                    text::size(MAX_FILE)
                )));
            }
            let mut before = Vec::new();
            // It may grow meanwhile.
            (&mut old.file)
                .take(MAX_FILE + 1)
                .read_to_end(&mut before)
                .map_err(|source| Refused::Io { path: place.shown.clone(), what: "read", source })?;
            let changed = cx.workspace.changed_since_seen(&place, &old.stamp) == Some(true);
            let wish = replace::Wish { old: &input.old_text, new: &input.new_text, all: input.replace_all };
            let Replaced { content, lines, count } = replace(&before, &wish).map_err(|fault| {
                let mut said = told(&fault, &place.shown);
                if changed && !matches!(fault, Fault::Same | Fault::Empty) {
                    said.push_str("\n[the file has changed since you last read it: read it again]");
                }
                Refused::Other(said)
            })?;
            cx.workspace.put(&place, &content, Some(&old))?;
            let mut said = if count == 1 {
                format!("edited {} at line {}", place.shown, lines[0])
            } else {
                format!("edited {} at {count} places, lines {}", place.shown, listed(&lines))
            };
            if changed {
                said.push_str(
                    "\n[something else has changed the file since you last read it; your edit was made on top of that]",
                );
            }
            Ok(said)
        })
    }
}

fn told(fault: &Fault, path: &str) -> String {
    match fault {
        Fault::Same => String::from("old_text and new_text are the same; nothing to do"),
        Fault::Empty => {
            format!("old_text is empty; say what is to be replaced, or use `write` for all of {path}")
        }
        Fault::Many { lines } => format!(
            "old_text stands at {} places of {path}, lines {}; nothing was changed. Take in more lines around the one you \
             mean, or set replace_all",
            lines.len(),
            listed(lines)
        ),
        Fault::None { near: None } => {
            format!(
                "old_text is not in {path}, nor anything like it; nothing was changed. Read the file again"
            )
        }
        Fault::None { near: Some(near) } => format!(
            "old_text is not in {path}; nothing was changed. {} The nearest place is line {}:\n{}",
            near.why, near.line, near.text
        ),
    }
}

fn listed(lines: &[usize]) -> String {
    const MOST: usize = 10;
    let mut shown: Vec<_> = lines.iter().take(MOST).map(ToString::to_string).collect();
    if lines.len() > MOST {
        shown.push(String::from("..."));
    }
    shown.join(", ")
}
