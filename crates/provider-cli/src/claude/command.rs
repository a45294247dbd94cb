//! The command line of Claude Code for a job, and what of a spec cannot be said in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use subagent_model::{
    ErrorCode, McpServer, McpTransport, PolicyWord, Problem, PromptVia, ResultFrom, SpawnSpec,
    SystemPromptMode, Talk,
};
use subagent_provider::{Job, ProcessLaunch, StdinPlan};

use super::names;
use super::tools::Tools;

/// The program, looked for on the child's `PATH`.
pub(super) const PROGRAM: &str = "claude";
/// The file with the MCP servers.
const MCP_FILE: &str = "mcp.json";
/// Longest argument: Linux allows 128 KiB for a single one, its end mark and the name of the option included.
const ARGUMENT_BYTES: usize = 127 * 1024;
/// How hard it can think.
const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];
/// Modes in which it asks about whatever is not allowed.
const ASKING_MODES: [&str; 4] = ["default", "manual", "plan", "dontAsk"];
/// Modes in which it allows itself what a policy may forbid.
const WIDE_MODES: [&str; 3] = ["acceptEdits", "auto", "bypassPermissions"];

/// How it is launched.
pub(super) fn launch(job: &Job) -> ProcessLaunch {
    let spec = &*job.spec;
    let mut args: Vec<String> = spec.exec.iter().flat_map(|exec| exec.args.clone()).collect();
    let mut say = |words: &[&str]| args.extend(words.iter().map(|word| (*word).to_owned()));
    say(&["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
    say(&["--include-partial-messages", "--permission-prompt-tool", "stdio"]);
    // Said even where it is the default, so that no setting of the user makes it wider.
    say(&["--permission-mode", spec.setup.permission_mode.as_deref().unwrap_or("default")]);
    match (&job.session, &spec.setup.fork_of) {
        (Some(session), _) => say(&[&format!("--resume={session}")]),
        (None, Some(other)) => {
            say(&[&format!("--resume={other}"), "--fork-session"]);
            say(&["--session-id", &names::session(&job.key)]);
        }
        (None, None) => say(&["--session-id", &names::session(&job.key)]),
    }
    let option = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("--{name}={value}"));
    for option in [option("model", &spec.model), option("effort", &spec.setup.effort)].into_iter().flatten() {
        say(&[&option]);
    }
    if let Some(prompt) = &spec.setup.system_prompt {
        let name = match prompt.mode {
            SystemPromptMode::Append => "append-system-prompt",
            SystemPromptMode::Override => "system-prompt",
        };
        say(&[&format!("--{name}={}", prompt.text)]);
    }
    let tools = Tools::of(spec);
    if let Some(only) = tools.only() {
        let own: Vec<_> = only.iter().map(String::as_str).filter(|tool| !tool.starts_with("mcp__")).collect();
        say(&["--tools", &own.join(",")]);
    }
    say(&["--disallowedTools", &tools.never().join(",")]);
    if let Some(schema) = &spec.output_schema {
        say(&[&format!("--json-schema={schema}")]);
    }
    // It counts the whole life of a session, the run only its own part.
    let begins = job.session.is_none() && spec.setup.fork_of.is_none() && !spec.is_warm();
    if let Some(cost) = spec.budget.max_cost_usd.filter(|cost| begins && *cost > 0.0) {
        say(&[&format!("--max-budget-usd={cost}")]);
    }
    let mut files = vec![];
    // Where its tools are chosen, servers that nobody named bring none.
    if !spec.setup.mcp_servers.is_empty() || tools.only().is_some() {
        let path = job.dir.join(MCP_FILE).to_string_lossy().into_owned();
        say(&[&format!("--mcp-config={path}")]);
        files.push((String::from(MCP_FILE), Arc::from(servers(&spec.setup.mcp_servers))));
    }
    if tools.only().is_some() {
        say(&["--strict-mcp-config"]);
    }
    ProcessLaunch {
        program: spec.exec.as_ref().map_or_else(|| String::from(PROGRAM), |exec| exec.program.clone()),
        args,
        env: environment(),
        stdin: StdinPlan::Open,
        files,
    }
}

fn environment() -> BTreeMap<String, String> {
    [
        // How it was started, whatever stands in the environment of who asked.
        ("CLAUDE_CODE_ENTRYPOINT", "sdk-cli"),
        // It tells when it is idle: the only sure sign that nothing follows on a result.
        ("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "1"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect()
}

/// The servers as Claude Code reads them.
fn servers(servers: &[McpServer]) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Config<'a> {
        mcp_servers: BTreeMap<&'a str, &'a McpTransport>,
    }
    let mcp_servers = servers.iter().map(|server| (server.name.as_str(), &server.via)).collect();
    // Strings can always be written.
    serde_json::to_string(&Config { mcp_servers }).unwrap_or_default()
}

/// Refuses what would not be done, or not as it is meant.
pub(super) fn check(spec: &SpawnSpec) -> Result<(), Problem> {
    let invalid = |message: String| Err(Problem::new(ErrorCode::InvalidRequest, message));
    if let Some(exec) = &spec.exec {
        let nul = |text: &String| text.contains('\0');
        if exec.program.is_empty() || nul(&exec.program) || exec.args.iter().any(nul) {
            return invalid(String::from(
                "the program must have a name, and nothing of it may hold a NUL byte",
            ));
        }
        let plain = exec.talk == Talk::None
            && exec.prompt_via == PromptVia::Stdin
            && exec.result == ResultFrom::WholeOutput;
        if !plain {
            return invalid(String::from(
                "of a program for claude only its name and its arguments can be chosen",
            ));
        }
    }
    let setup = &spec.setup;
    if let Some(effort) = setup.effort.as_ref().filter(|effort| !EFFORTS.contains(&effort.as_str())) {
        return invalid(format!("claude knows no effort {effort:?}: it has {}", EFFORTS.join(", ")));
    }
    if let Some(mode) = &setup.permission_mode {
        mode_fits(spec, mode)?;
    }
    let allowed = setup.tools.allow.iter().flatten();
    if let Some(tool) = allowed.clone().find(|tool| tool.contains(['(', ')', ' '])) {
        return invalid(format!(
            "{tool:?} is no tool: a tool is allowed by its name alone, and what it may do is said by the permissions"
        ));
    }
    if let Some(tool) = allowed.chain(&setup.tools.deny).find(|tool| tool.contains([',', '\n'])) {
        return invalid(format!("the name of a tool holds no comma and no line break: {tool:?}"));
    }
    let words = [&spec.model, &setup.fork_of];
    let texts = words.into_iter().flatten().chain(setup.system_prompt.as_ref().map(|prompt| &prompt.text));
    for text in texts {
        fits_an_argument(text.len())?;
        if text.contains('\0') {
            return invalid(String::from("an argument cannot hold a NUL byte"));
        }
    }
    if let Some(schema) = &spec.output_schema {
        fits_an_argument(schema.to_string().len())?;
    }
    Ok(())
}

fn mode_fits(spec: &SpawnSpec, mode: &str) -> Result<(), Problem> {
    if ASKING_MODES.contains(&mode) {
        return Ok(());
    }
    if !WIDE_MODES.contains(&mode) {
        let known = ASKING_MODES.into_iter().chain(WIDE_MODES).collect::<Vec<_>>().join(", ");
        let message = format!("claude knows no mode of permissions {mode:?}: it has {known}");
        return Err(Problem::new(ErrorCode::InvalidRequest, message));
    }
    let policy = &spec.permissions;
    let forbids = policy.otherwise == PolicyWord::Deny
        || policy.unattended
        || policy.rules.iter().any(|rule| rule.say != PolicyWord::Allow);
    if forbids {
        let message = format!("in the mode {mode} it asks nobody, so its policy could not hold it back");
        let mut problem = Problem::new(ErrorCode::InvalidRequest, message);
        problem.hint = Some(String::from("Leave the mode out, and allow by the policy what it may do."));
        return Err(problem);
    }
    Ok(())
}

fn fits_an_argument(bytes: usize) -> Result<(), Problem> {
    if bytes <= ARGUMENT_BYTES {
        return Ok(());
    }
    let message = format!("an argument of {bytes} bytes is too long for a program");
    Err(Problem::new(ErrorCode::InvalidRequest, message).with_numbers(ARGUMENT_BYTES as u64, bytes as u64))
}
