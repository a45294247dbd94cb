//! Killed at any point: the journal is cut after each of its lines, and in the middle of each, the world is put back to
//! what it was then, and the session goes on in a new process.

use std::fmt::Write;

use serde_json::{Value, json};
use subagent_agent::fact::Fact;
use subagent_agent::wire::Wire;

use crate::client::World;

/// What a session is told that goes on.
const GO_ON: &str = "go on [[sh:echo later >> log]] [[say:over]]";

/// Three calls, each of which leaves a line, and a message into the turn.
const STORY: &str =
    "the task [[sh:echo one >> log]] [[sh:echo two >> log]] [[sh:echo three >> log]] [[say:done]]";

/// The lines that the tools had left when this much of the journal was written: a call without a result may have done its
/// work, or not.
fn left_by(facts: &[Fact], unfinished_done: bool) -> String {
    let mut log = String::new();
    for fact in facts {
        let Fact::Reply { reply, .. } = fact else { continue };
        for call in &reply.calls {
            let ended =
                facts.iter().any(|fact| matches!(fact, Fact::Result { call: id, .. } if *id == call.id));
            let begun = facts.iter().any(|fact| matches!(fact, Fact::Started { call: id } if *id == call.id));
            if ended || (begun && unfinished_done) {
                let command = call.input["command"].as_str().unwrap();
                let word = command.split_whitespace().nth(1).unwrap();
                writeln!(log, "{word}").unwrap();
            }
        }
    }
    log
}

fn facts(text: &str) -> Vec<Fact> {
    text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The texts that people said in a request.
fn said(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "user");
    messages.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn res_18_killed_between_any_two_steps_no_finished_call_runs_again_and_no_message_is_lost_or_doubled() {
    let world = World::new(Wire::Chat);
    let mut client = world.client().await;
    let session = client.session(&world.work(), json!({})).await;
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": STORY}], "_meta": {"subagent": {"run": 1}}});
    client.call("session/prompt", prompt).await.unwrap();
    client.end().await;
    let path = world.sessions().join(format!("{session}.jsonl"));
    let whole = std::fs::read_to_string(&path).unwrap();
    assert_eq!(world.read("log"), "one\ntwo\nthree\n");
    let lines: Vec<_> = whole.split_inclusive('\n').collect();
    assert!(lines.len() > 12, "each step is a line: {whole}");
    for kept in 2..=lines.len() {
        for torn in [false, true] {
            for unfinished_done in [false, true] {
                let mut text = lines[..kept].concat();
                let before = facts(&text);
                if torn {
                    let Some(next) = lines.get(kept) else { continue };
                    text.push_str(&next[..next.len() / 2]);
                }
                std::fs::write(&path, &text).unwrap();
                let log = left_by(&before, unfinished_done);
                std::fs::write(world.work().join("log"), &log).unwrap();
                world.model.reset();
                let mut client = world.client().await;
                let again = json!({"sessionId": session, "cwd": world.work(), "mcpServers": []});
                let opened = client.call("session/resume", again).await.unwrap();
                assert_eq!(opened["_meta"]["subagent"]["lastRun"], 1);
                let (stop, _) = client.prompt(&session, GO_ON).await.unwrap();
                client.end().await;
                let at = format!("after line {kept} of\n{whole}");
                assert_eq!(stop, "end_turn", "{at}");
                assert_eq!(world.read("log"), format!("{log}later\n"), "{at}");
                let asked = world.model.conversations();
                assert_eq!(said(&asked[0].body), [STORY, GO_ON], "{at}");
                let results: Vec<_> = asked[0].body["messages"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|message| message["role"] == "tool")
                    .map(|message| message["tool_call_id"].as_str().unwrap().to_owned())
                    .collect();
                let called = before.iter().filter_map(|fact| match fact {
                    Fact::Reply { reply, .. } => Some(reply.calls.iter().map(|call| call.id.clone())),
                    _ => None,
                });
                assert_eq!(results, called.flatten().collect::<Vec<_>>(), "res_20: balanced, {at}");
            }
        }
    }
}

#[tokio::test]
async fn what_was_not_stored_was_not_acted_on() {
    let world = World::new(Wire::Chat);
    let mut client = world.client().await;
    let session = client.session(&world.work(), json!({})).await;
    let journal = world.sessions().join(format!("{session}.jsonl"));
    // The tool itself looks at what is stored when it runs.
    let script = format!("[[sh:cp {} copy]] [[say:x]]", journal.display());
    client.prompt(&session, &script).await.unwrap();
    let seen = world.read("copy");
    assert!(seen.lines().last().unwrap().contains("\"kind\":\"started\""), "{seen}");
    client.end().await;
}

#[test]
fn old_journals_load_for_ever() {
    let text = include_str!("../../fixtures/session-v1.jsonl");
    let dir = tempfile::tempdir().unwrap();
    let id = "01a22d21-9704-741f-afa1-3082d0029501";
    std::fs::write(dir.path().join(format!("{id}.jsonl")), text).unwrap();
    let (journal, facts) = subagent_agent::journal::Journal::open(dir.path(), id).unwrap();
    assert_eq!((journal.header().version, facts.len()), (1, 13));
    let turn = subagent_agent::turn::Turn::of(&facts);
    assert_eq!((turn.usage().total, turn.compactions(), turn.prompts()), (286, 1, 2));
    assert_eq!(turn.usage().cost_usd, Some(0.5));
    assert_eq!(turn.last_run(), Some(2));
}
