//! How it is started, and what is refused before.

use serde_json::{Value, json};
use subagent_model::{
    Budget, ErrorCode, ExecSpec, McpServer, McpTransport, Mode, Permissions, PolicyRule, PolicyWord, Problem,
    PromptVia, ResultFrom, SpawnSpec, SystemPrompt, SystemPromptMode, SystemPromptUse, Talk, ToolFilter,
};
use subagent_provider::{Job, Launch, ProcessLaunch, Provider, StdinPlan};

use super::super::ClaudeCode;
use super::{job, session, spec};

fn launch(job: &Job) -> ProcessLaunch {
    match ClaudeCode.launch(job).unwrap() {
        Launch::Conversation(launch) => launch,
        _ => panic!("it is spoken with"),
    }
}

fn args(spec: SpawnSpec) -> Vec<String> {
    launch(&job(spec)).args
}

fn has(args: &[String], words: &[&str]) -> bool {
    args.windows(words.len()).any(|found| found == words)
}

fn refused(spec: &SpawnSpec) -> Problem {
    ClaudeCode.check(spec).unwrap_err()
}

#[test]
fn it_is_started_to_be_spoken_with_and_asks_here_for_permissions() {
    let launch = launch(&job(spec()));
    assert_eq!((launch.program.as_str(), launch.stdin, launch.files.len()), ("claude", StdinPlan::Open, 0));
    let expected = [
        "-p",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
        "--include-partial-messages",
        "--permission-prompt-tool",
        "stdio",
        "--permission-mode",
        "default",
        "--session-id",
        &session(),
        "--disallowedTools",
        "EnterPlanMode,ExitPlanMode",
    ];
    assert_eq!(launch.args, expected);
    assert_eq!(launch.env["CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"], "1");
}

#[test]
fn prov_09_its_own_system_prompt_stands_unless_another_is_asked_for() {
    assert!(!args(spec()).iter().any(|arg| arg.contains("system-prompt")));
    for (mode, expected) in [
        (SystemPromptMode::Append, "--append-system-prompt=--be brief"),
        (SystemPromptMode::Override, "--system-prompt=--be brief"),
    ] {
        let mut spec = spec();
        spec.setup.system_prompt = Some(SystemPrompt { mode, text: String::from("--be brief") });
        assert!(has(&args(spec), &[expected]));
    }
}

#[test]
fn prov_08_what_asks_a_person_is_forbidden_where_nobody_is() {
    let mut plan = spec();
    plan.setup.permission_mode = Some(String::from("plan"));
    let unattended = Permissions { unattended: true, ..Permissions::default() };
    for spec in [plan, SpawnSpec { permissions: unattended, ..spec() }] {
        let denied = ["--disallowedTools", "EnterPlanMode,ExitPlanMode,AskUserQuestion"];
        assert!(has(&args(spec), &denied));
    }
}

#[test]
fn a_session_begins_goes_on_or_is_forked() {
    let mut fork = spec();
    fork.setup.fork_of = Some(String::from("theirs"));
    assert!(has(&args(fork.clone()), &["--resume=theirs", "--fork-session", "--session-id", &session()]));
    let forked = launch(&Job { session: Some(String::from("ours")), ..job(fork) }).args;
    assert!(has(&forked, &["--resume=ours"]) && !has(&forked, &["--fork-session"]), "a fork is made once");
    let resumed = launch(&Job { session: Some(String::from("ours")), ..job(spec()) }).args;
    assert!(has(&resumed, &["--resume=ours"]) && !has(&resumed, &["--session-id"]));
}

