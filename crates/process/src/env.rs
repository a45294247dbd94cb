//! The environment of a child: an allow list applied to the variables of whoever asked for it. Pure; the
//! caller passes the variables, this crate never reads its own environment.

use std::collections::BTreeMap;

/// Names taken by default. A trailing `*` matches any ending.
pub const DEFAULT_ALLOW: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TERM",
    "COLORTERM",
    "TMPDIR",
    "TZ",
    "XDG_*",
    "SSH_AUTH_SOCK",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];

/// The variables whose names match [`DEFAULT_ALLOW`] or `allow`. Names that cannot be variables (empty, or
/// with `=` or a null byte) and values with a null byte are left out.
pub fn capture<I, K, V, A>(vars: I, allow: A) -> BTreeMap<String, String>
where
    I: IntoIterator<Item = (K, V)>,
    K: Into<String>,
    V: Into<String>,
    A: IntoIterator,
    A::Item: AsRef<str>,
{
    let extra: Vec<String> = allow.into_iter().map(|name| name.as_ref().to_owned()).collect();
    vars.into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .filter(|(name, value): &(String, String)| {
            let usable = !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0');
            usable
                && DEFAULT_ALLOW
                    .iter()
                    .copied()
                    .chain(extra.iter().map(String::as_str))
                    .any(|pattern| matches(pattern, name))
        })
        .collect()
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        // A lone star would let every secret through; it must be at least a prefix.
        Some("") => false,
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_02_only_listed_names_pass() {
        let vars = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("MY_TOKEN", "y"),
            ("MY_OTHER", "z"),
            ("https_proxy", "p"),
        ];
        let got = capture(vars, ["MY_TOKEN"]);
        let names: Vec<&str> = got.keys().map(String::as_str).collect();
        assert_eq!(names, ["LC_ALL", "MY_TOKEN", "PATH", "https_proxy"]);
        assert_eq!(capture(vars, ["MY_*"]).len(), 5);
    }

    #[test]
    fn a_lone_star_lets_nothing_through() {
        assert!(capture([("SECRET", "x")], ["*"]).is_empty());
    }

    #[test]
    fn unusable_names_and_values_are_left_out() {
        assert!(capture([("", "x"), ("PATH", "a\0b"), ("LC_=", "c")], [""; 0]).is_empty());
    }
}
