//! Subagents of the agent's own, as claude-agent-acp announces them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use serde_json::{Value, json};
use subagent_provider::{Inner, InnerState, Order, Said, WasTold};
use support::{Talk, asked, finished, message_said, prompt};

fn inner(id: &str) -> Inner {
    Inner { id: id.to_owned(), parent: None, title: None, state: None, can_cancel: None }
}

fn running() -> Value {
    json!({"sessionId": "c", "title": "probe child", "description": "probe", "capabilities": {"cancel": {}},
        "state": {"state": "running"}})
}

fn idle(reason: &str) -> Value {
    json!({"sessionId": "c", "state": {"state": "idle", "stopReason": reason}})
}

fn first() -> Said {
    Said::Inner(Inner {
        title: Some("probe child".into()),
        state: Some(InnerState::Running),
        can_cancel: Some(true),
        ..inner("c")
    })
}

#[test]
fn acp_14_subagents_are_shown_under_their_parent() {
    let mut talk = Talk::prompted();
    assert_eq!(talk.update("subagent_update", running()), [first()]);
    assert_eq!(talk.update("session_message", json!({"messageId": "m", "recipientSessionId": "c"})), []);
    let text = json!({"content": {"type": "text", "text": "of the child"}});
    assert_eq!(talk.update_of("c", "agent_message_chunk", text), [], "its text is never the answer");
    let below = json!({"sessionId": "g", "title": "grandchild", "state": {"state": "running"}});
    let grandchild = Inner {
        parent: Some("c".into()),
        title: Some("grandchild".into()),
        state: Some(InnerState::Running),
        can_cancel: Some(false),
        ..inner("g")
    };
    assert_eq!(talk.update_of("c", "subagent_update", below), [Said::Inner(grandchild)]);
    let done = |id: &str| Said::Inner(Inner { state: Some(InnerState::Completed), ..inner(id) });
    let ended = json!({"sessionId": "g", "state": {"state": "idle", "stopReason": "end_turn"}});
    assert!(matches!(&talk.update_of("c", "subagent_update", ended)[..], [Said::Inner(inner)]
        if inner.state == Some(InnerState::Completed)));
    assert_eq!(talk.update("subagent_update", idle("end_turn")), [done("c")]);
    assert_eq!(talk.update("subagent_update", idle("end_turn")), [], "told again it is no second end");
    talk.chunk("the answer", None);
    assert_eq!(talk.ends(json!({"stopReason": "end_turn"})), [message_said("the answer"), finished()]);
}

#[test]
fn acp_14_a_patch_leaves_what_it_leaves_out_and_null_clears() {
    let mut talk = Talk::prompted();
    talk.update("subagent_update", running());
    for (patch, expected) in [
        (json!({"title": "renamed"}), Inner { title: Some("renamed".into()), ..inner("c") }),
        (json!({"title": null}), Inner { title: Some(String::new()), ..inner("c") }),
        (json!({"capabilities": null}), Inner { can_cancel: Some(false), ..inner("c") }),
        (
            json!({"state": {"state": "requires_action"}}),
            Inner { state: Some(InnerState::Asking), ..inner("c") },
        ),
        (json!({"state": null}), Inner { state: Some(InnerState::Unknown), ..inner("c") }),
    ] {
        let mut patch = patch;
        patch["sessionId"] = json!("c");
        assert_eq!(talk.update("subagent_update", patch.clone()), [Said::Inner(expected)], "{patch}");
    }
}

#[test]
fn acp_14_how_one_ended_is_not_guessed() {
    for (reason, expected) in [
        (json!("end_turn"), InnerState::Completed),
        (json!("max_tokens"), InnerState::Completed),
        (json!("max_turn_requests"), InnerState::Failed),
        (json!("refusal"), InnerState::Failed),
        (json!("error"), InnerState::Failed),
        (json!("cancelled"), InnerState::Stopped),
        (json!("_bored"), InnerState::Unknown),
        (json!(null), InnerState::Unknown),
    ] {
        let mut talk = Talk::prompted();
        talk.update("subagent_update", running());
        let update = json!({"sessionId": "c", "state": {"state": "idle", "stopReason": reason}});
        let state = Some(expected);
        assert_eq!(
            talk.update("subagent_update", update),
            [Said::Inner(Inner { state, ..inner("c") })],
            "{reason}"
        );
    }
    let mut talk = Talk::prompted();
    talk.update("subagent_update", running());
    let said = talk.update("subagent_update", json!({"sessionId": "c", "state": {"state": "_dreaming"}}));
    assert!(matches!(&said[..], [Said::Inner(inner)] if inner.state == Some(InnerState::Unknown)));
}

