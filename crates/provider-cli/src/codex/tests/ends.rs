use serde_json::{Value, json};
use subagent_model::{ErrorCode, Limit, Timestamp};
use subagent_provider::{Said, TurnEnd};

use super::{THREAD, TURN, at_work, end_of, ends, note, said};

fn failed(error: &Value) -> subagent_model::ErrorInfo {
    let mut codec = at_work();
    match end_of(&said(&mut codec, &ends(THREAD, TURN, "failed", error))) {
        TurnEnd::Failed(error) => error.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn prov_17_each_kind_of_failure_has_its_class() {
    use ErrorCode as E;
    let http = |kind: &str, status: Value| json!({kind: {"httpStatusCode": status}});
    for (kind, code) in [
        (json!("contextWindowExceeded"), E::ContextOverflow),
        (json!("usageLimitExceeded"), E::QuotaExhausted),
        (json!("rateLimitExceeded"), E::RateLimited),
        (json!("serverOverloaded"), E::Overloaded),
        (json!("flexUnavailable"), E::Overloaded),
        (json!("internalServerError"), E::Overloaded),
        (json!("unauthorized"), E::Auth),
        (json!("cyberPolicy"), E::Refused),
        (json!("bioPolicy"), E::Refused),
        (json!("misalignmentPolicyViolation"), E::Refused),
        (json!("tooManyDenials"), E::Refused),
        (json!("modelNotFound"), E::Refused),
        (json!("badRequest"), E::Refused),
        (json!("sandboxError"), E::Crashed),
        (json!("other"), E::Crashed),
        (json!("a kind to come"), E::Crashed),
        (json!({"aKindToCome": {"httpStatusCode": 429}}), E::RateLimited),
        (json!({"aKindToCome": 7}), E::Crashed),
        (Value::Null, E::Crashed),
        // Observed: a login that is not accepted comes as a failed connection.
        (http("httpConnectionFailed", json!(401)), E::Auth),
        (http("responseTooManyFailedAttempts", json!(429)), E::RateLimited),
        (http("httpConnectionFailed", json!(503)), E::Overloaded),
        (http("responseStreamConnectionFailed", json!(404)), E::Refused),
        (http("responseStreamDisconnected", Value::Null), E::Overloaded),
    ] {
        let error = failed(&json!({"message": "why", "codexErrorInfo": kind}));
        assert_eq!(error.code, code, "{kind}");
        assert_eq!(error.retryable, matches!(code, E::Overloaded | E::RateLimited), "{kind}");
        assert_eq!(error.message, "why");
    }
    assert_eq!(failed(&json!("nonsense")).code, E::Crashed);
    let sandbox = failed(&json!({"message": "bwrap failed", "codexErrorInfo": "sandboxError"}));
    assert_eq!(sandbox.detail.as_deref(), Some("(sandboxError)"), "an error of that name");
}

#[test]
fn prov_17_a_budget_of_its_own_cuts_it_off() {
    let error = json!({"message": "the budget is used up", "codexErrorInfo": "sessionBudgetExceeded"});
    let heard = said(&mut at_work(), &ends(THREAD, TURN, "failed", &error));
    assert_eq!(end_of(&heard), &TurnEnd::CutOff(Limit::Tokens));
}

#[test]
fn prov_17_a_used_up_quota_says_when_it_is_renewed() {
    let mut codec = at_work();
    let limits = json!({"method": "account/rateLimits/updated", "params": {"rateLimits": {
        "primary": {"usedPercent": 100, "resetsAt": 1_796_000_000, "windowDurationMins": 300},
        "secondary": {"usedPercent": 40, "resetsAt": 1_797_000_000}}}});
    said(&mut codec, &limits);
    // News without the windows leave them as they were.
    said(
        &mut codec,
        &json!({"method": "account/rateLimits/updated", "params": {"rateLimits": {"primary": null}}}),
    );
    let error = json!({"message": "limit", "codexErrorInfo": "usageLimitExceeded"});
    let heard = said(&mut codec, &ends(THREAD, TURN, "failed", &error));
    let TurnEnd::Failed(error) = end_of(&heard) else { panic!() };
    assert_eq!(error.reset_at, Some(Timestamp::from_micros(1_796_000_000_000_000)));
    assert_eq!(failed(&json!({"message": "limit", "codexErrorInfo": "usageLimitExceeded"})).reset_at, None);
}

#[test]
fn prov_17_what_is_tried_again_is_no_end() {
    let error = |kind: Value, retry: bool| {
        note(
            "error",
            &json!({"willRetry": retry, "error": {"message": "Reconnecting... 1/5",
            "codexErrorInfo": kind, "additionalDetails": "the stream broke"}}),
        )
    };
    let notice = Said::Notice("Reconnecting... 1/5: the stream broke".into());
    let limited = json!({"responseStreamDisconnected": {"httpStatusCode": 429}});
    let trouble = json!({"responseStreamDisconnected": {"httpStatusCode": null}});
    assert_eq!(
        said(&mut at_work(), &error(limited, true)),
        [notice.clone(), Said::HeldUp { until: None }],
        "others on the account stand back"
    );
    let mut codec = at_work();
    assert_eq!(said(&mut codec, &error(trouble, true)), [notice], "it holds nobody else up");
    // Observed: the last word calls it "other", with the same text.
    let end = json!({"message": "the stream broke", "codexErrorInfo": "other", "additionalDetails": null});
    assert_eq!(said(&mut codec, &note("error", &json!({"willRetry": false, "error": end}))), []);
    let heard = said(&mut codec, &ends(THREAD, TURN, "failed", &end));
    let TurnEnd::Failed(error) = end_of(&heard) else { panic!() };
    assert_eq!(error.code, ErrorCode::Overloaded);
}

#[test]
fn a_turn_that_fails_without_a_word_fails_by_the_word_before() {
    let mut codec = at_work();
    let word =
        json!({"willRetry": false, "error": {"message": "no login", "codexErrorInfo": "unauthorized"}});
    said(&mut codec, &note("error", &word));
    let heard = said(&mut codec, &ends(THREAD, TURN, "failed", &Value::Null));
    let TurnEnd::Failed(error) = end_of(&heard) else { panic!() };
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::Auth, "no login"));
    let mut codec = at_work();
    let heard = said(&mut codec, &ends(THREAD, TURN, "aStatusToCome", &Value::Null));
    assert!(matches!(end_of(&heard), TurnEnd::Failed(error) if error.code == ErrorCode::Crashed));
}
