//! What is configured of endpoints and models, and which of them a name means. Pure but for the files that keys lie in:
//! the environment comes in as a function.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use subagent_model::Usage;

use super::key::KeyFrom;
use crate::turn::Limits;
use crate::wire::Wire;

/// The section `[agent]` of `config.toml`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentConfig {
    /// The model where nobody names one: `ENDPOINT/MODEL`.
    pub model: Option<String>,
    /// How hard it thinks where nobody says.
    pub effort: Option<String>,
    /// Limits of each turn, beside those of a supervisor.
    pub limits: Limits,
    /// How often a request is tried again that failed for a passing reason; 4 when absent.
    pub retries: Option<u32>,
    /// Endpoints by name.
    pub endpoints: BTreeMap<String, Endpoint>,
    /// What is known of models, by `ENDPOINT/MODEL`.
    pub models: BTreeMap<String, ModelFacts>,
}

/// An endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// Its wire format.
    pub kind: Wire,
    /// Its address; that of the vendor when absent.
    #[serde(default)]
    pub url: Option<String>,
    /// The variable that its key is in.
    #[serde(default)]
    pub key_env: Option<String>,
    /// The file that its key is in.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// The name of its key in the keyring of the person.
    #[serde(default)]
    pub key_keyring: Option<String>,
    /// Longest silence in an answer, in seconds; 300 when absent.
    #[serde(default)]
    pub silence_seconds: Option<u64>,
}

/// What is known of a model.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelFacts {
    /// Tokens that it can read.
    pub window: Option<u64>,
    /// Most tokens of an answer.
    pub max_output: Option<u64>,
    /// US dollars for a million tokens of input.
    pub input_usd: Option<f64>,
    /// The same, of output.
    pub output_usd: Option<f64>,
    /// The same, read from the cache.
    pub cache_read_usd: Option<f64>,
    /// The same, written to the cache.
    pub cache_write_usd: Option<f64>,
    /// Its endpoint can hold an answer to a JSON Schema.
    pub schema: bool,
}

impl ModelFacts {
    /// What a message has cost, where the prices are known.
    pub fn priced(&self, usage: Usage) -> Usage {
        let (Some(input), Some(output)) = (self.input_usd, self.output_usd) else { return usage };
        #[expect(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^52")]
        let of = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
        let cost = of(usage.input, input)
            + of(usage.output, output)
            + of(usage.cache_read, self.cache_read_usd.unwrap_or(input))
            + of(usage.cache_write, self.cache_write_usd.unwrap_or(input));
        Usage { cost_usd: Some(cost), ..usage }
    }
}

/// The model that is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The name of the endpoint.
    pub endpoint: String,
    /// The wire format.
    pub wire: Wire,
    /// The address, without a slash at its end.
    pub url: String,
    /// The model, as the endpoint knows it.
    pub model: String,
    /// Where the key is.
    pub key: Option<KeyFrom>,
    /// Without a key it is asked all the same.
    pub key_optional: bool,
    /// What is known of the model.
    pub facts: ModelFacts,
    /// Longest silence, in seconds.
    pub silence_seconds: u64,
}

impl Choice {
    /// The model, as people name it.
    pub fn name(&self) -> String {
        format!("{}/{}", self.endpoint, self.model)
    }
}

/// No model can be chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Nobody names one.
    #[error(
        "no model is named: set `model = \"ENDPOINT/MODEL\"` in [agent] of config.toml, or SUBAGENT_AGENT_MODEL, or give --model; \
         endpoints: {0}"
    )]
    NoModel(String),
    /// The endpoint is not known.
    #[error("model {model:?} names no endpoint that is known: write ENDPOINT/MODEL with one of {known}")]
    NoEndpoint {
        /// What was named.
        model: String,
        /// What is known.
        known: String,
    },
    /// A value that means nothing.
    #[error("{place} {what}")]
    Wrong {
        /// Where.
        place: String,
        /// What is wrong with it.
        what: String,
    },
}

/// The variables of an endpoint that is given by the environment alone.
pub mod variables {
    /// The model: `ENDPOINT/MODEL`, or the model alone where the address is given too.
    pub const MODEL: &str = "SUBAGENT_AGENT_MODEL";
    /// The address of the endpoint `env`.
    pub const URL: &str = "SUBAGENT_AGENT_URL";
    /// Its wire format: `openai` (the default), `anthropic` or `gemini`.
    pub const KIND: &str = "SUBAGENT_AGENT_KIND";
    /// Its key.
    pub const KEY: &str = "SUBAGENT_AGENT_KEY";
    /// The file that its key is in.
    pub const KEY_FILE: &str = "SUBAGENT_AGENT_KEY_FILE";
}

/// The endpoint that the environment gives.
const OF_ENVIRONMENT: &str = "env";

