#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use subagent_model::{
    AttemptKey, AttemptNumber, BoundedText, Capabilities, ErrorCode, ExecSpec, ExitFacts, Limit, Mark,
    Outcome, PromptVia, Quality, ResultFrom, RunNumber, SpawnSpec, Steering, SubagentId, Talk,
};
use subagent_provider::{Codec, EndReason, Job, Launch, ProcessEnd, Provider, StdinPlan};

use super::Exec;
use crate::lines::Lines;

fn job(exec: ExecSpec, prompt: &str) -> Job {
    let text = BoundedText::whole(prompt).unwrap();
    let spec = SpawnSpec { exec: Some(exec), ..SpawnSpec::new("exec", text.clone(), "/".into()) };
    let key = AttemptKey {
        subagent: SubagentId::from_uuid(uuid::Uuid::from_u128(7)),
        run: RunNumber(1),
        attempt: AttemptNumber(1),
    };
    Job {
        key,
        spec: Arc::new(spec),
        prompt: text,
        prompt_text: Some(prompt.into()),
        dir: "/jobs/7".into(),
        session: None,
    }
}

fn exec(via: PromptVia, result: ResultFrom) -> ExecSpec {
    ExecSpec {
        program: String::from("tool"),
        args: vec![String::from("-x")],
        prompt_via: via,
        result,
        talk: Talk::None,
    }
}

fn lines() -> ExecSpec {
    ExecSpec { talk: Talk::Lines, ..exec(PromptVia::Stdin, ResultFrom::WholeOutput) }
}

fn end(code: Option<i32>, signal: Option<i32>, stdout: &str) -> ProcessEnd {
    ProcessEnd {
        reason: EndReason::Natural,
        exit: ExitFacts { code, signal, at: None },
        stdout_head: stdout.as_bytes().to_vec(),
        stdout_tail: vec![],
        stdout_omitted: 0,
        stderr_tail: b"warning: old\nfatal: it broke\n".to_vec(),
        incomplete: None,
        leftovers: 0,
        out_of_memory: false,
    }
}

fn launched(via: PromptVia, prompt: &str) -> subagent_provider::ProcessLaunch {
    match Exec.launch(&job(exec(via, ResultFrom::WholeOutput), prompt)).unwrap() {
        Launch::Process(process) => process,
        _ => panic!("without lines it is not spoken with"),
    }
}

#[test]
fn proc_05_a_prompt_with_dashes_quotes_and_newlines_arrives_unchanged() {
    let prompt = "--rm -rf \"$HOME\"\n'quoted' \\ `x`";
    assert_eq!(launched(PromptVia::Argument, prompt).args, ["-x", prompt]);
    let by_file = launched(PromptVia::File, prompt);
    assert_eq!(&*by_file.files[0].1, prompt);
    assert_eq!(by_file.args[1], by_file.env["SUBAGENT_PROMPT_FILE"]);
    assert_eq!(launched(PromptVia::Stdin, prompt).stdin, StdinPlan::Prompt);
    assert_eq!(launched(PromptVia::Stdin, "").stdin, StdinPlan::Null);
}

#[test]
fn the_result_is_what_was_asked_for() {
    let output = "thinking\n{\"result\":{\"text\":\"42\",\"n\":7}}\n\n";
    let verdict =
        |from| Exec.conclude(&job(exec(PromptVia::Stdin, from), ""), &end(Some(0), None, output)).conclusion;
    let text = |from| verdict(from).result.unwrap().preview;
    assert_eq!(text(ResultFrom::WholeOutput), output.strip_suffix('\n').unwrap());
    assert_eq!(text(ResultFrom::LastLine), "{\"result\":{\"text\":\"42\",\"n\":7}}");
    assert_eq!(text(ResultFrom::JsonField("/result/text".into())), "42");
    assert_eq!(text(ResultFrom::JsonField("/result/n".into())), "7");
    let Outcome::Error { error } = verdict(ResultFrom::JsonField("/none".into())).outcome else {
        panic!("a promised field that is missing is no good end")
    };
    assert_eq!(error.code, ErrorCode::NoFinalMessage);
}

#[test]
fn result_23_blank_output_with_code_0_is_good_and_marked() {
    let job = job(exec(PromptVia::Stdin, ResultFrom::WholeOutput), "");
    let conclusion = Exec.conclude(&job, &end(Some(0), None, " \n")).conclusion;
    assert_eq!(conclusion.outcome, Outcome::Completed);
    assert_eq!((conclusion.quality, conclusion.marks), (Quality::Ok, vec![Mark::NoOutput]));
}

