//! From the command line to a request: program, working directory, mode, limits, policy.

use std::path::{Path, PathBuf};

use camino::Utf8PathBuf;
use clap::ValueEnum;
use subagent_model::request::SpawnRequest;
use subagent_model::{
    ErrorCode, ExecSpec, Mode, OnLoss, PromptVia, ResultFrom, StallPolicy, Talk, TreeBudget,
};

use super::RunArgs;
use crate::commands::given;
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

/// What becomes of a run whose child was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Loss {
    /// A new attempt continues the session where that can be done, else it is lost
    Resume,
    /// It begins anew: only for work that may be done twice
    Rerun,
    /// It is lost
    Fail,
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
    let (env, secret_env) = given::environment(&given::own_environment(), &args.env)?;
    Ok(SpawnRequest {
        setup: args.setup.setup()?,
        provider: provider(args)?,
        prompt: prompt(args)?,
        attachments: given::attachments(&args.attach)?,
        description: args.description.clone(),
        agent_type: args.agent_type.clone(),
        model: args.model.clone(),
        exec: exec(args),
        mode: mode(args),
        cwd: Some(cwd(args.cwd.as_deref())?),
        env,
        secret_env,
        parent: args.parent.clone(),
        deadline_ms: args.deadline.map(time::millis),
        budget: args.limits.budget(args.grace_turns),
        tree_budget: TreeBudget { max_tokens: args.tree_max_tokens, max_cost_usd: args.tree_max_cost },
        permissions: args.policy.permissions.clone(),
        on_loss: match args.on_loss {
            Loss::Resume => OnLoss::Resume,
            Loss::Rerun => OnLoss::Rerun,
            Loss::Fail => OnLoss::Fail,
        },
        stall: StallPolicy {
            after_ms: args.stall_after.map(time::millis),
            kill_after_ms: args.kill_stalled_after.map(time::millis),
        },
        idle_ms: args.idle.map(time::millis),
        output_schema: args.schema.as_deref().map(schema).transpose()?,
        labels: args.label.iter().cloned().collect(),
        durable: !args.no_durable,
        // With a key of its own, a request whose answer was lost can be asked again.
        idempotency_key: Some(
            args.idempotency_key.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string()),
        ),
        wait_ms: None,
    })
}

fn mode(args: &RunArgs) -> Mode {
    match (args.warm, args.background, args.detach) {
        (true, ..) => Mode::Warm,
        (_, true, _) => Mode::Async,
        (_, _, true) => Mode::Detached,
        _ => Mode::Sync,
    }
}

fn exec(args: &RunArgs) -> Option<ExecSpec> {
    let (program, rest) = args.command.split_first()?;
    Some(ExecSpec {
        program: program.clone(),
        args: rest.to_vec(),
        prompt_via: match args.prompt_via {
            Via::Stdin => PromptVia::Stdin,
            Via::Argument => PromptVia::Argument,
            Via::File => PromptVia::File,
        },
        result: args.result.clone(),
        talk: if args.talk { Talk::Lines } else { Talk::None },
    })
}

fn provider(args: &RunArgs) -> Result<String, Failure> {
    match (&args.provider, args.command.is_empty()) {
        (Some(name), true) if name == EXEC => Err(usage("provider exec needs a program")),
        (_, true) if args.talk => Err(usage("--talk says how a program speaks, and no program was given")),
        (Some(name), _) => Ok(name.clone()),
        (None, false) => Ok(String::from(EXEC)),
        (None, true) if args.prompt.is_none() && args.prompt_file.is_none() => {
            Err(usage("neither a task nor a program was given"))
        }
        // As the agent type says, or the first agent that is installed.
        (None, true) => Ok(String::new()),
    }
}

fn usage(message: &str) -> Failure {
    Failure::new(ErrorCode::InvalidRequest, message).hint(
        "A task for an agent: `subagent run 'TASK'`. Any program: `subagent run [PROMPT] -- PROGRAM ARGS...`.",
    )
}

fn prompt(args: &RunArgs) -> Result<String, Failure> {
    match &args.prompt_file {
        Some(path) => given::file(path, "prompt"),
        None => Ok(args.prompt.clone().unwrap_or_default()),
    }
}

fn schema(path: &Path) -> Result<serde_json::Value, Failure> {
    let text = given::file(path, "schema")?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::new(ErrorCode::InvalidRequest, format!("the schema in {} is no JSON", path.display()))
            .because(error)
            .hint("Give a JSON Schema, such as {\"type\": \"object\"}.")
    })
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

#[cfg(test)]
mod tests {
    use super::{clean, label, result_from, schema};
    use std::path::Path;
    use subagent_model::ResultFrom;

    #[test]
    fn labels_and_results_are_read() {
        assert_eq!(label("a=b=c"), Ok((String::from("a"), String::from("b=c"))));
        assert!(label("a").is_err() && label("=b").is_err());
        assert_eq!(result_from("last-line"), Ok(ResultFrom::LastLine));
        assert_eq!(result_from("json:/a/b"), Ok(ResultFrom::JsonField(String::from("/a/b"))));
        assert!(result_from("json:a").is_err() && result_from("lines").is_err());
        assert_eq!(clean(Path::new("/a/./b/../c")), Path::new("/a/b/../c"));
    }

    #[test]
    fn result_32_a_schema_that_is_no_json_is_refused_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("schema.json");
        std::fs::write(&path, "{\"type\": \"object\"").unwrap();
        assert!(schema(&path).unwrap_err().full().contains("schema.json is no JSON"));
        std::fs::write(&path, "{\"type\": \"object\"}").unwrap();
        assert_eq!(schema(&path).unwrap()["type"], "object");
    }
}
