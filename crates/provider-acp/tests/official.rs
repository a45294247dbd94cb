//! One message of each kind as the official types write it, and what it means here. (What is written here is held against
//! the official types by every other test.)

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use serde_json::json;
use subagent_model::Choice;
use subagent_provider::{Said, TurnEnd};
use subagent_provider_acp::AcpProvider;
use support::{Talk, choice, prompt, spec, text};

#[test]
fn acp_06_whatever_the_official_types_write_has_its_meaning_here() {
    let (mut talk, _) = Talk::begin(AcpProvider::any(), spec(), None);
    let mut words = vec![];
    for line in include_str!("official/said-by-agents.jsonl").lines() {
        let (said, _) = talk.hear(line);
        for said in said {
            words.push(word(&said));
            match said {
                Said::Opened { session } => {
                    assert_eq!(session.as_deref(), Some("s1"));
                    talk.tell(&prompt("do it")).unwrap();
                }
                Said::Asked(ask) if ask.key == "1" => {
                    let wrote = talk.tell_answer(&ask, choice(Choice::AllowOnce)).unwrap();
                    assert_eq!(wrote["result"]["outcome"]["optionId"], "once");
                }
                Said::Asked(ask) => {
                    let wrote = talk.tell_answer(&ask, text("blue")).unwrap();
                    assert_eq!(wrote["result"], json!({"action": "accept", "content": {"color": "blue"}}));
                }
                _ => {}
            }
        }
    }
    let expected = [
        "offers 2",
        "model small",
        "opened",
        "thought hm",
        "delta hello",
        "started execute",
        "ended Some(false)",
        "plan 1",
        "used Some(0.5)",
        "notice warning: slow: very",
        "compacted",
        "inner c1",
        "inner c1",
        "asked 1",
        "asked \"2\"",
        "message hello",
        "used None",
        "finished",
    ];
    assert_eq!(words, expected);
}

fn word(said: &Said) -> String {
    match said {
        Said::Models(offers) => format!("offers {}", offers.len()),
        Said::Model(model) => format!("model {model}"),
        Said::Opened { .. } => String::from("opened"),
        Said::Thought(text) => format!("thought {text}"),
        Said::Delta(text) => format!("delta {text}"),
        Said::Message(text) => format!("message {text}"),
        Said::ToolStarted { name, .. } => format!("started {name}"),
        Said::ToolEnded { failed, .. } => format!("ended {failed:?}"),
        Said::Plan(steps) => format!("plan {}", steps.len()),
        Said::Used(usage) => format!("used {:?}", usage.cost_usd),
        Said::Notice(text) => format!("notice {text}"),
        Said::Compacted => String::from("compacted"),
        Said::Inner(inner) => format!("inner {}", inner.id),
        Said::Asked(ask) => format!("asked {}", ask.key),
        Said::Done(TurnEnd::Finished { .. }) => String::from("finished"),
        other => format!("{other:?}"),
    }
}
