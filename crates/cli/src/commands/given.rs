//! What a command is given beside its options: texts from an argument, a file or standard input, and environment.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use camino::Utf8PathBuf;
use subagent_model::ErrorCode;
use subagent_model::request::AttachRequest;

use crate::fail::Failure;

/// Variables by name.
pub(crate) type Variables = BTreeMap<String, String>;

/// A text that was typed, or all of standard input where a lone `-` was.
pub(crate) fn text(typed: &str, what: &str) -> Result<String, Failure> {
    if typed == "-" { file(Path::new("-"), what) } else { Ok(typed.to_owned()) }
}

/// The text of a file, or of standard input with `-`.
pub(crate) fn file(path: &Path, what: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    let cannot =
        || Failure::new(ErrorCode::InvalidRequest, format!("cannot read the {what} from {}", path.display()));
    read.map_err(|error| cannot().because(error).hint("Name a readable file, or - for standard input."))?;
    String::from_utf8(bytes).map_err(|error| cannot().because(error).hint(format!("A {what} must be UTF-8.")))
}

/// Files that are to go with a prompt: named, and read by the daemon.
pub(crate) fn attachments(paths: &[PathBuf]) -> Result<Vec<AttachRequest>, Failure> {
    let one = |path: &PathBuf| {
        let wrong = |why: String| {
            Failure::new(ErrorCode::InvalidRequest, format!("--attach {}: {why}", path.display()))
                .hint("Name a readable file: an image (PNG, JPEG, GIF, WebP) or a text.")
        };
        let full = std::path::absolute(path).map_err(|error| wrong(error.to_string()))?;
        // Whatever is wrong with it otherwise is told by the daemon.
        std::fs::metadata(&full).map_err(|error| wrong(error.to_string()))?;
        let path =
            Utf8PathBuf::from_path_buf(full).map_err(|_| wrong(String::from("the path is not UTF-8")))?;
        Ok(AttachRequest { path: Some(path), ..AttachRequest::default() })
    };
    paths.iter().map(one).collect()
}

/// The variables of this process that are text.
pub(crate) fn own_environment() -> Variables {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).collect()
}

/// What may be stored, and what is held in memory only: proxies, which often carry a password, and whatever was named.
pub(crate) fn environment(own: &Variables, named: &[String]) -> Result<(Variables, Variables), Failure> {
    let captured = subagent_process::env::capture(own.clone(), [""; 0]);
    let (mut secret, mut env): (Variables, Variables) =
        captured.into_iter().partition(|(name, _)| name.to_ascii_lowercase().ends_with("_proxy"));
    for (name, value) in self::named(own, named)? {
        env.remove(&name);
        secret.insert(name, value);
    }
    Ok((env, secret))
}

/// The variables that were named, with the values given or one's own.
pub(crate) fn named(own: &Variables, named: &[String]) -> Result<Variables, Failure> {
    let mut chosen = Variables::new();
    for given in named {
        let inherited = || own.get(given).map(|value| (given.as_str(), value.as_str()));
        let (name, value) = given.split_once('=').or_else(inherited).ok_or_else(|| {
            let message = format!("--env {given}: there is no such variable, or it is not UTF-8");
            Failure::new(ErrorCode::InvalidRequest, message)
                .hint("Set it, or give a value: --env NAME=VALUE.")
        })?;
        if name.is_empty() {
            return Err(Failure::new(ErrorCode::InvalidRequest, "--env needs a name: NAME or NAME=VALUE"));
        }
        chosen.insert(name.to_owned(), value.to_owned());
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::{environment, file, text};

    #[test]
    fn proc_03_what_is_named_and_what_may_hold_a_password_is_never_stored() {
        let own = [
            ("PATH", "/bin"),
            ("LANG", "C"),
            ("https_proxy", "http://u:p@h"),
            ("NO_PROXY", "x"),
            ("TOKEN", "t"),
            ("OTHER", "o"),
        ];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
        let named = ["TOKEN", "A=b=c", "LANG=fr"].map(str::to_owned);
        let (env, secret) = environment(&own, &named).unwrap();
        assert_eq!(env.keys().map(String::as_str).collect::<Vec<_>>(), ["PATH"]);
        assert_eq!(
            secret.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>(),
            ["A=b=c", "LANG=fr", "NO_PROXY=x", "TOKEN=t", "https_proxy=http://u:p@h"]
        );
        assert!(environment(&own, &[String::from("MISSING")]).is_err());
        assert!(environment(&own, &[String::from("=x")]).is_err());
    }

    #[test]
    fn a_text_is_typed_or_read_and_what_cannot_be_read_is_named() {
        assert_eq!(text("hello", "message").unwrap(), "hello");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(file(&path, "prompt").unwrap_err().full().contains("cannot read the prompt"));
        std::fs::write(&path, "so").unwrap();
        assert_eq!(file(&path, "prompt").unwrap(), "so");
        assert!(file(&dir.path().join("y"), "prompt").is_err());
    }
}
