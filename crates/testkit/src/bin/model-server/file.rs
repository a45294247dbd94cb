//! Rules from a file.

use std::path::Path;

use serde::Deserialize;
use subagent_testkit::model_server::ModelServer;

/// A rule.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// What the last prompt has to contain; without it, every request fits.
    #[serde(default)]
    contains: String,
    /// How often it is used; without it, for ever.
    times: Option<u64>,
    /// Directives that take the place of the prompt.
    script: String,
}

/// Gives a server the rules of a file.
pub(crate) fn load(server: &ModelServer, path: &Path) -> Result<(), String> {
    let text = std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let rules: Vec<Rule> = serde_json::from_slice(&text)
        .map_err(|error| format!("{} is no list of rules: {error}", path.display()))?;
    for rule in rules {
        let when = server.when(move |request| request.prompt().contains(&rule.contains));
        let when = if let Some(times) = rule.times { when.times(times) } else { when };
        when.script(&rule.script);
    }
    Ok(())
}
