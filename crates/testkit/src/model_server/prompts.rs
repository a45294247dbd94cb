//! Telling what a person said from what agents add: reminders, descriptions of the surroundings, preambles.

/// Tags that begin a message of the agent's own making.
const OWN_TAGS: &[&str] = &[
    "environment_context",
    "user_instructions",
    "permissions",
    "session_context",
    "INSTRUCTIONS",
    "turn_aborted",
    "skills_instructions",
    "apps_instructions",
    "plugins_instructions",
    "collaboration_mode",
    "subagent_notification",
    "task-notification",
    "local-command-",
    "command-name",
];

/// Beginnings of messages of the agent's own making.
const OWN_WORDS: &[&str] = &[
    "# AGENTS.md",
    "This is the Gemini CLI",
    "This is the Qwen Code",
    "This is Qwen Code",
    "[Request interrupted by user",
];

const REMINDER: (&str, &str) = ("<system-reminder>", "</system-reminder>");
/// What an agent puts before words of a person that came while the model was at work, and what it puts behind them.
const CARRIES: &str = "The user sent a new message while you were working:";
const ADVICE: &str = "\n\nThis is how Claude Code surfaces messages";

/// What a person said in this text, if anything.
pub(super) fn real(text: &str) -> Option<String> {
    let text = without_reminders(text);
    let text = carried(&text).unwrap_or(&text).trim();
    let tag = text.strip_prefix('<').unwrap_or_default();
    let own =
        OWN_TAGS.iter().any(|own| tag.starts_with(own)) || OWN_WORDS.iter().any(|own| text.starts_with(own));
    (!text.is_empty() && !own).then(|| text.to_owned())
}

fn without_reminders(mut text: &str) -> String {
    let mut kept = String::new();
    while let Some((before, after)) = text.split_once(REMINDER.0) {
        kept += before;
        let (reminder, rest) = after.split_once(REMINDER.1).unwrap_or((after, ""));
        kept += carried(reminder).unwrap_or_default();
        text = rest;
    }
    kept + text
}

/// The words of a person in a text that carries them.
fn carried(text: &str) -> Option<&str> {
    let words = text.trim_start().strip_prefix(CARRIES)?;
    Some(words.split(ADVICE).next().unwrap_or(words).trim())
}

#[cfg(test)]
mod tests {
    use super::real;

    #[test]
    fn reminders_are_cut_out() {
        assert_eq!(real("<system-reminder>x</system-reminder>\nhello "), Some("hello".into()));
        assert_eq!(real("a<system-reminder>x</system-reminder>b<system-reminder>y"), Some("ab".into()));
        assert_eq!(real("<system-reminder>x</system-reminder>"), None);
    }

    #[test]
    fn words_that_came_in_the_middle_are_kept() {
        let text = "The user sent a new message while you were working:\nstop it\n\nnow\n\nThis is how Claude Code \
                    surfaces messages the user sends mid-turn. Address the message above.";
        assert_eq!(real(text), Some("stop it\n\nnow".into()));
        let reminder = format!("<system-reminder>{text}</system-reminder>");
        assert_eq!(real(&reminder), Some("stop it\n\nnow".into()));
    }

    #[test]
    fn surroundings_are_no_prompt() {
        for own in [
            "<environment_context>\n  <cwd>/</cwd>\n</environment_context>",
            "<permissions instructions>",
            "<user_instructions>",
            "<subagent_notification>\n{}\n</subagent_notification>",
            "# AGENTS.md instructions for /repo",
            "This is the Gemini CLI. We are setting up the context",
            "  ",
        ] {
            assert_eq!(real(own), None, "{own}");
        }
        assert_eq!(real("<b>bold</b>"), Some("<b>bold</b>".into()));
    }
}
