//! What a runtime is given: who is told, and who is asked.

use std::path::PathBuf;
use std::sync::Arc;

use subagent_model::Cursor;
use tokio::runtime::Handle;

use crate::dispatch::Dispatch;
use crate::gate::{Gate, Gates};
use crate::observer::Observer;

/// Observers and gates, in the order of their registration. Without any, nothing is made, asked or told.
#[derive(Clone, Default)]
pub struct Hooks {
    observers: Vec<Arc<dyn Observer>>,
    gates: Vec<Arc<dyn Gate>>,
}

impl Hooks {
    /// With one more observer.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// With one more gate, asked after the others.
    #[must_use]
    pub fn with_gate(mut self, gate: Arc<dyn Gate>) -> Self {
        self.gates.push(gate);
        self
    }

    /// True when there is neither an observer nor a gate.
    pub fn is_empty(&self) -> bool {
        self.observers.is_empty() && self.gates.is_empty()
    }

    /// The gates, ready to be asked.
    pub fn gates(&self) -> Gates {
        Gates::new(&self.gates)
    }

    /// Starts the observers; see [`Dispatch::start`].
    pub fn dispatch(&self, data_dir: PathBuf, head: Cursor, executor: &Handle) -> Dispatch {
        Dispatch::start(&self.observers, data_dir, head, executor)
    }
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks")
            .field("observers", &self.observers.len())
            .field("gates", &self.gates.len())
            .finish()
    }
}
