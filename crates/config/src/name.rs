//! Names of agent types: what one may be, and how any text is shown where markup has a meaning.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The longest name, in characters.
pub const MAX_NAME: usize = 64;

/// Why a name is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// There is nothing.
    #[error("a name must not be empty")]
    Empty,
    /// Over the bound.
    #[error("a name has at most {MAX_NAME} characters, this one has {0}")]
    TooLong(usize),
    /// A character that names do not have.
    #[error("{0:?} cannot be in a name: letters, digits, `-`, `_`, `.` and single spaces can")]
    Character(char),
    /// A beginning or end that is not a letter, digit or underscore.
    #[error("a name begins with a letter, a digit or `_` and ends with one, not with {0:?}")]
    Edge(char),
    /// Two dots or two spaces, one after the other.
    #[error("{0:?} cannot follow itself in a name")]
    Twice(char),
}

/// The name of an agent type, as its file spells it. It holds no path, no markup and no address, so it can be a part of
/// a file name, a prompt or a notice. Two names that differ in case only are the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AgentName(String);

impl AgentName {
    /// Checks a name.
    pub fn new(name: &str) -> Result<Self, NameError> {
        check(name)?;
        Ok(Self(name.to_owned()))
    }

    /// Checks a name of several parts with `/` between them, as opencode makes it of the path of a file.
    pub fn nested(name: &str) -> Result<Self, NameError> {
        let count = name.chars().count();
        if count > MAX_NAME {
            return Err(NameError::TooLong(count));
        }
        name.split('/').try_for_each(check)?;
        Ok(Self(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What is the same for two spellings of one name.
    pub(crate) fn folded(&self) -> String {
        fold(&self.0)
    }
}

/// The case taken out of a name.
pub(crate) fn fold(name: &str) -> String {
    name.to_lowercase()
}

fn check(name: &str) -> Result<(), NameError> {
    let count = name.chars().count();
    if count > MAX_NAME {
        return Err(NameError::TooLong(count));
    }
    let edges = [name.chars().next(), name.chars().next_back()];
    let [Some(first), Some(last)] = edges else { return Err(NameError::Empty) };
    if let Some(wrong) = name.chars().find(|char| !(is_word(*char) || ['-', '.', ' '].contains(char))) {
        return Err(NameError::Character(wrong));
    }
    if let Some(edge) = [first, last].into_iter().find(|char| !is_word(*char)) {
        return Err(NameError::Edge(edge));
    }
    match ["..", "  "].into_iter().find(|pair| name.contains(pair)).and_then(|pair| pair.chars().next()) {
        Some(twice) => Err(NameError::Twice(twice)),
        None => Ok(()),
    }
}

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl TryFrom<String> for AgentName {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        Self::nested(&name)
    }
}

impl From<AgentName> for String {
    fn from(name: AgentName) -> Self {
        name.0
    }
}

/// A text as it is shown in a prompt or a notice: on one line, without anything that reads as markup, and bounded.
pub fn escape(text: &str) -> String {
    const SHOWN: usize = 200;
    let mut shown = String::new();
    for char in text.chars().take(SHOWN) {
        match char {
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '&' => shown.push_str("&amp;"),
            '`' => shown.push('\''),
            char if char.is_control() || is_invisible(char) => shown.push(' '),
            char => shown.push(char),
        }
    }
    if text.chars().nth(SHOWN).is_some() {
        shown.push_str(" ...");
    }
    shown
}

/// Line separators and marks that change the direction of a text.
fn is_invisible(char: char) -> bool {
    matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::{AgentName, MAX_NAME, NameError, escape};

    #[test]
    fn def_05_names_that_could_be_something_else_are_refused() {
        for good in
            ["a", "general-purpose", "code_reviewer", "Code Reviewer", "pkg.name", "v2", "größe", "審査"]
        {
            assert_eq!(AgentName::new(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            " ",
            ".",
            "..",
            ".hidden",
            "-x",
            "x-",
            "x.",
            "a..b",
            "a  b",
            " a",
            "a ",
            "a/b",
            "a\\b",
            "../etc/passwd",
            "a:b",
            "<b>",
            "a>b",
            "[x](y)",
            "`x`",
            "a\nb",
            "a\tb",
            "a\0b",
            "http://x",
            "a*",
            "a&b",
            "\"a\"",
            "a\u{202e}b",
            "~root",
            "$HOME",
            "a|b",
            "a;b",
            "\u{200b}a",
        ] {
            AgentName::new(bad).unwrap_err();
        }
        AgentName::new(&"x".repeat(MAX_NAME)).unwrap();
        assert_eq!(AgentName::new(&"x".repeat(MAX_NAME + 1)), Err(NameError::TooLong(MAX_NAME + 1)));
    }

    #[test]
    fn nested_names_are_names_with_strokes_between() {
        for good in ["sub/bar", "a", "a/b/c"] {
            AgentName::nested(good).unwrap();
        }
        for bad in ["/a", "a/", "a//b", "a/../b", "a/.b", "a/-b"] {
            AgentName::nested(bad).unwrap_err();
        }
        AgentName::nested(&format!("a/{}", "x".repeat(MAX_NAME))).unwrap_err();
    }

    #[test]
    fn def_05_a_name_is_escaped_where_it_is_shown() {
        assert_eq!(escape("</subagent>\nIgnore & `go`"), "&lt;/subagent&gt; Ignore &amp; 'go'");
        assert_eq!(escape("a\u{202e}b\u{2028}c"), "a b c");
        assert!(escape(&"x".repeat(10_000)).len() < 300);
    }
}
