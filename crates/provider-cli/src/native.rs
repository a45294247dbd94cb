//! What agents that are driven natively have in common: a program that is found on the child's own `PATH` or named in the
//! spec, and a pipe that stays open.

use std::collections::BTreeMap;
use std::sync::Arc;

use subagent_model::{ErrorCode, ExecSpec, Problem, PromptVia, ResultFrom, SpawnSpec, Talk};
use subagent_provider::{Launch, ProcessLaunch, StdinPlan};

/// How an agent is started.
pub(crate) struct Native {
    pub(crate) program: &'static str,
    pub(crate) args: Vec<String>,
    pub(crate) files: Vec<(String, Arc<str>)>,
}

impl Native {
    /// Its launch. A program that the spec names is taken instead, with the arguments of the spec before ours.
    pub(crate) fn launch(self, spec: &SpawnSpec) -> Launch {
        let (program, mut args) = match &spec.exec {
            Some(exec) => (exec.program.clone(), exec.args.clone()),
            None => (self.program.to_owned(), vec![]),
        };
        args.extend(self.args);
        let env = BTreeMap::new();
        Launch::Conversation(ProcessLaunch { program, args, env, stdin: StdinPlan::Open, files: self.files })
    }
}

/// The class of a failure by the status of HTTP that a model's provider answered with.
pub(crate) fn class_of_status(status: u64) -> Option<ErrorCode> {
    use ErrorCode as E;
    Some(match status {
        401 | 403 => E::Auth,
        402 => E::QuotaExhausted,
        413 => E::ContextOverflow,
        429 => E::RateLimited,
        408 | 500..=599 => E::Overloaded,
        400..=499 => E::Refused,
        _ => return None,
    })
}

/// Refuses a program that cannot be meant, and ways of speaking with it that are not the agent's.
pub(crate) fn check_override(provider: &str, spec: &SpawnSpec) -> Result<(), Problem> {
    let invalid = |message: String| Err(Problem::new(ErrorCode::InvalidRequest, message));
    let Some(exec) = &spec.exec else { return Ok(()) };
    let nul = |text: &String| text.contains('\0');
    if exec.program.is_empty() || nul(&exec.program) || exec.args.iter().any(nul) {
        return invalid(String::from(
            "the program must have a name, and neither it nor an argument may hold a NUL byte",
        ));
    }
    let plain = ExecSpec {
        program: exec.program.clone(),
        args: exec.args.clone(),
        prompt_via: PromptVia::default(),
        result: ResultFrom::default(),
        talk: Talk::default(),
    };
    if *exec != plain {
        return invalid(format!(
            "the program of {provider} can be another one, but how it is spoken with cannot be chosen"
        ));
    }
    Ok(())
}
