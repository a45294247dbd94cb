//! Answers in a fixed shape: what of an answer is the document, whether it fits, and what the model is told where it does
//! not.

use std::sync::Arc;

use jsonschema::Validator;
use serde_json::Value;
use subagent_model::text::cut_at_boundary;

/// Most bytes of an error that the model is told.
const ERROR_BYTES: usize = 1_000;
/// Most errors that it is told at once.
const MOST_ERRORS: usize = 5;

/// The shape of an answer: a JSON Schema.
#[derive(Debug, Clone)]
pub struct Schema {
    text: Value,
    validator: Arc<Validator>,
}

/// It is no schema.
#[derive(Debug, thiserror::Error)]
#[error("it is no JSON Schema: {0}")]
pub struct SchemaError(String);

impl Schema {
    /// A schema, compiled.
    pub fn new(text: Value) -> Result<Self, SchemaError> {
        let validator = jsonschema::validator_for(&text)
            .map_err(|error| SchemaError(cut_at_boundary(&error.to_string(), ERROR_BYTES).to_owned()))?;
        Ok(Self { text, validator: Arc::new(validator) })
    }

    /// As it was given.
    pub fn text(&self) -> &Value {
        &self.text
    }

    /// Whether an answer fits; else what is wrong, for the model.
    pub fn check(&self, answer: &str) -> Result<(), String> {
        let document: Value = serde_json::from_str(document(answer))
            .map_err(|error| format!("it is no JSON document ({error})"))?;
        let errors: Vec<_> = self
            .validator
            .iter_errors(&document)
            .take(MOST_ERRORS)
            .map(|error| format!("at {:?}: {error}", error.instance_path().to_string()))
            .collect();
        if errors.is_empty() {
            Ok(())
        } else {
            Err(cut_at_boundary(&errors.join("; "), ERROR_BYTES).to_owned())
        }
    }

    /// What the model is told of an answer that does not fit.
    pub(super) fn correction(&self, error: &str) -> String {
        format!(
            "Your answer does not fit what was asked for: {error}.\nAnswer again with one JSON document and nothing else, by \
             this JSON Schema:\n{}",
            self.text
        )
    }
}

/// The document in an answer: all of it, or what stands between the fences of the only block of code.
pub(super) fn document(answer: &str) -> &str {
    let answer = answer.trim();
    let Some((_, rest)) = answer.split_once("```") else { return answer };
    let Some((block, rest)) = rest.split_once("```") else { return answer };
    if rest.contains("```") || answer.starts_with(['{', '[']) {
        return answer;
    }
    block.strip_prefix("json").unwrap_or(block).trim()
}
