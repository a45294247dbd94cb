//! `write`: a whole file. A file that exists is only replaced if the model has seen it as it is now.

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::context::Context;
use super::workspace::{Refused, Want};
use super::{Kind, Output, Tool, input, text};

/// The largest file that is written: 32 MiB.
const MAX_FILE: usize = 32 << 20;

#[derive(Deserialize)]
struct Input {
    #[serde(alias = "file_path", alias = "filePath")]
    path: String,
    #[serde(alias = "file_text", alias = "contents", alias = "text")]
    content: String,
}

pub(super) struct Write;

impl Tool for Write {
    fn name(&self) -> &'static str {
        "write"
    }

    fn description(&self) -> &'static str {
        "Write a whole file; directories on the way are made. To replace a file that exists, read it first. To change a \
         part of a file, use edit."
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "The file, relative to the working directory or absolute" },
                "content": { "type": "string", "description": "The whole content" }
            },
            "required": ["path", "content"]
        })
    }

    fn kind(&self) -> Kind {
        Kind::Edit
    }

    fn title(&self, input: &Value) -> String {
        format!("write {}", input::text(input, &["path", "file_path", "filePath"]))
    }

    fn call<'a>(&'a self, input: Value, cx: &'a Context) -> BoxFuture<'a, Output> {
        cx.change(move |cx| {
            let input: Input = input::parse("write", input)?;
            if input.content.len() > MAX_FILE {
                return Err(Refused::Other(format!(
                    "{} is more than `write` takes ({})",
                    text::size(input.content.len() as u64),
                    text::size(MAX_FILE as u64)
                )));
            }
            let place = cx.locate(&input.path, Want::Change)?;
            let told = |what: &str| {
                format!("{what} {} ({})", place.shown, text::size(input.content.len() as u64))
            };
            if !place.exists {
                cx.workspace.put(&place, input.content.as_bytes(), None)?;
                return Ok(told("made"));
            }
            let old = cx.workspace.open_file(&place)?;
            match cx.workspace.changed_since_seen(&place, &old.stamp) {
                Some(false) => {}
                // An empty file has nothing to lose.
                _ if old.length == 0 => {}
                Some(true) => {
                    return Err(Refused::Other(format!(
                        "{} has changed since you last read it; nothing was written. Read it again first",
                        place.shown
                    )));
                }
                None => {
                    return Err(Refused::Other(format!(
                        "{} exists and you have not read it; nothing was written. Read it first, or use `edit`",
                        place.shown
                    )));
                }
            }
            cx.workspace.put(&place, input.content.as_bytes(), Some(&old))?;
            Ok(told("replaced"))
        })
    }
}