#[test]
fn result_28_headline_diagnostic_and_partial_output_are_apart() {
    let job = job(exec(PromptVia::Stdin, ResultFrom::WholeOutput), "");
    let conclusion = Exec.conclude(&job, &end(Some(3), None, "half")).conclusion;
    let Outcome::Error { error } = conclusion.outcome else { panic!("code 3 is an error") };
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::Crashed, "exited with code 3"));
    assert!(error.detail.unwrap().contains("fatal: it broke"));
    assert_eq!(conclusion.result.unwrap().preview, "half");
    assert!(conclusion.marks.contains(&Mark::Partial));
}

#[test]
fn proc_16_a_signal_is_named_and_code_and_signal_are_independent() {
    let job = job(exec(PromptVia::Stdin, ResultFrom::WholeOutput), "");
    for (code, signal, words) in
        [(None, Some(9), "ended by signal 9 (SIGKILL)"), (Some(0), Some(15), "ended by signal 15 (SIGTERM)")]
    {
        let Outcome::Error { error } = Exec.conclude(&job, &end(code, signal, "")).conclusion.outcome else {
            panic!("a signal is an error")
        };
        assert_eq!(error.message, words);
    }
    let mut killed = end(None, Some(9), "");
    killed.out_of_memory = true;
    let Outcome::Error { error } = Exec.conclude(&job, &killed).conclusion.outcome else { panic!("error") };
    assert_eq!(error.code, ErrorCode::OutOfMemory);
}

#[test]
fn a_deadline_is_a_limit_and_a_lost_shim_is_not_the_childs_fault() {
    let job = job(exec(PromptVia::Stdin, ResultFrom::WholeOutput), "");
    let mut cut = end(None, Some(9), "so far");
    cut.reason = EndReason::Deadline;
    let conclusion = Exec.conclude(&job, &cut).conclusion;
    assert_eq!(conclusion.outcome, Outcome::Aborted { limit: Limit::Deadline });
    assert_eq!(conclusion.result.unwrap().preview, "so far");
    cut.reason = EndReason::ShimLost;
    let Outcome::Error { error } = Exec.conclude(&job, &cut).conclusion.outcome else { panic!("error") };
    assert!(error.retryable && error.code == ErrorCode::ShimLost);
}

#[test]
fn invalid_utf_8_and_nul_bytes_are_kept_as_well_as_text_can() {
    let job = job(exec(PromptVia::Stdin, ResultFrom::WholeOutput), "");
    let mut raw = end(Some(0), None, "");
    raw.stdout_head = vec![b'a', 0, 0xff, b'b'];
    assert_eq!(Exec.conclude(&job, &raw).conclusion.result.unwrap().preview, "a\0\u{fffd}b");
}

#[test]
fn result_29_a_result_of_megabytes_is_told_in_a_bounded_way_and_kept_whole() {
    let job = job(exec(PromptVia::Stdin, ResultFrom::WholeOutput), "");
    let verdict = Exec.conclude(&job, &end(Some(0), None, &"漢".repeat(1_000_000)));
    let result = verdict.conclusion.result.unwrap();
    assert!(result.truncated && result.bytes == 3_000_000 && result.preview.len() <= 8192);
    assert_eq!(result.sha256.unwrap().len(), 64);
    assert_eq!(verdict.whole.unwrap().len(), 3_000_000);
}

#[test]
fn bad_specs_are_refused_before_anything_starts() {
    let check = |exec: Option<ExecSpec>, prompt: &str| {
        let mut spec = (*job(self::exec(PromptVia::Stdin, ResultFrom::WholeOutput), prompt).spec).clone();
        spec.exec = exec;
        Exec.check(&spec).unwrap_err().code
    };
    assert_eq!(check(None, ""), ErrorCode::InvalidRequest);
    let mut nul = exec(PromptVia::Stdin, ResultFrom::WholeOutput);
    nul.args = vec![String::from("a\0b")];
    assert_eq!(check(Some(nul), ""), ErrorCode::InvalidRequest);
    assert_eq!(
        check(Some(exec(PromptVia::Stdin, ResultFrom::JsonField("x".into()))), ""),
        ErrorCode::InvalidRequest
    );
    assert_eq!(
        check(Some(exec(PromptVia::Argument, ResultFrom::LastLine)), "a\0b"),
        ErrorCode::InvalidRequest
    );
}

#[test]
fn proc_14_a_diagnostic_is_cut_at_a_character_and_says_so() {
    let job = job(exec(PromptVia::Stdin, ResultFrom::WholeOutput), "");
    for shift in 0..4 {
        let mut failed = end(Some(1), None, "");
        failed.stderr_tail = format!("{}{}the cause", "x".repeat(shift), "漢🦀".repeat(2_000)).into_bytes();
        let Outcome::Error { error } = Exec.conclude(&job, &failed).conclusion.outcome else {
            panic!("code 1 is an error")
        };
        let detail = error.detail.unwrap();
        assert!(detail.starts_with("[...] ") && detail.ends_with("the cause"), "{detail}");
        assert!(detail.len() <= 2 * 1024 + "[...] ".len() && !detail.contains('\u{fffd}'));
    }
}

