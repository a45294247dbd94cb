//! What the policies of a subagent and of those above it say to a request for a permission. Never wider than the
//! strictest of them; what a parent loses its children lose at once.

use subagent_model::{Ask, Permissions, PolicyWord, Subject};

/// How long a request waits for an answer where the policy does not say.
pub const EXPIRY_MS: u64 = 15 * 60 * 1000;

/// The strictest word of `policies`, from the subagent up to its root, and why. Questions are asked where somebody can
/// answer.
pub fn say<'a>(
    policies: impl IntoIterator<Item = &'a Permissions>,
    ask: &Ask,
) -> (PolicyWord, Option<String>) {
    let mut strictest = (PolicyWord::Allow, None);
    for (level, policy) in policies.into_iter().enumerate() {
        let (word, reason) = one(policy, ask);
        if level == 0 || word > strictest.0 {
            let reason = match level {
                0 => reason,
                _ => reason.map(|reason| format!("{reason} (policy of an ancestor)")),
            };
            strictest = (word, reason);
        }
    }
    strictest
}

/// Whether any of them denies something. What does not ask cannot be held to that.
pub fn denies<'a>(policies: impl IntoIterator<Item = &'a Permissions>) -> bool {
    policies.into_iter().any(|policy| {
        let mut words = policy.rules.iter().map(|rule| rule.say).chain([policy.otherwise]);
        words.any(|word| word == PolicyWord::Deny || (word == PolicyWord::Ask && policy.unattended))
    })
}

fn one(policy: &Permissions, ask: &Ask) -> (PolicyWord, Option<String>) {
    let unattended =
        || (PolicyWord::Deny, Some(String::from("nobody is there to answer: it runs unattended")));
    let Subject::Approval { action, title, .. } = &ask.subject else {
        return if policy.unattended { unattended() } else { (PolicyWord::Ask, None) };
    };
    let rule = policy.rules.iter().position(|rule| {
        rule.action.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(action))
            && rule.matches.as_ref().is_none_or(|pattern| fits(pattern, title))
    });
    let (word, reason) = match rule.and_then(|at| Some((at, policy.rules.get(at)?))) {
        Some((at, rule)) => (rule.say, Some(format!("rule {} of the policy", at + 1))),
        None => (policy.otherwise, Some(String::from("the policy"))),
    };
    match word {
        PolicyWord::Ask if policy.unattended => unattended(),
        PolicyWord::Ask => (word, None),
        PolicyWord::Allow | PolicyWord::Deny => (word, reason),
    }
}

/// True when `text` fits `pattern`, in which `*` stands for any text. Linear in the text for each part of the pattern.
pub fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts: Vec<_> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use subagent_model::{Ask, Permissions, PolicyRule, PolicyWord, Subject};

    use super::{denies, fits, say};

    fn ask(action: &str, title: &str) -> Ask {
        let subject = Subject::Approval {
            action: action.to_owned(),
            title: title.to_owned(),
            detail: None,
            options: vec![],
        };
        Ask { key: String::from("1"), subject }
    }

    fn rule(action: &str, matches: &str, say: PolicyWord) -> PolicyRule {
        PolicyRule { action: Some(action.to_owned()), matches: Some(matches.to_owned()), say }
    }

    #[test]
    fn patterns_are_anchored_and_a_star_stands_for_any_text() {
        for (pattern, text, expected) in [
            ("git status", "git status", true),
            ("git status", "git status -s", false),
            ("git *", "git push --force", true),
            ("*", "", true),
            ("*secret*", "cat /secret/key", true),
            ("a*a", "a", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("", "x", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern:?} on {text:?}");
        }
    }

    #[test]
    fn perm_06_of_all_policies_from_the_root_down_the_strictest_word_counts() {
        use PolicyWord::{Allow, Ask as Asked, Deny};
        let of = |otherwise| Permissions { otherwise, ..Permissions::default() };
        for (child, parent, expected) in [
            (Allow, Allow, Allow),
            (Allow, Asked, Asked),
            (Allow, Deny, Deny),
            (Asked, Allow, Asked),
            (Deny, Allow, Deny),
        ] {
            let (child, parent) = (of(child), of(parent));
            assert_eq!(say([&child, &parent], &ask("execute", "ls")).0, expected);
        }
    }

    #[test]
    fn perm_06_a_policy_that_denies_something_is_known_as_one() {
        use PolicyWord::{Allow, Ask as Asked, Deny};
        let of = |otherwise, rules: &[PolicyWord], unattended| {
            let rules = rules.iter().map(|say| rule("execute", "*", *say)).collect();
            denies([&Permissions::default(), &Permissions { otherwise, rules, unattended, expire_ms: None }])
        };
        assert!(!of(Asked, &[Allow, Asked], false));
        assert!(of(Deny, &[], false) && of(Allow, &[Deny], false));
        assert!(of(Asked, &[], true) && of(Allow, &[Asked], true));
        assert!(!of(Allow, &[Allow], true), "only questions have nobody");
    }

    #[test]
    fn perm_01_the_first_rule_that_fits_counts() {
        let policy = Permissions {
            otherwise: PolicyWord::Ask,
            rules: vec![
                rule("execute", "git push*", PolicyWord::Deny),
                rule("execute", "git *", PolicyWord::Allow),
            ],
            ..Permissions::default()
        };
        let word = |title| say([&policy], &ask("execute", title)).0;
        assert_eq!(word("git status"), PolicyWord::Allow);
        assert_eq!(word("git push origin"), PolicyWord::Deny);
        assert_eq!(word("rm -rf /"), PolicyWord::Ask);
        assert_eq!(say([&policy], &ask("edit", "git status")).0, PolicyWord::Ask);
    }

    #[test]
    fn perm_02_unattended_is_a_denial_with_its_reason() {
        let policy = Permissions { unattended: true, ..Permissions::default() };
        let (word, reason) = say([&policy], &ask("execute", "ls"));
        assert_eq!(word, PolicyWord::Deny);
        assert!(reason.is_some_and(|reason| reason.contains("unattended")));
        let allowed = Permissions { otherwise: PolicyWord::Allow, ..policy };
        assert_eq!(say([&allowed], &ask("execute", "ls")).0, PolicyWord::Allow);
    }
}
