//! What the subagent may do without asking, from the options of `run`. Rules keep the order in which they were typed: the
//! first that fits counts.

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use subagent_model::{Permissions, PolicyRule, PolicyWord};

use crate::view::time;

const HEADING: &str = "Permissions";
const WORDS: [(&str, PolicyWord, &str); 3] = [
    (
        "allow",
        PolicyWord::Allow,
        "Allow what fits, unasked: [ACTION:]PATTERN, such as 'execute:git *'; a star is any text",
    ),
    ("deny", PolicyWord::Deny, "Deny what fits. The first rule that fits counts, in the order given"),
    ("ask", PolicyWord::Ask, "Ask for what fits, as for everything that no rule fits"),
];

/// The policy.
#[derive(Debug, Clone, Default)]
pub(super) struct PolicyArgs {
    /// As the request has it.
    pub(super) permissions: Permissions,
}

/// `ACTION:PATTERN`, `PATTERN`, or `:PATTERN` where the pattern itself has a colon.
fn pattern(text: &str) -> Result<(Option<String>, Option<String>), String> {
    let is_word = |word: &str| word.chars().all(|char| char.is_ascii_alphanumeric() || "_-".contains(char));
    let (action, pattern) = match text.split_once(':') {
        // The beginning of an address is no action.
        Some((action, rest)) if is_word(action) && !rest.starts_with("//") => (action, rest),
        _ => ("", text),
    };
    if action.is_empty() && pattern.is_empty() {
        return Err(String::from("expected [ACTION:]PATTERN, such as execute:git* or '*'"));
    }
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Ok((given(action), given(pattern)))
}

type Pattern = (Option<String>, Option<String>);

impl Args for PolicyArgs {
    fn augment_args(command: Command) -> Command {
        let rules = WORDS.map(|(name, _, help)| {
            Arg::new(name)
                .long(name)
                .value_name("PATTERN")
                .help(help)
                .help_heading(HEADING)
                .action(ArgAction::Append)
                .value_parser(pattern)
        });
        let flag = |name: &'static str, help: &'static str| {
            Arg::new(name).long(name).help(help).help_heading(HEADING).action(ArgAction::SetTrue)
        };
        let unattended = "Nobody will answer: what would be asked is denied at once";
        command
            .args(rules)
            .arg(flag("approve-all", "Allow everything that no rule fits; never more than its parent may"))
            .arg(flag("unattended", unattended))
            .arg(
                Arg::new("answer-within")
                    .long("answer-within")
                    .value_name("DURATION")
                    .help("Deny what nobody has answered in this time [default: 15m]")
                    .help_heading(HEADING)
                    .conflicts_with("unattended")
                    .value_parser(time::parse_positive),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for PolicyArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut rules = Vec::new();
        for (name, say, _) in WORDS {
            let places = matches.indices_of(name).into_iter().flatten();
            let patterns = matches.get_many::<Pattern>(name).into_iter().flatten();
            rules.extend(places.zip(patterns).map(|(place, (action, matches))| {
                (place, PolicyRule { action: action.clone(), matches: matches.clone(), say })
            }));
        }
        rules.sort_by_key(|(place, _)| *place);
        let otherwise =
            if matches.get_flag("approve-all") { PolicyWord::Allow } else { PolicyWord::default() };
        let within = matches.get_one::<Duration>("answer-within");
        Ok(Self {
            permissions: Permissions {
                otherwise,
                rules: rules.into_iter().map(|(_, rule)| rule).collect(),
                unattended: matches.get_flag("unattended"),
                expire_ms: within.map(|within| time::millis(*within)),
            },
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{PolicyArgs, pattern};
    use clap::{Args, Command, FromArgMatches};
    use subagent_model::{Permissions, PolicyWord};

    fn of(args: &[&str]) -> Permissions {
        let command = PolicyArgs::augment_args(Command::new("x").no_binary_name(true));
        PolicyArgs::from_arg_matches(&command.try_get_matches_from(args).unwrap()).unwrap().permissions
    }

    #[test]
    fn perm_06_rules_keep_the_order_in_which_they_were_typed() {
        let policy =
            of(&["--deny", "execute:rm *", "--allow", "execute:", "--ask", "https://*", "--deny", "*"]);
        let told: Vec<_> = policy
            .rules
            .iter()
            .map(|rule| (rule.say, rule.action.as_deref(), rule.matches.as_deref()))
            .collect();
        assert_eq!(
            told,
            [
                (PolicyWord::Deny, Some("execute"), Some("rm *")),
                (PolicyWord::Allow, Some("execute"), None),
                (PolicyWord::Ask, None, Some("https://*")),
                (PolicyWord::Deny, None, Some("*")),
            ]
        );
        assert_eq!(policy.otherwise, PolicyWord::Ask);
    }

    #[test]
    fn perm_02_who_answers_and_until_when_is_said_at_the_spawn() {
        assert!(of(&[]).is_default());
        assert!(of(&["--unattended"]).unattended);
        assert_eq!(of(&["--approve-all"]).otherwise, PolicyWord::Allow);
        assert_eq!(of(&["--answer-within", "2m"]).expire_ms, Some(120_000));
    }

    #[test]
    fn a_pattern_with_a_colon_can_be_written() {
        assert_eq!(pattern(":a:b"), Ok((None, Some(String::from("a:b")))));
        assert_eq!(pattern("git push: now"), Ok((None, Some(String::from("git push: now")))));
        assert!(pattern("").is_err() && pattern(":").is_err());
    }
}