/// Endpoints that everybody has: name, format, address, variable of the key.
const KNOWN: &[(&str, Wire, Option<&str>, Option<&str>)] = &[
    ("anthropic", Wire::Messages, None, Some("ANTHROPIC_API_KEY")),
    ("gemini", Wire::Gemini, None, Some("GEMINI_API_KEY")),
    ("ollama", Wire::Chat, Some("http://127.0.0.1:11434/v1"), None),
    ("openai", Wire::Chat, None, Some("OPENAI_API_KEY")),
];

impl AgentConfig {
    /// The endpoints that there are, by name; what is configured goes before what everybody has.
    pub fn endpoints(
        &self,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<BTreeMap<String, Endpoint>, ConfigError> {
        let mut all = BTreeMap::new();
        for (name, kind, url, key) in KNOWN {
            let endpoint = Endpoint {
                kind: *kind,
                url: url.map(str::to_owned),
                key_env: key.map(str::to_owned),
                key_file: None,
                key_keyring: None,
                silence_seconds: None,
            };
            all.insert((*name).to_owned(), endpoint);
        }
        all.extend(self.endpoints.clone());
        if let Some(url) = env(variables::URL) {
            let kind = match env(variables::KIND).as_deref() {
                None | Some("openai") => Wire::Chat,
                Some("anthropic") => Wire::Messages,
                Some("gemini") => Wire::Gemini,
                Some(other) => {
                    let what = format!("must be openai, anthropic or gemini, not {other:?}");
                    return Err(ConfigError::Wrong { place: variables::KIND.to_owned(), what });
                }
            };
            let endpoint = Endpoint {
                kind,
                url: Some(url),
                key_env: env(variables::KEY).map(|_| variables::KEY.to_owned()),
                key_file: env(variables::KEY_FILE).map(PathBuf::from),
                key_keyring: None,
                silence_seconds: None,
            };
            all.insert(OF_ENVIRONMENT.to_owned(), endpoint);
        }
        Ok(all)
    }

    /// The variables that hold keys: no tool gets to see them.
    pub fn key_variables(&self) -> Vec<String> {
        let known = KNOWN.iter().filter_map(|(_, _, _, key)| *key);
        let own = self.endpoints.values().filter_map(|endpoint| endpoint.key_env.as_deref());
        known.chain(own).chain([variables::KEY, variables::KEY_FILE]).map(str::to_owned).collect()
    }

    /// The model that a name means, or where there is none, the one that is configured.
    pub fn choose(
        &self,
        named: Option<&str>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Choice, ConfigError> {
        let endpoints = self.endpoints(env)?;
        let known = || endpoints.keys().cloned().collect::<Vec<_>>().join(", ");
        let by_environment = env(variables::MODEL);
        let configured = by_environment.as_deref().or(self.model.as_deref());
        let name = named.or(configured).ok_or_else(|| ConfigError::NoModel(known()))?;
        // A model alone is of the endpoint that is otherwise asked: names of models have slashes too.
        let beside = || {
            let configured = configured.and_then(|name| name.split_once('/')).map(|(endpoint, _)| endpoint);
            let only =
                || self.endpoints.keys().next().filter(|_| self.endpoints.len() == 1).map(String::as_str);
            let env = endpoints.contains_key(OF_ENVIRONMENT).then_some(OF_ENVIRONMENT);
            env.or(configured.filter(|endpoint| endpoints.contains_key(*endpoint))).or_else(only)
        };
        let (endpoint, model) = match name.split_once('/') {
            Some((endpoint, model)) if endpoints.contains_key(endpoint) && !model.is_empty() => {
                (endpoint, model)
            }
            _ => match beside() {
                Some(endpoint) => (endpoint, name),
                None => return Err(ConfigError::NoEndpoint { model: name.to_owned(), known: known() }),
            },
        };
        let of = &endpoints[endpoint];
        let place = format!("agent.endpoints.{endpoint}");
        let url = of.url.as_deref().unwrap_or(of.kind.address()).trim_end_matches('/');
        let mut url = url.to_owned();
        if of.kind == Wire::Messages && url.ends_with("/v1") {
            url.truncate(url.len() - "/v1".len());
        }
        if !(url.starts_with("http://") || url.starts_with("https://")) {
            let what = format!("url must begin with http:// or https://, and {url:?} does not");
            return Err(ConfigError::Wrong { place, what });
        }
        let keys = [
            of.key_env.clone().map(KeyFrom::Environment),
            of.key_file.clone().map(KeyFrom::File),
            of.key_keyring.clone().map(KeyFrom::Keyring),
        ];
        let mut keys = keys.into_iter().flatten();
        let key = keys.next();
        if keys.next().is_some() {
            let what = String::from(
                "names more than one place of its key: keep one of key_env, key_file, key_keyring",
            );
            return Err(ConfigError::Wrong { place, what });
        }
        let facts = self.models.get(&format!("{endpoint}/{model}")).copied().unwrap_or_default();
        Ok(Choice {
            endpoint: endpoint.to_owned(),
            wire: of.kind,
            url,
            model: model.to_owned(),
            key,
            key_optional: of.url.is_some() && !self.endpoints.contains_key(endpoint),
            facts,
            silence_seconds: of.silence_seconds.unwrap_or(300),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{AgentConfig, ConfigError, Endpoint, ModelFacts};
    use crate::endpoint::key::KeyFrom;
    use crate::wire::Wire;
    use subagent_model::Usage;

    fn endpoint(kind: Wire, url: &str) -> Endpoint {
        Endpoint {
            kind,
            url: Some(url.into()),
            key_env: None,
            key_file: None,
            key_keyring: None,
            silence_seconds: None,
        }
    }

    fn config() -> AgentConfig {
        let mut config = AgentConfig { model: Some("local/qwen/7b".into()), ..AgentConfig::default() };
        config.endpoints.insert("local".into(), endpoint(Wire::Chat, "http://127.0.0.1:1/v1/"));
        config
    }

    fn none(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn a_name_means_one_model() {
        let config = config();
        for (named, expected) in [
            (None, "local/qwen/7b"),
            (Some("anthropic/claude-x"), "anthropic/claude-x"),
            (Some("other-model"), "local/other-model"),
            (Some("org/other"), "local/org/other"),
        ] {
            assert_eq!(config.choose(named, &none).unwrap().name(), expected, "{named:?}");
        }
        let choice = config.choose(None, &none).unwrap();
        assert_eq!((choice.url.as_str(), choice.key), ("http://127.0.0.1:1/v1", None));
        let choice = config.choose(Some("openai/gpt"), &none).unwrap();
        assert_eq!(choice.key, Some(KeyFrom::Environment("OPENAI_API_KEY".into())));
    }

    #[test]
    fn what_cannot_be_chosen_says_what_to_write() {
        let empty = AgentConfig::default();
        let error = empty.choose(None, &none).unwrap_err();
        assert!(
            error.to_string().contains("SUBAGENT_AGENT_MODEL") && error.to_string().contains("ollama"),
            "{error}"
        );
        let error = empty.choose(Some("qwen"), &none).unwrap_err();
        assert!(matches!(&error, ConfigError::NoEndpoint { model, .. } if model == "qwen"), "{error}");
        let mut wrong = config();
        wrong.endpoints.insert("bad".into(), endpoint(Wire::Chat, "ftp://x"));
        assert!(
            wrong
                .choose(Some("bad/m"), &none)
                .unwrap_err()
                .to_string()
                .contains("agent.endpoints.bad url must")
        );
        let both = Endpoint {
            key_env: Some("A".into()),
            key_file: Some("/b".into()),
            ..endpoint(Wire::Chat, "http://x")
        };
        wrong.endpoints.insert("both".into(), both);
        assert!(wrong.choose(Some("both/m"), &none).unwrap_err().to_string().contains("more than one place"));
    }

    #[test]
    fn the_environment_alone_is_enough() {
        let env = |name: &str| match name {
            "SUBAGENT_AGENT_URL" => Some("http://h:1".to_owned()),
            "SUBAGENT_AGENT_KIND" => Some("anthropic".to_owned()),
            "SUBAGENT_AGENT_MODEL" => Some("m".to_owned()),
            "SUBAGENT_AGENT_KEY" => Some("k".to_owned()),
            _ => None,
        };
        let choice = AgentConfig::default().choose(None, &env).unwrap();
        assert_eq!((choice.name().as_str(), choice.wire), ("env/m", Wire::Messages));
        assert_eq!(choice.key, Some(KeyFrom::Environment("SUBAGENT_AGENT_KEY".into())));
        let env = |name: &str| Some(format!("http://{name}"));
        assert!(
            AgentConfig::default()
                .choose(None, &env)
                .unwrap_err()
                .to_string()
                .contains("SUBAGENT_AGENT_KIND must be")
        );
    }

    #[test]
    fn rec_15_money_is_told_only_where_it_is_priced() {
        let usage = Usage {
            input: 1_000_000,
            output: 500_000,
            cache_read: 10_000_000,
            cache_write: 0,
            total: 0,
            cost_usd: None,
        };
        assert_eq!(ModelFacts::default().priced(usage).cost_usd, None);
        let facts = ModelFacts {
            input_usd: Some(3.0),
            output_usd: Some(15.0),
            cache_read_usd: Some(0.3),
            ..ModelFacts::default()
        };
        assert!((facts.priced(usage).cost_usd.unwrap() - 13.5).abs() < 1e-9);
    }
}
