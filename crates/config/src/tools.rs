//! Lists of tools: names and patterns, and how one list is kept within another.

use serde::{Deserialize, Serialize};

/// Tools, each by its name (`Read`), by a pattern in which `*` stands for any text (`mcp__tracker__*`), or with what it
/// may be called with (`Bash(git *)`). Names are compared exactly.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolList(Vec<String>);

impl ToolList {
    /// These tools, each once.
    pub fn new<T: Into<String>>(tools: impl IntoIterator<Item = T>) -> Self {
        let mut list = Self::default();
        for tool in tools {
            list.add(tool.into());
        }
        list
    }

    /// Names and patterns, in the order of the file.
    pub fn patterns(&self) -> &[String] {
        &self.0
    }

    /// True when no tool is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True when the tool is in it, even if only for some calls.
    pub fn names(&self, tool: &str) -> bool {
        let (name, _) = parts(tool);
        self.0.iter().any(|pattern| fits(parts(pattern).0, name))
    }

    /// True when everything that `tool` may be is in it.
    pub fn covers(&self, tool: &str) -> bool {
        self.0.iter().any(|pattern| covers(pattern, tool))
    }

    /// What of this list lies within `outer`, and what was left out of it.
    #[must_use]
    pub fn within(&self, outer: &Self) -> (Self, Vec<String>) {
        let mut kept = Self::default();
        let mut dropped = Vec::new();
        for tool in &self.0 {
            if outer.covers(tool) {
                kept.add(tool.clone());
                continue;
            }
            dropped.push(tool.clone());
            // `mcp__*` within `mcp__tracker__read` is the latter.
            for part in outer.0.iter().filter(|part| covers(tool, part)) {
                kept.add(part.clone());
            }
        }
        (kept, dropped)
    }

    /// This list and the other.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self::new(self.0.iter().chain(&other.0).cloned())
    }

    fn add(&mut self, tool: String) {
        if !self.0.contains(&tool) {
            self.0.push(tool);
        }
    }
}

impl std::fmt::Display for ToolList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0.join(", "))
    }
}

/// The name of a tool, and what it may be called with.
fn parts(tool: &str) -> (&str, Option<&str>) {
    match tool.split_once('(') {
        Some((name, rest)) => (name, Some(rest.strip_suffix(')').unwrap_or(rest))),
        None => (tool, None),
    }
}

/// True when everything that fits `inner` fits `outer`.
fn covers(outer: &str, inner: &str) -> bool {
    let ((outer, outer_call), (inner, inner_call)) = (parts(outer), parts(inner));
    // A star of `inner` is matched by a star of `outer` only, which then stands for all that it may be.
    fits(outer, inner)
        && match (outer_call, inner_call) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(outer), Some(inner)) => fits(outer, inner),
        }
}

/// True when `text` fits `pattern`, in which `*` stands for any text.
pub(crate) fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts: Vec<_> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, proptest};
    use proptest::{collection, prop_assert};

    use super::{ToolList, covers, fits};

    fn list(tools: &[&str]) -> ToolList {
        ToolList::new(tools.iter().copied())
    }

    #[test]
    fn a_pattern_covers_what_can_be_nothing_else() {
        for (outer, inner) in [
            ("*", "Read"),
            ("Read", "Read"),
            ("mcp__*", "mcp__tracker__*"),
            ("Bash", "Bash(git *)"),
            ("Bash(git *)", "Bash(git log)"),
            ("*", "Bash(git *)"),
        ] {
            assert!(covers(outer, inner), "{outer} {inner}");
        }
        for (outer, inner) in [
            ("Read", "read"),
            ("Read", "*"),
            ("mcp__tracker__*", "mcp__*"),
            ("Bash(git *)", "Bash"),
            ("Bash(git *)", "Bash(rm *)"),
            ("a*", "*a"),
        ] {
            assert!(!covers(outer, inner), "{outer} {inner}");
        }
    }

    #[test]
    fn a_list_is_kept_within_another() {
        let (kept, dropped) = list(&["Read", "Write", "Bash"]).within(&list(&["Read", "Bash(git *)"]));
        assert_eq!(kept, list(&["Read", "Bash(git *)"]));
        assert_eq!(dropped, ["Write", "Bash"]);
        let (kept, dropped) = list(&["*"]).within(&list(&["Read", "Grep"]));
        assert_eq!((kept, dropped), (list(&["Read", "Grep"]), vec![String::from("*")]));
        assert!(list(&["Bash(git *)"]).names("Bash") && !list(&["Bash(git *)"]).covers("Bash"));
    }

    fn pattern() -> impl Strategy<Value = String> {
        "[ab*]{0,4}(\\([ab*]{0,3}\\))?"
    }

    proptest! {
        /// What two lists have in common never reaches beyond either.
        #[test]
        fn within_is_within_both(
            inner in collection::vec(pattern(), 0..4),
            outer in collection::vec(pattern(), 0..4),
            tool in "[ab]{0,5}(\\([ab]{0,3}\\))?",
        ) {
            let (inner, outer) = (ToolList::new(inner), ToolList::new(outer));
            let (both, _) = inner.within(&outer);
            if both.covers(&tool) {
                prop_assert!(inner.covers(&tool) && outer.covers(&tool), "{inner} {outer} {both}");
            }
        }

        #[test]
        fn a_text_fits_itself(text in "[ab]{0,6}") {
            prop_assert!(fits(&text, &text) && fits("*", &text) && fits(&(text.clone() + "*"), &text));
        }
    }
}
