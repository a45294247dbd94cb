//! Descriptors for very many clients: the daemon takes as many as it may, and its children get the limit that it was started
//! with.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use subagent_process::ResourceLimit;

/// Raises the soft limit of open files to the hard one. Gives what children are to have, where that differs.
pub(super) fn raise() -> Vec<ResourceLimit> {
    let before = getrlimit(Resource::Nofile);
    let (Some(soft), Some(hard)) = (before.current, before.maximum) else { return Vec::new() };
    if soft >= hard {
        return Vec::new();
    }
    let raised = Rlimit { current: Some(hard), maximum: Some(hard) };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::info!(%error, soft, "the limit of open files stays as it is");
        return Vec::new();
    }
    vec![ResourceLimit { resource: subagent_process::Resource::OpenFiles, soft, hard }]
}
