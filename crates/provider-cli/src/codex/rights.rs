//! What a thread may do without asking. Set on each thread and read back from it: flags and files of the installation do
//! not count for threads that are begun over the wire.
//!
//! | `permission_mode` | Approval policy | Sandbox | Asked is |
//! |---|---|---|---|
//! | none | `untrusted` | `workspace-write` | everything but commands that are known to read only |
//! | `read-only` | `on-request` | `read-only` | what is to leave the sandbox |
//! | `workspace-write` | `on-request` | `workspace-write` | what is to leave the sandbox |
//! | `danger-full-access` | `untrusted` | `danger-full-access` | everything but commands that are known to read only |
//!
//! What is asked comes to the supervisor, whose policy decides; there is no mode in which nothing is asked.

use serde_json::Value;
use subagent_model::{ErrorCode, Problem};

/// The rights of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rights {
    pub(super) approvals: &'static str,
    pub(super) sandbox: &'static str,
    /// The sandbox as it is read back.
    told: &'static str,
}

const MODES: [(&str, Rights); 3] = [
    ("read-only", Rights { approvals: "on-request", sandbox: "read-only", told: "readOnly" }),
    (
        "workspace-write",
        Rights { approvals: "on-request", sandbox: "workspace-write", told: "workspaceWrite" },
    ),
    (
        "danger-full-access",
        Rights { approvals: "untrusted", sandbox: "danger-full-access", told: "dangerFullAccess" },
    ),
];

impl Rights {
    /// What is set where nothing is said.
    pub(super) const USUAL: Self =
        Self { approvals: "untrusted", sandbox: "workspace-write", told: "workspaceWrite" };

    /// The rights of a mode.
    pub(super) fn of(mode: Option<&str>) -> Result<Self, Problem> {
        let Some(mode) = mode else { return Ok(Self::USUAL) };
        MODES.iter().find(|(name, _)| *name == mode).map(|(_, rights)| *rights).ok_or_else(|| {
            let known = MODES.map(|(name, _)| name).join(", ");
            let message = format!("codex has no mode of permissions {mode:?}; there are {known}");
            Problem::new(ErrorCode::InvalidRequest, message)
        })
    }

    /// Why a thread does not have these rights, by what its opening was answered with.
    pub(super) fn missing(self, opened: &Value) -> Option<String> {
        let approvals = &opened["approvalPolicy"];
        if approvals != self.approvals {
            return Some(format!("its approval policy is {approvals} and not {:?}", self.approvals));
        }
        let sandbox = &opened["sandbox"]["type"];
        if sandbox != self.told {
            return Some(format!("its sandbox is {sandbox} and not {:?}", self.told));
        }
        let reviewer = &opened["approvalsReviewer"];
        if !reviewer.is_null() && reviewer != "user" {
            return Some(format!("its approvals are reviewed by {reviewer} and not by the user"));
        }
        None
    }
}