#[test]
fn the_set_up_is_said_in_its_words() {
    let mut spec = spec();
    spec.model = Some(String::from("opus"));
    spec.setup.effort = Some(String::from("high"));
    spec.output_schema = Some(json!({"type": "object"}));
    spec.budget = Budget { max_cost_usd: Some(1.5), ..Budget::default() };
    let found = args(spec.clone());
    for arg in ["--model=opus", "--effort=high", r#"--json-schema={"type":"object"}"#, "--max-budget-usd=1.5"]
    {
        assert!(has(&found, &[arg]), "{arg} is missing in {found:?}");
    }
    // Its own count is that of the session, which may be longer than the run.
    let longer = [
        Job { session: Some(String::from("s")), ..job(spec.clone()) },
        job(SpawnSpec { mode: Mode::Warm, ..spec.clone() }),
    ];
    for job in longer {
        assert!(!launch(&job).args.iter().any(|arg| arg.starts_with("--max-budget")));
    }
    let exec = ExecSpec {
        program: String::from("/opt/node"),
        args: vec![String::from("cli.js")],
        prompt_via: PromptVia::Stdin,
        result: ResultFrom::WholeOutput,
        talk: Talk::None,
    };
    let launch = launch(&job(SpawnSpec { exec: Some(exec), ..spec }));
    assert_eq!(
        (launch.program.as_str(), &launch.args[..2]),
        ("/opt/node", &["cli.js".into(), "-p".into()][..])
    );
    assert!(ClaudeCode.install_hint().unwrap().contains("npm install"));
}

#[test]
fn tools_that_are_left_out_and_none_are_different_things() {
    let with = |allow: Option<&[&str]>, deny: &[&str]| {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut spec = spec();
        spec.setup.tools = ToolFilter { allow: allow.map(own), deny: own(deny) };
        args(spec)
    };
    assert!(!with(None, &[]).iter().any(|arg| arg == "--tools" || arg == "--strict-mcp-config"));
    assert!(has(&with(Some(&[]), &[]), &["--tools", ""]));
    let some = with(Some(&["Read", "mcp__db__query", "Bash"]), &["WebFetch", "Bash(rm *)"]);
    assert!(has(&some, &["--tools", "Read,Bash"]));
    assert!(has(&some, &["--disallowedTools", "WebFetch,Bash(rm *),EnterPlanMode,ExitPlanMode"]));
    assert!(
        has(&some, &["--mcp-config=/jobs/7/mcp.json", "--strict-mcp-config"]),
        "servers of the user bring none"
    );
    // What it may use it may not use without asking.
    assert!(!some.iter().any(|arg| arg.starts_with("--allowed")));
}

#[test]
fn servers_are_handed_over_in_a_file_that_is_nobody_elses() {
    let server = |name: &str, via| McpServer { name: name.to_owned(), via };
    let env = [(String::from("K"), String::from("v"))].into();
    let headers = [(String::from("X"), String::from("y"))].into();
    let mut spec = spec();
    spec.setup.mcp_servers = vec![
        server("a", McpTransport::Stdio { command: "run".into(), args: vec!["-x".into()], env }),
        server("b", McpTransport::Http { url: "https://b.example".into(), headers }),
    ];
    let launch = launch(&job(spec));
    assert!(
        has(&launch.args, &["--mcp-config=/jobs/7/mcp.json"]) && !has(&launch.args, &["--strict-mcp-config"])
    );
    let (name, text) = &launch.files[0];
    let expected = json!({"mcpServers": {
        "a": {"type": "stdio", "command": "run", "args": ["-x"], "env": {"K": "v"}},
        "b": {"type": "http", "url": "https://b.example", "headers": {"X": "y"}}}});
    assert_eq!((name.as_str(), serde_json::from_str::<Value>(text).unwrap()), ("mcp.json", expected));
}

fn program(spec: &mut SpawnSpec, program: &str, talk: Talk) {
    spec.exec = Some(ExecSpec {
        program: program.into(),
        args: vec![],
        prompt_via: PromptVia::Stdin,
        result: ResultFrom::WholeOutput,
        talk,
    });
}

#[test]
fn prov_01_what_it_would_ignore_or_misread_is_refused_before_anything_starts() {
    assert_eq!(ClaudeCode.check(&spec()), Ok(()));
    let change = |change: fn(&mut SpawnSpec)| {
        let mut spec = spec();
        change(&mut spec);
        spec
    };
    for (spec, word) in [
        (change(|spec| spec.setup.effort = Some("wild".into())), "wild"),
        (change(|spec| spec.setup.permission_mode = Some("yolo".into())), "yolo"),
        (change(|spec| spec.setup.tools.allow = Some(vec!["Bash(git *)".into()])), "Bash(git *)"),
        (change(|spec| spec.setup.tools.deny = vec!["A,B".into()]), "A,B"),
        (change(|spec| program(spec, "", Talk::None)), "name"),
        (change(|spec| program(spec, "a\0b", Talk::None)), "NUL"),
        (change(|spec| program(spec, "claude", Talk::Lines)), "chosen"),
        (change(|spec| spec.model = Some("a\0b".into())), "NUL"),
        (change(|spec| spec.output_schema = Some("x".repeat(200_000).into())), "200002"),
    ] {
        let problem = refused(&spec);
        assert_eq!(problem.code, ErrorCode::InvalidRequest);
        assert!(problem.message.contains(word), "{}", problem.message);
    }
    for effort in ["low", "medium", "high", "xhigh", "max"] {
        let mut spec = spec();
        spec.setup.effort = Some(effort.to_owned());
        assert_eq!(ClaudeCode.check(&spec), Ok(()));
    }
    let can = ClaudeCode.capabilities();
    assert!(
        can.resume
            && can.fork
            && can.warm
            && can.interrupt
            && can.approvals
            && can.output_schema
            && can.images
            && can.texts
    );
    assert_eq!(can.system_prompt, SystemPromptUse::Override);
}

#[test]
fn perm_06_a_mode_that_asks_nobody_does_not_go_round_a_policy_that_forbids() {
    let with = |mode: &str, permissions: Permissions| {
        let mut spec = SpawnSpec { permissions, ..spec() };
        spec.setup.permission_mode = Some(mode.to_owned());
        ClaudeCode.check(&spec).map_err(|problem| problem.code)
    };
    let rule = |say| Permissions {
        rules: vec![PolicyRule { action: None, matches: None, say }],
        ..Permissions::default()
    };
    let forbids = || {
        let deny = Permissions { otherwise: PolicyWord::Deny, ..Permissions::default() };
        let unattended = Permissions { unattended: true, ..Permissions::default() };
        [deny, unattended, rule(PolicyWord::Deny), rule(PolicyWord::Ask)]
    };
    for mode in ["acceptEdits", "auto", "bypassPermissions"] {
        assert_eq!(with(mode, Permissions::default()), Ok(()));
        assert_eq!(with(mode, rule(PolicyWord::Allow)), Ok(()));
        for policy in forbids() {
            assert_eq!(with(mode, policy), Err(ErrorCode::InvalidRequest), "{mode}");
        }
    }
    for mode in ["default", "manual", "plan", "dontAsk"] {
        for policy in forbids() {
            assert_eq!(with(mode, policy), Ok(()), "{mode}");
        }
    }
}
