//! The scripted fake: children that hold at named gates which a test opens one by one. It stands for agents that cannot
//! be had in a test, and makes every moment of a run reachable without a sleep.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use subagent_model::{Problem, SpawnSpec};
use tokio::sync::watch;

use crate::{Capabilities, Job, Launch, ProcessEnd, Provider, Steering, TaskEnd, TaskFailure, Verdict};

/// A named gate: closed until a test opens it, open for ever then.
#[derive(Clone)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new(watch::channel(false).0))
    }
}

impl Gate {
    /// Lets everyone pass who waits or comes later.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Returns once the gate is open.
    pub async fn pass(&self) {
        let mut seen = self.0.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = seen.wait_for(|open| *open).await;
    }
}

/// The provider `scripted`. The prompt is the script, one step a line: `gate NAME`, `say TEXT`, `fail TEXT`, `panic`,
/// `hang` (ignores its cancellation). The answer is what was said last.
#[derive(Default, Clone)]
pub struct Scripted {
    gates: Arc<Mutex<HashMap<String, Gate>>>,
}

impl Scripted {
    /// The provider's name.
    pub const NAME: &str = "scripted";

    /// The gate of this name.
    pub fn gate(&self, name: &str) -> Gate {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_default().clone()
    }
}

impl Provider for Scripted {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { steering: Steering::None, resume: false, adopt: false, model: true, usage: false }
    }

    fn check(&self, _: &SpawnSpec) -> Result<(), Problem> {
        Ok(())
    }

    fn launch(&self, _: &Job) -> Result<Launch, Problem> {
        let fake = self.clone();
        Ok(Launch::Task(Box::new(move |context| {
            Box::pin(async move {
                let script = context.prompt.to_string();
                let play = play(&fake, &script);
                if script.lines().any(|line| line == "hang") {
                    return play.await;
                }
                tokio::select! {
                    end = play => end,
                    () = context.cancelled.cancelled() => Err(TaskFailure::new("cancelled")),
                }
            })
        })))
    }

    fn conclude(&self, _: &Job, _: &ProcessEnd) -> Verdict {
        // It launches no processes; the runtime never asks.
        Verdict::lost("a scripted child has no process")
    }
}

#[allow(clippy::panic, reason = "the script asks for it")]
async fn play(fake: &Scripted, script: &str) -> TaskEnd {
    let mut said = String::new();
    for line in script.lines() {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("gate", name) => fake.gate(name).pass().await,
            ("say", text) => text.clone_into(&mut said),
            ("fail", text) => return Err(TaskFailure { partial: Some(said), ..TaskFailure::new(text) }),
            ("panic", text) => panic!("{text}"),
            ("hang", _) => std::future::pending::<()>().await,
            (step, _) => return Err(TaskFailure::new(format!("the script has no step {step:?}"))),
        }
    }
    Ok(said)
}
