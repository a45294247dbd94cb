//! `subagent agent`: the built-in agent, for whoever speaks the Agent Client Protocol: the daemon, or an editor.

mod keys;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use subagent_agent::acp::{Options, serve};
use subagent_agent::endpoint::config::AgentConfig;
use subagent_agent::session::Mode;
use subagent_agent::tools::{Nested, for_commands};
use subagent_model::ErrorCode;

use super::given;
use crate::config;
use crate::exit;
use crate::fail::Failure;
use crate::paths::Paths;

/// The built-in agent, on standard input and output
///
/// Speaks the Agent Client Protocol: an editor starts it like any other agent, and `subagent run -p builtin` does. Models and
/// endpoints stand in `[agent]` of config.toml, or in the environment.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent run -p builtin --model ollama/qwen3 'what does this project do?'
  SUBAGENT_AGENT_URL=http://127.0.0.1:8080/v1 SUBAGENT_AGENT_MODEL=any subagent agent

Environment:
  SUBAGENT_AGENT_MODEL     the model: ENDPOINT/MODEL
  SUBAGENT_AGENT_URL       address of an endpoint of its own, named env
  SUBAGENT_AGENT_KIND      its wire format: openai (the default), anthropic, gemini
  SUBAGENT_AGENT_KEY       its key
  SUBAGENT_AGENT_KEY_FILE  the file that its key is in

No tool sees a key. `subagent doctor` looks whether the endpoint can be used.")]
pub(crate) struct AgentArgs {
    /// The model of sessions that name none: ENDPOINT/MODEL
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// What sessions may do without asking: ask, free or read-only
    #[arg(long, value_name = "MODE", default_value = "ask", value_parser = mode)]
    mode: Mode,
}

fn mode(name: &str) -> Result<Mode, String> {
    Mode::of(name).ok_or_else(|| String::from("a mode is ask, free or read-only"))
}

/// Carries it out.
pub(crate) fn run(args: &AgentArgs) -> Result<u8, Failure> {
    let paths = Paths::find()?;
    let config = config::agent(&paths.config)?;
    // Others of this user can read the environment that a process began with: it begins again without keys.
    let environment = keys::hidden(&config)?;
    let options = options(args, &paths, config, environment);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(ErrorCode::StartFailed, "cannot set up the agent").because(error))?;
    let served = runtime.block_on(serve(options, tokio::io::stdin(), tokio::io::stdout()));
    // Standard input may still be read, which cannot be given up.
    runtime.shutdown_background();
    match served {
        Ok(()) => Ok(exit::DONE),
        Err(error) => {
            Err(Failure::new(ErrorCode::Protocol, "the client cannot be heard or reached").because(error))
        }
    }
}

fn options(args: &AgentArgs, paths: &Paths, config: AgentConfig, environment: keys::Environment) -> Options {
    let keys: Vec<String> =
        config.key_variables().iter().filter_map(|name| environment.secret(name)).collect();
    let secrets: Vec<_> = keys.iter().map(String::as_str).collect();
    let for_commands = for_commands(given::own_environment(), &[], &secrets);
    let key_files = config.endpoints.values().filter_map(|endpoint| endpoint.key_file.clone());
    let given_file = environment.get("SUBAGENT_AGENT_KEY_FILE").map(PathBuf::from);
    let hidden = key_files.chain(given_file).chain([paths.data.clone(), paths.runtime.clone()]).collect();
    let agent = paths.data.join("agent");
    Options {
        sessions: agent.join("sessions"),
        spill: agent.join("outputs"),
        config,
        model: args.model.clone(),
        mode: args.mode,
        environment: Arc::new(move |name| environment.get(name)),
        for_commands,
        hidden,
        nested: nested(),
    }
}

/// How it starts subagents: with this program, at the daemon whose child it is.
fn nested() -> Option<Nested> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    set("SUBAGENT_SOCKET")?;
    let names = ["SUBAGENT_SOCKET", "SUBAGENT_ID", "SUBAGENT_ATTEMPT", "SUBAGENT_HOME"];
    let environment = names.into_iter().filter_map(|name| Some((name.to_owned(), set(name)?)));
    Some(Nested { program: std::env::current_exe().ok()?, environment: environment.collect(), types: vec![] })
}

/// The endpoint that would be asked, for `doctor`: what is wrong with it, if anything.
pub(crate) async fn examine(config: &AgentConfig) -> Examined {
    use subagent_agent::endpoint::HttpModel;
    use subagent_agent::endpoint::check::{Finding, check};
    let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let choice = match config.choose(None, &env) {
        Ok(choice) => choice,
        Err(error) => return Examined::None(error.to_string()),
    };
    let name = format!("{} at {}", choice.name(), choice.url);
    let key = match choice.key.as_ref().map(|from| from.get(&env)).transpose() {
        Ok(key) => key,
        Err(_) if choice.key_optional => None,
        Err(error) => {
            let hint = String::from(
                "Give the key in one of the places that [agent.endpoints] of config.toml can name.",
            );
            return Examined::Bad { what: format!("{name}: {error}"), hint };
        }
    };
    match check(&HttpModel::new(choice, key)).await {
        Finding::Ready => Examined::Ready(name),
        Finding::Unlisted { has } => Examined::Unlisted { name, has },
        Finding::Bad { what, hint } => Examined::Bad { what: format!("{name}: {what}"), hint },
    }
}

/// How the endpoint stands.
pub(crate) enum Examined {
    /// No model is named.
    None(String),
    /// It can be used.
    Ready(String),
    /// It answers; whether it has the model is not known.
    Unlisted {
        /// The model.
        name: String,
        /// Some that it has.
        has: Vec<String>,
    },
    /// It cannot be used.
    Bad {
        /// What is wrong.
        what: String,
        /// What to do.
        hint: String,
    },
}
