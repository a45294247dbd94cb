//! The generated files as one map from path to text, compared with the disk or written to it. A plan before
//! the deed: `--check` and the real run differ in the last step only.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::problem::{Problem, Result};
use crate::{errors, reference, schemas};

/// Paths under the root of the workspace, with the text each must have.
pub(crate) type Files = BTreeMap<String, String>;

/// Directories that hold generated files and nothing else, so that a page of a removed thing goes too.
const OWNED: &[&str] = &["docs/errors", "docs/schema"];

/// What is to be done about one file.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Write(String),
    Remove(String),
}

/// Writes what differs; with `check` only says so, and fails.
pub(crate) fn run(check: bool) -> Result<()> {
    let root = root();
    let files = everything()?;
    let changes = plan(&files, &on_disk(&root, &files)?);
    for change in &changes {
        match change {
            Change::Write(path) => eprintln!("    {} {path}", if check { "out of date:" } else { "writes" }),
            Change::Remove(path) => eprintln!("    {} {path}", if check { "left over:" } else { "removes" }),
        }
    }
    if changes.is_empty() {
        eprintln!("    {} generated files are up to date", files.len());
        return Ok(());
    }
    if check {
        return Err(Problem::new(
            format!("{} generated file(s) differ from what the code says", changes.len()),
            "run `cargo xtask gen` and commit the result",
        ));
    }
    changes.iter().try_for_each(|change| apply(&root, &files, change))
}

fn everything() -> Result<Files> {
    let mut files = Files::new();
    errors::pages(&mut files);
    schemas::documents(&mut files)?;
    files.insert(String::from("docs/openapi.json"), schemas::json(&subagent_api::openapi())?);
    files.insert(String::from("docs/cli.md"), reference::markdown(subagent_cli::command()));
    Ok(files)
}

fn plan(files: &Files, present: &Files) -> Vec<Change> {
    let writes = files
        .iter()
        .filter(|(path, text)| present.get(*path) != Some(text))
        .map(|(path, _)| Change::Write(path.clone()));
    let removals =
        present.keys().filter(|path| !files.contains_key(*path)).map(|path| Change::Remove(path.clone()));
    writes.chain(removals).collect()
}

/// The generated files as they are, and whatever else lies in their directories.
fn on_disk(root: &Path, files: &Files) -> Result<Files> {
    let mut paths: Vec<String> = files.keys().cloned().collect();
    for directory in OWNED {
        let entries = match fs::read_dir(root.join(directory)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(cannot("read", directory, &error)),
        };
        for entry in entries {
            let name = entry.map_err(|error| cannot("read", directory, &error))?.file_name();
            paths.push(format!("{directory}/{}", name.to_string_lossy()));
        }
    }
    let mut present = Files::new();
    for path in paths {
        match fs::read_to_string(root.join(&path)) {
            Ok(text) => {
                present.insert(path, text);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(cannot("read", &path, &error)),
        }
    }
    Ok(present)
}

fn apply(root: &Path, files: &Files, change: &Change) -> Result<()> {
    match change {
        Change::Write(path) => {
            let place = root.join(path);
            let directory = place.parent().unwrap_or(root);
            let text = files.get(path).map(String::as_str).unwrap_or_default();
            fs::create_dir_all(directory)
                .and_then(|()| fs::write(&place, text))
                .map_err(|error| cannot("write", path, &error))
        }
        Change::Remove(path) => {
            fs::remove_file(root.join(path)).map_err(|error| cannot("remove", path, &error))
        }
    }
}

fn cannot(verb: &str, path: &str, error: &std::io::Error) -> Problem {
    Problem::new(format!("cannot {verb} {path}: {error}"), "check that the path is what it should be")
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_changes() {
        let files = |all: &[(&str, &str)]| -> Files {
            all.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
        };
        let wanted = files(&[("a", "1"), ("b", "2"), ("c", "3")]);
        let present = files(&[("a", "1"), ("b", "old"), ("gone", "x")]);
        assert_eq!(
            plan(&wanted, &present),
            [Change::Write("b".into()), Change::Write("c".into()), Change::Remove("gone".into())],
        );
        assert_eq!(plan(&wanted, &wanted), []);
    }
}
