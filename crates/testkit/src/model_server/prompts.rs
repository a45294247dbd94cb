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
/// What a reminder says that carries words of a person: they came while the model was at work.
const CARRIES: &str = "new message while you were working:";

/// What a person said in this text, if anything.
pub(super) fn real(text: &str) -> Option<String> {
    let text = without_reminders(text);
    let text = text.trim();
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
        if let Some((_, carried)) = reminder.split_once(CARRIES) {
            // The agent's own advice follows after an empty line.
            kept += carried.trim_start().split("\n\n").next().unwrap_or_default();
        }
        text = rest;
    }
    kept + text
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
    fn words_inside_a_reminder_are_kept() {
        let text = "<system-reminder>The user sent a new message while you were working:\nstop it\n\nDo so.\
                    </system-reminder>";
        assert_eq!(real(text), Some("stop it".into()));
    }

    #[test]
    fn surroundings_are_no_prompt() {
        for own in [
            "<environment_context>\n  <cwd>/</cwd>\n</environment_context>",
            "<permissions instructions>",
            "<user_instructions>",
            "# AGENTS.md instructions for /repo",
            "This is the Gemini CLI. We are setting up the context",
            "  ",
        ] {
            assert_eq!(real(own), None, "{own}");
        }
        assert_eq!(real("<b>bold</b>"), Some("<b>bold</b>".into()));
    }
}
