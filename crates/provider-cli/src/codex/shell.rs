//! Commands as people and policies know them: without the shell that each is wrapped in.

/// The command inside of `/bin/bash -lc '...'`; the whole text where it is anything else. Strict: only what is certainly
/// one word after such a shell is taken out, so a title never shows less than what is run.
pub(super) fn unwrapped(command: &str) -> String {
    inner(command).unwrap_or_else(|| command.to_owned())
}

fn inner(command: &str) -> Option<String> {
    let (shell, rest) = command.split_once(' ')?;
    let (flag, word) = rest.split_once(' ')?;
    let name = shell.rsplit('/').next()?;
    if !matches!(name, "bash" | "zsh" | "sh") || !matches!(flag, "-lc" | "-c") {
        return None;
    }
    one_word(word)
}

/// What a shell makes of a text that is one quoted word.
fn one_word(text: &str) -> Option<String> {
    let mut word = String::new();
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        match next {
            '\'' => loop {
                match rest.next()? {
                    '\'' => break,
                    other => word.push(other),
                }
            },
            '"' => loop {
                match rest.next()? {
                    '"' => break,
                    '\\' => match rest.next()? {
                        escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                        other => word.extend(['\\', other]),
                    },
                    // These would be carried out and not said.
                    '$' | '`' => return None,
                    other => word.push(other),
                }
            },
            '\\' => word.push(rest.next()?),
            plain if plain.is_ascii_alphanumeric() || "@%+=:,./-_".contains(plain) => word.push(plain),
            _ => return None,
        }
    }
    Some(word).filter(|word| !word.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::unwrapped;

    #[test]
    fn a_title_never_shows_less_than_what_is_run() {
        for (command, shown) in [
            ("/bin/bash -lc 'touch a1.txt'", "touch a1.txt"),
            ("/bin/bash -lc \"cd /tmp && ls; echo 'it''s'\"", "cd /tmp && ls; echo 'it''s'"),
            (r#"bash -c 'it'"'"'s'"#, "it's"),
            ("/usr/bin/zsh -lc ls", "ls"),
            (r#"bash -lc "a \"b\" \$c \n""#, r#"a "b" $c \n"#),
        ] {
            assert_eq!(unwrapped(command), shown);
        }
        for whole in [
            "bash -lc 'ls' rm",
            "bash -lc 'ls'; rm x",
            "bash -lc 'ls",
            "bash -lc \"$(rm x)\"",
            "bash -lc ''",
            "bash -x 'ls'",
            "evilbash -lc 'ls'",
            "rm x",
            "",
        ] {
            assert_eq!(unwrapped(whole), whole);
        }
    }
}
