//! Which agents are installed, in which version, whether each is logged in, and what it can do.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use subagent_model::{Capabilities, Steering, SystemPromptUse};
use subagent_provider::{Login, LoginAnswer, LoginQuestion, Provider};
use subagent_runtime::find_program;

use super::Report;
use crate::agents;
use crate::paths::Paths;
use crate::view::text;

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long its last words may be on their way once it has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Most bytes of an answer that are read.
const MOST_SAID: u64 = 1 << 20;

/// Looks for all of them.
pub(super) fn examine(paths: &Paths, report: &mut Report) {
    let path = std::env::var("PATH").unwrap_or_default();
    let registry = agents::registry(paths);
    let looked: Vec<_> = registry
        .iter()
        .filter_map(|provider| Some((Arc::clone(provider), find_program(provider.program()?, &path))))
        // Side by side: some take a second to say their version.
        .map(|(provider, found)| {
            let question = provider.login_question();
            let asked = found.clone().map(|program| {
                std::thread::spawn(move || {
                    let login = question.and_then(|question| ask(&program, question.args, question.env));
                    (version(&program), login)
                })
            });
            (provider, found, asked)
        })
        .collect();
    let none = looked.iter().all(|(provider, found, _)| found.is_none() || provider.lacks().is_some());
    for (provider, found, asked) in looked {
        let (version, login) = asked.and_then(|asked| asked.join().ok()).unwrap_or_default();
        tell(&*provider, found.as_deref(), version, report);
        if let (Some(question), true) = (provider.login_question(), found.is_some()) {
            tell_login(&*provider, &question, login.as_ref(), report);
        }
    }
    if none {
        report.warn(
            "agents",
            "no agent is installed; programs can be run all the same",
            "Install one of those above, name a model for the built-in one in [agent] of config.toml, or give a \
             program: `subagent run -- PROGRAM`.",
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

/// Whether it has credentials. Nobody can say more without a call of a model.
fn tell_login(
    provider: &dyn Provider,
    question: &LoginQuestion,
    answer: Option<&LoginAnswer>,
    report: &mut Report,
) {
    let name = provider.name();
    match answer.map_or(Login::Unknown, |answer| provider.login(answer)) {
        Login::In(how) => report.ok("login", format!("{name} has credentials: {}", text::line(&how))),
        Login::Out => report.warn("login", format!("{name} is not logged in"), question.how),
        Login::Unknown => {
            let asked = question.args.join(" ");
            report.ok("login", format!("{name} does not say whether it is logged in (`{name} {asked}`)"));
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
        (can.images, "images"),
    ];
    let plain = words.into_iter().filter(|(able, _)| *able).map(|(_, word)| word);
    steering.into_iter().chain(prompt).chain(plain).collect()
}

/// The first line of what a program says about its version.
fn version(program: &Path) -> Option<String> {
    let said = ask(program, &["--version"], &[])?.stdout;
    let line = text::line(said.lines().find(|line| !line.trim().is_empty())?);
    // `name 1.2.3 (more)`: the first word that begins with a digit.
    line.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit())).map(str::to_owned)
}

/// What a program answers, within a bound of time and of bytes.
fn ask(program: &Path, args: &[&str], env: &[(&str, &str)]) -> Option<LoginAnswer> {
    let mut child = Command::new(program)
        .args(args)
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let until = Instant::now() + PATIENCE;
    let code = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status.code(),
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(10)),
            _ => {
                // It does not know the question; nothing of it is to stay.
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    };
    // What it left behind may hold its output open for ever.
    let text = |from: Receiver<String>| from.recv_timeout(LAST_WORDS).unwrap_or_default();
    Some(LoginAnswer { code, stdout: text(stdout), stderr: text(stderr) })
}

/// Reads on a thread of its own, so that a full pipe holds nobody up.
fn reader(from: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (to, text) = channel();
    if let Some(mut from) = from {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = from.by_ref().take(MOST_SAID).read_to_end(&mut bytes);
            // The rest is of no use, but it may not be in the way.
            let _ = std::io::copy(&mut from, &mut std::io::sink());
            let _ = to.send(String::from_utf8_lossy(&bytes).into_owned());
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::{Duration, Instant};

    use super::{MOST_SAID, ask, version};

    #[test]
    fn a_program_is_asked_within_bounds_whatever_it_does() {
        let dir = tempfile::tempdir().unwrap();
        let script = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let says = script("says", "echo \"tool 1.2.3 ($1 $WORD)\"; echo no >&2; exit 3");
        let answer = ask(&says, &["a"], &[("WORD", "b")]).unwrap();
        assert_eq!(
            (answer.code, answer.stdout.as_str(), answer.stderr.as_str()),
            (Some(3), "tool 1.2.3 (a b)\n", "no\n")
        );
        assert_eq!(version(&says).as_deref(), Some("1.2.3"));
        let much = script("much", "head -c 3000000 /dev/zero | tr '\\0' x");
        assert_eq!(ask(&much, &[], &[]).unwrap().stdout.len() as u64, MOST_SAID);
        let begun = Instant::now();
        let leaves = script("leaves", "sleep 3 & echo done");
        assert_eq!(ask(&leaves, &[], &[]).unwrap().code, Some(0));
        assert!(begun.elapsed() < Duration::from_millis(2_900), "its output is held open");
        assert!(ask(&dir.path().join("gone"), &[], &[]).is_none());
    }
}
