//! What a child with files of its own must not be told of its parent: directories, paths of skills, branches. What takes
//! their place is the same for all siblings, so that their prompts still begin alike.

/// Names of places that belong to the parent. The caller puts in every spelling that may occur, such as the path through a
/// link and that with `~`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Traces {
    /// Its directories: each becomes `./`, so that what is below them is a relative path.
    pub directories: Vec<String>,
    /// The directories of its skills: each becomes its last part, the name of the skill.
    pub skills: Vec<String>,
    /// Its branches: each becomes `HEAD`. One that is a plain word, such as `main`, is looked for only in lines that speak of a
    /// branch.
    pub branches: Vec<String>,
}

/// One thing to look for.
struct Trace<'a> {
    from: &'a str,
    to: &'a str,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Path,
    Branch,
    PlainBranch,
}

impl Traces {
    /// A text without them.
    pub fn removed_from(&self, text: &str) -> String {
        let traces = self.longest_first();
        let mut cleaned = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            let of_branch = line.to_lowercase().contains("branch");
            let mut before: Option<char> = None;
            let mut rest = line;
            while let Some(next) = rest.chars().next() {
                let found = traces.iter().find(|trace| {
                    (trace.kind != Kind::PlainBranch || of_branch)
                        && rest
                            .strip_prefix(trace.from)
                            .is_some_and(|after| trace.stands_alone(before, after))
                });
                if let Some(trace) = found {
                    cleaned.push_str(trace.to);
                    before = trace.from.chars().next_back();
                    rest = rest.strip_prefix(trace.from).unwrap_or_default();
                    if trace.to == "." && !rest.starts_with('/') {
                        cleaned.push('/');
                    }
                } else {
                    cleaned.push(next);
                    before = Some(next);
                    rest = rest.get(next.len_utf8()..).unwrap_or_default();
                }
            }
        }
        cleaned
    }

    fn longest_first(&self) -> Vec<Trace<'_>> {
        let path = |from: &'_ str| from.trim_end_matches('/').len();
        let directories = self.directories.iter().map(|from| Trace {
            from: &from[..path(from)],
            to: ".",
            kind: Kind::Path,
        });
        let skills = self.skills.iter().map(|from| {
            let from = &from[..path(from)];
            Trace { from, to: from.rsplit('/').next().unwrap_or(from), kind: Kind::Path }
        });
        let branches = self.branches.iter().map(|from| Trace {
            from,
            to: "HEAD",
            kind: if from.chars().all(char::is_alphabetic) { Kind::PlainBranch } else { Kind::Branch },
        });
        // Without a name in it, a path would be every stroke of a text.
        let mut traces: Vec<_> =
            directories.chain(skills).chain(branches).filter(|it| it.from.len() > 1).collect();
        traces.sort_by_key(|trace| std::cmp::Reverse(trace.from.len()));
        traces
    }
}

impl Trace<'_> {
    /// Whether it is a whole name there, and not a part of a longer one.
    fn stands_alone(&self, before: Option<char>, after: &str) -> bool {
        // Other letters stand beside a path without a space in languages that have none.
        let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
        let mut after = after.chars();
        let (next, second) = (after.next(), after.next());
        let goes_on = match next {
            Some('.') => second.is_some_and(is_name),
            Some('/') => self.kind != Kind::Path && second.is_some_and(is_name),
            Some(char) => is_name(char),
            None => false,
        };
        let began_before = match before {
            Some('.' | '~') => true,
            Some('/') => self.kind != Kind::Path,
            Some(char) => is_name(char),
            None => false,
        };
        !goes_on && !began_before
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};
    use proptest::{collection, prop_assert, prop_assert_eq};

    use super::Traces;

    fn traces() -> Traces {
        Traces {
            directories: vec![String::from("/work/app/"), String::from("/work/app/nested")],
            skills: vec![String::from("/home/me/.claude/skills/review")],
            branches: vec![String::from("main"), String::from("fix/login-2")],
        }
    }

    #[test]
    fn def_14_nothing_of_the_parent_is_left() {
        for (before, after) in [
            ("In /work/app.", "In ./."),
            ("See /work/app/src/a.rs and /work/app/nested/b", "See ./src/a.rs and ./b"),
            ("file:///work/app/x", "file://./x"),
            (
                "/work/application /other/work/app /work/app-2 /work/app.bak",
                "/work/application /other/work/app /work/app-2 /work/app.bak",
            ),
            ("Read /home/me/.claude/skills/review/SKILL.md", "Read review/SKILL.md"),
            ("git push origin fix/login-2!", "git push origin HEAD!"),
            ("fix/login-23 prefix/login-2", "fix/login-23 prefix/login-2"),
            ("Current branch: main\nthe main function", "Current branch: HEAD\nthe main function"),
            ("Branches: main, maintenance", "Branches: HEAD, maintenance"),
            ("在/work/app中", "在./中"),
        ] {
            assert_eq!(traces().removed_from(before), after);
        }
    }

    #[test]
    fn without_traces_nothing_changes() {
        let nothing = Traces { directories: vec!["/".into(), String::new()], ..Traces::default() };
        assert_eq!(nothing.removed_from("a / b /c\r\n"), "a / b /c\r\n");
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in any::<String>(), names in collection::vec(any::<String>(), 0..4)) {
            let traces = Traces { directories: names.clone(), skills: names.clone(), branches: names };
            traces.removed_from(&text);
            prop_assert_eq!(Traces::default().removed_from(&text), text);
        }

        #[test]
        fn a_directory_between_spaces_is_never_left(words in collection::vec("(/work/app|/work/app/nested|x|/)", 0..6)) {
            let cleaned = traces().removed_from(&words.join(" "));
            prop_assert!(!cleaned.contains("/work/app"), "{}", cleaned);
        }
    }
}
