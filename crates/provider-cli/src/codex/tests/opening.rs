use serde_json::json;
use subagent_model::{
    ErrorCode, ExecSpec, Outcome, PromptVia, ResultFrom, Steering, SystemPrompt, SystemPromptMode,
    SystemPromptUse, Talk,
};
use subagent_model::{McpServer, McpTransport};
use subagent_provider::{Codec, Provider, Said, StdinPlan, TurnEnd};

use super::{AppServer, THREAD, end_of, frames, hear, job, open_for, opened_with, said};
use crate::codex::Codex;
use crate::testing::{launched, process_end};

/// What is asked of the app-server after its hello.
fn opening(job: &subagent_provider::Job) -> serde_json::Value {
    let mut codec = AppServer::default();
    let hello = frames(&codec.open(job));
    let greeted = hear(&mut codec, &json!({"id": hello[0]["id"], "result": {}}));
    let reply = frames(&greeted.reply);
    assert_eq!(reply[0], json!({"method": "initialized"}));
    reply[1].clone()
}

#[test]
fn prov_16_rights_are_set_on_each_thread() {
    for (mode, approvals, sandbox) in [
        (None, "untrusted", "workspace-write"),
        (Some("read-only"), "on-request", "read-only"),
        (Some("workspace-write"), "on-request", "workspace-write"),
        (Some("danger-full-access"), "untrusted", "danger-full-access"),
    ] {
        for session in [None, Some(THREAD)] {
            let job = job(session, |spec| spec.setup.permission_mode = mode.map(str::to_owned));
            let params = &opening(&job)["params"];
            assert_eq!(
                (&params["approvalPolicy"], &params["sandbox"], &params["approvalsReviewer"]),
                (&json!(approvals), &json!(sandbox), &json!("user")),
                "{mode:?}"
            );
        }
    }
}

#[test]
fn prov_16_rights_are_read_back_and_a_thread_with_others_takes_no_prompt() {
    for (approvals, sandbox) in
        [("never", "workspaceWrite"), ("untrusted", "dangerFullAccess"), ("untrusted", "externalSandbox")]
    {
        let mut codec = AppServer::default();
        codec.open(&job(None, |_| {}));
        hear(&mut codec, &json!({"id": "open:start", "result": {}}));
        let heard = said(&mut codec, &opened_with(approvals, sandbox));
        let TurnEnd::Failed(error) = end_of(&heard) else { panic!("{heard:?}") };
        assert_eq!(error.code, ErrorCode::NotCapable);
        assert!(!heard.iter().any(|said| matches!(said, Said::Opened { .. })));
        assert!(codec.tell(&super::prompt("x")).is_err());
    }
    let mut reviewed = opened_with("untrusted", "workspaceWrite");
    reviewed["result"]["approvalsReviewer"] = json!("auto_review");
    let mut codec = AppServer::default();
    codec.open(&job(None, |_| {}));
    hear(&mut codec, &json!({"id": "open:start", "result": {}}));
    assert!(matches!(end_of(&said(&mut codec, &reviewed)), TurnEnd::Failed(_)));
}

#[test]
fn a_thread_is_begun_resumed_or_forked_with_everything_that_is_set_on_it() {
    let full = |session: Option<&str>, fork: Option<&str>| {
        opening(&job(session, |spec| {
            spec.model = Some(String::from("m-2"));
            spec.setup.effort = Some(String::from("low"));
            spec.setup.fork_of = fork.map(str::to_owned);
            spec.setup.system_prompt =
                Some(SystemPrompt { mode: SystemPromptMode::Append, text: String::from("Be brief.") });
            spec.setup.mcp_servers = vec![
                McpServer {
                    name: String::from("a"),
                    via: McpTransport::Stdio {
                        command: String::from("run"),
                        args: vec![],
                        env: [(String::from("K"), String::from("v"))].into(),
                    },
                },
                McpServer {
                    name: String::from("b"),
                    via: McpTransport::Http { url: String::from("http://x"), headers: [].into() },
                },
            ];
        }))
    };
    let begun = full(None, None);
    assert_eq!(
        begun,
        json!({"id": "thread", "method": "thread/start", "params": {
            "cwd": "/work", "model": "m-2", "approvalPolicy": "untrusted", "approvalsReviewer": "user",
            "sandbox": "workspace-write", "developerInstructions": "Be brief.",
            "config": {"model_reasoning_effort": "low", "mcp_servers": {
                "a": {"command": "run", "args": [], "env": {"K": "v"}},
                "b": {"url": "http://x", "http_headers": {}},
            }},
        }})
    );
    // A session goes before what it was forked of.
    for (session, fork, method, thread) in [
        (Some(THREAD), None, "thread/resume", THREAD),
        (None, Some("t-9"), "thread/fork", "t-9"),
        (Some(THREAD), Some("t-9"), "thread/resume", THREAD),
    ] {
        let opening = full(session, fork);
        assert_eq!(opening["method"], method);
        assert_eq!(
            (&opening["params"]["threadId"], &opening["params"]["excludeTurns"]),
            (&json!(thread), &json!(true))
        );
        assert_eq!(opening["params"]["model"], "m-2");
    }
    let instead = opening(&job(None, |spec| {
        spec.setup.system_prompt =
            Some(SystemPrompt { mode: SystemPromptMode::Override, text: String::from("You are B.") });
    }));
    assert_eq!(instead["params"]["baseInstructions"], "You are B.");
}

