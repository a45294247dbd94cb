//! The provider `exec`: any program, arguments as a list, no shell. The prompt comes on standard input, as an argument or
//! in a file; the result is the whole output, its last line, or a field of a JSON line.
//!
//! The class of an end comes from the exit status; text only supports it. An exit with code 0 is a good end whatever
//! it printed; anything else is an error whatever it printed, with the output kept as partial.
//!
//! A program that speaks the protocol "lines" is spoken with instead: then its result is what it says, and its end
//! without having said that it is done is an error.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use subagent_model::{
    Conclusion, ErrorCode, ExecSpec, Mark, Outcome, Problem, PromptVia, Quality, ResultFrom, SpawnSpec, Talk,
};
use subagent_provider::{
    Capabilities, Codec, Job, Launch, ProcessEnd, ProcessLaunch, Provider, StdinPlan, Steering, Verdict,
    bound,
};

use crate::lines::Lines;

/// Longest prompt that may be an argument: Linux allows 128 KiB for a single one, its end mark included.
const ARGUMENT_BYTES: u64 = 128 * 1024 - 1;

/// The file a prompt lies in with [`PromptVia::File`].
const PROMPT_FILE: &str = "prompt.txt";

/// Any program as a subagent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Exec;

impl Exec {
    /// The provider's name.
    pub const NAME: &str = "exec";
}

fn exec_of(spec: &SpawnSpec) -> Result<&ExecSpec, Problem> {
    spec.exec.as_ref().ok_or_else(|| {
        Problem::new(
            ErrorCode::InvalidRequest,
            "provider exec needs a program: `subagent run -p exec -- PROGRAM ARGS`",
        )
    })
}

fn speaks_lines(spec: &SpawnSpec) -> bool {
    spec.exec.as_ref().is_some_and(|exec| exec.talk == Talk::Lines)
}

