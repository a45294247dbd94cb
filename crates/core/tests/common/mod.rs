//! Builders that all tests of the core share: one spec, one birth, one clock.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod phases;

use std::collections::BTreeMap;

use subagent_core::replay;
use subagent_core::run::{Birth, Subagent};
use subagent_model::{
    BoundedText, Conclusion, ErrorCode, ErrorInfo, ExecSpec, ExitFacts, Handle, Mode, Outcome, Quality,
    Requester, SpawnSpec, SubagentId, Timestamp,
};

pub fn id(n: u128) -> SubagentId {
    SubagentId::from_uuid(uuid::Uuid::from_u128(n))
}

/// Seconds since a day in 2026.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros((1_790_000_000 + seconds) * 1_000_000)
}

pub fn text(of: &str) -> BoundedText {
    BoundedText::whole(of).unwrap()
}

pub fn owner() -> Requester {
    Requester::from("user:1000")
}

pub fn spec(mode: Mode) -> SpawnSpec {
    SpawnSpec {
        prompt: text("count the lines\nof all files"),
        description: None,
        provider: "exec".into(),
        agent_type: "exec".into(),
        model: None,
        exec: Some(ExecSpec {
            program: "/bin/wc".into(),
            args: vec!["-l".into(), "argument-value".into()],
            prompt_via: subagent_model::PromptVia::Stdin,
            result: subagent_model::ResultFrom::WholeOutput,
        }),
        mode,
        cwd: "/work".into(),
        env: BTreeMap::from([("PATH".into(), "environment-value".into())]),
        secret_env: vec!["SECRET_NAME".into()],
        deadline_ms: None,
        labels: BTreeMap::new(),
        durable: true,
    }
}

pub fn birth(n: u128, requester: &Requester, mode: Mode) -> Birth {
    Birth {
        id: id(n),
        handle: Handle(format!("s{n}")),
        spec: spec(mode),
        parent: None,
        root: id(n),
        depth: 0,
        requester: requester.clone(),
    }
}

pub fn queued(n: u128, requester: &Requester, mode: Mode, now: Timestamp) -> Subagent {
    let sequence = replay::Sequence::new("", now, birth(n, requester, mode));
    replay::birth(&sequence).unwrap().0
}

pub fn completed(result: &str) -> Conclusion {
    Conclusion {
        outcome: Outcome::Completed,
        result: Some(text(result)),
        marks: vec![],
        quality: Quality::Ok,
        exit: Some(ExitFacts { code: Some(0), signal: None, at: None }),
    }
}

pub fn failed(code: ErrorCode) -> Conclusion {
    let exit = Some(ExitFacts { code: Some(3), signal: None, at: None });
    Conclusion {
        outcome: Outcome::Error {
            error: ErrorInfo { code, message: "it failed".into(), detail: None, retryable: false, exit },
        },
        result: None,
        marks: vec![],
        quality: Quality::Unverified,
        exit,
    }
}
