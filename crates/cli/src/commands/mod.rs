//! The commands, one file for each, and what several of them share.

pub(crate) mod ack;
pub(crate) mod agent;
mod asked;
pub(crate) mod budget;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod events;
mod follow;
pub(crate) mod gc;
mod given;
pub(crate) mod inbox;
mod inner;
mod limits;
pub(crate) mod logs;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod messages;
mod outcome;
mod receipt;
pub(crate) mod requests;
pub(crate) mod result;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod show;
pub(crate) mod shutdown;
pub(crate) mod status;
pub(crate) mod steer;
pub(crate) mod stop;
pub(crate) mod types;
pub(crate) mod upgrade;
pub(crate) mod wait;
mod waiting;
mod whole;

/// A record of which only some fields matter to a test.
#[cfg(test)]
fn sample(fields: &serde_json::Value) -> subagent_model::SubagentRecord {
    const ID: &str = "01a22d21-9704-741f-afa1-3082d0029501";
    let mut record = serde_json::json!({
        "id": ID, "handle": "k7q2mx", "type": "exec", "description": "d", "provider": "exec", "mode": "sync",
        "is_background": false, "status": "running", "run": 1, "attempt": 1, "root": ID, "depth": 0,
        "requested_by": "user:0", "created_at": "2026-11-30T00:00:00Z", "accepted_at": "2026-11-30T00:00:00Z",
        "updated_at": "2026-11-30T00:00:00Z", "turn_count": 0, "tool_uses": 0, "compaction_count": 0, "cwd": "/",
        "resumable": false, "tier": "flat", "consumed": false, "durable": true,
    });
    if let (Some(record), Some(fields)) = (record.as_object_mut(), fields.as_object()) {
        record.extend(fields.clone());
    }
    serde_json::from_value(record).unwrap()
}
