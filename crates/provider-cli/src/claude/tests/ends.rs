//! How turns end, and processes.

use serde_json::{Value, json};
use subagent_model::{ErrorCode, ErrorInfo, Limit, Outcome, Timestamp};
use subagent_provider::{EndReason, ProcessEnd, Provider, Said, TurnEnd};

use super::super::ClaudeCode;
use super::{
    assistant, begun, ended, job, opened, process_end, prompted, result, said, spec, state, welcome,
};

fn failed(fields: &Value) -> ErrorInfo {
    let mut claude = opened();
    prompted(&mut claude);
    match ended(&mut claude, &result(fields)) {
        TurnEnd::Failed(error) => error,
        other => panic!("{fields}: {other:?}"),
    }
}

/// A failure in the place of a message, as it stands before the result.
fn fault(class: &str, status: Option<u16>) -> Value {
    let mut frame = assistant(&json!({"type": "text", "text": "API Error: it is so"}));
    frame["error"] = class.into();
    frame["is_api_error_message"] = true.into();
    frame["api_error_status"] = status.into();
    frame["message"]["model"] = "<synthetic>".into();
    frame
}

#[test]
fn prov_05_only_a_good_result_is_a_good_end() {
    let finished =
        |answer: Option<&str>, truncated| TurnEnd::Finished { answer: answer.map(str::to_owned), truncated };
    for (fields, expected) in [
        (json!({}), finished(Some("done"), false)),
        (json!({"result": " \n"}), finished(None, false)),
        (json!({"result": null}), finished(None, false)),
        (json!({"stop_reason": "max_tokens"}), finished(Some("done"), true)),
        (json!({"structured_output": {"n": 5}, "result": "fine"}), finished(Some(r#"{"n":5}"#), false)),
        (json!({"subtype": "error_max_turns", "is_error": true}), TurnEnd::CutOff(Limit::Turns)),
        (json!({"subtype": "error_max_budget_usd", "is_error": true}), TurnEnd::CutOff(Limit::Cost)),
    ] {
        let mut claude = opened();
        prompted(&mut claude);
        assert_eq!(ended(&mut claude, &result(&fields)), expected, "{fields}");
    }
    for (fields, code) in [
        (json!({"is_error": true}), ErrorCode::Crashed),
        (json!({"subtype": "error_during_execution", "is_error": true}), ErrorCode::Crashed),
        (json!({"subtype": "error_during_execution"}), ErrorCode::Crashed),
        (json!({"subtype": "error_of_the_future", "is_error": true}), ErrorCode::Crashed),
        (
            json!({"subtype": "error_max_structured_output_retries", "is_error": true}),
            ErrorCode::SchemaMismatch,
        ),
    ] {
        assert_eq!(failed(&fields).code, code, "{fields}");
    }
}

#[test]
fn prov_05_a_failure_is_classed_by_its_fields_and_keeps_its_words() {
    for (class, status, extra, code, retryable) in [
        ("authentication_failed", Some(401), json!({}), ErrorCode::Auth, false),
        ("account_on_hold", None, json!({}), ErrorCode::Auth, false),
        ("billing_error", Some(400), json!({}), ErrorCode::QuotaExhausted, false),
        ("rate_limit", Some(429), json!({}), ErrorCode::RateLimited, true),
        ("overloaded", None, json!({}), ErrorCode::Overloaded, true),
        ("server_error", Some(529), json!({}), ErrorCode::Overloaded, true),
        ("server_error", None, json!({"api_error": "connection_failed"}), ErrorCode::Timeout, true),
        (
            "invalid_request",
            Some(400),
            json!({"terminal_reason": "prompt_too_long"}),
            ErrorCode::ContextOverflow,
            false,
        ),
        ("invalid_request", None, json!({"stop_reason": "refusal"}), ErrorCode::Refused, false),
        ("invalid_request", Some(400), json!({}), ErrorCode::Refused, false),
        ("model_not_found", Some(404), json!({}), ErrorCode::Refused, false),
        ("max_output_tokens", None, json!({}), ErrorCode::Refused, false),
        ("unknown", Some(503), json!({}), ErrorCode::Overloaded, true),
        ("unknown", Some(403), json!({}), ErrorCode::Auth, false),
        ("unknown", None, json!({}), ErrorCode::Crashed, false),
        ("new_in_2027", None, json!({}), ErrorCode::Crashed, false),
    ] {
        let mut claude = opened();
        prompted(&mut claude);
        assert_eq!(said(&mut claude, &fault(class, status)), [], "it is no message of the model");
        let mut fields = json!({"is_error": true, "result": "API Error: it is so\nand more", "stop_reason": "stop_sequence",
            "terminal_reason": "api_error", "api_error_status": status});
        for (name, value) in extra.as_object().unwrap() {
            fields[name] = value.clone();
        }
        let TurnEnd::Failed(error) = ended(&mut claude, &result(&fields)) else { panic!("{class}") };
        assert_eq!((error.code, error.retryable), (code, retryable), "{class} {status:?}");
        assert_eq!(error.message, "API Error: it is so");
        let detail = error.detail.unwrap();
        assert!(detail.starts_with("and more\n") && detail.contains(class), "{detail}");
        // The next turn knows nothing of it.
        prompted(&mut claude);
        let TurnEnd::Failed(error) = ended(&mut claude, &result(&json!({"is_error": true}))) else {
            panic!()
        };
        assert_eq!(error.code, ErrorCode::Crashed);
    }
    let error = failed(
        &json!({"subtype": "error_during_execution", "is_error": true, "result": null, "errors": ["a", "b"]}),
    );
    assert_eq!((error.message.as_str(), error.detail.unwrap().starts_with("b\n")), ("a", true));
    let error = failed(&json!({"is_error": true, "result": "é".repeat(10_000)}));
    assert_eq!(error.message.len(), 4 * 1024);
}

fn limit(status: &str, resets: Option<i64>) -> Value {
    json!({"type": "rate_limit_event", "uuid": "u", "session_id": "s",
        "rate_limit_info": {"status": status, "resetsAt": resets, "rateLimitType": "five_hour", "utilization": 1}})
}

#[test]
fn prov_12_a_quota_that_is_used_up_is_known_with_its_reset_and_holds_the_account_up() {
    let reset = Some(Timestamp::from_micros(1_796_080_000_000_000));
    let mut claude = opened();
    prompted(&mut claude);
    let heard = said(&mut claude, &limit("rejected", Some(1_796_080_000)));
    assert!(
        matches!(&heard[..], [Said::Notice(text), Said::HeldUp { until }] if text.contains("five_hour") && *until == reset)
    );
    said(&mut claude, &fault("rate_limit", Some(429)));
    let end = ended(&mut claude, &result(&json!({"is_error": true, "api_error_status": 429})));
    let TurnEnd::Failed(error) = end else { panic!() };
    assert_eq!((error.code, error.reset_at), (ErrorCode::QuotaExhausted, reset));
    // It is renewed, and a limit is a limit of the rate again.
    prompted(&mut claude);
    assert_eq!(said(&mut claude, &limit("allowed", None)), []);
    said(&mut claude, &fault("rate_limit", Some(429)));
    let end = ended(&mut claude, &result(&json!({"is_error": true, "api_error_status": 429})));
    let TurnEnd::Failed(error) = end else { panic!() };
    assert_eq!((error.code, error.reset_at), (ErrorCode::RateLimited, None));
    assert!(matches!(&said(&mut claude, &limit("allowed_warning", None))[..], [Said::Notice(_)]));
    // It stands beside the failure itself.
    let told = json!({"is_error": true, "api_error_status": 429,
        "rate_limit_info": {"status": "rejected", "resetsAt": 1_796_080_000}});
    assert_eq!((failed(&told).code, failed(&told).reset_at), (ErrorCode::QuotaExhausted, reset));
    // Another failure is none of the quota's, and paid requests go through.
    let mut claude = opened();
    let mut paid = limit("rejected", None);
    paid["rate_limit_info"]["isUsingOverage"] = true.into();
    assert_eq!(said(&mut claude, &paid), []);
}

#[test]
fn prov_12_a_retry_is_told_and_a_limit_holds_the_account_up() {
    let retry = |error: &str, status: Option<u16>| {
        json!({"type": "system", "subtype": "api_retry", "attempt": 2, "max_retries": 10, "retry_delay_ms": 1094,
            "error_status": status, "error": error})
    };
    let mut claude = opened();
    let text = "a request failed (rate_limit, status 429): retry 2 of 10 in 1.1 s";
    let limited = [Said::Notice(text.into()), Said::HeldUp { until: None }];
    assert_eq!(said(&mut claude, &retry("rate_limit", Some(429))), limited);
    assert_eq!(said(&mut claude, &retry("overloaded", Some(529))).len(), 2);
    assert_eq!(said(&mut claude, &retry("authentication_failed", Some(401))).len(), 1);
    assert_eq!(said(&mut claude, &retry("server_error", None)).len(), 1);
}

#[test]
fn prov_05_a_session_that_cannot_be_opened_says_so_by_a_result() {
    let gone = json!({"subtype": "error_during_execution", "is_error": true, "result": null, "num_turns": 0,
        "terminal_reason": null, "errors": ["No conversation found with session ID: old"]});
    let end = |session: Option<&str>| {
        let session = session.map(str::to_owned);
        let mut claude = super::Claude::new(&super::Job { session, ..job(spec()) });
        match said(&mut claude, &result(&gone)).pop() {
            Some(Said::Done(TurnEnd::Failed(error))) => error,
            other => panic!("{other:?}"),
        }
    };
    let error = end(Some("old"));
    assert_eq!((error.code, error.retryable), (ErrorCode::SessionGone, false));
    assert!(error.message.contains("No conversation found"));
    assert_eq!(end(None).code, ErrorCode::Crashed);
}

#[test]
fn prov_05_a_turn_that_ends_without_a_result_is_an_error() {
    let mut claude = opened();
    prompted(&mut claude);
    let heard = said(&mut claude, &state("idle"));
    assert!(
        matches!(&heard[..], [Said::Done(TurnEnd::Failed(error))] if error.code == ErrorCode::NoFinalMessage),
        "{heard:?}"
    );
    assert_eq!(said(&mut claude, &state("idle")), []);
    // Before anything was asked nothing is missing.
    let mut claude = begun(spec());
    assert_eq!(said(&mut claude, &state("idle")), []);
    said(&mut claude, &welcome());
    assert_eq!(said(&mut claude, &state("idle")), []);
}

#[test]
fn prov_05_a_process_that_ends_unsaid_is_judged_by_its_status_alone() {
    let conclude = |end: ProcessEnd| {
        let verdict = ClaudeCode.conclude(&job(spec()), &end);
        assert_eq!(verdict.conclusion.exit, Some(end.exit));
        assert_eq!((verdict.conclusion.result, verdict.whole), (None, None), "what it printed is no result");
        verdict.conclusion.outcome
    };
    for (code, signal, expected, message) in [
        (Some(0), None, ErrorCode::NoFinalMessage, "did not say that it was done"),
        (Some(1), None, ErrorCode::Crashed, "exited with code 1"),
        (Some(143), None, ErrorCode::Crashed, "exited with code 143"),
        (None, Some(9), ErrorCode::Crashed, "SIGKILL"),
    ] {
        let Outcome::Error { error } = conclude(process_end(code, signal)) else { panic!() };
        assert_eq!((error.code, error.detail.as_deref()), (expected, Some("Error: it broke")));
        assert!(error.message.contains(message), "{}", error.message);
    }
    let end = ProcessEnd { reason: EndReason::Deadline, ..process_end(None, Some(9)) };
    assert_eq!(conclude(end), Outcome::Aborted { limit: Limit::Deadline });
}
