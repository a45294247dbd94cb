//! The one place that reads the wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

use subagent_model::Timestamp;

/// Now.
pub(crate) fn now() -> Timestamp {
    let micros = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}
