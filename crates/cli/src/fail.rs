//! Failures as people read them: what happened, why, what to do next, the code, and where it is explained.

use std::fmt;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};
use subagent_model::{ErrorCode, Problem};

use crate::console::Console;

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    // Boxed, since every result carries the room for it.
    problem: Box<Problem>,
    cause: Option<Cause>,
}

#[derive(Debug)]
struct Cause(String);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Cause {}

impl Failure {
    /// A failure with the code's own remedy as its hint.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::from(Problem::new(code, message))
    }

    /// With a hint that fits better than the code's own.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.problem.hint = Some(hint.into());
        self
    }

    /// With what was underneath.
    #[must_use]
    pub(crate) fn because(mut self, cause: impl fmt::Display) -> Self {
        self.cause = Some(Cause(cause.to_string()));
        self
    }

    /// The exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        self.problem.code.exit_code()
    }

    /// The message with its cause, in one line.
    pub(crate) fn full(&self) -> String {
        match &self.cause {
            Some(cause) => format!("{}: {cause}", self.problem.message),
            None => self.problem.message.clone(),
        }
    }

    /// Its problem. What was underneath becomes part of the message.
    pub(crate) fn problem(&self) -> Problem {
        Problem { message: self.full(), ..Problem::clone(&self.problem) }
    }

    /// Writes it to standard error: as one JSON document where JSON was asked for.
    pub(crate) fn tell(&self, console: &Console) {
        if console.json {
            console.note_json(&serde_json::json!({ "error": self.problem() }));
            return;
        }
        console.note(self.rendered(console.err.colour, console.err.width()).trim_end());
    }

    fn rendered(&self, colour: bool, width: Option<usize>) -> String {
        let theme = if colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler = GraphicalReportHandler::new_themed(theme)
            .with_links(false)
            .with_width(width.unwrap_or(100))
            .with_break_words(false);
        let mut text = String::new();
        if handler.render_report(&mut text, self).is_err() {
            text = self.to_string();
        }
        text
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self { problem: Box::new(problem), cause: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::view::text::block(&self.problem.message))
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}

impl Diagnostic for Failure {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let code = self.problem.code;
        Some(Box::new(format!("error {code}, explained in docs/errors/{code}.md")))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let mut help = self.problem.hint.clone().unwrap_or_default();
        for id in &self.problem.ids {
            help.push_str("\n  ");
            help.push_str(&crate::view::text::line(id));
        }
        Some(help.trim().to_owned()).filter(|help| !help.is_empty()).map(|help| Box::new(help) as _)
    }
}

#[cfg(test)]
mod tests {
    use super::Failure;
    use subagent_model::{ErrorCode, Problem};

    #[test]
    fn says_what_why_what_next_and_where_it_is_explained() {
        let ids = vec![String::from("k7q2mx"), String::from("k7aaaa")];
        let problem = Problem::new(ErrorCode::Ambiguous, "\"k7\" fits 2 subagents").with_ids(ids);
        let text = Failure::from(problem).because("the cause").rendered(false, Some(100));
        for part in ["fits 2 subagents", "the cause", "Type more of it", "k7aaaa", "docs/errors/ambiguous.md"]
        {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn ui_08_a_message_cannot_carry_control_codes() {
        let text = Failure::new(ErrorCode::NotFound, "no \u{1b}[31mred\u{7}").rendered(false, Some(100));
        assert!(text.contains("no red") && !text.contains('\u{1b}') && !text.contains('\u{7}'), "{text}");
    }
}
