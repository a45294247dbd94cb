//! The words that fields of a definition may have, in the order of what they allow.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$meaning:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        pub enum $name {
            $($(#[$meaning])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// Every word.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The word in our own files.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// Words with what they stand for.
            pub const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$variant),)*];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}
pub(crate) use words;

words! {
    /// What the body of a definition does to the prompt that is there without it.
    PromptMode {
        /// It follows it.
        Append = "append",
        /// It takes its place.
        Replace = "replace",
    }
}

words! {
    /// What a child may do without being asked, the strictest first.
    PermissionMode {
        /// It looks and plans; it changes nothing.
        Plan = "plan",
        /// What is not allowed beforehand is denied.
        Deny = "deny",
        /// What is not allowed beforehand is asked.
        Ask = "ask",
        /// Edits are allowed, the rest is asked.
        AcceptEdits = "accept-edits",
        /// The agent judges by itself what has to be asked.
        Auto = "auto",
        /// Everything is allowed.
        Bypass = "bypass",
    }
}

words! {
    /// What the operating system lets a child do, the strictest first.
    Sandbox {
        /// It reads.
        ReadOnly = "read-only",
        /// It writes below its working directory.
        WorkspaceWrite = "workspace-write",
        /// There is no sandbox.
        FullAccess = "full-access",
    }
}

words! {
    /// Where the memory of an agent type is kept between runs.
    MemoryScope {
        /// With the person.
        User = "user",
        /// With the project, for everybody.
        Project = "project",
        /// With the project, for this person.
        Local = "local",
    }
}

words! {
    /// How the files of a child are kept apart.
    Isolation {
        /// In a git worktree of its own.
        Worktree = "worktree",
    }
}

words! {
    /// Whether a type is offered.
    Visibility {
        /// It is.
        Listed = "listed",
        /// It can be used by those who know its name.
        Hidden = "hidden",
        /// It cannot be used.
        Disabled = "disabled",
    }
}

words! {
    /// With what a child begins.
    ContextStart {
        /// With its task.
        Fresh = "fresh",
        /// With the conversation of its parent.
        Fork = "fork",
    }
}

/// How much a model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// As little as there is.
    Minimal,
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// Very much.
    XHigh,
    /// As much as there is.
    Max,
    /// A number, in the measure of the provider.
    Number(u32),
}

impl Effort {
    /// Words and what they stand for.
    pub(crate) const WORDS: &'static [(&'static str, Self)] = &[
        ("minimal", Self::Minimal),
        ("low", Self::Low),
        ("medium", Self::Medium),
        ("high", Self::High),
        ("xhigh", Self::XHigh),
        ("max", Self::Max),
    ];
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            word => f.pad(Self::WORDS.iter().find(|(_, it)| it == word).map_or("", |(word, _)| word)),
        }
    }
}

/// Which model a definition or a call wants.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelChoice {
    /// That of the parent.
    Inherit,
    /// The one that this name fits; see [`crate::models`].
    Named(String),
}

impl fmt::Display for ModelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inherit => f.pad("inherit"),
            Self::Named(name) => f.pad(name),
        }
    }
}

/// `500ms`, `10s`, `5m`, `2h`, `1d`, and sums such as `1h30m`, in milliseconds. A number without a unit is refused.
pub(crate) fn duration_ms(text: &str) -> Result<u64, String> {
    const UNITS: &[(&str, u64)] =
        &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    const EXPECTED: &str = "a duration such as 90s, 10m or 1h30m";
    let mut rest = text.trim();
    let mut total: u64 = 0;
    if rest.is_empty() {
        return Err(format!("it must be {EXPECTED}"));
    }
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|char: char| char.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        let letters = after.len() - after.trim_start_matches(|char: char| char.is_ascii_alphabetic()).len();
        let (unit, after) = after.split_at(letters);
        rest = after;
        let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
        let sum = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(factor?))
            .and_then(|millis| total.checked_add(millis))
            .filter(|millis| *millis <= MAX_DURATION_MS);
        match sum {
            Some(sum) => total = sum,
            None if unit.is_empty() && !number.is_empty() => {
                return Err(format!("{number} of which unit? It must be {EXPECTED}"));
            }
            None => return Err(format!("it must be {EXPECTED}, and at most a year")),
        }
    }
    Ok(total)
}

/// The longest time that a definition may set: a year.
pub(crate) const MAX_DURATION_MS: u64 = 366 * 24 * 60 * 60 * 1_000;

#[cfg(test)]
mod tests {
    use super::{Effort, PermissionMode, Sandbox, duration_ms};

    #[test]
    fn durations_have_units() {
        assert_eq!(duration_ms("1h30m"), Ok(5_400_000));
        assert_eq!(duration_ms(" 90s "), Ok(90_000));
        for wrong in ["", "5", "m", "5 m", "1.5h", "-1s", "5x", "99999999999999999999s", "400d", "é", "1h30"]
        {
            duration_ms(wrong).unwrap_err();
        }
        assert!(duration_ms("600").unwrap_err().contains("which unit"));
    }

    #[test]
    fn the_order_of_words_is_that_of_what_they_allow() {
        assert!(PermissionMode::Plan < PermissionMode::Ask && PermissionMode::Ask < PermissionMode::Bypass);
        assert!(Sandbox::ReadOnly < Sandbox::FullAccess);
        assert_eq!(Effort::XHigh.to_string(), "xhigh");
        assert_eq!(serde_json::to_string(&Effort::XHigh).unwrap(), "\"xhigh\"");
        assert_eq!(serde_json::to_string(&Effort::Number(3)).unwrap(), "{\"number\":3}");
    }
}
