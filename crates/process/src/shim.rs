//! The client side of the shim: launching shims and keeping some warm, starting and steering one attempt,
//! and finding again the shims of an earlier daemon. Every call is bounded in time; a shim that dies is
//! noticed by the end of its connection.

mod connection;
mod handle;
mod held;
mod job;
mod launcher;
mod pool;
mod survey;

pub use handle::{ExitWait, Shim, ShimError, StartError, Started};
pub use job::{Graces, StartJob};
pub use launcher::{Containment, ContainmentReport, LaunchError, LauncherConfig, ShimLauncher};
pub use pool::{PoolConfig, ShimPool};
pub use survey::{LiveShim, survey};

use std::time::Duration;

/// Longest time a shim may take to answer anything but an exit.
const ANSWER: Duration = Duration::from_secs(10);
