//! Keys that came with the environment. What a process begins with can be read by every other process of the same user
//! for as long as it lives, commands of the agent among them: so the program begins again without them, and gets them
//! through a pipe.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use subagent_agent::endpoint::config::AgentConfig;
use subagent_model::ErrorCode;

use crate::fail::Failure;

/// Names the pipe.
const PIPE: &str = "SUBAGENT_AGENT_KEYS_FROM";
/// Most bytes of all keys: what a pipe takes without a reader.
const MOST_BYTES: usize = 32 * 1024;

/// The environment, with keys that are no longer in it.
#[derive(Default)]
pub(super) struct Environment {
    keys: BTreeMap<String, String>,
}

impl Environment {
    /// A variable, or a key.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        self.keys.get(name).cloned().or_else(|| std::env::var(name).ok()).filter(|value| !value.is_empty())
    }

    /// A variable that holds a key.
    pub(super) fn secret(&self, name: &str) -> Option<String> {
        self.keys.get(name).cloned()
    }
}

/// Takes the keys out of the environment. Does not come back where there are some: the program begins again.
pub(super) fn hidden(config: &AgentConfig) -> Result<Environment, Failure> {
    if let Some(pipe) = std::env::var_os(PIPE) {
        let failed = |error| {
            Failure::new(ErrorCode::EnvironmentLost, "the keys of the agent cannot be read").because(error)
        };
        let number: u32 = pipe.to_str().and_then(|text| text.parse().ok()).unwrap_or(u32::MAX);
        let mut text = String::new();
        File::open(format!("/dev/fd/{number}"))
            .and_then(|mut file| file.read_to_string(&mut text))
            .map_err(failed)?;
        let keys: BTreeMap<String, String> =
            serde_json::from_str(&text).map_err(|error| failed(error.into()))?;
        return Ok(Environment { keys });
    }
    let secret = |name: &String| !name.ends_with("_FILE");
    let keys: BTreeMap<String, String> = config
        .key_variables()
        .into_iter()
        .filter(secret)
        .filter_map(|name| Some((name.clone(), std::env::var(&name).ok()?)))
        .collect();
    if keys.is_empty() {
        return Ok(Environment::default());
    }
    let failed = |error: std::io::Error| {
        Failure::new(ErrorCode::StartFailed, "the agent cannot begin again without keys in its environment")
            .because(error)
    };
    let text = serde_json::to_vec(&keys).map_err(|error| failed(error.into()))?;
    if text.len() > MOST_BYTES {
        return Err(Failure::new(
            ErrorCode::InvalidRequest,
            "the keys in the environment are too long to be keys",
        ));
    }
    // Inherited by the program that comes, which empties it.
    let (read, write) = rustix::pipe::pipe().map_err(|error| failed(error.into()))?;
    File::from(write).write_all(&text).map_err(failed)?;
    let program = std::env::current_exe().map_err(failed)?;
    let mut again = Command::new(program);
    again.args(std::env::args_os().skip(1)).env(PIPE, read.as_raw_fd().to_string());
    for name in keys.keys() {
        again.env_remove(name);
    }
    Err(failed(again.exec()))
}
