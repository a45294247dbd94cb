//! Which agents are installed, in which version, and what each can do.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use subagent_model::{Capabilities, Steering, SystemPromptUse};
use subagent_provider::Provider;
use subagent_runtime::find_program;

use super::Report;
use crate::agents;
use crate::view::text;

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(5);

/// Looks for all of them.
pub(super) fn examine(report: &mut Report) {
    let path = std::env::var("PATH").unwrap_or_default();
    let registry = agents::registry();
    let looked: Vec<_> = registry
        .iter()
        .filter_map(|provider| Some((Arc::clone(provider), find_program(provider.program()?, &path))))
        // Side by side: some take a second to say their version.
        .map(|(provider, found)| {
            let asked = found.clone().map(|program| std::thread::spawn(move || version(&program)));
            (provider, found, asked)
        })
        .collect();
    let none = looked.iter().all(|(_, found, _)| found.is_none());
    for (provider, found, asked) in looked {
        let version = asked.and_then(|asked| asked.join().ok().flatten());
        tell(&*provider, found.as_deref(), version, report);
    }
    if none {
        report.warn(
            "agents",
            "no agent is installed; programs can be run all the same",
            "Install one of those above, or give a program: `subagent run -- PROGRAM`.",
        );
    }
}

fn tell(provider: &dyn Provider, found: Option<&Path>, version: Option<String>, report: &mut Report) {
    let name = provider.name();
    match found {
        None => {
            let how = provider.install_hint().map(|hint| format!(": {hint}")).unwrap_or_default();
            report.ok("agent", format!("{name} is not installed{how}"));
        }
        Some(path) => {
            let version = version.map(|version| format!(" {version}")).unwrap_or_default();
            let can = abilities(&provider.capabilities()).join(", ");
            report.ok("agent", format!("{name}{version}, {}: {can}", path.display()));
        }
    }
}

/// What it can do, in words.
fn abilities(can: &Capabilities) -> Vec<&'static str> {
    let steering = match can.steering {
        Steering::None => None,
        Steering::AtBoundary => Some("messages between turns"),
        Steering::Live => Some("messages into the turn"),
    };
    let prompt = match can.system_prompt {
        SystemPromptUse::None => None,
        SystemPromptUse::Append => Some("instructions after its own"),
        SystemPromptUse::Override => Some("own instructions"),
    };
    let words = [
        (can.interrupt, "interrupt"),
        (can.resume, "resume"),
        (can.fork, "fork"),
        (can.approvals, "approvals"),
        (can.output_schema, "schema"),
        (can.tool_filter, "choice of tools"),
        (can.effort, "effort"),
        (can.mcp_servers, "MCP servers"),
        (can.turns, "turns"),
        (can.usage, "tokens"),
        (can.cost, "cost"),
    ];
    let plain = words.into_iter().filter(|(able, _)| *able).map(|(_, word)| word);
    steering.into_iter().chain(prompt).chain(plain).collect()
}

/// The first line of what a program says about its version.
fn version(program: &PathBuf) -> Option<String> {
    let mut child = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let until = Instant::now() + PATIENCE;
    loop {
        match child.try_wait() {
            Ok(Some(_)) => break,
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(10)),
            _ => {
                // It does not know the question; nothing of it is to stay.
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
    let output = child.wait_with_output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let line = text::line(said.lines().find(|line| !line.trim().is_empty())?);
    // `name 1.2.3 (more)`: the first word that begins with a digit.
    line.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit())).map(str::to_owned)
}
