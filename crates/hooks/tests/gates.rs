//! Gates decide within their deadline, in order, and at most so often.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(missing_docs, unreachable_pub, reason = "a test binary has no readers from outside")]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use common::{owner, record};
use subagent_hooks::{
    EndAsk, EndDecision, EndRuling, Gate, Gates, Hooks, MAX_CONTINUATIONS, OnFailure, RunFacts, SpawnAsk,
    SpawnDecision, SpawnRuling, may_continue,
};
use subagent_model::BoundedText;
use tokio::time::Instant;

#[derive(Clone, Copy)]
enum Does {
    Allow,
    Object(&'static str),
    Panic,
    Hang,
}

struct Guard {
    name: &'static str,
    does: Does,
    closed: bool,
    asked: AtomicU32,
}

#[async_trait]
impl Gate for Guard {
    fn name(&self) -> &str {
        self.name
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn on_failure(&self) -> OnFailure {
        if !self.closed {
            return OnFailure::default();
        }
        let reason = || String::from("the gate is broken");
        OnFailure {
            at_spawn: SpawnDecision::Deny { reason: reason() },
            at_end: EndDecision::Continue { reason: reason() },
        }
    }

    async fn at_spawn(&self, _ask: &SpawnAsk) -> SpawnDecision {
        match self.act().await {
            None => SpawnDecision::Allow,
            Some(reason) => SpawnDecision::Deny { reason: reason.to_owned() },
        }
    }

    async fn at_end(&self, _ask: &EndAsk) -> EndDecision {
        match self.act().await {
            None => EndDecision::Allow,
            Some(reason) => EndDecision::Continue { reason: reason.to_owned() },
        }
    }
}

impl Guard {
    async fn act(&self) -> Option<&'static str> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match self.does {
            Does::Allow => None,
            Does::Object(reason) => Some(reason),
            Does::Panic => panic!("on purpose"),
            Does::Hang => std::future::pending().await,
        }
    }
}

fn guard(name: &'static str, does: Does) -> Arc<Guard> {
    Arc::new(Guard { name, does, closed: false, asked: AtomicU32::new(0) })
}

fn gates(guards: &[&Arc<Guard>]) -> Gates {
    guards.iter().fold(Hooks::default(), |hooks, gate| hooks.with_gate(Arc::<Guard>::clone(gate))).gates()
}

fn spawn() -> SpawnAsk {
    let prompt = BoundedText::whole("look").unwrap();
    let spec = serde_json::json!({"prompt": prompt, "provider": "exec", "agent_type": "probe", "cwd": "/w"});
    let spec = Arc::new(serde_json::from_value(spec).unwrap());
    SpawnAsk { spec, resumes: None, parent: None, depth: 0, requester: owner(1) }
}

fn end(continuations: u32) -> EndAsk {
    let conclusion = serde_json::json!({"outcome": {"status": "completed"}, "quality": "ok"});
    EndAsk {
        facts: RunFacts::of(&record(1, 1, 1, true), Path::new("/data")),
        conclusion: Arc::new(serde_json::from_value(conclusion).unwrap()),
        stopping: false,
        last_assistant_message: None,
        continuations,
    }
}

fn denied(gate: &str, reason: &str) -> SpawnRuling {
    SpawnRuling::Denied { gate: gate.into(), reason: reason.to_owned() }
}

fn continues(gate: &str, reason: &str) -> EndRuling {
    EndRuling::Continues { gate: gate.into(), reason: reason.to_owned() }
}

#[tokio::test(start_paused = true)]
async fn hook_12_the_first_objection_decides_and_is_told_by_name() {
    let [first, second, third] = [
        guard("first", Does::Allow),
        guard("second", Does::Object("no")),
        guard("third", Does::Object("never")),
    ];
    let gates = gates(&[&first, &second, &third]);
    assert_eq!(gates.at_spawn(&spawn()).await, denied("second", "no"));
    assert_eq!(gates.at_end(&end(0)).await, continues("second", "no"));
    assert_eq!([first, second, third].map(|gate| gate.asked.load(Ordering::Relaxed)), [2, 2, 0]);
}

#[tokio::test(start_paused = true)]
async fn hook_01_a_gate_that_panics_or_is_late_counts_as_its_default_and_the_next_is_asked() {
    for does in [Does::Panic, Does::Hang] {
        let broken = guard("broken", does);
        let next = guard("next", Does::Object("no"));
        let begun = Instant::now();
        assert_eq!(gates(&[&broken]).at_spawn(&spawn()).await, SpawnRuling::Allowed);
        assert_eq!(gates(&[&broken]).at_end(&end(0)).await, EndRuling::Ends);
        assert!(begun.elapsed() <= Duration::from_secs(2));
        assert_eq!(gates(&[&broken, &next]).at_spawn(&spawn()).await, denied("next", "no"));
        assert_eq!(gates(&[&broken, &next]).at_end(&end(0)).await, continues("next", "no"));
    }
}

#[tokio::test(start_paused = true)]
async fn hook_16_a_gate_may_be_closed_when_it_fails() {
    for does in [Does::Panic, Does::Hang] {
        let gate = Arc::new(Guard { name: "shut", does, closed: true, asked: AtomicU32::new(0) });
        let gates = gates(&[&gate]);
        assert_eq!(gates.at_spawn(&spawn()).await, denied("shut", "the gate is broken"));
        assert_eq!(gates.at_end(&end(0)).await, continues("shut", "the gate is broken"));
    }
}

#[tokio::test(start_paused = true)]
async fn hook_10_a_run_is_made_to_go_on_eight_times_and_then_nobody_is_asked() {
    let stubborn = guard("stubborn", Does::Object("again"));
    let gates = gates(&[&stubborn]);
    let mut continuations = 0;
    while let EndRuling::Continues { .. } = gates.at_end(&end(continuations)).await {
        continuations += 1;
    }
    assert_eq!((continuations, stubborn.asked.load(Ordering::Relaxed)), (8, 8));
    assert_eq!(gates.at_end(&end(continuations)).await, EndRuling::Exhausted);
    assert_eq!((may_continue(MAX_CONTINUATIONS - 1), may_continue(MAX_CONTINUATIONS)), (true, false));
}

#[tokio::test(start_paused = true)]
async fn hook_09_a_stopped_run_stays_stopped() {
    let stubborn = guard("stubborn", Does::Object("again"));
    let ask = EndAsk { stopping: true, ..end(0) };
    assert_eq!(gates(&[&stubborn]).at_end(&ask).await, EndRuling::Ends);
    assert_eq!(stubborn.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn hook_09_a_run_does_not_go_on_with_nothing_to_say() {
    let (mute, next) = (guard("mute", Does::Object(" \n")), guard("next", Does::Object("go on")));
    assert_eq!(gates(&[&mute]).at_end(&end(0)).await, EndRuling::Ends);
    assert_eq!(gates(&[&mute, &next]).at_end(&end(0)).await, continues("next", "go on"));
}

#[tokio::test]
async fn without_gates_everything_is_allowed() {
    assert!(Gates::default().is_empty());
    assert_eq!(gates(&[]).at_spawn(&spawn()).await, SpawnRuling::Allowed);
    assert_eq!(gates(&[]).at_end(&end(MAX_CONTINUATIONS)).await, EndRuling::Ends);
}
