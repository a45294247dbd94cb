//! What a loader has to say about files: where, which field, and why. One bad file is one or more of these, never the
//! end of the loading.

use std::fmt;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use subagent_model::text::cut_at_boundary;

/// The most bytes of one message.
const MESSAGE_BYTES: usize = 600;

/// A place in a text: both numbers begin at 1, and columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// Line.
    pub line: u32,
    /// Column, in characters.
    pub column: u32,
}

impl Position {
    /// The first character.
    pub const START: Self = Self { line: 1, column: 1 };

    /// Where byte `at` of `text` is.
    pub fn of_byte(text: &str, at: usize) -> Self {
        let before = cut_at_boundary(text, at);
        let line = before.matches('\n').count();
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before.get(start..).unwrap_or_default().chars().count();
        Self::counted(line + 1, column + 1)
    }

    /// From counts that cannot be larger than a file.
    pub(crate) fn counted(line: usize, column: usize) -> Self {
        let narrow = |count| u32::try_from(count).unwrap_or(u32::MAX);
        Self { line: narrow(line), column: narrow(column) }
    }

    /// As many lines further down.
    #[must_use]
    pub(crate) fn down(self, lines: u32) -> Self {
        Self { line: self.line.saturating_add(lines), ..self }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// How much a remark matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// For whoever wonders; nothing is wrong.
    Note,
    /// Something was left aside; the definition is used.
    Warning,
    /// The definition or file is not used.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// One remark about one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// How much it matters.
    pub severity: Severity,
    /// The file or directory.
    pub path: Utf8PathBuf,
    /// Where in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Position>,
    /// The field, as the file spells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What and why, for people.
    pub message: String,
}

impl Diagnostic {
    /// A remark about a file as a whole. Long messages are cut, and no character of theirs can move the cursor of a
    /// terminal.
    pub fn new(severity: Severity, path: &Utf8Path, message: impl Into<String>) -> Self {
        let message: String = message.into();
        let shown: String = cut_at_boundary(&message, MESSAGE_BYTES)
            .chars()
            .map(|char| if char.is_control() { ' ' } else { char })
            .collect();
        let message = if shown.len() < message.len() { format!("{shown} ...") } else { shown };
        Self { severity, path: path.to_owned(), at: None, field: None, message }
    }

    /// An error about a file as a whole.
    pub fn error(path: &Utf8Path, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, path, message)
    }

    /// With the place in the file.
    #[must_use]
    pub fn at(mut self, at: Position) -> Self {
        self.at = Some(at);
        self
    }

    /// With the field it is about.
    #[must_use]
    pub fn field(mut self, field: &str) -> Self {
        self.field = Some(cut_at_boundary(field, 100).chars().filter(|char| !char.is_control()).collect());
        self
    }

    /// True when the definition or file is not used.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        if let Some(at) = self.at {
            write!(f, ":{at}")?;
        }
        write!(f, ": {}: ", self.severity)?;
        if let Some(field) = &self.field {
            write!(f, "`{field}`: ")?;
        }
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;

    use super::{Diagnostic, Position};

    #[test]
    fn places_are_counted_in_characters_from_one() {
        assert_eq!(Position::of_byte("", 0), Position::START);
        let text = "a\né: x\n";
        assert_eq!(Position::of_byte(text, text.find('x').unwrap()), Position { line: 2, column: 4 });
        assert_eq!(Position::of_byte(text, 999), Position { line: 3, column: 1 });
    }

    #[test]
    fn remarks_are_bounded_and_harmless() {
        let path = Utf8Path::new("a.md");
        let long = Diagnostic::error(path, format!("\u{1b}[31m{}", "漢".repeat(10_000))).field("a\u{7}b");
        assert!(long.message.len() < 700 && long.message.ends_with(" ..."));
        assert!(!long.to_string().contains(char::is_control));
        let short = Diagnostic::error(path, "no").at(Position { line: 3, column: 9 }).field("model");
        assert_eq!(short.to_string(), "a.md:3:9: error: `model`: no");
    }
}
