#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use subagent_model::{
    AttemptKey, AttemptNumber, BoundedText, ErrorCode, ExecSpec, ExitFacts, Outcome, PromptVia, ResultFrom,
    RunNumber, SpawnSpec, SubagentId, SystemPromptUse, Talk,
};
use subagent_provider::{EndReason, Job, Launch, ProcessEnd, ProcessLaunch, Provider, StdinPlan, Steering};

use super::AcpProvider;
use crate::agents::AGENTS;

fn named(name: &str) -> AcpProvider {
    AcpProvider::all().find(|provider| provider.name() == name).unwrap()
}

fn spec(provider: &str, program: Option<(&str, &[&str])>) -> SpawnSpec {
    let exec = program.map(|(program, args)| ExecSpec {
        program: program.to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        prompt_via: PromptVia::Stdin,
        result: ResultFrom::WholeOutput,
        talk: Talk::None,
    });
    SpawnSpec { exec, ..SpawnSpec::new(provider, BoundedText::whole("x").unwrap(), "/work".into()) }
}

fn job(spec: SpawnSpec) -> Job {
    let key = AttemptKey {
        subagent: SubagentId::from_uuid(uuid::Uuid::from_u128(7)),
        run: RunNumber(1),
        attempt: AttemptNumber(1),
    };
    let prompt = spec.prompt.clone();
    Job { key, spec: spec.into(), prompt, prompt_text: None, dir: "/jobs/7".into(), session: None }
}

fn launched(spec: SpawnSpec) -> ProcessLaunch {
    match named(&spec.provider).launch(&job(spec)).unwrap() {
        Launch::Conversation(process) => process,
        _ => panic!("an agent is spoken with"),
    }
}

#[test]
fn any_agent_is_driven_with_its_program_and_the_known_ones_by_name() {
    let any = launched(spec("acp", Some(("my agent", &["--acp", "-v"]))));
    assert_eq!((any.program.as_str(), &any.args[..]), ("my agent", &["--acp".into(), "-v".into()][..]));
    assert_eq!((any.stdin, any.env.len(), any.files.len()), (StdinPlan::Open, 0, 0));
    let opencode = launched(spec("opencode", None));
    assert_eq!((opencode.program.as_str(), opencode.args), ("opencode", vec![String::from("acp")]));
    assert_eq!(opencode.env["OPENCODE_DISABLE_AUTOUPDATE"], "1");
    // Another program for it, such as one that fetches it first, comes before its own arguments.
    let fetched = launched(spec("gemini", Some(("npx", &["@google/gemini-cli"]))));
    assert_eq!(
        (fetched.program.as_str(), fetched.args),
        ("npx", vec!["@google/gemini-cli".into(), "--acp".into()])
    );
    let model = SpawnSpec { model: Some(String::from("gemini-2.5-flash")), ..spec("gemini", None) };
    assert_eq!(launched(model).args, ["--acp", "-m", "gemini-2.5-flash"]);
    let mut own = spec("gemini", None);
    own.env.insert(String::from("GEMINI_CLI_NO_RELAUNCH"), String::from("false"));
    assert!(launched(own).env.is_empty(), "what the requester set goes before");
    let names: BTreeSet<_> = AcpProvider::all().map(|provider| provider.name().to_owned()).collect();
    assert_eq!(names.len(), AGENTS.len() + 1);
    assert!(AcpProvider::any().codec(&job(spec("acp", None))).is_some());
}

