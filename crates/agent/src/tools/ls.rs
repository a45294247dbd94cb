//! `ls`: the names in a directory.

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::context::Context;
use super::workspace::{Refused, Want};
use super::{Kind, Output, Tool, input, text};

/// The most names of one answer.
const MAX_NAMES: usize = 500;
/// The most names that are sorted.
const MAX_SORTED: usize = 100_000;

#[derive(Deserialize)]
struct Input {
    #[serde(default, alias = "file_path", alias = "directory")]
    path: Option<String>,
    #[serde(default, deserialize_with = "input::number")]
    limit: Option<u64>,
}

pub(super) struct Ls;

impl Tool for Ls {
    fn name(&self) -> &'static str {
        "ls"
    }

    fn description(&self) -> &'static str {
        "List a directory, sorted by name, hidden names included. Directories end with /, symbolic links show where \
         they lead."
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "The directory; the working directory when absent" },
                "limit": { "type": "integer", "minimum": 1, "description": "The most names to list (500 when absent)" }
            }
        })
    }

    fn kind(&self) -> Kind {
        Kind::Read
    }

    fn title(&self, input: &Value) -> String {
        format!("ls {}", input::text(input, &["path", "file_path", "directory"])).trim_end().to_owned()
    }

    fn call<'a>(&'a self, input: Value, cx: &'a Context) -> BoxFuture<'a, Output> {
        cx.look(move |cx| {
            let input: Input = input::parse("ls", input)?;
            let given = input.path.as_deref().filter(|path| !path.is_empty()).unwrap_or(".");
            let place = cx.locate(given, Want::Look)?;
            let dir = cx.workspace.open_dir(&place)?;
            let io = |source| Refused::Io { path: place.shown.clone(), what: "list", source };
            let mut names = Vec::new();
            let mut more = false;
            for entry in dir.entries().map_err(io)? {
                if cx.cancel.is_cancelled() {
                    return Err(Refused::Cancelled);
                }
                let entry = entry.map_err(io)?;
                if names.len() == MAX_SORTED {
                    more = true;
                    break;
                }
                let name = entry.file_name();
                let mut shown = text::name(&name).into_owned();
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => shown.push('/'),
                    Ok(kind) if kind.is_symlink() => {
                        let to = dir.read_link_contents(&name).unwrap_or_default();
                        shown.push_str(" -> ");
                        shown.push_str(&text::name(to.as_os_str()));
                    }
                    Ok(kind) if !kind.is_file() => shown.push_str(" (not a file)"),
                    _ => {}
                }
                names.push(shown);
            }
            if names.is_empty() {
                return Ok(String::from("[the directory is empty]"));
            }
            names.sort();
            let limit = usize::try_from(input.limit.unwrap_or(MAX_NAMES as u64))
                .unwrap_or(MAX_NAMES)
                .clamp(1, MAX_NAMES);
            let total = names.len();
            names.truncate(limit);
            let mut told = names.join("\n");
            if more || total > limit {
                let of = if more { format!("more than {total}") } else { total.to_string() };
                let note = format!("the first {limit} of {of} names; `find` with a pattern shows the others");
                text::note(&mut told, &[note]);
            }
            Ok(cx.spill.bounded("ls", &told))
        })
    }
}
