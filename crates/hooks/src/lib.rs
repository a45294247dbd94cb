//! The lifecycle seam: code that is told of runs, and code that is asked about them.
//!
//! An [`Observer`] sees shared immutable values and can never change a run. A [`Gate`] decides, within a deadline, and
//! names its default for the case that it fails. Each is contained by itself: whatever it does, the others and the run
//! go on. What is told comes from committed events only; which of them are the start and the end of a run is the rule of
//! the [`Ledger`]. Rules of runs do not belong here, nor does anything that starts a process.

mod contain;
mod dispatch;
mod gate;
mod hooks;
mod inbox;
mod info;
mod ledger;
mod observer;

pub use dispatch::Dispatch;
pub use gate::{
    EndAsk, EndDecision, EndRuling, GATE_DEADLINE, Gate, Gates, MAX_CONTINUATIONS, OnFailure, SpawnAsk,
    SpawnDecision, SpawnRuling, may_continue,
};
pub use hooks::Hooks;
pub use inbox::INBOX;
pub use info::{EndInfo, Notice, RunFacts, StartInfo};
pub use ledger::{Committed, Ledger, REMEMBERED_ENDS, RunView};
pub use observer::{OBSERVER_DEADLINE, Observer};
