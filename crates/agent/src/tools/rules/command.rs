//! Command lines against the patterns of a list (`Bash(git *)`, or `Bash(git:*)` as some agent files write it). A line is
//! taken apart as a shell would; each of its commands must fit. Whatever could run or write something that cannot be
//! seen in the text is refused: expansions, redirections, blocks, background.

use super::fits;

/// One pattern of commands.
#[derive(Debug)]
pub(super) struct CommandPattern {
    pattern: String,
    /// The same with nothing after it: `git:*` and `git *` allow `git` too.
    bare: Option<String>,
}

impl CommandPattern {
    pub(super) fn new(text: &str) -> Self {
        let text = text.trim();
        let prefix = text.strip_suffix(":*").or_else(|| text.strip_suffix(" *"));
        match prefix {
            Some(prefix) => Self { pattern: format!("{prefix} *"), bare: Some(prefix.to_owned()) },
            None => Self { pattern: text.to_owned(), bare: None },
        }
    }

    fn allows(&self, command: &str) -> bool {
        fits(&self.pattern, command) || self.bare.as_ref().is_some_and(|bare| fits(bare, command))
    }
}

/// Whether each command of a line fits one of the patterns. The answer for the model when not.
pub(super) fn check(line: &str, patterns: &[CommandPattern]) -> Result<(), String> {
    let shown = || patterns.iter().map(|pattern| pattern.pattern.as_str()).collect::<Vec<_>>().join(", ");
    if patterns
        .iter()
        .any(|pattern| !pattern.pattern.is_empty() && pattern.pattern.trim_matches('*').is_empty())
    {
        return Ok(());
    }
    let commands = commands(line).map_err(|what| {
        format!(
            "only some commands may be used in this session ({}), and {what} cannot be checked against that; write plain \
             commands",
            shown()
        )
    })?;
    for command in commands {
        if !patterns.iter().any(|pattern| pattern.allows(&command)) {
            return Err(format!(
                "the command `{}` may not be used in this session; allowed: {}",
                super::super::text::one_line(&command, 100),
                shown()
            ));
        }
    }
    Ok(())
}

/// The commands of a line, each with single spaces between its words outside of quotes.
fn commands(line: &str) -> Result<Vec<String>, &'static str> {
    let mut commands = Vec::new();
    let mut current = String::new();
    let mut chars = line.chars().peekable();
    let mut end = |current: &mut String| {
        let command = current.trim().to_owned();
        current.clear();
        if !command.is_empty() {
            commands.push(command);
        }
    };
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                current.push(c);
                loop {
                    let inner = chars.next().ok_or("a quote without an end")?;
                    current.push(inner);
                    if inner == '\'' {
                        break;
                    }
                }
            }
            '"' => {
                current.push(c);
                loop {
                    match chars.next().ok_or("a quote without an end")? {
                        '"' => break,
                        '$' | '`' => return Err("an expansion ($ or `)"),
                        '\\' => {
                            current.push('\\');
                            current.push(chars.next().ok_or("a backslash at the end")?);
                        }
                        '!' => return Err("a `!` in double quotes"),
                        inner => current.push(inner),
                    }
                }
                current.push('"');
            }
            '\\' => match chars.next().ok_or("a backslash at the end")? {
                '\n' => return Err("a line that goes on after a backslash"),
                next => current.extend(['\\', next]),
            },
            '$' | '`' => return Err("an expansion ($ or `)"),
            '<' | '>' => return Err("a redirection (< or >)"),
            '(' | ')' | '{' | '}' => return Err("a block or a brace"),
            '#' if current.is_empty() || current.ends_with(' ') => return Err("a comment"),
            '\r' | '\0' => return Err("a control character"),
            ';' | '\n' => end(&mut current),
            '&' if chars.next_if_eq(&'&').is_some() => end(&mut current),
            '&' => return Err("a command in the background (&)"),
            '|' => {
                if chars.next_if_eq(&'&').is_some() {
                    return Err("a redirection (|&)");
                }
                chars.next_if_eq(&'|');
                end(&mut current);
            }
            c if c.is_whitespace() => {
                if !current.is_empty() && !current.ends_with(' ') {
                    current.push(' ');
                }
            }
            c => current.push(c),
        }
    }
    end(&mut current);
    if commands.is_empty() { Err("an empty line") } else { Ok(commands) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(line: &str, patterns: &[&str]) -> bool {
        let patterns: Vec<_> = patterns.iter().map(|text| CommandPattern::new(text)).collect();
        check(line, &patterns).is_ok()
    }

    #[test]
    fn every_command_of_a_line_must_fit() {
        for (line, patterns) in [
            ("git status", &["git *"][..]),
            ("git", &["git:*"]),
            ("git   log  --oneline", &["git log *"]),
            ("git status && git diff; git log | head -5", &["git:*", "head *"]),
            ("grep 'a; rm -rf $x' f", &["grep *"]),
            ("echo \"a;b\"", &["echo *"]),
            ("cargo test", &["cargo test"]),
            ("rm -rf / > x", &["*"]),
        ] {
            assert!(allowed(line, patterns), "{line}");
        }
        for (line, patterns) in [
            ("rm -rf x", &["git *"][..]),
            ("git status; rm x", &["git *"]),
            ("git status & rm x", &["git *"]),
            ("git status\nrm x", &["git *"]),
            ("git status | sh", &["git *"]),
            ("git $(rm x)", &["git *"]),
            ("git `rm x`", &["git *"]),
            ("git \"$(rm x)\"", &["git *"]),
            ("git log > .git/hooks/x", &["git *"]),
            ("git log <(rm x)", &["git *"]),
            ("gitx", &["git:*"]),
            ("github", &["git *"]),
            ("X=1 git log", &["git *"]),
            ("'g'it; git log", &["git *"]),
            ("git \\\nrm", &["git *"]),
            ("git 'x", &["git *"]),
            ("cargo test --all", &["cargo test"]),
            ("", &["git *"]),
            ("git log # x", &["git *"]),
        ] {
            assert!(!allowed(line, patterns), "{line}");
        }
    }
}