#[test]
fn acp_14_traffic_before_the_announcement_does_no_harm() {
    let mut talk = Talk::prompted();
    let text = json!({"content": {"type": "text", "text": "early"}});
    assert_eq!(talk.update_of("c", "agent_message_chunk", text), []);
    assert_eq!(
        talk.update_of("c", "subagent_update", json!({"sessionId": "g", "state": {"state": "running"}})),
        []
    );
    // What it asks is asked all the same: it would wait for ever.
    let call = json!({"toolCallId": "t", "title": "ls", "kind": "execute"});
    let params = json!({"sessionId": "c", "toolCall": call, "options": []});
    let (said, _) = talk.request(1, "session/request_permission", params);
    assert_eq!(asked(&said).key, "1");
    assert_eq!(talk.update("subagent_update", running()), [first()]);
    for nonsense in [json!({}), json!({"sessionId": "s1"}), json!({"sessionId": 7}), json!({"sessionId": ""})]
    {
        assert_eq!(talk.update("subagent_update", nonsense), []);
    }
    talk.update("subagent_update", idle("end_turn"));
    assert_eq!(
        talk.ends(json!({"stopReason": "end_turn"})),
        [Said::TookBack { key: "1".into() }, finished()]
    );
}

#[test]
fn acp_14_only_one_that_announces_it_is_cancelled() {
    let mut talk = Talk::prompted();
    talk.update("subagent_update", running());
    talk.update("subagent_update", json!({"sessionId": "fixed", "state": {"state": "running"}}));
    let over = json!({"sessionId": "over", "capabilities": {"cancel": {}}, "state": {"state": "idle"}});
    talk.update("subagent_update", over);
    let wrote = talk.tell(&Order::Interrupt).unwrap();
    let sessions: Vec<_> = wrote.iter().map(|line| line["params"]["sessionId"].as_str().unwrap()).collect();
    assert_eq!(sessions, ["s1", "c"], "its own session first");
}

#[test]
fn acp_14_a_single_one_is_stopped_with_what_it_asks_and_the_turn_goes_on() {
    let stop = |key: &str| Order::StopInner { key: key.to_owned() };
    let mut talk = Talk::prompted();
    assert!(talk.tell(&stop("c")).unwrap_err().contains("announced no such"));
    talk.update("subagent_update", running());
    talk.update("subagent_update", json!({"sessionId": "fixed", "state": {"state": "running"}}));
    assert!(talk.tell(&stop("fixed")).unwrap_err().contains("announces no cancel"));
    let params =
        |session: &str| json!({"sessionId": session, "toolCall": {"toolCallId": "t"}, "options": []});
    talk.request(1, "session/request_permission", params("c"));
    talk.request(2, "session/request_permission", params("s1"));
    let wrote = talk.tell(&stop("c")).unwrap();
    assert_eq!(
        (&wrote[0]["method"], &wrote[0]["params"]["sessionId"]),
        (&json!("session/cancel"), &json!("c"))
    );
    assert_eq!((wrote.len(), &wrote[1]["id"]), (2, &json!(1)), "what the turn itself asks stays: {wrote:?}");
    // What it asks after that nobody could answer.
    let (said, wrote) = talk.request(3, "session/request_permission", params("c"));
    assert_eq!((&said[..], wrote.len()), (&[Said::TookBack { key: "1".into() }][..], 1));
    let said = talk.update("subagent_update", idle("cancelled"));
    assert!(matches!(&said[..], [Said::Inner(inner)] if inner.state == Some(InnerState::Stopped)));
    assert!(talk.tell(&stop("c")).unwrap_err().contains("works on nothing"));
    // Begun again it may ask again.
    talk.update("subagent_update", running());
    assert_eq!(asked(&talk.request(4, "session/request_permission", params("c")).0).key, "4");
    talk.tell(&Order::Interrupt).unwrap();
    assert!(talk.tell(&stop("c")).unwrap_err().contains("whole turn"));
    let (_, was) = talk.taken_over();
    assert_eq!(was.iter().filter(|was| **was == WasTold::StopInner("c".into())).count(), 1, "{was:?}");
}

#[test]
fn acp_14_one_that_outlives_the_turn_is_background_work() {
    let mut talk = Talk::prompted();
    talk.update("subagent_update", running());
    let said = talk.ends(json!({"stopReason": "end_turn"}));
    assert_eq!(said, [Said::Background { live: 1 }, finished()], "the run waits for it");
    let params = json!({"sessionId": "c", "toolCall": {"toolCallId": "t"}, "options": []});
    let (said, wrote) = talk.request(1, "session/request_permission", params);
    assert!(wrote.is_empty() && matches!(said[..], [Said::Asked(_)]), "and it may ask");
    let said = talk.update("subagent_update", idle("end_turn"));
    let over = matches!(said[..], [Said::Inner(_), Said::Background { live: 0 }, Said::TookBack { .. }]);
    assert!(over, "what it asked is over with it: {said:?}");
    // One of the next turn is counted anew.
    talk.tell(&prompt("more")).unwrap();
    let again = json!({"sessionId": "c", "state": {"state": "running"}});
    assert!(matches!(talk.update("subagent_update", again)[..], [Said::Inner(_)]));
}

#[test]
fn acp_14_so_many_are_shown_and_no_more() {
    let mut talk = Talk::prompted();
    let shown: usize = (0..1_000)
        .map(|at| talk.update("subagent_update", json!({"sessionId": at.to_string(), "title": "x"})).len())
        .sum();
    assert_eq!(shown, 256);
}
