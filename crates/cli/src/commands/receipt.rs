//! What became of a message, in words: shared by `steer` and `messages`.

use subagent_model::{Message, MessageMode, Posted, Receipt, Status, SubagentRecord};

use super::outcome;

/// A receipt in words. What a message waits for is known from the subagent it is for.
pub(super) fn words(posted: &Posted, record: &SubagentRecord) -> String {
    match posted.receipt {
        Receipt::Delivered { run, .. } => format!("delivered to run {run}"),
        Receipt::Returned { reason, .. } => outcome::returned(reason),
        Receipt::Accepted => format!("accepted: waits {}", until(&posted.message, record)),
    }
}

fn until(message: &Message, record: &SubagentRecord) -> String {
    let run = record.run;
    match (message.mode, record.status) {
        (MessageMode::FollowUp, status) if !status.is_final() && status != Status::Idle => {
            format!("until run {run} has ended, and opens the next")
        }
        (MessageMode::FollowUp, _) => String::from("until the next run begins"),
        (MessageMode::Interrupt, _) => String::from("until the current turn is cancelled"),
        (MessageMode::Steer, Status::Queued) => format!("until run {run} has started"),
        (MessageMode::Steer, Status::Waiting) => format!("until run {run} goes on"),
        (MessageMode::Steer, _) => String::from("for the next safe point of its work"),
    }
}

/// The mode as people say it.
pub(super) fn mode(mode: MessageMode) -> &'static str {
    match mode {
        MessageMode::Steer => "steer",
        MessageMode::FollowUp => "follow-up",
        MessageMode::Interrupt => "interrupt",
    }
}

#[cfg(test)]
mod tests {
    use super::words;
    use crate::commands::sample;
    use subagent_model::Posted;

    fn posted(mode: &str, receipt: &serde_json::Value) -> Posted {
        let mut fields = serde_json::json!({"message":
            {"number": 1, "from": "user:0", "mode": mode, "text": "t", "at": "2026-11-30T00:00:00Z"}});
        fields.as_object_mut().unwrap().extend(receipt.as_object().unwrap().clone());
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn steer_02_an_accepted_message_says_what_it_waits_for() {
        let accepted = |mode| posted(mode, &serde_json::json!({"receipt": "accepted"}));
        let queued = sample(&serde_json::json!({"status": "queued"}));
        let running = sample(&serde_json::json!({"status": "running", "run": 2}));
        assert_eq!(words(&accepted("steer"), &queued), "accepted: waits until run 1 has started");
        assert_eq!(
            words(&accepted("steer"), &running),
            "accepted: waits for the next safe point of its work"
        );
        assert_eq!(
            words(&accepted("follow_up"), &running),
            "accepted: waits until run 2 has ended, and opens the next"
        );
    }

    #[test]
    fn steer_03_the_last_word_of_a_receipt_says_where_it_went_or_why_it_came_back() {
        let record = sample(&serde_json::json!({}));
        let at = "2026-11-30T00:00:00Z";
        let delivered = posted("steer", &serde_json::json!({"receipt": "delivered", "at": at, "run": 2}));
        assert_eq!(words(&delivered, &record), "delivered to run 2");
        let returned =
            posted("steer", &serde_json::json!({"receipt": "returned", "at": at, "reason": "stopped"}));
        assert_eq!(words(&returned, &record), "returned: a stop was accepted first");
    }
}
