//! The environment of commands and servers: an allow list applied to the variables of the agent. Pure; the caller passes
//! the variables. A key of the model is in none of them, under whatever name.

/// Names that are taken. A trailing `*` matches any ending.
const ALLOW: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TMPDIR",
    "XDG_*",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    // Where compilers and package managers look.
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NODE_PATH",
    "NVM_DIR",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PKG_CONFIG_PATH",
    "LD_LIBRARY_PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NIX_*",
    "CI",
    // Which attempt a process belongs to: what leaves its group is found by it.
    "SUBAGENT_ATTEMPT",
];

/// What programs must know when nobody sits at a terminal.
const SET: &[(&str, &str)] = &[
    ("TERM", "dumb"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("NO_COLOR", "1"),
];

/// The shortest value that is looked for within others: a shorter one would be found everywhere.
const SHORTEST_SECRET: usize = 8;

/// The variables for commands: those that are usual, and those that `also` names (a trailing `*` matches any ending).
/// A variable whose value contains one of `secrets` is left out, whoever named it.
pub fn for_commands(
    variables: impl IntoIterator<Item = (String, String)>,
    also: &[String],
    secrets: &[&str],
) -> Vec<(String, String)> {
    let listed = |name: &str| {
        ALLOW.iter().copied().chain(also.iter().map(String::as_str)).any(|pattern| fits(pattern, name))
    };
    let secret =
        |value: &str| secrets.iter().any(|secret| secret.len() >= SHORTEST_SECRET && value.contains(secret));
    let mut taken: Vec<_> = variables
        .into_iter()
        .filter(|(name, value)| {
            let usable = !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0');
            usable && listed(name) && !secret(value) && !SET.iter().any(|(set, _)| set == name)
        })
        .collect();
    taken.extend(SET.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    taken
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        // A lone star would let every secret through.
        Some("") => false,
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_03_no_key_of_the_model_reaches_a_command() {
        let variables = [
            ("PATH", "/bin"),
            ("OPENAI_API_KEY", "sk-secret-123456"),
            ("MY_TOKEN", "t"),
            ("PROXIED", "https://u:sk-secret-123456@host"),
            ("HTTPS_PROXY", "http://u:sk-secret-123456@proxy"),
            ("LC_ALL", "C"),
            ("TERM", "xterm"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let also = ["MY_TOKEN".to_owned(), "PROXIED".to_owned(), "OPENAI_API_KEY".to_owned(), "*".to_owned()];
        let taken = for_commands(variables, &also, &["sk-secret-123456"]);
        let names: Vec<_> = taken.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["PATH", "MY_TOKEN", "LC_ALL", "TERM", "PAGER", "GIT_PAGER", "GIT_TERMINAL_PROMPT", "NO_COLOR"]
        );
        assert!(taken.iter().all(|(_, value)| !value.contains("sk-secret") && value != "xterm"));
    }
}
