//! Texts of children made safe for a terminal, and cut to a width in columns.

use std::borrow::Cow;
use std::fmt::Write;

use unicode_width::UnicodeWidthChar;

/// Takes control codes out of a text that comes in parts: a sequence may begin in one part and end in another. New lines
/// and tabs stay; a bare carriage return becomes a new line.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    state: State,
    returned: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    /// After ESC.
    Escape,
    /// In a control sequence: ends with a letter or alike.
    Sequence,
    /// In a string for the terminal: ends with BEL or ESC and a backslash.
    Text,
    /// After ESC in such a string.
    TextEscape,
}

impl Cleaner {
    /// The next part, cleaned.
    pub(crate) fn clean(&mut self, part: &str) -> String {
        let mut out = String::with_capacity(part.len());
        for char in part.chars() {
            self.take(char, &mut out);
        }
        out
    }

    fn take(&mut self, char: char, out: &mut String) {
        // A new line ends whatever was begun, so that an open sequence swallows one line at most.
        if char == '\n' {
            self.state = State::Ground;
            self.returned = false;
            out.push('\n');
            return;
        }
        if std::mem::take(&mut self.returned) {
            out.push('\n');
        }
        self.state = match self.state {
            State::Ground => self.ground(char, out),
            State::Escape => match char {
                '[' => State::Sequence,
                ']' | 'P' | 'X' | '^' | '_' => State::Text,
                // Begun anew, or with intermediate characters as in ESC ( B.
                '\u{1b}' | ' '..='/' => State::Escape,
                _ => State::Ground,
            },
            State::Sequence => match char {
                '\u{1b}' => State::Escape,
                ' '..='?' => State::Sequence,
                '\u{40}'..='\u{7e}' => State::Ground,
                // No sequence: it is text again.
                _ => self.ground(char, out),
            },
            State::Text => match char {
                '\u{7}' | '\u{9c}' => State::Ground,
                '\u{1b}' => State::TextEscape,
                _ => State::Text,
            },
            State::TextEscape if char == '\\' => State::Ground,
            State::TextEscape => State::Text,
        };
    }

    fn ground(&mut self, char: char, out: &mut String) -> State {
        match char {
            '\u{1b}' => return State::Escape,
            '\u{9b}' => return State::Sequence,
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => return State::Text,
            '\r' => self.returned = true,
            '\t' => out.push(char),
            char if char.is_control() || reorders(char) => {}
            char => out.push(char),
        }
        State::Ground
    }
}

/// Characters that make text appear in another order than it is in.
fn reorders(char: char) -> bool {
    matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A whole text without control codes.
pub(crate) fn block(text: &str) -> String {
    Cleaner::default().clean(text)
}

/// A text as one line: without control codes, white space as single blanks.
pub(crate) fn line(text: &str) -> String {
    block(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The last line that is not blank, as one line.
pub(crate) fn last_line(text: &str) -> Option<String> {
    block(text).lines().rev().map(line).find(|line| !line.is_empty())
}

/// JSON leaves a few control characters as they are; a terminal must not see them.
pub(crate) fn json_for_terminal(json: &str) -> Cow<'_, str> {
    let loose = |char: char| matches!(char, '\u{7f}'..='\u{9f}') || reorders(char);
    if !json.contains(loose) {
        return Cow::Borrowed(json);
    }
    // They can stand within strings only.
    let mut out = String::with_capacity(json.len() + 16);
    for char in json.chars() {
        if loose(char) {
            // Writing into a string cannot fail.
            let _ = write!(out, "\\u{:04x}", u32::from(char));
        } else {
            out.push(char);
        }
    }
    Cow::Owned(out)
}

/// Columns that a text takes. Never less than what a terminal uses for it.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(|char| char.width().unwrap_or(0)).sum()
}

/// A text cut to so many columns, with a mark where it was cut.
pub(crate) fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut used = 1;
    for char in text.chars() {
        used += char.width().unwrap_or(0);
        if used > columns {
            break;
        }
        out.push(char);
    }
    if columns > 0 {
        out.push('…');
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::{Cleaner, block, fit, json_for_terminal, last_line, line, width};

    #[test]
    fn ui_08_no_control_code_is_left() {
        let nasty = "\u{1b}[2J\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\b\u{1b}(Bc\u{9b}31md\u{7}\u{8}e\u{1b}Pq#\u{1b}\\f\u{202e}g";
        assert_eq!(block(nasty), "abcdefg");
        assert_eq!(block("1%\r2%\r\nx\ty"), "1%\n2%\nx\ty");
        assert_eq!(block("open \u{1b}]0;never closed\nnext"), "open \nnext");
        assert_eq!(line(" a\n\tb \u{1b}[1mc\u{1b}[0m "), "a b c");
        assert_eq!(last_line("a\nlast one\n \n").unwrap(), "last one");
    }

    #[test]
    fn a_sequence_split_over_parts_is_still_one() {
        let mut cleaner = Cleaner::default();
        let parts = ["a\u{1b}", "[3", "1mb\u{1b}]0;ti", "tle\u{1b}", "\\c\r", "\nd"];
        let out: String = parts.iter().map(|part| cleaner.clean(part)).collect();
        assert_eq!(out, "abc\nd");
    }

    #[test]
    fn ui_08_no_text_is_wider_than_its_place() {
        for columns in 0..40 {
            for text in [
                "plain text that is long enough",
                "漢字漢字漢字漢字漢字漢字",
                "🦀🦀🦀🦀🦀🦀🦀🦀🦀🦀🦀",
                "e\u{301}e\u{301}",
                "",
            ] {
                assert!(width(&fit(text, columns)) <= columns, "{text} in {columns}");
            }
        }
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(fit("abcd", 4), "abcd");
    }

    #[test]
    fn json_for_a_terminal_is_the_same_json() {
        let json = serde_json::to_string("a\u{9b}31m\u{7f}\u{202e}ü").unwrap();
        let safe = json_for_terminal(&json);
        assert!(safe.is_char_boundary(0) && !safe.contains('\u{9b}') && !safe.contains('\u{7f}'));
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), "a\u{9b}31m\u{7f}\u{202e}ü");
    }
}
