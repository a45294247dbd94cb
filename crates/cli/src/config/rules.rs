//! Which settings there are, what each may be, and where it goes: one table for the file, the flags and the running daemon.

use std::collections::BTreeMap;
use std::time::Duration;

use subagent_runtime::Limits;

use super::Settings;

/// Bytes of a unit in which sizes are set.
pub(super) const MIB: u64 = 1024 * 1024;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// One key: where it stands, what it may be, and where it goes.
pub(super) struct Rule {
    pub(super) section: &'static str,
    pub(super) key: &'static str,
    least: u64,
    most: u64,
    pub(super) set: fn(&mut Settings, u64),
}

/// For fields of 32 bits; the rule's bound has been checked before.
fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        section: "limits",
        key: "running",
        least: 1,
        most: 1_024,
        set: |s, v| s.limits.running = narrow(v),
    },
    Rule { section: "limits", key: "depth", least: 0, most: 64, set: |s, v| s.limits.depth = narrow(v) },
    Rule {
        section: "limits",
        key: "breadth",
        least: 1,
        most: 10_000,
        set: |s, v| s.limits.breadth = narrow(v),
    },
    Rule {
        section: "limits",
        key: "tree_total",
        least: 1,
        most: 1_000_000,
        set: |s, v| s.limits.tree_total = narrow(v),
    },
    Rule { section: "limits", key: "rate", least: 1, most: 1_000_000, set: |s, v| s.limits.rate = narrow(v) },
    Rule {
        section: "limits",
        key: "rate_window_ms",
        least: 1,
        most: 3_600_000,
        set: |s, v| s.limits.rate_window_ms = v,
    },
    Rule {
        section: "limits",
        key: "queue",
        least: 0,
        most: 1_000_000,
        set: |s, v| s.limits.queue = narrow(v),
    },
    Rule {
        section: "limits",
        key: "disk_floor_mb",
        least: 0,
        most: 1_000_000_000,
        set: |s, v| s.limits.disk_floor_mb = v,
    },
    Rule {
        section: "limits",
        key: "memory_floor_mb",
        least: 0,
        most: 1_000_000_000,
        set: |s, v| s.limits.memory_floor_mb = v,
    },
    Rule { section: "limits", key: "idle", least: 0, most: 10_000, set: |s, v| s.limits.idle = narrow(v) },
    Rule {
        section: "limits",
        key: "max_attempts",
        least: 1,
        most: 100,
        set: |s, v| s.limits.max_attempts = narrow(v),
    },
    Rule {
        section: "daemon",
        key: "log_limit_mb",
        least: 1,
        most: 1_000_000,
        set: |s, v| s.log_limit = v * MIB,
    },
    Rule {
        section: "daemon",
        key: "lease_hours",
        least: 1,
        most: 8_760,
        set: |s, v| s.lease = Duration::from_secs(v * 3_600),
    },
    Rule {
        section: "daemon",
        key: "term_grace_ms",
        least: 0,
        most: 600_000,
        set: |s, v| s.graces.term = Duration::from_millis(v),
    },
    Rule {
        section: "daemon",
        key: "kill_grace_ms",
        least: 100,
        most: 600_000,
        set: |s, v| s.graces.kill = Duration::from_millis(v),
    },
    Rule {
        section: "daemon",
        key: "warm_shims",
        least: 0,
        most: 64,
        set: |s, v| s.warm_shims = usize::try_from(v).unwrap_or(0),
    },
    Rule {
        section: "daemon",
        key: "escalate_after_ms",
        least: 0,
        most: 86_400_000,
        set: |s, v| s.escalate_after = Duration::from_millis(v),
    },
    Rule {
        section: "daemon",
        key: "interrupt_stops_background",
        least: 0,
        most: 1,
        set: |s, v| s.interrupt_stops_background = v == 1,
    },
    Rule {
        section: "daemon",
        key: "open_timeout_ms",
        least: 100,
        most: 3_600_000,
        set: |s, v| s.open_within = Duration::from_millis(v),
    },
    Rule {
        section: "daemon",
        key: "look_every_ms",
        least: 10,
        most: 600_000,
        set: |s, v| s.look_every = Duration::from_millis(v),
    },
    Rule {
        section: "retention",
        key: "heavy_days",
        least: 0,
        most: 36_500,
        set: |s, v| s.retention.heavy_ms = v * DAY_MS,
    },
    Rule {
        section: "retention",
        key: "record_days",
        least: 0,
        most: 36_500,
        set: |s, v| s.retention.record_ms = v * DAY_MS,
    },
    Rule {
        section: "retention",
        key: "events_days",
        least: 0,
        most: 36_500,
        set: |s, v| s.retention.events_ms = v * DAY_MS,
    },
    Rule {
        section: "retention",
        key: "heavy_mb",
        least: 0,
        most: 1_000_000_000,
        set: |s, v| s.retention.heavy_bytes = v * MIB,
    },
];

/// A table whose keys are names: of providers, of models.
pub(super) struct Named {
    pub(super) section: &'static str,
    pub(super) key: &'static str,
    /// Sets the value of a name, or takes it away.
    pub(super) set: fn(&mut Limits, &str, Option<u32>),
}

/// Limits that are given by name.
pub(super) const NAMED: &[Named] = &[
    Named { section: "limits", key: "per_provider", set: |l, name, v| put(&mut l.per_provider, name, v) },
    Named { section: "limits", key: "per_model", set: |l, name, v| put(&mut l.per_model, name, v) },
];

/// Most of what a name may have at once.
const MOST_OF_NAME: u64 = 1_024;

fn put(map: &mut BTreeMap<String, u32>, name: &str, value: Option<u32>) {
    match value {
        Some(value) => drop(map.insert(name.to_owned(), value)),
        None => drop(map.remove(name)),
    }
}

impl Named {
    /// The value, or in words what is wrong with it.
    pub(super) fn check(&self, name: &str, text: &str) -> Result<u32, String> {
        whole(text, 0, MOST_OF_NAME).map(narrow).ok_or_else(|| {
            let place = format!("{}.{}.{name}", self.section, self.key);
            format!("{place} must be a whole number from 0 to {MOST_OF_NAME}, not {text}")
        })
    }
}

/// The table of this name.
pub(super) fn named(section: &str, key: &str) -> Option<&'static Named> {
    NAMED.iter().find(|named| named.section == section && named.key == key)
}

fn whole(text: &str, least: u64, most: u64) -> Option<u64> {
    let number: Option<u64> = text.trim().replace('_', "").parse().ok();
    number.filter(|value| (least..=most).contains(value))
}

impl Rule {
    /// The value, or in words what is wrong with it.
    pub(super) fn check(&self, text: &str) -> Result<u64, String> {
        whole(text, self.least, self.most).ok_or_else(|| {
            format!(
                "{}.{} must be a whole number from {} to {}, not {text}",
                self.section, self.key, self.least, self.most
            )
        })
    }
}

/// The rule of a key.
pub(super) fn rule(section: &str, key: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.section == section && rule.key == key)
}
