//! Settings: the file `config.toml` and the flags of `serve`, checked by one table of rules. A wrong value is refused
//! with file, line and what is allowed; an unknown key is told and left alone.

mod rules;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use subagent_agent::endpoint::config::AgentConfig;
use subagent_model::ErrorCode;
use subagent_runtime::{Graces, Limits, Retention};
use toml::de::{DeTable, DeValue};

use self::rules::{MIB, Named, RULES, named, rule};
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
    /// How long after the end of a subagent its unread results are told to whoever asked for it.
    pub(crate) escalate_after: Duration,
    /// An interrupt of a turn stops children in the background as well.
    pub(crate) interrupt_stops_background: bool,
    /// How long an agent may take until it accepts prompts.
    pub(crate) open_within: Duration,
    /// How often everything live is looked at.
    pub(crate) look_every: Duration,
    /// What is kept, and for how long.
    pub(crate) retention: Retention,
    /// The models that may be used, by provider.
    pub(crate) models: BTreeMap<String, Vec<String>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            log_limit: 64 * MIB,
            lease: Duration::from_hours(24),
            graces: Graces::default(),
            warm_shims: 4,
            escalate_after: Duration::from_mins(1),
            interrupt_stops_background: false,
            open_within: Duration::from_mins(2),
            look_every: Duration::from_secs(5),
            retention: Retention::default(),
            models: BTreeMap::new(),
        }
    }
}

/// The section with the models of each provider.
const MODELS: &str = "models";
/// Most models of a provider, and longest name of one.
const MOST_MODELS: usize = 512;
const LONGEST_MODEL: usize = 256;

/// Sets one value as a flag gives it, by the rule of the file.
pub(crate) fn set(settings: &mut Settings, section: &str, key: &str, text: &str) -> Result<(), Failure> {
    let rule = rule(section, key).ok_or_else(|| {
        Failure::new(ErrorCode::InvalidRequest, format!("there is no setting {section}.{key}"))
    })?;
    let value = rule.check(text).map_err(|message| Failure::new(ErrorCode::InvalidRequest, message))?;
    (rule.set)(settings, value);
    Ok(())
}

/// Changes one limit by the rule of the file: `running`, or `per_provider.NAME`, where `none` takes a value away.
pub(crate) fn set_limit(limits: &mut Limits, key: &str, text: &str) -> Result<(), Failure> {
    let wrong = |message: String| Failure::new(ErrorCode::InvalidRequest, message);
    if let Some((table, name)) = key.split_once('.')
        && let Some(table) = named("limits", table)
        && !name.is_empty()
    {
        let value = if text == "none" { None } else { Some(table.check(name, text).map_err(wrong)?) };
        (table.set)(limits, name, value);
        return Ok(());
    }
    if rule("limits", key).is_none() {
        return Err(wrong(format!("there is no limit {key}")).hint("`subagent config limits` lists them."));
    }
    let mut settings = Settings { limits: limits.clone(), ..Settings::default() };
    set(&mut settings, "limits", key, text)?;
    *limits = settings.limits;
    Ok(())
}

/// The section of the built-in agent.
const AGENT: &str = "agent";

/// What is configured of the built-in agent. A missing file is an empty one.
pub(crate) fn agent(path: &Path) -> Result<AgentConfig, Failure> {
    #[derive(Default, serde::Deserialize)]
    struct File {
        #[serde(default)]
        agent: AgentConfig,
    }
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(AgentConfig::default()),
        Err(error) => return Err(unreadable(path, error)),
    };
    let file: File = toml::from_str(&text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        wrong(path, &text, at, error.message())
    })?;
    Ok(file.agent)
}

fn unreadable(path: &Path, error: std::io::Error) -> Failure {
    Failure::new(ErrorCode::InvalidRequest, format!("cannot read the configuration {}", path.display()))
        .because(error)
        .hint("Make it a readable UTF-8 file, or remove it: every setting has a default.")
}

fn wrong(path: &Path, text: &str, at: usize, message: &str) -> Failure {
    let line = text.get(..at).unwrap_or(text).matches('\n').count() + 1;
    Failure::new(ErrorCode::InvalidRequest, format!("{}, line {line}: {message}", path.display()))
        .hint("Correct the line or remove it: every setting has a default.")
}

/// The settings of a file, and warnings about what it has that nobody knows. A missing file is an empty one.
pub(crate) fn load(path: &Path) -> Result<(Settings, Vec<String>), Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => read(&text, path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok((Settings::default(), Vec::new())),
        Err(error) => Err(unreadable(path, error)),
    }
}

