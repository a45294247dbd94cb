//! Whether an endpoint can be used, and what is wrong where it cannot: for `subagent doctor`. One request that costs
//! nothing: the list of its models.

use serde_json::Value;
use subagent_model::ErrorCode;

use super::HttpModel;
use crate::failure::Failure;

/// Most models that are named.
const MOST_NAMED: usize = 8;

/// How it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It answers, and has the model.
    Ready,
    /// It answers; whether it has the model is not known.
    Unlisted {
        /// Some that it has.
        has: Vec<String>,
    },
    /// It cannot be used.
    Bad {
        /// What is wrong.
        what: String,
        /// What to do.
        hint: String,
    },
}

/// Looks.
pub async fn check(model: &HttpModel) -> Finding {
    match model.models().await {
        Ok(list) => listed(&list, &model.choice().model),
        // Many gateways have no list.
        Err(failure) if matches!(failure.status, Some(404 | 405)) => Finding::Unlisted { has: vec![] },
        Err(failure) => bad(model, &failure),
    }
}

fn listed(list: &Value, wanted: &str) -> Finding {
    let all = list.get("data").or_else(|| list.get("models")).and_then(Value::as_array);
    let name = |model: &Value| {
        let name = model.get("id").or_else(|| model.get("name"))?.as_str()?;
        Some(name.strip_prefix("models/").unwrap_or(name).to_owned())
    };
    let names: Vec<_> = all.into_iter().flatten().filter_map(name).collect();
    if names.iter().any(|name| name == wanted || name.strip_suffix(":latest") == Some(wanted)) {
        return Finding::Ready;
    }
    Finding::Unlisted { has: names.into_iter().take(MOST_NAMED).collect() }
}

fn bad(model: &HttpModel, failure: &Failure) -> Finding {
    let choice = model.choice();
    let key =
        choice.key.as_ref().map_or_else(|| String::from("no key is configured"), super::key::KeyFrom::place);
    let hint = match failure.code {
        ErrorCode::Auth => format!("The endpoint does not take the key ({key}): replace it."),
        ErrorCode::QuotaExhausted => {
            String::from("The account is used up: wait for its renewal, or add to it.")
        }
        ErrorCode::RateLimited | ErrorCode::Overloaded => String::from("Try again later."),
        _ => format!(
            "Look at agent.endpoints.{}.url in config.toml, and whether it is running.",
            choice.endpoint
        ),
    };
    Finding::Bad { what: failure.message.clone(), hint }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Finding, listed};

    #[test]
    fn models_are_found_in_every_shape_of_list() {
        for list in [
            json!({"data": [{"id": "a"}, {"id": "m"}]}),
            json!({"models": [{"name": "models/m"}]}),
            json!({"data": [{"id": "m:latest"}]}),
        ] {
            assert_eq!(listed(&list, "m"), Finding::Ready, "{list}");
        }
        assert_eq!(listed(&json!({"data": [{"id": "a"}]}), "m"), Finding::Unlisted { has: vec!["a".into()] });
        assert_eq!(listed(&json!([]), "m"), Finding::Unlisted { has: vec![] });
    }
}
