//! Settings: the file `config.toml` and the flags of `serve`, checked by one table of rules. A wrong value is refused
//! with file, line and what is allowed; an unknown key is told and left alone.

use std::path::Path;
use std::time::Duration;

use subagent_model::ErrorCode;
use subagent_runtime::{Graces, Limits};
use toml::de::{DeTable, DeValue};

use crate::fail::Failure;

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Limits of the node.
    pub(crate) limits: Limits,
    /// Most bytes of a child's log on disk.
    pub(crate) log_limit: u64,
    /// How long a child may run without any daemon.
    pub(crate) lease: Duration,
    /// Graces of a stop.
    pub(crate) graces: Graces,
    /// Idle shims that are kept.
    pub(crate) warm_shims: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            log_limit: 64 * MIB,
            lease: Duration::from_hours(24),
            graces: Graces::default(),
            warm_shims: 4,
        }
    }
}

const MIB: u64 = 1024 * 1024;

/// One key: where it stands, what it may be, and where it goes.
struct Rule {
    section: &'static str,
    key: &'static str,
    least: u64,
    most: u64,
    set: fn(&mut Settings, u64),
}

/// For fields of 32 bits; the rule's bound has been checked before.
fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

const RULES: &[Rule] = &[
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
];

impl Rule {
    /// The value, or in words what is wrong with it.
    fn check(&self, text: &str) -> Result<u64, String> {
        let number: Option<u64> = text.trim().replace('_', "").parse().ok();
        number.filter(|value| (self.least..=self.most).contains(value)).ok_or_else(|| {
            format!(
                "{}.{} must be a whole number from {} to {}, not {text}",
                self.section, self.key, self.least, self.most
            )
        })
    }
}

fn rule(section: &str, key: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.section == section && rule.key == key)
}

/// Sets one value as a flag gives it, by the rule of the file.
pub(crate) fn set(settings: &mut Settings, section: &str, key: &str, text: &str) -> Result<(), Failure> {
    let rule = rule(section, key).ok_or_else(|| {
        Failure::new(ErrorCode::InvalidRequest, format!("there is no setting {section}.{key}"))
    })?;
    let value = rule.check(text).map_err(|message| Failure::new(ErrorCode::InvalidRequest, message))?;
    (rule.set)(settings, value);
    Ok(())
}

/// The settings of a file, and warnings about what it has that nobody knows. A missing file is an empty one.
pub(crate) fn load(path: &Path) -> Result<(Settings, Vec<String>), Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => read(&text, path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok((Settings::default(), Vec::new())),
        Err(error) => {
            let message = format!("cannot read the configuration {}", path.display());
            Err(Failure::new(ErrorCode::InvalidRequest, message)
                .because(error)
                .hint("Make it a readable UTF-8 file, or remove it: every setting has a default."))
        }
    }
}

fn read(text: &str, path: &Path) -> Result<(Settings, Vec<String>), Failure> {
    let wrong = |at: usize, message: &str| {
        let line = text.get(..at).unwrap_or(text).matches('\n').count() + 1;
        let message = format!("{}, line {line}: {message}", path.display());
        Failure::new(ErrorCode::InvalidRequest, message)
            .hint("Correct the line or remove it: every setting has a default.")
    };
    let table = DeTable::parse(text)
        .map_err(|error| wrong(error.span().map_or(0, |span| span.start), error.message()))?;
    let mut settings = Settings::default();
    let mut warnings = Vec::new();
    let mut unknown = |at: usize, name: String| {
        let line = text.get(..at).unwrap_or(text).matches('\n').count() + 1;
        warnings.push(format!("{}, line {line}: unknown key {name}; it is left alone", path.display()));
    };
    for (section, value) in table.get_ref() {
        let name = section.get_ref();
        if !RULES.iter().any(|rule| rule.section == name) {
            unknown(section.span().start, name.to_string());
            continue;
        }
        let DeValue::Table(entries) = value.get_ref() else {
            return Err(wrong(value.span().start, &format!("{name} must be a table: write [{name}]")));
        };
        for (key, value) in entries {
            let Some(rule) = rule(name, key.get_ref()) else {
                unknown(key.span().start, format!("{name}.{}", key.get_ref()));
                continue;
            };
            let span = value.span();
            let source = text.get(span.clone()).unwrap_or_default();
            let checked = match value.get_ref() {
                DeValue::Integer(number) if number.radix() == 10 => rule.check(source),
                _ => rule.check(&format!("`{source}`")),
            };
            let number = checked.map_err(|message| wrong(span.start, &message))?;
            (rule.set)(&mut settings, number);
        }
    }
    Ok((settings, warnings))
}

#[cfg(test)]
mod tests {
    use super::{Settings, load, read, set};
    use std::path::Path;
    use std::time::Duration;

    fn of(text: &str) -> (Settings, Vec<String>) {
        read(text, Path::new("config.toml")).unwrap()
    }

    #[test]
    fn what_is_set_is_set_and_the_rest_keeps_its_default() {
        let (settings, warnings) = of(
            "[limits]\nrunning = 16\nqueue = 1_0\n\n[daemon]\nlease_hours = 2\nterm_grace_ms=10 # short\n",
        );
        assert_eq!(warnings, [""; 0]);
        assert_eq!((settings.limits.running, settings.limits.queue), (16, 10));
        assert_eq!(
            (settings.lease, settings.graces.term),
            (Duration::from_hours(2), Duration::from_millis(10))
        );
        assert_eq!(settings.graces.kill, Settings::default().graces.kill);
        assert_eq!(load(Path::new("/no/such/file")).unwrap().0, Settings::default());
    }

    #[test]
    fn unknown_keys_are_named_and_nothing_else_happens() {
        let (settings, warnings) = of("top = 1\n[limits]\nruning = 2\n[web.x]\nport = 1\n");
        assert_eq!(settings, Settings::default());
        let mut warnings = warnings;
        warnings.sort();
        assert_eq!(warnings.len(), 3);
        for part in
            ["line 1: unknown key top", "line 3: unknown key limits.runing", "line 4: unknown key web"]
        {
            assert!(warnings.iter().any(|warning| warning.contains(part)), "{part}: {warnings:?}");
        }
    }

    #[test]
    fn ui_02_a_wrong_value_is_refused_by_the_same_rule_from_file_and_flag() {
        for value in ["4abc", "2.9", "-1", "5000", "0", "true", "\"4\"", "0x10", "[1]"] {
            let text = format!("[limits]\n\nrunning = {value}\n");
            let error = read(&text, Path::new("config.toml")).unwrap_err().to_string();
            assert!(error.contains("config.toml, line 3"), "{value}: {error}");
        }
        for value in ["2.9", "-1", "5000"] {
            let file = read(&format!("limits.running = {value}"), Path::new("c")).unwrap_err().to_string();
            let flag = set(&mut Settings::default(), "limits", "running", value).unwrap_err().to_string();
            assert!(flag.contains("limits.running must be a whole number from 1 to 1024, not"), "{flag}");
            assert_eq!(file.replace('`', "").trim_start_matches("c, line 1: "), flag);
        }
        assert!(read("limits = 3", Path::new("c")).unwrap_err().to_string().contains("[limits]"));
        assert!(read("[limits\n", Path::new("c")).unwrap_err().to_string().contains("line 1"));
    }
}
