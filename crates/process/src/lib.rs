//! Processes of subagent: who a process is and to which attempt it belongs, how a child's environment is
//! made, where its tree is contained, what it says and uses, and the asynchronous client of the shim. Policy
//! (what to run, when to stop, what an exit means) lives above; the shim's own side lives in
//! `subagent-shim`; words on the wire in `subagent_core::frame::control`.

pub mod caller;
pub mod cgroup;
pub mod conversation;
pub mod env;
pub mod exit_record;
pub mod identity;
pub mod leftovers;
pub mod log;
pub mod memory;
mod platform;
pub mod shim;
pub mod usage;

pub use caller::{Caller, Callers, Evidence};
pub use identity::{identify, is_alive, signal_checked};
pub use memory::memory_available_mb;
pub use shim::{
    Containment, ContainmentReport, ExitWait, Graces, LaunchError, LauncherConfig, LiveShim, PoolConfig,
    Shim, ShimError, ShimLauncher, ShimPool, StartError, StartJob, Started, survey,
};
pub use subagent_core::frame::control::{Resource, ResourceLimit, ShimState, ShimStatus, StdinSource};
pub use subagent_model::process::{
    ExitCause, ExitRecord, ProcessIdentity, ProcessUsage, StartFailure, StartStage,
};
pub use usage::cpu_time;
