//! Reasons, places and processes in words.

use subagent_model::request::QueuePlace;
use subagent_model::{ActivityOn, AttemptFacts, ExitFacts, Mode, QueueReason, Usage};

use crate::view::time;

/// The serialised word of a value.
pub(super) fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().replace('_', " ")
}

/// Who is told of the end.
pub(super) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Sync => "sync: the caller waits",
        Mode::Async => "async: its requester is told of the end",
        Mode::Detached => "detached: nobody is told of the end, and it survives its parent",
        Mode::Warm => "warm: it stays alive between its runs",
    }
}

/// What holds a queued run, and its place.
pub(super) fn queued_for(reason: &QueueReason, place: &QueuePlace) -> String {
    let what = match (reason, &place.held_by) {
        (_, Some(held)) => format!("held by {held}"),
        (QueueReason::Capacity, None) => String::from("a free slot"),
        (QueueReason::Retry { at }, None) => format!("another try {}", time::ahead(*at)),
        (QueueReason::Rate { not_before, .. }, None) => {
            format!("the end of a rate limit, {}", time::ahead(*not_before))
        }
    };
    match place.ahead {
        None => what,
        Some(0) => format!("{what}; it is next"),
        Some(1) => format!("{what}; 1 run starts before it"),
        Some(before) => format!("{what}; {before} runs start before it"),
    }
}

/// What a started run waits for.
pub(super) fn waiting_on(on: &ActivityOn) -> String {
    match on {
        ActivityOn::Children => String::from("its children"),
        ActivityOn::Approval => String::from("an approval"),
        ActivityOn::Question => String::from("an answer"),
        ActivityOn::Background => String::from("background work of its own"),
        ActivityOn::Quota { until } => format!("its quota, renewed {}", time::ahead(*until)),
    }
}

/// Tokens and money.
pub(super) fn tokens(usage: &Usage) -> String {
    let cost = usage.cost_usd.map(|cost| format!(", {cost:.4} USD")).unwrap_or_default();
    format!("{} ({} in, {} out){cost}", usage.total, usage.input, usage.output)
}

/// Process and end of an attempt.
pub(super) fn attempt(facts: &AttemptFacts) -> String {
    let process = facts.process.as_ref().map(|process| format!("process {}", process.pid));
    let born = facts.born_in.map(|run| format!("the one of run {run}"));
    let exit = facts.exit.as_ref().map(exited);
    let parts = [process, born, exit, facts.ended.clone()];
    let told = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    if told.is_empty() { String::from("no process") } else { told }
}

fn exited(exit: &ExitFacts) -> String {
    let code = exit.code.map(|code| format!("exit code {code}"));
    let signal = exit.signal.map(|signal| format!("signal {signal}"));
    code.into_iter().chain(signal).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::queued_for;
    use subagent_model::QueueReason;
    use subagent_model::request::QueuePlace;

    #[test]
    fn queue_04_a_queued_run_says_what_holds_it_and_its_place() {
        let held = |ahead, by: &str| QueuePlace { ahead: Some(ahead), held_by: Some(by.to_owned()) };
        assert_eq!(
            queued_for(&QueueReason::Capacity, &held(2, "limits.running (4)")),
            "held by limits.running (4); 2 runs start before it"
        );
        assert_eq!(queued_for(&QueueReason::Capacity, &held(0, "disk")), "held by disk; it is next");
        assert_eq!(queued_for(&QueueReason::Capacity, &QueuePlace::default()), "a free slot");
    }
}