fn read(text: &str, path: &Path) -> Result<(Settings, Vec<String>), Failure> {
    let wrong = |at: usize, message: &str| wrong(path, text, at, message);
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
        if name == MODELS {
            settings.models = models(value.get_ref(), value.span()).map_err(|(at, what)| wrong(at, &what))?;
            continue;
        }
        if name == AGENT {
            // Read by the agent itself, and by `doctor`.
            continue;
        }
        if !RULES.iter().any(|rule| rule.section == name) {
            unknown(section.span().start, name.to_string());
            continue;
        }
        let DeValue::Table(entries) = value.get_ref() else {
            return Err(wrong(value.span().start, &format!("{name} must be a table: write [{name}]")));
        };
        for (key, value) in entries {
            if let Some(table) = named(name, key.get_ref()) {
                names(table, value.get_ref(), value.span(), text, &mut settings)
                    .map_err(|(at, message)| wrong(at, &message))?;
                continue;
            }
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

/// A table of names, each with a number; where and what is wrong.
fn names(
    table: &Named,
    value: &DeValue<'_>,
    span: Range<usize>,
    text: &str,
    settings: &mut Settings,
) -> Result<(), (usize, String)> {
    let DeValue::Table(entries) = value else {
        let place = format!("{}.{}", table.section, table.key);
        return Err((span.start, format!("{place} must be a table: write [{place}] and NAME = NUMBER")));
    };
    for (name, value) in entries {
        let span = value.span();
        let source = text.get(span.clone()).unwrap_or_default();
        let checked = match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => table.check(name.get_ref(), source),
            _ => table.check(name.get_ref(), &format!("`{source}`")),
        };
        let number = checked.map_err(|message| (span.start, message))?;
        (table.set)(&mut settings.limits, name.get_ref(), Some(number));
    }
    Ok(())
}

/// The models of each provider; where and what is wrong.
fn models(value: &DeValue<'_>, span: Range<usize>) -> Result<BTreeMap<String, Vec<String>>, (usize, String)> {
    let DeValue::Table(entries) = value else {
        return Err((span.start, format!("{MODELS} must be a table: write [{MODELS}]")));
    };
    let mut all = BTreeMap::new();
    for (provider, list) in entries {
        let provider = provider.get_ref();
        let expected = |at: usize| {
            let form = format!("{MODELS}.{provider} must be a list of names: {provider} = [\"NAME\", ...]");
            (at, format!("{form}, at most {MOST_MODELS} of {LONGEST_MODEL} bytes"))
        };
        let DeValue::Array(names) = list.get_ref() else { return Err(expected(list.span().start)) };
        let mut read = Vec::new();
        for name in names {
            let fits = |name: &str| {
                !name.trim().is_empty() && name.len() <= LONGEST_MODEL && read.len() < MOST_MODELS
            };
            match name.get_ref() {
                DeValue::String(text) if fits(text) => read.push(text.trim().to_owned()),
                _ => return Err(expected(name.span().start)),
            }
        }
        all.insert(provider.to_string(), read);
    }
    Ok(all)
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
    fn queue_08_limits_of_providers_and_models_are_given_by_name() {
        let (settings, warnings) = of(
            "[limits]\nidle = 3\nmemory_floor_mb = 0\n[limits.per_provider]\nclaude = 2\n[limits.per_model]\n\"opus-5\" = 0\n",
        );
        assert_eq!(warnings, [""; 0]);
        assert_eq!((settings.limits.idle, settings.limits.memory_floor_mb), (3, 0));
        assert_eq!(settings.limits.per_provider.get("claude"), Some(&2));
        assert_eq!(settings.limits.per_model.get("opus-5"), Some(&0));
        for (wrong, part) in [
            ("[limits]\nper_provider = 2\n", "line 2: limits.per_provider must be a table"),
            (
                "[limits.per_model]\n\nx = -1\n",
                "line 3: limits.per_model.x must be a whole number from 0 to 1024",
            ),
            ("limits.per_model.x = \"1\"\n", "line 1: limits.per_model.x"),
        ] {
            let error = read(wrong, Path::new("config.toml")).unwrap_err().to_string();
            assert!(error.contains(part), "{wrong}: {error}");
        }
    }

    #[test]
    fn def_11_the_models_of_a_provider_are_a_list_of_names() {
        let (settings, warnings) =
            of("[models]\nclaude = [\"opus\", \" claude-sonnet-5 \"]\nopencode = []\n");
        assert_eq!(warnings, [""; 0]);
        assert_eq!(settings.models["claude"], ["opus", "claude-sonnet-5"]);
        assert_eq!(settings.models["opencode"], [""; 0], "none may be used");
        for (wrong, line) in [
            ("models = 1\n", 1),
            ("[models]\nclaude = \"opus\"\n", 2),
            ("[models]\nclaude = [\n  \"opus\",\n  3,\n]\n", 4),
            ("[models]\nclaude = [\" \"]\n", 2),
        ] {
            let error = read(wrong, Path::new("config.toml")).unwrap_err().to_string();
            assert!(error.contains(&format!("config.toml, line {line}: models")), "{wrong}: {error}");
        }
    }

    #[test]
    fn result_33_retention_is_set_in_days_and_megabytes() {
        let (settings, warnings) =
            of("[retention]\nheavy_days = 1\nrecord_days = 2\nevents_days = 3\nheavy_mb = 4\n");
        assert_eq!(warnings, [""; 0]);
        let day = 86_400_000;
        let kept = settings.retention;
        assert_eq!((kept.heavy_ms, kept.record_ms, kept.events_ms), (day, 2 * day, 3 * day));
        assert_eq!(kept.heavy_bytes, 4 << 20);
        assert!(read("[retention]\nheavy_days = 1.5\n", Path::new("c")).is_err());
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
