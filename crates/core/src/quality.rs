//! How far a good end can be trusted, from its text and a few counts. No model is asked. The rules are coarse and mark
//! only: a run that is marked is still completed. Ends that are not good (aborted, failed, stopped) have their own.

use std::time::Duration;

use subagent_model::{Mark, Quality};

/// A life shorter than this, without tools and with a short text, did no work that can be seen.
const SHORT_LIFE: Duration = Duration::from_secs(2);
/// A text of fewer characters is short.
const SHORT_TEXT: usize = 80;
/// A text of this many characters says more than that work is about to begin, whatever its first words are.
const LONG_TEXT: usize = 400;

/// What is known beside the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The child converses and was asked for an answer. The output of a program is whatever it prints.
    pub conversational: bool,
    /// Tool calls of the run.
    pub tool_uses: u32,
    /// From its start to its end.
    pub lived: Duration,
    /// The text is shorter than what was produced.
    pub truncated: bool,
}

/// Judges the text of a completed run.
///
/// | Case | Quality | Mark |
/// |---|---|---|
/// | blank, of a conversational child | unverified | no output |
/// | blank, of a program | ok | no output |
/// | conversational, no tool use: short text after a short life, or a text that only announces work | unverified | |
/// | not all of the text is there | partial | truncated |
pub fn judge(text: Option<&str>, facts: &Facts) -> (Quality, Vec<Mark>) {
    let text = text.map_or("", str::trim);
    if text.is_empty() {
        let quality = if facts.conversational { Quality::Unverified } else { Quality::Ok };
        return (quality, vec![Mark::NoOutput]);
    }
    if facts.truncated {
        return (Quality::Partial, vec![Mark::Truncated]);
    }
    let hasty = facts.lived < SHORT_LIFE && is_shorter(text, SHORT_TEXT);
    if facts.conversational && facts.tool_uses == 0 && (hasty || only_announces(text)) {
        return (Quality::Unverified, vec![]);
    }
    (Quality::Ok, vec![])
}

/// Counts no further than it must: texts may be large.
fn is_shorter(text: &str, than: usize) -> bool {
    text.chars().take(than).count() < than
}

/// True for "I'll look at the files first.", "Let me check:", "Working on it..." and the like.
fn only_announces(text: &str) -> bool {
    const OPENINGS: [&str; 12] = [
        "i'll ",
        "i will ",
        "i'm going to ",
        "i am going to ",
        "let me ",
        "let's ",
        "now i'll ",
        "now let me ",
        "first, i'll ",
        "first, let me ",
        "sure, i'll ",
        "okay, i'll ",
    ];
    if text.ends_with(':') || text.ends_with("...") || text.ends_with('…') {
        return true;
    }
    let beginning: String = text.chars().take(20).map(|c| if c == '’' { '\'' } else { c }).collect();
    let beginning = beginning.to_lowercase();
    is_shorter(text, LONG_TEXT)
        && !beginning.starts_with("let me know")
        && OPENINGS.iter().any(|opening| beginning.starts_with(opening))
}

#[cfg(test)]
mod tests {
    use super::{Facts, judge};
    use std::time::Duration;
    use subagent_model::{Mark, Quality};

    fn agent() -> Facts {
        Facts { conversational: true, tool_uses: 0, lived: Duration::from_mins(1), truncated: false }
    }

    fn program() -> Facts {
        Facts { conversational: false, lived: Duration::ZERO, ..agent() }
    }

    #[test]
    fn result_23_a_blank_answer_is_never_plainly_good() {
        for text in [None, Some(""), Some(" \n\t ")] {
            let busy = Facts { tool_uses: 9, ..agent() };
            assert_eq!(judge(text, &busy), (Quality::Unverified, vec![Mark::NoOutput]));
            assert_eq!(judge(text, &program()), (Quality::Ok, vec![Mark::NoOutput]));
        }
    }

    #[test]
    fn result_24_a_text_that_only_announces_work_is_unverified() {
        let texts = [
            "I'll now look at the failing tests.",
            "I’ll start with the parser",
            "Let me check the configuration first.",
            "NOW LET ME run it.",
            "These are the files I am going to read:",
            "Working on it...",
            "Reading the sources…",
        ];
        for text in texts {
            assert_eq!(judge(Some(text), &agent()), (Quality::Unverified, vec![]), "{text}");
            assert_eq!(judge(Some(text), &Facts { tool_uses: 1, ..agent() }).0, Quality::Ok, "{text}");
            assert_eq!(judge(Some(text), &program()).0, Quality::Ok, "{text}");
        }
        let report = format!("I'll summarise what I found. {}", "It is in the parser. ".repeat(30));
        for text in ["The bug is in line 4.", "Let me know if you want more: it is fixed.", &report] {
            assert_eq!(judge(Some(text), &agent()), (Quality::Ok, vec![]), "{text}");
        }
    }

    #[test]
    fn result_24_a_very_short_run_without_tools_is_unverified() {
        let hasty = Facts { lived: Duration::from_millis(1_999), ..agent() };
        assert_eq!(judge(Some("Done."), &hasty).0, Quality::Unverified);
        assert_eq!(judge(Some("Done."), &Facts { lived: Duration::from_secs(2), ..hasty }).0, Quality::Ok);
        assert_eq!(judge(Some("Done."), &Facts { tool_uses: 1, ..hasty }).0, Quality::Ok);
        assert_eq!(judge(Some(&"é".repeat(79)), &hasty).0, Quality::Unverified);
        assert_eq!(judge(Some(&"é".repeat(80)), &hasty).0, Quality::Ok);
    }

    #[test]
    fn a_part_of_the_text_is_partial() {
        let facts = Facts { truncated: true, ..agent() };
        assert_eq!(judge(Some("Let me..."), &facts), (Quality::Partial, vec![Mark::Truncated]));
    }
}
