//! Paths in lists of tools: `*` stands for any text, slashes included; a directory means all below it. Patterns count
//! from the working directory, or from `/` when they begin with it.

use std::path::Path;

use super::fits;

/// One path or pattern.
#[derive(Clone, Debug)]
pub(in super::super) struct PathPattern {
    pattern: String,
    absolute: bool,
}

impl PathPattern {
    pub(super) fn new(text: &str) -> Self {
        let text = text.trim();
        // `//` is how some agent files write a path from `/`.
        let absolute = text.starts_with('/');
        let text =
            if let Some(rest) = text.strip_prefix("//") { format!("/{rest}") } else { text.to_owned() };
        let mut pattern = text.strip_prefix("./").unwrap_or(&text).to_owned();
        while pattern.contains("**") {
            pattern = pattern.replace("**", "*");
        }
        if pattern.len() > 1 {
            pattern = pattern.trim_end_matches('/').to_owned();
        }
        Self { pattern, absolute }
    }

    /// Whether a path is meant, for an allowance.
    fn allows(&self, shown: &str, absolute: &Path) -> bool {
        let path = if self.absolute { absolute.to_string_lossy().into_owned() } else { shown.to_owned() };
        self.pattern == "." || means(&self.pattern, &path)
    }

    /// Whether a path is meant, for a prohibition: in any case of letters, as some file systems see it.
    pub(in super::super) fn denies(&self, shown: &str, absolute: &Path) -> bool {
        let path = if self.absolute { absolute.to_string_lossy().into_owned() } else { shown.to_owned() };
        self.pattern == "." || means(&self.pattern.to_lowercase(), &path.to_lowercase())
    }
}

/// Whether a path is the one of the pattern or lies below it.
fn means(pattern: &str, path: &str) -> bool {
    fits(pattern, path)
        || path.match_indices('/').any(|(at, _)| fits(pattern, &path[..at]))
        // `*/x` means `x` in the working directory too.
        || pattern.strip_prefix("*/").is_some_and(|rest| fits(rest, path))
}

/// The paths that one tool may touch.
#[derive(Debug, Default)]
pub(in super::super) struct PathRule {
    /// Only these, when given.
    pub(super) allow: Option<Vec<PathPattern>>,
    /// None of these.
    pub(super) deny: Vec<PathPattern>,
}

impl PathRule {
    /// Whether the tool may touch a path, which is without links and `..`.
    pub(in super::super) fn permits(&self, shown: &str, absolute: &Path) -> bool {
        let allowed =
            self.allow.as_ref().is_none_or(|list| list.iter().any(|one| one.allows(shown, absolute)));
        allowed && !self.deny.iter().any(|one| one.denies(shown, absolute))
    }
}