#[test]
fn what_differs_without_harm_is_told() {
    let mut codec = AppServer::default();
    codec.open(&job(None, |spec| spec.model = Some(String::from("m-2"))));
    hear(&mut codec, &json!({"id": "open:start", "result": {}}));
    let heard = said(&mut codec, &opened_with("untrusted", "workspaceWrite"));
    assert!(
        matches!(&heard[..], [Said::Model(model), Said::Notice(_), Said::Opened { .. }] if model == "m-1")
    );
}

#[test]
fn prov_19_a_thread_of_a_former_process_that_is_gone_is_not_resumable() {
    let opened = |session: Option<&str>, answer: serde_json::Value| {
        let mut codec = AppServer::default();
        let hello = frames(&codec.open(&job(session, |_| {})));
        hear(&mut codec, &json!({"id": hello[0]["id"], "result": {}}));
        match end_of(&said(&mut codec, &answer)) {
            TurnEnd::Failed(error) => error.code,
            other => panic!("{other:?}"),
        }
    };
    let gone =
        json!({"id": "thread", "error": {"code": -32600, "message": "no rollout found for thread id x"}});
    assert_eq!(opened(Some(THREAD), gone.clone()), ErrorCode::SessionGone);
    assert_eq!(opened(None, gone), ErrorCode::StartFailed);
    let internal = json!({"id": "thread", "error": {"code": -32603, "message": "disk"}});
    assert_eq!(opened(Some(THREAD), internal), ErrorCode::StartFailed);
}

#[test]
fn the_schema_of_the_answer_goes_with_each_turn() {
    let schema = json!({"type": "object"});
    let mut codec = open_for(&job(None, |spec| spec.output_schema = Some(schema.clone())));
    let turn = super::told(&mut codec, &super::prompt("x"));
    assert_eq!(turn[0]["params"]["outputSchema"], schema);
    let mut codec = super::open();
    assert!(super::told(&mut codec, &super::prompt("x"))[0]["params"].get("outputSchema").is_none());
}

#[test]
fn prov_01_what_codex_cannot_do_is_not_claimed_and_not_accepted() {
    let can = Codex.capabilities();
    assert_eq!((can.steering, can.system_prompt), (Steering::Live, SystemPromptUse::Override));
    assert!(can.interrupt && can.resume && can.warm && can.adopt && can.approvals && can.fork && can.model);
    assert!(can.turns && can.usage && can.output_schema && can.effort && can.mcp_servers);
    assert!(!can.cost && !can.tool_filter && can.images && can.texts);
    let check = |change: fn(&mut subagent_model::SpawnSpec)| {
        Codex.check(&job(None, change).spec).map_err(|problem| problem.code)
    };
    assert_eq!(check(|_| {}), Ok(()));
    assert_eq!(check(|spec| spec.setup.permission_mode = Some("read-only".into())), Ok(()));
    let never = check(|spec| spec.setup.permission_mode = Some("never".into()));
    assert_eq!(never, Err(ErrorCode::InvalidRequest));
    let talk = check(|spec| spec.exec = Some(ExecSpec { talk: Talk::Lines, ..program("codex") }));
    assert_eq!(talk, Err(ErrorCode::InvalidRequest));
    assert_eq!(check(|spec| spec.exec = Some(program(""))), Err(ErrorCode::InvalidRequest));
}

fn program(program: &str) -> ExecSpec {
    ExecSpec {
        program: program.to_owned(),
        args: vec![],
        prompt_via: PromptVia::Stdin,
        result: ResultFrom::WholeOutput,
        talk: Talk::None,
    }
}

#[test]
fn the_program_is_found_on_the_path_or_named_by_the_spec() {
    let launched = |job| launched(&Codex, &job);
    let usual = launched(job(None, |_| {}));
    assert_eq!((usual.program.as_str(), &usual.args[..]), ("codex", &[String::from("app-server")][..]));
    assert_eq!(usual.stdin, StdinPlan::Open);
    let named = launched(job(None, |spec| {
        spec.exec = Some(ExecSpec { args: vec![String::from("-v")], ..program("/opt/codex") });
    }));
    assert_eq!((named.program.as_str(), named.args), ("/opt/codex", vec!["-v".into(), "app-server".into()]));
}

#[test]
fn a_process_that_ends_without_the_end_of_its_turn_has_failed() {
    for (code, signal, expected) in [
        (Some(1), None, ErrorCode::Crashed),
        (None, Some(9), ErrorCode::Crashed),
        (Some(0), None, ErrorCode::NoFinalMessage),
    ] {
        let verdict = Codex.conclude(&job(None, |_| {}), &process_end(code, signal, "panicked at x\n"));
        let Outcome::Error { error } = verdict.conclusion.outcome else { panic!() };
        assert_eq!((error.code, error.exit.unwrap().signal), (expected, signal));
        assert_eq!(error.detail.as_deref(), Some("panicked at x"));
    }
}
