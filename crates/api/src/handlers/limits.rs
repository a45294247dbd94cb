//! The limits in force, and their change.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use subagent_model::{ErrorCode, Problem};
use subagent_runtime::Limits;

use super::{App, Body, parsed};
use crate::answer::{Answer, Refused};
use crate::caller::From as CallerFrom;

/// The limits of a daemon. In a change, what is absent stays, a map is replaced as a whole, and null puts the built-in
/// value back.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Limits", deny_unknown_fields)]
pub(crate) struct LimitsDocument {
    /// Live attempts at once; 0 lets nothing start.
    running: Option<u32>,
    /// Of these, so many of a provider.
    per_provider: Option<BTreeMap<String, u32>>,
    /// Of these, so many of a model.
    per_model: Option<BTreeMap<String, u32>>,
    /// Warm subagents that are idle at once.
    idle: Option<u32>,
    /// Deepest level below a root; a root is at 0.
    depth: Option<u32>,
    /// Live children of one parent.
    breadth: Option<u32>,
    /// Subagents of one tree in its whole life.
    tree_total: Option<u32>,
    /// Spawns of one parent within `rate_window_ms`.
    rate: Option<u32>,
    /// The window of `rate`, in milliseconds.
    rate_window_ms: Option<u64>,
    /// Queued runs.
    queue: Option<u32>,
    /// Free megabytes that the data directory's disk must have.
    disk_floor_mb: Option<u64>,
    /// Free megabytes of memory that the machine must have.
    memory_floor_mb: Option<u64>,
    /// Attempts of one run.
    max_attempts: Option<u32>,
}

pub(crate) async fn limits(State(app): App) -> Answer<Json<Limits>> {
    Ok(Json(app.runtime.limits().await?))
}

pub(crate) async fn set_limits(State(app): App, from: CallerFrom, body: Body) -> Answer<Json<Limits>> {
    let change: Map<String, Value> = parsed(body).await?;
    let _one_at_a_time = app.changing_limits.lock().await;
    let limits = merged(&app.runtime.limits().await?, change)?;
    Ok(Json(app.runtime.set_limits(&from.caller, limits).await?))
}

/// The limits after a change.
fn merged(limits: &Limits, change: Map<String, Value>) -> Answer<Limits> {
    let unreadable = |error: serde_json::Error| Refused(Problem::new(ErrorCode::Panicked, error.to_string()));
    let mut document = serde_json::to_value(limits).map_err(unreadable)?;
    if let Some(fields) = document.as_object_mut() {
        for (key, value) in change {
            if value.is_null() && fields.remove(&key).is_some() {
                continue;
            }
            // An unknown key is put in as well, and refused by name below.
            fields.insert(key, value);
        }
    }
    serde_json::from_value(document)
        .map_err(|error| Refused::invalid(format!("the limits are not valid: {error}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use serde_json::{Value, json};
    use subagent_model::ErrorCode;
    use subagent_runtime::Limits;

    use super::{LimitsDocument, merged};

    fn change(change: &Value) -> Result<Limits, crate::answer::Refused> {
        let mut limits = Limits { running: 9, ..Limits::default() };
        limits.per_provider.insert("claude".into(), 1);
        merged(&limits, change.as_object().unwrap().clone())
    }

    #[test]
    fn queue_a_change_of_limits_leaves_what_it_does_not_name() {
        let limits = change(&json!({"queue": 7})).unwrap();
        assert_eq!((limits.queue, limits.running, limits.per_provider.len()), (7, 9, 1));
        let limits = change(&json!({"per_provider": {"codex": 2}, "running": null})).unwrap();
        assert_eq!(limits.running, Limits::default().running);
        assert_eq!(limits.per_provider.into_iter().collect::<Vec<_>>(), [(String::from("codex"), 2)]);
    }

    #[test]
    fn queue_a_misspelt_limit_is_refused() {
        for wrong in
            [json!({"runing": 1}), json!({"runing": null}), json!({"running": -1}), json!({"rate": "x"})]
        {
            let refused = change(&wrong).unwrap_err();
            assert_eq!(refused.0.code, ErrorCode::InvalidRequest, "{wrong}");
        }
    }

    #[test]
    fn the_document_has_the_fields_of_the_limits() {
        let fields = |value: Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let schema = schemars::schema_for!(LimitsDocument).to_value();
        assert_eq!(
            fields(schema["properties"].clone()),
            fields(serde_json::to_value(Limits::default()).unwrap())
        );
    }
}