impl Provider for Exec {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { adopt: true, ..Capabilities::default() }
    }

    fn capabilities_for(&self, spec: &SpawnSpec) -> Capabilities {
        if !speaks_lines(spec) {
            return self.capabilities();
        }
        Capabilities {
            steering: Steering::Live,
            interrupt: true,
            resume: true,
            warm: true,
            adopt: true,
            approvals: true,
            model: false,
            turns: true,
            usage: true,
            cost: true,
            ..Capabilities::default()
        }
    }

    fn check(&self, spec: &SpawnSpec) -> Result<(), Problem> {
        let exec = exec_of(spec)?;
        if spec.model.is_some() {
            return Err(Problem::new(ErrorCode::NotCapable, "provider exec has no models to choose from"));
        }
        let nul = |text: &String| text.contains('\0');
        if exec.program.is_empty() || nul(&exec.program) || exec.args.iter().any(nul) {
            let message = "the program must have a name, and neither it nor an argument may hold a NUL byte";
            return Err(Problem::new(ErrorCode::InvalidRequest, message));
        }
        if exec.talk == Talk::Lines {
            let message = match (exec.prompt_via, &exec.result) {
                (PromptVia::Stdin, ResultFrom::WholeOutput) => return Ok(()),
                (PromptVia::Stdin, _) => {
                    "its result is what it says in lines: no part of the output can be chosen"
                }
                _ => {
                    "a program that speaks lines gets its prompt in them: not as an argument and not in a file"
                }
            };
            return Err(Problem::new(ErrorCode::InvalidRequest, message));
        }
        if let ResultFrom::JsonField(pointer) = &exec.result
            && !pointer.is_empty()
            && !pointer.starts_with('/')
        {
            let message =
                format!("{pointer:?} is no JSON pointer: it must begin with a slash, such as /result");
            return Err(Problem::new(ErrorCode::InvalidRequest, message));
        }
        if exec.prompt_via == PromptVia::Argument {
            if spec.prompt.bytes > ARGUMENT_BYTES {
                let message =
                    format!("a prompt of {} bytes does not fit into an argument", spec.prompt.bytes);
                return Err(Problem::new(ErrorCode::PromptTooLarge, message)
                    .with_numbers(ARGUMENT_BYTES, spec.prompt.bytes));
            }
            if spec.prompt.preview.contains('\0') {
                return Err(Problem::new(ErrorCode::InvalidRequest, "an argument cannot hold a NUL byte"));
            }
        }
        Ok(())
    }

    fn launch(&self, job: &Job) -> Result<Launch, Problem> {
        let exec = exec_of(&job.spec)?;
        let prompt = job.prompt_text.clone().unwrap_or_else(|| Arc::from(job.prompt.preview.as_str()));
        let mut launch = ProcessLaunch {
            program: exec.program.clone(),
            args: exec.args.clone(),
            env: BTreeMap::new(),
            stdin: StdinPlan::Null,
            files: vec![],
        };
        if exec.talk == Talk::Lines {
            launch.stdin = StdinPlan::Open;
            return Ok(Launch::Conversation(launch));
        }
        match exec.prompt_via {
            PromptVia::Stdin if prompt.is_empty() => {}
            PromptVia::Stdin => launch.stdin = StdinPlan::Prompt,
            PromptVia::Argument => launch.args.push(prompt.to_string()),
            PromptVia::File => {
                let path = job.dir.join(PROMPT_FILE).to_string_lossy().into_owned();
                launch.env.insert(String::from("SUBAGENT_PROMPT_FILE"), path.clone());
                launch.args.push(path);
                launch.files.push((PROMPT_FILE.to_owned(), prompt));
            }
        }
        Ok(Launch::Process(launch))
    }

    fn codec(&self, job: &Job) -> Option<Box<dyn Codec>> {
        speaks_lines(&job.spec).then(|| Box::new(Lines::default()) as Box<dyn Codec>)
    }

    fn conclude(&self, job: &Job, end: &ProcessEnd) -> Verdict {
        if speaks_lines(&job.spec) {
            return end.ended_unsaid();
        }
        let from = job.spec.exec.as_ref().map(|exec| exec.result.clone()).unwrap_or_default();
        let output = whole_output(end);
        let picked = pick(&from, &output);
        let good = end.is_good();
        let (outcome, text) = match (good, picked) {
            (true, Ok(text)) => (Outcome::Completed, text),
            (true, Err(why)) => (
                end.error(ErrorCode::NoFinalMessage, format!("the program ended well, but {why}")),
                output.clone(),
            ),
            (false, _) => (end.bad_outcome(), output.clone()),
        };
        let completed = outcome == Outcome::Completed;
        let mut marks = Vec::new();
        if text.trim().is_empty() {
            marks.push(Mark::NoOutput);
        }
        if end.stdout_omitted > 0 {
            marks.push(Mark::Truncated);
        }
        if !completed && !marks.contains(&Mark::NoOutput) {
            marks.push(Mark::Partial);
        }
        marks.extend(end.marks_of_the_tree());
        let quality = match (completed, end.stdout_omitted > 0 || end.incomplete.is_some()) {
            (true, false) => Quality::Ok,
            (false, _) if marks.contains(&Mark::NoOutput) => Quality::Unverified,
            _ => Quality::Partial,
        };
        let (result, whole) = if completed || !marks.contains(&Mark::NoOutput) {
            let (result, whole) = bound(text);
            (Some(result), whole)
        } else {
            (None, None)
        };
        Verdict { conclusion: Conclusion { outcome, result, marks, quality, exit: Some(end.exit) }, whole }
    }
}

/// Standard output, lossy where it is not UTF-8, with a mark where the middle was left out.
fn whole_output(end: &ProcessEnd) -> String {
    let mut text = String::from_utf8_lossy(&end.stdout_head).into_owned();
    if end.stdout_omitted > 0 {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n[... {} bytes left out ...]\n", end.stdout_omitted);
    }
    text.push_str(&String::from_utf8_lossy(&end.stdout_tail));
    text
}

/// The part of the output that counts.
fn pick(from: &ResultFrom, output: &str) -> Result<String, String> {
    match from {
        ResultFrom::WholeOutput => Ok(output.strip_suffix('\n').unwrap_or(output).to_owned()),
        ResultFrom::LastLine => {
            Ok(output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned())
        }
        ResultFrom::JsonField(pointer) => {
            let value = output
                .lines()
                .rev()
                .find_map(|line| {
                    serde_json::from_str::<serde_json::Value>(line).ok().filter(serde_json::Value::is_object)
                })
                .or_else(|| serde_json::from_str(output).ok())
                .ok_or("no line of its output is a JSON object")?;
            match value.pointer(pointer) {
                Some(serde_json::Value::String(text)) => Ok(text.clone()),
                Some(value) => Ok(value.to_string()),
                None => Err(format!("its JSON output has no field {pointer}")),
            }
        }
    }
}

#[cfg(test)]
mod tests;
