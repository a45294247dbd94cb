//! `find`: files and directories by name.

use std::ops::ControlFlow;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::context::Context;
use super::walk::{Ended, Names, late, walk};
use super::workspace::Want;
use super::{Kind, Output, Tool, input, text};

/// The most names of one answer.
const MAX_NAMES: u64 = 1000;

#[derive(Deserialize)]
struct Input {
    pattern: String,
    #[serde(default, alias = "directory")]
    path: Option<String>,
    #[serde(default, deserialize_with = "input::number")]
    limit: Option<u64>,
}

pub(super) struct Find;

impl Tool for Find {
    fn name(&self) -> &'static str {
        "find"
    }

    fn description(&self) -> &'static str {
        "Find files and directories by a glob such as *.rs or src/**/test_*.py. A pattern without / fits names at any \
         depth. What ignore files (.gitignore) name is left out. Paths are relative to the working directory."
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "pattern": { "type": "string", "description": "The glob: *, ?, [..], {a,b}, ** for any directories" },
                "path": { "type": "string", "description": "Where to look; the working directory when absent" },
                "limit": { "type": "integer", "minimum": 1, "description": "The most names (1000 when absent)" }
            },
            "required": ["pattern"]
        })
    }

    fn kind(&self) -> Kind {
        Kind::Search
    }

    fn title(&self, input: &Value) -> String {
        let (pattern, path) = (input::text(input, &["pattern"]), input::text(input, &["path", "directory"]));
        if path.is_empty() { format!("find {pattern}") } else { format!("find {pattern} in {path}") }
    }

    fn call<'a>(&'a self, input: Value, cx: &'a Context) -> BoxFuture<'a, Output> {
        cx.look(move |cx| {
            let input: Input = input::parse("find", input)?;
            let given = input.path.as_deref().filter(|path| !path.is_empty()).unwrap_or(".");
            let base = cx.locate(given, Want::Look)?;
            cx.workspace.open_dir(&base)?;
            let names = Names::new(&input.pattern, &base)?;
            let limit = input.limit.unwrap_or(MAX_NAMES).clamp(1, MAX_NAMES);
            let mut found: Vec<String> = Vec::new();
            let ended = walk(cx, &base, |met| {
                let place = &met.place;
                if !names.fit(place, &base) || cx.check(place).is_err() || cx.workspace.look(place).is_none()
                {
                    return Ok(ControlFlow::Continue(()));
                }
                if found.len() as u64 == limit {
                    return Ok(ControlFlow::Break(()));
                }
                found.push(if met.directory { format!("{}/", place.shown) } else { place.shown.clone() });
                Ok(ControlFlow::Continue(()))
            })?;
            let mut told = if found.is_empty() {
                format!(
                    "[nothing in {} fits {:?}; what ignore files name was left out]",
                    base.shown, input.pattern
                )
            } else {
                found.join("\n")
            };
            let note = match ended {
                Ended::All => None,
                Ended::Enough => {
                    Some(format!("the first {limit}; there are more: narrow the pattern or the path"))
                }
                Ended::Late => Some(late()),
            };
            text::note(&mut told, note.as_slice());
            Ok(cx.spill.bounded("find", &told))
        })
    }
}
