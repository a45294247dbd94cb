use subagent_model::{
    ErrorCode, Outcome, Steering, SystemPrompt, SystemPromptMode, SystemPromptUse, ToolFilter,
};
use subagent_provider::{Provider, StdinPlan};

use super::{SESSION, job};
use crate::pi::Pi;
use crate::testing::{launched, process_end};

#[test]
fn the_set_up_of_a_run_is_given_as_arguments() {
    let plain = launched(&Pi, &job(None, |_| {}));
    assert_eq!((plain.program.as_str(), plain.args.join(" ").as_str()), ("pi", "--mode rpc"));
    assert_eq!(plain.stdin, StdinPlan::Open);
    let full = launched(
        &Pi,
        &job(Some(SESSION), |spec| {
            spec.model = Some(String::from("openrouter/vendor/model"));
            spec.setup.effort = Some(String::from("high"));
            spec.setup.fork_of = Some(String::from("another"));
            spec.setup.tools =
                ToolFilter { allow: Some(vec!["read".into(), "ls".into()]), deny: vec!["bash".into()] };
            spec.setup.system_prompt =
                Some(SystemPrompt { mode: SystemPromptMode::Append, text: String::from("README.md") });
        }),
    );
    let expected = format!(
        "--mode rpc --provider openrouter --model vendor/model --thinking high --session {SESSION} \
         --append-system-prompt /jobs/7/instructions.md --exclude-tools bash --tools read,ls"
    );
    assert_eq!(full.args.join(" "), expected);
    // As an argument it could be taken for the name of a file.
    assert_eq!((full.files[0].0.as_str(), &*full.files[0].1), ("instructions.md", "README.md"));
    let other = launched(
        &Pi,
        &job(None, |spec| {
            spec.model = Some(String::from("sonnet"));
            spec.setup.fork_of = Some(String::from("another"));
            spec.setup.tools.allow = Some(vec![]);
            spec.setup.system_prompt =
                Some(SystemPrompt { mode: SystemPromptMode::Override, text: String::from("You are B.") });
        }),
    );
    let expected =
        "--mode rpc --model sonnet --fork another --system-prompt /jobs/7/instructions.md --no-tools";
    assert_eq!(other.args.join(" "), expected);
}

#[test]
fn prov_01_what_pi_cannot_do_is_not_claimed_and_not_accepted() {
    let can = Pi.capabilities();
    assert_eq!((can.steering, can.system_prompt), (Steering::Live, SystemPromptUse::Override));
    assert!(
        can.interrupt
            && can.resume
            && can.warm
            && can.adopt
            && can.model
            && can.turns
            && can.usage
            && can.cost
    );
    assert!(can.fork && can.tool_filter && can.effort);
    assert!(!can.approvals && !can.output_schema && !can.mcp_servers && can.images && can.texts);
    let check = |change: fn(&mut subagent_model::SpawnSpec)| {
        Pi.check(&job(None, change).spec).map_err(|problem| problem.code)
    };
    assert_eq!(check(|_| {}), Ok(()));
    assert_eq!(check(|spec| spec.setup.permission_mode = Some("plan".into())), Err(ErrorCode::NotCapable));
    for bad in [
        check(|spec| spec.model = Some("--help".into())),
        check(|spec| spec.setup.effort = Some("-x".into())),
        check(|spec| spec.setup.fork_of = Some("-c".into())),
        check(|spec| spec.setup.tools.deny = vec!["a,b".into()]),
        check(|spec| spec.setup.tools.allow = Some(vec!["+codemode".into()])),
    ] {
        assert_eq!(bad, Err(ErrorCode::InvalidRequest));
    }
}

#[test]
fn an_end_without_the_end_of_a_turn_is_a_failure_and_a_session_that_is_gone_is_called_so() {
    // Observed.
    let gone = format!("No session found matching '{SESSION}'\n");
    let elsewhere =
        "Session found in different project: /w\nFork this session into current directory? [y/N] Aborted.";
    for (session, code, signal, stderr, expected) in [
        (Some(SESSION), Some(1), None, gone.as_str(), ErrorCode::SessionGone),
        (Some(SESSION), Some(0), None, elsewhere, ErrorCode::SessionGone),
        (None, Some(1), None, gone.as_str(), ErrorCode::Crashed),
        (Some(SESSION), None, Some(9), gone.as_str(), ErrorCode::Crashed),
        (Some(SESSION), Some(1), None, "Error: out of luck", ErrorCode::Crashed),
        (None, Some(143), None, "", ErrorCode::Crashed),
        (None, Some(0), None, "", ErrorCode::NoFinalMessage),
    ] {
        let verdict = Pi.conclude(&job(session, |_| {}), &process_end(code, signal, stderr));
        let Outcome::Error { error } = verdict.conclusion.outcome else { panic!() };
        assert_eq!((error.code, error.exit.unwrap().code), (expected, code), "{stderr}");
    }
}
