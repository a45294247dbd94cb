//! Variables in the prompts of our own files: `{{type}}`. One that is not known is an error, and so is one that differs
//! between siblings, since what they have in common comes first. `\{{` is a brace that means nothing.

use std::collections::BTreeMap;

use super::{Wrong, variables};
use crate::definition::AgentDefinition;
use crate::diagnostic::Position;

/// Variables that there always are: the name of the type, and its description.
pub const VARIABLES: &[&str] = &["type", "description"];

/// What siblings differ in. It is told at the end of the prompt, never within.
pub const MOVING: &[&str] = &["name", "directory", "branch"];

/// Why a prompt cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// A variable that nobody knows.
    #[error(
        "there is no variable {{{{{name}}}}}; there are: {known}; a brace that means nothing is written \\{{{{"
    )]
    Unknown {
        /// What stands there.
        name: String,
        /// What could stand there.
        known: String,
    },
    /// A variable that differs between siblings.
    #[error(
        "{{{{{0}}}}} differs from sibling to sibling: it is told at the end of the prompt and cannot stand within"
    )]
    Moving(String),
    /// No end.
    #[error("{{{{ has no }}}}; a brace that means nothing is written \\{{{{")]
    Unclosed,
}

/// A part of a template.
enum Part<'a> {
    Text(&'a str),
    Variable(&'a str),
}

/// Takes a template apart, and calls back for each part with its place. Stops at the first error.
fn parts<'a>(
    text: &'a str,
    mut each: impl FnMut(usize, Part<'a>) -> Result<(), PromptError>,
) -> Result<(), (usize, PromptError)> {
    let mut at = 0;
    while let Some(step) = text.get(at..).and_then(|rest| rest.find("{{")) {
        let open = at + step;
        let before = text.get(at..open).unwrap_or_default();
        if let Some(before) = before.strip_suffix('\\') {
            each(at, Part::Text(before)).map_err(|error| (at, error))?;
            each(open, Part::Text("{{")).map_err(|error| (open, error))?;
            at = open + 2;
            continue;
        }
        each(at, Part::Text(before)).map_err(|error| (at, error))?;
        let inner = text.get(open + 2..).unwrap_or_default();
        let Some(length) = inner.find("}}") else { return Err((open, PromptError::Unclosed)) };
        let name = inner.get(..length).unwrap_or_default().trim();
        each(open, Part::Variable(name)).map_err(|error| (open, error))?;
        at = open + 2 + length + 2;
    }
    each(at, Part::Text(text.get(at..).unwrap_or_default())).map_err(|error| (at, error))
}

fn no_such(name: &str, more: &[&str]) -> PromptError {
    if MOVING.contains(&name) {
        return PromptError::Moving(name.to_owned());
    }
    let name = crate::name::escape(name);
    PromptError::Unknown { name, known: variables(more.iter().copied()) }
}

/// Checks the variables of a text when it is loaded.
pub(crate) fn check(text: &str, more: &[String]) -> Result<(), Wrong> {
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    parts(text, |_, part| match part {
        Part::Variable(name) if MOVING.contains(&name) => Err(no_such(name, &more)),
        Part::Variable(name) if !VARIABLES.contains(&name) && !more.contains(&name) => {
            Err(no_such(name, &more))
        }
        Part::Variable(_) | Part::Text(_) => Ok(()),
    })
    .map_err(|(at, error)| (Position::of_byte(text, at), error))
}

/// The text with what its variables stand for. What is put in is not looked at again.
pub(super) fn fill(
    definition: &AgentDefinition,
    more: &BTreeMap<String, String>,
) -> Result<String, PromptError> {
    let mut filled = String::new();
    parts(&definition.prompt.text, |_, part| {
        filled.push_str(match part {
            Part::Text(text) => text,
            Part::Variable("type") => definition.name.as_str(),
            Part::Variable("description") => &definition.description,
            Part::Variable(name) => match more.get(name).filter(|_| !MOVING.contains(&name)) {
                Some(value) => value,
                None => return Err(no_such(name, &more.keys().map(String::as_str).collect::<Vec<_>>())),
            },
        });
        Ok(())
    })
    .map_err(|(_, error)| error)?;
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::{PromptError, check};
    use crate::diagnostic::Position;

    #[test]
    fn def_12_an_unknown_variable_is_an_error_with_its_place() {
        let more = [String::from("team")];
        for good in ["", "{{type}} {{ description }} {{team}}", "\\{{x}}", "{ {x} }", "}}", "{{{type}}"] {
            if good == "{{{type}}" {
                check(good, &more).unwrap_err();
            } else {
                check(good, &more).unwrap();
            }
        }
        let (at, error) = check("One\ntwo {{naem}}\n", &more).unwrap_err();
        assert_eq!(at, Position { line: 2, column: 5 });
        assert_eq!(
            error.to_string(),
            "there is no variable {{naem}}; there are: type, description, team; a brace that means nothing is written \\{{"
        );
        assert_eq!(check("{{type", &more).unwrap_err().1, PromptError::Unclosed);
        assert_eq!(check("{{branch}}", &more).unwrap_err().1, PromptError::Moving("branch".into()));
        assert_eq!(
            check("{{branch}}", &more).unwrap_err().1.to_string(),
            "{{branch}} differs from sibling to sibling: it is told at the end of the prompt and cannot stand within"
        );
        assert_eq!(
            PromptError::Unclosed.to_string(),
            "{{ has no }}; a brace that means nothing is written \\{{"
        );
    }
}
