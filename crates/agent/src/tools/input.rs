//! What a model sent, made into what a tool needs, and words for what is wrong with it. Models write numbers as texts
//! and know the names of other agents' parameters; both are taken.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::workspace::Refused;

/// The input of a tool.
pub(super) fn parse<T: DeserializeOwned>(tool: &str, input: Value) -> Result<T, Refused> {
    // Some models send the object as a text.
    let input = match input {
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        Value::Null => Value::Object(serde_json::Map::new()),
        other => other,
    };
    serde_json::from_value(input)
        .map_err(|error| Refused::Input { tool: tool.to_owned(), why: error.to_string() })
}

/// The text of a member, for titles.
pub(super) fn text<'a>(input: &'a Value, names: &[&str]) -> &'a str {
    names.iter().find_map(|name| input.get(name)?.as_str()).unwrap_or("")
}

/// The number of a member, for titles.
pub(super) fn number_of(input: &Value, name: &str) -> Option<u64> {
    let value = input.get(name)?;
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// A number, also as a text.
pub(super) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Whole(u64),
        Fraction(f64),
        Text(String),
    }
    let wrong =
        |what: &dyn std::fmt::Display| D::Error::custom(format!("{what} is not a whole number from 0"));
    match Option::<Given>::deserialize(from)? {
        None => Ok(None),
        Some(Given::Whole(number)) => Ok(Some(number)),
        // The largest that a model means lies far below the precision of a float.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked in the guard")]
        Some(Given::Fraction(number)) if number.fract() == 0.0 && (0.0..1e15).contains(&number) => {
            Ok(Some(number as u64))
        }
        Some(Given::Fraction(number)) => Err(wrong(&number)),
        Some(Given::Text(text)) if text.trim().is_empty() => Ok(None),
        Some(Given::Text(text)) => text.trim().parse().map(Some).map_err(|_| wrong(&text)),
    }
}

/// Yes or no, also as a text.
pub(super) fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    match Value::deserialize(from)? {
        Value::Bool(flag) => Ok(flag),
        Value::Null => Ok(false),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(true),
        Value::String(text) if text.is_empty() || text.eq_ignore_ascii_case("false") => Ok(false),
        other => Err(D::Error::custom(format!("{other} is neither true nor false"))),
    }
}
