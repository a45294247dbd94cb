//! From a taken slot to a process: the plan of the provider, what the child finds in its directory and environment, and
//! a shim that starts it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use subagent_model::{ErrorCode, Problem};
use subagent_process::{StartError, StartJob, StdinSource};
use subagent_provider::{Codec, Job, Launch, ProcessLaunch, StdinPlan};

use super::super::task;
use super::doubt::nudge;
use super::{Attempt, chain};

/// Name of the file in the attempt's directory that the child reads as its standard input.
const STDIN_FILE: &str = "stdin";
/// A shim that says nothing for so long may be suspended.
const SUSPENDED: Duration = Duration::from_secs(1);
/// Why an attempt goes back that a stop was faster than.
const NOT_STARTED: &str = "stopped before it was started";

impl Attempt {
    pub(super) async fn launch(&self) {
        if self.stop.is_cancelled() {
            return self.requeue(NOT_STARTED).await;
        }
        if self.has_log() {
            // It was begun before, whatever became of it: nothing is started twice.
            return self.find().await;
        }
        match self.plan().await {
            Err(problem) => self.fail(problem).await,
            Ok((_, Launch::Task(body))) => task::drive(self, body).await,
            Ok((job, Launch::Dialogue(body))) => self.converse_with_task(&job, body).await,
            Ok((job, Launch::Process(process))) => self.start(&job, process, None).await,
            Ok((job, Launch::Conversation(process))) => {
                let codec = self.provider().ok().and_then(|provider| provider.codec(&job));
                let Some(codec) = codec else {
                    let message = "the provider has no codec for a child that is spoken with";
                    return self.fail(Problem::new(ErrorCode::Panicked, message)).await;
                };
                self.start(&job, process, Some(codec)).await;
            }
        }
    }

    /// The job with its whole prompt, and how its provider launches it.
    async fn plan(&self) -> Result<(Job, Launch), Problem> {
        let mut job = self.job();
        job.prompt_text = Some(self.prompt_text().await?);
        let launch = self.provider()?.launch(&job)?;
        Ok((job, launch))
    }

    async fn start(&self, job: &Job, process: ProcessLaunch, codec: Option<Box<dyn Codec>>) {
        let attempt_job = job;
        let dir = job.dir.clone();
        let stdin = match process.stdin {
            StdinPlan::Null => StdinSource::Null,
            StdinPlan::Open => StdinSource::Pipe,
            StdinPlan::Prompt => StdinSource::File(text_of(&dir.join(STDIN_FILE))),
        };
        let environment = match self.environment(&process) {
            Ok(environment) => environment,
            Err(problem) => return self.fail(problem).await,
        };
        if let Err(error) = self.lay_out(&dir, job, &process).await {
            let message = format!("cannot prepare the attempt's directory: {error}");
            let code = if error.kind() == std::io::ErrorKind::StorageFull {
                ErrorCode::StoreFull
            } else {
                ErrorCode::StartFailed
            };
            return self.fail(Problem::new(code, message)).await;
        }
        let Some(pool) = &self.inner.pool else {
            let message = "this runtime has no shims, so it cannot start processes";
            return self.fail(Problem::new(ErrorCode::ShimMissing, message)).await;
        };
        let shim = tokio::select! {
            biased;
            () = self.stop.cancelled() => return self.requeue(NOT_STARTED).await,
            shim = pool.take() => match shim {
                Ok(shim) => shim,
                Err(error) => return self.requeue(&format!("no shim could be had: {}", chain(&error))).await,
            },
        };
        if self.stop.is_cancelled() {
            pool.release(shim);
            return self.requeue(NOT_STARTED).await;
        }
        let spec = &self.state.spec;
        let job = StartJob {
            args: process.args,
            env: environment,
            stdin,
            // Of a process that goes on over several runs the driver keeps the time of each.
            deadline: self.time_left().filter(|_| !spec.is_warm()),
            lease: Some(self.lease()),
            log_limit: self.inner.config.log_limit,
            graces: self.inner.config.graces,
            rlimits: self.inner.config.child_limits.clone(),
            heard: codec.is_some(),
            ..StartJob::new(self.key.to_string(), text_of(&dir), process.program, spec.cwd.as_str())
        };
        // Before it can call: a child is never taken for anybody else.
        self.know(&shim);
        let answer = {
            let start = shim.start(job);
            tokio::pin!(start);
            if let Ok(answer) = tokio::time::timeout(SUSPENDED, &mut start).await {
                answer
            } else {
                nudge(&shim);
                start.await
            }
        };
        match answer {
            Ok(started) => match codec {
                Some(codec) => {
                    self.know(&shim);
                    self.converse(shim, codec, attempt_job).await;
                }
                None => self.watch(shim, Some(self.started(Some(started)))).await,
            },
            Err(StartError::Failed(failure)) => {
                pool.release(shim);
                self.fail(self.start_problem(&failure)).await;
            }
            Err(error) => {
                tracing::warn!(key = %self.key, error = chain(&error), "a start is in doubt");
                // The order may still lie in its socket: it is decided once nobody can carry it out any more.
                self.put_down(&shim).await;
                let cgroup = shim.cgroup().map(Path::to_owned);
                // With a log it had begun, and this daemon saw the end of it.
                self.settle_without_shim(cgroup, None, self.has_log()).await;
            }
        }
    }

    /// What is left of the run's deadline: earlier attempts have used a part of it.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let deadline = self.state.spec.deadline()?;
        Some(deadline.saturating_sub(self.state.run.worked()).max(Duration::from_millis(1)))
    }

    /// The child's whole environment: the requester's, the provider's, ours. Nothing of the daemon's own.
    fn environment(&self, process: &ProcessLaunch) -> Result<BTreeMap<String, String>, Problem> {
        let spec = &self.state.spec;
        let mut environment = spec.env.clone();
        if !spec.secret_env.is_empty() {
            let secrets = self.inner.secrets.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(values) = secrets.get(&self.key.subagent) else {
                let names = spec.secret_env.join(", ");
                let message = format!("the values of {names} were in the memory of a daemon that is gone");
                return Err(Problem::new(ErrorCode::EnvironmentLost, message));
            };
            environment.extend(values.clone());
        }
        environment.extend(process.env.clone());
        environment.extend(self.inner.config.child_env.clone());
        environment.insert(String::from("SUBAGENT_ID"), self.key.subagent.to_string());
        environment.insert(String::from("SUBAGENT_HANDLE"), self.state.handle.to_string());
        Ok(environment)
    }

    /// Makes the directory and the files in it. Large files are written on a thread of their own.
    async fn lay_out(&self, dir: &Path, job: &Job, process: &ProcessLaunch) -> std::io::Result<()> {
        let mut files: Vec<(PathBuf, Arc<str>)> =
            process.files.iter().map(|(name, text)| (dir.join(name), Arc::clone(text))).collect();
        if let (StdinPlan::Prompt, Some(text)) = (process.stdin, &job.prompt_text) {
            files.push((dir.join(STDIN_FILE), Arc::clone(text)));
        }
        let dir = dir.to_owned();
        let write = move || -> std::io::Result<()> {
            make_private_dirs(&dir)?;
            files.iter().try_for_each(|(path, text)| std::fs::write(path, text.as_bytes()))
        };
        if self.state.run.prompt.truncated {
            tokio::task::spawn_blocking(write).await.map_err(std::io::Error::other)?
        } else {
            write()
        }
    }
}

fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Prompts and outputs are nobody else's.
fn make_private_dirs(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}
