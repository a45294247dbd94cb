//! What children ask for, in words: shared by everything that shows requests.

use subagent_model::{Answer, Choice, Grant, Handle, RequestItem, RequestState, SubagentRecord, Subject};

use crate::view::{text, time};

/// The name by which a request is answered.
pub(super) fn name(handle: &Handle, request: &RequestItem) -> String {
    format!("{handle}.q{}", request.number)
}

/// `permission` or `question`.
pub(super) fn kind(request: &RequestItem) -> &'static str {
    match request.ask.subject {
        Subject::Approval { .. } => "permission",
        Subject::Question { .. } => "question",
    }
}

/// What is asked, in one line: the whole action or the question with the answers it proposes.
pub(super) fn what(request: &RequestItem) -> String {
    match &request.ask.subject {
        Subject::Approval { action, title, detail, .. } => {
            let more = detail.as_deref().map(|detail| format!(" ({detail})")).unwrap_or_default();
            text::line(&format!("{action}: {title}{more}"))
        }
        Subject::Question { text, choices } if choices.is_empty() => text::line(text),
        Subject::Question { text, choices } => text::line(&format!("{text} [{}]", choices.join(" | "))),
    }
}

/// The commands that answer it.
pub(super) fn how_to_answer(handle: &Handle, request: &RequestItem) -> String {
    let name = name(handle, request);
    match request.ask.subject {
        Subject::Approval { .. } => format!("`subagent approve {name}` or `subagent deny {name}`"),
        Subject::Question { .. } => format!("`subagent answer {name} TEXT`"),
    }
}

/// How it stands: until when it is open, or what became of it.
pub(super) fn state(request: &RequestItem) -> String {
    if request.state == RequestState::Open {
        return format!("denied {} unless answered", time::ahead(request.expires_at));
    }
    let Some(answered) = &request.answered else { return String::from("withdrawn") };
    let reason = answered.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let told = if request.state == RequestState::Answered { "; the child is being told" } else { "" };
    text::line(&format!("{} by {}{reason}{told}", answer(&answered.answer), answered.by))
}

/// An answer in a few words.
pub(super) fn answer(answer: &Answer) -> String {
    match answer {
        Answer::Choice { choice } => String::from(match choice {
            Choice::AllowOnce => "allowed",
            Choice::AllowAlways => "allowed from now on",
            Choice::DenyOnce => "denied",
            Choice::DenyAlways => "denied from now on",
        }),
        Answer::Text { text } => format!("answered {:?}", text::line(text)),
        Answer::None => String::from("left unanswered"),
    }
}

/// What a run asked for and was denied, each with the reason: never a silent success.
pub(super) fn denials(record: &SubagentRecord) -> Vec<String> {
    let denied = |request: &&RequestItem| {
        let answer = request.answered.as_ref().map(|answered| &answered.answer);
        matches!(answer, Some(Answer::Choice { choice }) if !choice.is_allow())
    };
    let requests = record.requests.iter().filter(denied);
    requests.map(|request| format!("wanted {}; {}", what(request), state(request))).collect()
}

/// A standing answer with the command that takes it back.
pub(super) fn grant(handle: &Handle, grant: &Grant) -> String {
    let word = if grant.allow { "always allowed" } else { "always denied" };
    let what = format!("{}: {}", grant.action, grant.title);
    format!("{word}, by {}: {}; `subagent revoke {handle}.q{}`", grant.by, text::line(&what), grant.number)
}

#[cfg(test)]
mod tests {
    use super::{denials, how_to_answer, state, what};
    use crate::commands::sample;
    use subagent_model::{Handle, RequestItem};

    fn item(fields: &serde_json::Value) -> RequestItem {
        let mut item = serde_json::json!({
            "number": 3, "run": 1, "key": "k", "opened_at": "2026-11-30T00:00:00Z",
            "expires_at": "9999-11-30T00:00:00Z", "state": "open",
        });
        item.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(item).unwrap()
    }

    #[test]
    fn perm_01_a_request_is_shown_with_its_full_action_and_how_to_answer_it() {
        let handle = Handle::from("k7q2mx");
        let asked = item(&serde_json::json!({
            "kind": "approval", "action": "execute", "title": "git push \u{1b}[31morigin", "detail": "to main"
        }));
        assert_eq!(what(&asked), "execute: git push origin (to main)");
        assert_eq!(
            how_to_answer(&handle, &asked),
            "`subagent approve k7q2mx.q3` or `subagent deny k7q2mx.q3`"
        );
        assert!(state(&asked).contains("unless answered"));
        let question =
            item(&serde_json::json!({"kind": "question", "text": "Which?", "choices": ["a", "b"]}));
        assert_eq!(what(&question), "Which? [a | b]");
        assert_eq!(how_to_answer(&handle, &question), "`subagent answer k7q2mx.q3 TEXT`");
    }

    #[test]
    fn perm_02_a_denial_is_told_with_its_reason() {
        let denied = item(&serde_json::json!({
            "kind": "approval", "action": "edit", "title": "a.rs", "state": "settled",
            "answered": {"answer": "choice", "choice": "deny_once", "by": "policy", "at": "2026-11-30T00:00:00Z",
                "reason": "nobody answered in time"},
        }));
        assert_eq!(state(&denied), "denied by policy: nobody answered in time");
        let record = sample(&serde_json::json!({"status": "completed", "requests": [denied]}));
        assert_eq!(denials(&record), ["wanted edit: a.rs; denied by policy: nobody answered in time"]);
    }
}
