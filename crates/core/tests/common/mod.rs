//! Builders that all tests of the core share: one spec, one birth, one clock.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod bless;
pub mod commands;
pub mod phases;
pub mod random;

use std::collections::BTreeMap;

use subagent_core::replay;
use subagent_core::run::{Birth, Subagent};
use subagent_model::{
    BoundedText, Capabilities, Conclusion, ErrorCode, ErrorInfo, ExecSpec, ExitFacts, Handle, Mode, Outcome,
    PromptVia, Quality, Requester, ResultFrom, SpawnSpec, Steering, SubagentId, Talk, Timestamp,
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

/// A program that gets its prompt and ends.
pub fn spec(mode: Mode) -> SpawnSpec {
    SpawnSpec {
        exec: Some(ExecSpec {
            program: "/bin/wc".into(),
            args: vec!["-l".into(), "argument-value".into()],
            prompt_via: PromptVia::Stdin,
            result: ResultFrom::WholeOutput,
            talk: Talk::None,
        }),
        mode,
        env: BTreeMap::from([("PATH".into(), "environment-value".into())]),
        secret_env: vec!["SECRET_NAME".into()],
        ..SpawnSpec::new("exec", text("count the lines\nof all files"), "/work".into())
    }
}

/// All that a provider can be able to do.
pub fn able() -> Capabilities {
    Capabilities {
        steering: Steering::Live,
        interrupt: true,
        resume: true,
        warm: true,
        adopt: true,
        approvals: true,
        model: true,
        turns: true,
        usage: true,
        cost: true,
        ..Capabilities::default()
    }
}

/// An agent that is spoken with while it runs.
pub fn agent(mode: Mode) -> SpawnSpec {
    SpawnSpec { provider: "agent".into(), exec: None, can: able(), ..spec(mode) }
}

pub fn birth_of(n: u128, requester: &Requester, spec: SpawnSpec) -> Birth {
    Birth {
        id: id(n),
        handle: Handle(format!("s{n}")),
        spec,
        parent: None,
        root: id(n),
        depth: 0,
        requester: requester.clone(),
    }
}

pub fn birth(n: u128, requester: &Requester, mode: Mode) -> Birth {
    birth_of(n, requester, spec(mode))
}

pub fn born(spec: SpawnSpec) -> Subagent {
    let sequence = replay::Sequence::new("", at(0), birth_of(1, &owner(), spec));
    replay::birth(&sequence).unwrap().0
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
    failed_until(code, None)
}

/// A failure that tells when its limit is lifted.
pub fn failed_until(code: ErrorCode, reset_at: Option<Timestamp>) -> Conclusion {
    let exit = Some(ExitFacts { code: Some(3), signal: None, at: None });
    Conclusion {
        outcome: Outcome::Error {
            error: ErrorInfo {
                code,
                message: "it failed".into(),
                detail: None,
                retryable: false,
                reset_at,
                exit,
            },
        },
        result: None,
        marks: vec![],
        quality: Quality::Unverified,
        exit,
    }
}

/// A failure after which another attempt may help.
pub fn failed_for_now(code: ErrorCode) -> Conclusion {
    let mut conclusion = failed(code);
    if let Outcome::Error { error } = &mut conclusion.outcome {
        error.retryable = true;
    }
    conclusion
}
