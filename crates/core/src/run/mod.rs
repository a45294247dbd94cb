//! The run machine: one subagent, its current run, and the only rules by which it changes.
//!
//! `decide` says which facts a command leads to, `apply` folds a fact into the state, `needs` (in [`crate::need`])
//! says which effects the state still asks for. All three are pure and total: an illegal command is a typed
//! [`Refusal`], an illegal fact a typed [`IllegalEvent`]. What belongs to several subagents (slots, limits, trees)
//! lives in the sibling modules.

mod apply;
mod command;
mod decide;
mod state;

pub use apply::{IllegalEvent, born, fold};
pub use command::{Birth, Command, Given, Left, NotResumable, Refusal};
pub(crate) use decide::resumable;
pub use decide::{accept, decide};
pub use state::{Delivery, DeliveryClaim, Duty, EarlierRun, Ended, Hold, Nudges, Phase, Run, Subagent, Warm};

/// The name under which the runtime itself speaks to children.
pub const RUNTIME: &str = "runtime";
/// The name under which policies answer requests.
pub const POLICY: &str = "policy";
