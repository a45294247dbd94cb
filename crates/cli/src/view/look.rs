//! The one table of how statuses look: icon and colour, the same in every view.

use subagent_model::Status;

/// A colour or weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Paint {
    /// As it is.
    #[default]
    Plain,
    /// Heavier.
    Bold,
    /// Paler.
    Dim,
    /// Red.
    Red,
    /// Green.
    Green,
    /// Yellow.
    Yellow,
    /// Cyan.
    Cyan,
    /// Magenta.
    Magenta,
}

impl Paint {
    /// The text in this colour, where colours are wanted.
    pub(crate) fn on(self, text: &str, colour: bool) -> String {
        let code = match self {
            Self::Plain => return text.to_owned(),
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Magenta => "35",
            Self::Cyan => "36",
        };
        if colour && !text.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// Icon and colour of a status.
pub(crate) fn of(status: Status) -> (&'static str, Paint) {
    match status {
        Status::Queued => ("◌", Paint::Dim),
        Status::Running => ("●", Paint::Cyan),
        Status::Idle => ("○", Paint::Cyan),
        Status::Waiting => ("◐", Paint::Yellow),
        Status::Stopping => ("◍", Paint::Yellow),
        Status::Completed | Status::Steered => ("✓", Paint::Green),
        Status::Aborted => ("✗", Paint::Yellow),
        Status::Stopped => ("■", Paint::Yellow),
        Status::Error => ("✗", Paint::Red),
        Status::Lost => ("?", Paint::Magenta),
    }
}

/// A status as views show it: with its icon on a terminal, the bare word for programs.
pub(crate) fn word(status: Status, terminal: bool) -> String {
    if terminal { format!("{} {status}", of(status).0) } else { status.to_string() }
}
