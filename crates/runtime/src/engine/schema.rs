//! Answers that have to fit a JSON Schema. A schema that cannot be used is refused at the spawn.

use serde_json::Value;
use subagent_model::{ErrorCode, ErrorInfo, Mark, Outcome, Quality};
use subagent_provider::Verdict;

/// Why a schema cannot be used, in one line.
pub(crate) fn usable(schema: &Value) -> Result<(), String> {
    jsonschema::validator_for(schema).map(drop).map_err(|error| error.to_string())
}

/// Whether an answer is JSON that fits; the reason where it does not. Nothing but the value, or one block of code that
/// holds it.
pub(crate) fn check(schema: &Value, answer: Option<&str>) -> Result<(), String> {
    let answer = answer.ok_or("there is no answer")?;
    let value: Value =
        serde_json::from_str(bare(answer)).map_err(|error| format!("it is no JSON: {error}"))?;
    let validator = jsonschema::validator_for(schema).map_err(|error| error.to_string())?;
    validator.validate(&value).map_err(|error| {
        let at = error.instance_path().to_string();
        let at = if at.is_empty() { "the value" } else { at.as_str() };
        format!("at {at}: {error}")
    })
}

/// Makes an error of a good end without a fitting answer, where nobody can be asked for another. The text stays as what it
/// had by then.
pub(crate) fn demand(schema: &Value, verdict: &mut Verdict) {
    let conclusion = &mut verdict.conclusion;
    if conclusion.outcome != Outcome::Completed {
        return;
    }
    let preview = conclusion.result.as_ref().map(|text| text.preview.as_str());
    let Err(message) = check(schema, verdict.whole.as_deref().or(preview)) else { return };
    let error = ErrorInfo {
        code: ErrorCode::SchemaMismatch,
        message,
        detail: None,
        retryable: false,
        reset_at: None,
        exit: conclusion.exit,
    };
    conclusion.outcome = Outcome::Error { error };
    let blank = conclusion.result.as_ref().is_none_or(subagent_model::BoundedText::is_blank);
    conclusion.quality = if blank { Quality::Unverified } else { Quality::Partial };
    if !blank && !conclusion.marks.contains(&Mark::Partial) {
        conclusion.marks.push(Mark::Partial);
    }
}

/// Models like to put JSON into a block of code.
fn bare(answer: &str) -> &str {
    let answer = answer.trim();
    let Some(inner) = answer.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else {
        return answer;
    };
    inner.split_once('\n').map_or(inner, |(_, body)| body).trim()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{check, usable};

    #[test]
    fn result_32_only_a_value_that_fits_counts() {
        let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
        assert_eq!(usable(&schema), Ok(()));
        assert_eq!(check(&schema, Some("{\"n\": 1}")), Ok(()));
        assert_eq!(check(&schema, Some("```json\n{\"n\": 1}\n```")), Ok(()));
        for wrong in [None, Some("n is 1"), Some("{\"n\": \"1\"}"), Some("{}"), Some("Here: {\"n\": 1}")] {
            assert!(check(&schema, wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn result_32_a_schema_that_cannot_be_used_is_told() {
        assert!(usable(&json!({"type": "no such type"})).is_err());
        assert!(usable(&json!({"$ref": "https://example.org/none"})).is_err(), "nothing is fetched");
    }
}
