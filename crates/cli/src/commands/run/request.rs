//! From the command line to a request: prompt, program, working directory, environment.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use camino::Utf8PathBuf;
use clap::ValueEnum;
use subagent_model::request::SpawnRequest;
use subagent_model::{ErrorCode, ExecSpec, Mode, PromptVia, ResultFrom};

use super::RunArgs;
use crate::fail::Failure;
use crate::view::time;

/// The provider that runs programs.
const EXEC: &str = "exec";

/// How a program gets its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Via {
    /// On standard input
    Stdin,
    /// As the last argument
    Argument,
    /// In a file whose path is the last argument
    File,
}

/// `KEY=VALUE`.
pub(super) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(String::from("expected KEY=VALUE")),
    }
}

/// `whole`, `last-line` or `json:/pointer`.
pub(super) fn result_from(text: &str) -> Result<ResultFrom, String> {
    match text {
        "whole" => Ok(ResultFrom::WholeOutput),
        "last-line" => Ok(ResultFrom::LastLine),
        _ => match text.strip_prefix("json:") {
            Some(pointer) if pointer.is_empty() || pointer.starts_with('/') => {
                Ok(ResultFrom::JsonField(pointer.to_owned()))
            }
            _ => Err(String::from("expected whole, last-line, or json:/POINTER such as json:/result/text")),
        },
    }
}

/// The request, without its parent.
pub(super) fn build(args: &RunArgs) -> Result<SpawnRequest, Failure> {
    let provider = provider(args)?;
    let mode = match (args.background, args.detach) {
        (true, _) => Mode::Async,
        (_, true) => Mode::Detached,
        _ => Mode::Sync,
    };
    let (env, secret_env) = environment(&std::env::vars_os().filter_map(text_pair).collect(), &args.env)?;
    Ok(SpawnRequest {
        prompt: prompt(args)?,
        description: args.description.clone(),
        provider,
        agent_type: args.agent_type.clone(),
        model: args.model.clone(),
        exec: args.command.split_first().map(|(program, rest)| ExecSpec {
            program: program.clone(),
            args: rest.to_vec(),
            prompt_via: match args.prompt_via {
                Via::Stdin => PromptVia::Stdin,
                Via::Argument => PromptVia::Argument,
                Via::File => PromptVia::File,
            },
            result: args.result.clone(),
        }),
        mode,
        cwd: Some(cwd(args.cwd.as_deref())?),
        env,
        secret_env,
        parent: args.parent.clone(),
        deadline_ms: args.deadline.map(time::millis),
        labels: args.label.iter().cloned().collect(),
        durable: !args.no_durable,
        // With a key of its own, a request whose answer was lost can be asked again.
        idempotency_key: Some(
            args.idempotency_key.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string()),
        ),
        wait_ms: None,
    })
}

fn provider(args: &RunArgs) -> Result<String, Failure> {
    match (&args.provider, args.command.is_empty()) {
        (Some(name), true) if name == EXEC => Err(usage("provider exec needs a program")),
        (Some(name), _) => Ok(name.clone()),
        (None, false) => Ok(String::from(EXEC)),
        (None, true) => Err(usage("no program was given, and no provider was named")),
    }
}

fn usage(message: &str) -> Failure {
    Failure::new(ErrorCode::InvalidRequest, message)
        .hint("Providers: exec, for any program: `subagent run [PROMPT] -- PROGRAM ARGS...`.")
}

fn prompt(args: &RunArgs) -> Result<String, Failure> {
    let Some(file) = &args.prompt_file else {
        return Ok(args.prompt.clone().unwrap_or_default());
    };
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    let cannot =
        || Failure::new(ErrorCode::InvalidRequest, format!("cannot read the prompt from {}", file.display()));
    read.map_err(|error| cannot().because(error).hint("Name a readable file, or - for standard input."))?;
    String::from_utf8(bytes).map_err(|error| cannot().because(error).hint("A prompt must be UTF-8."))
}

fn cwd(given: Option<&Path>) -> Result<Utf8PathBuf, Failure> {
    let bad = |message: String| Failure::new(ErrorCode::InvalidCwd, message);
    let here = std::env::current_dir();
    let path = match (given, here) {
        (Some(path), _) if path.is_absolute() => path.to_owned(),
        (Some(path), Ok(here)) => clean(&here.join(path)),
        (None, Ok(here)) => here,
        (_, Err(error)) => return Err(bad(String::from("the current directory is gone")).because(error)),
    };
    Utf8PathBuf::from_path_buf(path).map_err(|path| bad(format!("{} is not UTF-8", path.display())))
}

/// Without `.`; a `..` stays, since it means the directory behind a link.
fn clean(path: &Path) -> PathBuf {
    path.components().collect()
}

fn text_pair((name, value): (std::ffi::OsString, std::ffi::OsString)) -> Option<(String, String)> {
    Some((name.into_string().ok()?, value.into_string().ok()?))
}

type Variables = BTreeMap<String, String>;

/// What may be stored, and what is held in memory only: proxies, which often carry a password, and whatever was named.
fn environment(own: &Variables, named: &[String]) -> Result<(Variables, Variables), Failure> {
    let captured = subagent_process::env::capture(own.clone(), [""; 0]);
    let (mut secret, mut env): (Variables, Variables) =
        captured.into_iter().partition(|(name, _)| name.to_ascii_lowercase().ends_with("_proxy"));
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
        env.remove(name);
        secret.insert(name.to_owned(), value.to_owned());
    }
    Ok((env, secret))
}

#[cfg(test)]
mod tests {
    use super::{clean, environment, label, result_from};
    use std::path::Path;
    use subagent_model::ResultFrom;

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
    fn labels_and_results_are_read() {
        assert_eq!(label("a=b=c"), Ok((String::from("a"), String::from("b=c"))));
        assert!(label("a").is_err() && label("=b").is_err());
        assert_eq!(result_from("last-line"), Ok(ResultFrom::LastLine));
        assert_eq!(result_from("json:/a/b"), Ok(ResultFrom::JsonField(String::from("/a/b"))));
        assert!(result_from("json:a").is_err() && result_from("lines").is_err());
        assert_eq!(clean(Path::new("/a/./b/../c")), Path::new("/a/b/../c"));
    }
}
