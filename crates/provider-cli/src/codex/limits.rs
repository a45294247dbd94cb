//! The limits of the account, as they are told of in passing: they say when a quota is renewed.

use serde_json::Value;
use subagent_model::{ErrorCode, Timestamp};

/// The windows in which use is counted.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Limits {
    windows: [Option<Window>; 2],
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Window {
    used_percent: f64,
    resets_at: i64,
}

impl Limits {
    /// News of the limits. What they do not tell stays as it was.
    pub(super) fn update(&mut self, limits: &Value) {
        for (window, name) in self.windows.iter_mut().zip(["primary", "secondary"]) {
            let told = &limits[name];
            if let (Some(used_percent), Some(resets_at)) =
                (told["usedPercent"].as_f64(), told["resetsAt"].as_i64())
            {
                *window = Some(Window { used_percent, resets_at });
            }
        }
    }

    /// When a failure of this class is over, where that is known.
    pub(super) fn reset_at_of(&self, code: ErrorCode) -> Option<Timestamp> {
        if code == ErrorCode::QuotaExhausted { self.reset_at() } else { None }
    }

    /// When the window that is used up is renewed: of several the last one.
    fn reset_at(&self) -> Option<Timestamp> {
        let known = || self.windows.iter().flatten();
        let most = known().map(|window| window.used_percent).fold(0.0, f64::max).min(100.0);
        let resets =
            known().filter(|window| window.used_percent >= most).map(|window| window.resets_at).max()?;
        Some(Timestamp::from_micros(resets.checked_mul(1_000_000)?))
    }
}