#[test]
fn proc_15_the_status_decides_and_the_text_only_supports_it() {
    let job = job(exec(PromptVia::Stdin, ResultFrom::WholeOutput), "");
    // Its error output speaks of a fatal error, its status of none.
    assert_eq!(Exec.conclude(&job, &end(Some(0), None, "fine")).conclusion.outcome, Outcome::Completed);
    let mut silent = end(Some(126), None, "all good, done");
    silent.stderr_tail.clear();
    let Outcome::Error { error } = Exec.conclude(&job, &silent).conclusion.outcome else {
        panic!("code 126 is an error whatever was printed")
    };
    assert_eq!((error.message.as_str(), error.detail), ("exited with code 126", None));
}

#[test]
fn a_program_that_speaks_lines_is_spoken_with_and_any_other_is_not() {
    let job = job(lines(), "do it");
    let Launch::Conversation(launch) = Exec.launch(&job).unwrap() else { panic!("it speaks lines") };
    assert_eq!(
        (launch.stdin, launch.args, launch.files),
        (StdinPlan::Open, vec![String::from("-x")], vec![])
    );
    let can = Exec.capabilities_for(&job.spec);
    assert!(can.steering == Steering::Live && can.interrupt && can.resume && can.warm && can.adopt);
    assert!(can.approvals && can.turns && can.usage && can.cost && !can.model);
    assert!(Exec.codec(&job).is_some());
    let plain = self::job(exec(PromptVia::Stdin, ResultFrom::WholeOutput), "");
    assert_eq!(Exec.capabilities_for(&plain.spec), Capabilities { adopt: true, ..Capabilities::default() });
    assert!(Exec.codec(&plain).is_none());
}

#[test]
fn a_program_that_speaks_lines_takes_its_prompt_and_gives_its_result_in_them_only() {
    let check = |via, result| {
        let exec = ExecSpec { talk: Talk::Lines, ..exec(via, result) };
        Exec.check(&job(exec, "").spec).map_err(|problem| problem.code)
    };
    assert_eq!(check(PromptVia::Stdin, ResultFrom::WholeOutput), Ok(()));
    for (via, result) in [
        (PromptVia::Argument, ResultFrom::WholeOutput),
        (PromptVia::File, ResultFrom::WholeOutput),
        (PromptVia::Stdin, ResultFrom::LastLine),
        (PromptVia::Stdin, ResultFrom::JsonField("/x".into())),
    ] {
        assert_eq!(check(via, result), Err(ErrorCode::InvalidRequest));
    }
}

#[test]
fn result_25_a_child_that_did_not_say_that_it_was_done_has_no_result() {
    let job = job(lines(), "");
    let conclude = |end: &ProcessEnd| Exec.conclude(&job, end).conclusion;
    let conclusion = conclude(&end(Some(0), None, "{\"type\":\"message\",\"text\":\"half\"}"));
    let Outcome::Error { error } = conclusion.outcome else { panic!("it has not said that it was done") };
    assert_eq!(error.code, ErrorCode::NoFinalMessage);
    assert!(error.detail.unwrap().contains("fatal: it broke"));
    assert_eq!((conclusion.result, conclusion.exit.unwrap().code), (None, Some(0)));
    let mut killed = end(None, Some(9), "");
    killed.leftovers = 1;
    let conclusion = conclude(&killed);
    let Outcome::Error { error } = conclusion.outcome else { panic!("a signal is an error") };
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::Crashed, "ended by signal 9 (SIGKILL)"));
    assert_eq!(conclusion.marks, [Mark::LeftoversEnded]);
    killed.reason = EndReason::Deadline;
    assert_eq!(conclude(&killed).outcome, Outcome::Aborted { limit: Limit::Deadline });
}

#[test]
fn res_12_the_hello_names_the_session_to_continue_and_begins_a_conversation_in_both_ways() {
    let job = Job { session: Some(String::from("s1")), ..job(lines(), "") };
    let (mut live, mut anew) = (Lines::default(), Lines::default());
    let hello = live.open(&job);
    let told: serde_json::Value = serde_json::from_slice(&hello).unwrap();
    let expected = serde_json::json!({
        "type": "hello", "version": 1, "subagent": job.key.subagent.to_string(), "run": 1, "attempt": 1, "session": "s1",
    });
    assert_eq!(told, expected);
    assert_eq!(anew.recall(&hello), []);
    assert_eq!(live, anew);
    assert_ne!(live, Lines::default(), "the child's hello is owed");
}