#[test]
fn prov_01_what_cannot_be_is_refused_before_anything_starts() {
    let refused = |spec: &SpawnSpec| named(&spec.provider).check(spec).unwrap_err();
    let without = refused(&spec("acp", None));
    assert!(without.code == ErrorCode::InvalidRequest && without.message.contains("-p acp -- PROGRAM"));
    for (program, args) in [("", &[][..]), ("a\0b", &[]), ("a", &["b\0"])] {
        assert_eq!(refused(&spec("acp", Some((program, args)))).code, ErrorCode::InvalidRequest);
    }
    let nul = SpawnSpec { model: Some(String::from("a\0")), ..spec("gemini", None) };
    assert_eq!(refused(&nul).code, ErrorCode::InvalidRequest);
    let good = spec("acp", Some(("agent", &[])));
    assert!(named("acp").check(&good).is_ok() && named("qwen").check(&spec("qwen", None)).is_ok());
    let exec = good.exec.clone().unwrap();
    for exec in [
        ExecSpec { talk: Talk::Lines, ..exec.clone() },
        ExecSpec { prompt_via: PromptVia::Argument, ..exec.clone() },
        ExecSpec { result: ResultFrom::LastLine, ..exec },
    ] {
        assert_eq!(refused(&SpawnSpec { exec: Some(exec), ..good.clone() }).code, ErrorCode::InvalidRequest);
    }
}

#[test]
fn prov_01_what_no_agent_can_do_over_this_protocol_is_not_stated() {
    for provider in AcpProvider::all() {
        let can = provider.capabilities();
        assert!(can.interrupt && can.warm && can.adopt && can.approvals && can.model && can.mcp_servers);
        assert_eq!(can.steering, Steering::AtBoundary, "no word for a message into a turn");
        assert!(!can.turns && !can.tool_filter && !can.output_schema, "{}", provider.name());
        assert!(can.images && can.texts, "acp_07: known once it has answered; what it lacks is refused then");
        assert_eq!(can.system_prompt, SystemPromptUse::Override, "possible, as the agent may announce");
        let (claude, codex) = (provider.name() == "claude-acp", provider.name() == "codex-acp");
        assert_eq!((can.usage, can.cost), (claude || codex, claude), "a limit must be able to act");
        assert_eq!(can.resume, provider.name() != "gemini");
    }
}

#[test]
fn prov_03_two_of_them_do_not_mix() {
    let (a, b) = (spec("acp", Some(("a", &["1"]))), spec("acp", Some(("b", &["2"]))));
    let provider = AcpProvider::any();
    let (mut one, mut other) = (provider.codec(&job(a)).unwrap(), provider.codec(&job(b)).unwrap());
    let second = SpawnSpec { cwd: "/other".into(), ..spec("acp", Some(("b", &["2"]))) };
    one.open(&job(spec("acp", Some(("a", &["1"])))));
    other.open(&job(second));
    let hello = br#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#;
    assert!(String::from_utf8_lossy(&one.hear(hello).reply).contains(r#""cwd":"/work""#));
    assert!(String::from_utf8_lossy(&other.hear(hello).reply).contains(r#""cwd":"/other""#));
}

#[test]
fn acp_12_a_connection_that_is_lost_is_an_error_with_the_facts_of_the_exit() {
    for (code, signal, expected, words) in [
        (Some(0), None, ErrorCode::NoFinalMessage, "did not say that it was done"),
        (Some(3), None, ErrorCode::Crashed, "exited with code 3"),
        (None, Some(9), ErrorCode::Crashed, "SIGKILL"),
    ] {
        let exit = ExitFacts { code, signal, at: None };
        let end = ProcessEnd {
            reason: EndReason::Natural,
            exit,
            stdout_head: b"{\"jsonrpc\":\"2.0\"}".to_vec(),
            stdout_tail: vec![],
            stdout_omitted: 0,
            stderr_tail: b"fatal: no network\n".to_vec(),
            incomplete: None,
            leftovers: 0,
            out_of_memory: false,
        };
        let verdict = AcpProvider::any().conclude(&job(spec("acp", None)), &end);
        let Outcome::Error { error } = &verdict.conclusion.outcome else { panic!("{verdict:?}") };
        assert_eq!((error.code, error.exit, verdict.conclusion.exit), (expected, Some(exit), Some(exit)));
        assert!(error.message.contains(words) && error.detail.as_ref().unwrap().contains("no network"));
        assert!(verdict.conclusion.result.is_none(), "what went over the protocol is no result");
    }
}
