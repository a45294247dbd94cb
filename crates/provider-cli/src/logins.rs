//! What the programs of agents answer when they are asked whether they are logged in. The words of a program never pass:
//! some hold a part of a key.

use serde::Deserialize;
use subagent_provider::{Login, LoginAnswer, LoginQuestion};

/// Most services that are named.
const MOST_NAMED: usize = 8;

/// Observed with 2.1.332: a JSON object, and exit code 1 without a login.
pub(crate) const CLAUDE: LoginQuestion = LoginQuestion {
    args: &["auth", "status", "--json"],
    env: &[],
    how: "Log in with `claude`, then `/login`.",
};

/// Observed with 0.171.0: one line on standard error, a key masked in it, and exit code 1 without a login.
pub(crate) const CODEX: LoginQuestion = LoginQuestion {
    args: &["login", "status"],
    env: &[],
    how: "Log in with `codex login`; a service of your own in its configuration needs none.",
};

/// Observed with 1.6.0: a table of the models whose service it has credentials for, or a line that there are none.
pub(crate) const PI: LoginQuestion = LoginQuestion {
    args: &["--list-models"],
    env: &[("PI_OFFLINE", "1")],
    how: "Log in with `pi`, then `/login`, or set the key of a service in your environment.",
};

pub(crate) fn claude(answer: &LoginAnswer) -> Login {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Status {
        logged_in: bool,
        #[serde(default)]
        auth_method: Option<String>,
    }
    match serde_json::from_str::<Status>(&answer.stdout) {
        Ok(Status { logged_in: false, .. }) => Login::Out,
        Ok(Status { auth_method, .. }) => {
            let method = auth_method.as_deref().map(word).filter(|method| !method.is_empty());
            Login::In(method.unwrap_or_else(|| String::from("a login of its own")))
        }
        Err(_) => Login::Unknown,
    }
}

pub(crate) fn codex(answer: &LoginAnswer) -> Login {
    let said = format!("{}\n{}", answer.stdout, answer.stderr).to_lowercase();
    if said.contains("not logged in") {
        Login::Out
    } else if answer.code != Some(0) {
        Login::Unknown
    } else if said.contains("chatgpt") {
        Login::In(String::from("a ChatGPT account"))
    } else if said.contains("api key") {
        Login::In(String::from("an API key"))
    } else if said.contains("logged in") {
        Login::In(String::from("a login of its own"))
    } else {
        Login::Unknown
    }
}

pub(crate) fn pi(answer: &LoginAnswer) -> Login {
    let mut lines = answer.stdout.lines().skip_while(|line| !line.trim_start().starts_with("provider "));
    if lines.next().is_none() {
        let none = format!("{}\n{}", answer.stdout, answer.stderr).contains("No models available");
        return if none { Login::Out } else { Login::Unknown };
    }
    let mut services: Vec<String> = Vec::new();
    for line in lines {
        let service = line.split_whitespace().next().map(word).unwrap_or_default();
        if !service.is_empty() && !services.contains(&service) {
            services.push(service);
        }
    }
    match services.len() {
        0 => Login::Out,
        many if many > MOST_NAMED => Login::In(format!(
            "{} and {} more services",
            services[..MOST_NAMED].join(", "),
            many - MOST_NAMED
        )),
        _ => Login::In(services.join(", ")),
    }
}

/// A short word that names something; nothing of what could be more than a name.
fn word(text: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
    if text.len() <= 32 && text.chars().all(plain) { text.to_owned() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::{claude, codex, pi};
    use subagent_provider::{Login, LoginAnswer};

    fn said(code: i32, stdout: &str, stderr: &str) -> LoginAnswer {
        LoginAnswer { code: Some(code), stdout: stdout.to_owned(), stderr: stderr.to_owned() }
    }

    fn with(how: &str) -> Login {
        Login::In(how.to_owned())
    }

    #[test]
    fn the_answers_of_the_programs_are_understood() {
        let out = r#"{"loggedIn": false, "authMethod": "none", "apiProvider": "firstParty"}"#;
        assert_eq!(claude(&said(1, out, "")), Login::Out);
        let key = r#"{"loggedIn": true, "authMethod": "api_key", "apiKey": "sk-secret"}"#;
        assert_eq!(claude(&said(0, key, "")), with("api_key"));
        assert_eq!(
            claude(&said(0, r#"{"loggedIn": true, "authMethod": "sk secret!"}"#, "")),
            with("a login of its own")
        );
        assert_eq!(claude(&said(1, "error: unknown command 'auth'", "")), Login::Unknown);

        let warned = "WARNING: proceeding, even though we could not create PATH aliases\nNot logged in\n";
        assert_eq!(codex(&said(1, "", warned)), Login::Out);
        let key =
            "API key configured - sk-abcde***vwxyz\nAuthentication is checked when you send a request.\n";
        assert_eq!(codex(&said(0, "", key)), with("an API key"));
        assert_eq!(codex(&said(0, "", "Logged in using an API key - sk-proj-***ABCDE")), with("an API key"));
        assert_eq!(codex(&said(0, "", "Logged in using ChatGPT")), with("a ChatGPT account"));
        assert_eq!(codex(&said(2, "", "error: unrecognized subcommand")), Login::Unknown);

        let none = "No models available. Use /login to log into a provider via OAuth or API key. See:\n";
        assert_eq!(pi(&said(0, none, "Warning: ...")), Login::Out);
        let table = "provider   model     context\nanthropic  claude-x  1M\nanthropic  claude-y  1M\nopenai  gpt-6  1M\n";
        assert_eq!(pi(&said(0, table, "")), with("anthropic, openai"));
        assert_eq!(pi(&said(1, "", "Unknown option --list-models")), Login::Unknown);
        let many = (0..20).map(|n| format!("s{n} m")).collect::<Vec<_>>().join("\n");
        let Login::In(told) = pi(&said(0, &format!("provider model\n{many}"), "")) else { panic!() };
        assert!(told.ends_with("s7 and 12 more services"), "{told}");
    }
}
