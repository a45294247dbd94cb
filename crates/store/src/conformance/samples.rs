//! Subagents out of nothing: the same ones each time, with ids and times that only go up.

use std::sync::Arc;
use std::time::Duration;

use subagent_core::run::{Birth, Command, Subagent, accept, decide};
use subagent_model::{
    AgentSetup, AttemptNumber, BoundedText, Bounds, Budget, Capabilities, Conclusion, ErrorCode, ErrorInfo,
    ExecSpec, ExitFacts, Handle, Mode, NodeId, OnLoss, Outcome, Permissions, Quality, Requester, SpawnSpec,
    StallPolicy, SubagentId, Talk, Timestamp, TreeBudget,
};
use uuid::Uuid;

use crate::{Store, Transition};

/// A maker of subagents and of their steps.
#[derive(Debug, Clone)]
pub struct Samples {
    made: u64,
    ticks: u32,
}

impl Default for Samples {
    fn default() -> Self {
        Self::starting_at(0)
    }
}

/// 2026-11-01, in microseconds.
const START: i64 = 1_793_491_200_000_000;

impl Samples {
    /// A maker whose first subagent has this number: for several makers that never meet.
    pub fn starting_at(number: u64) -> Self {
        Self { made: number, ticks: 0 }
    }

    /// The id of the subagent with this number: a UUID v7, later ones are higher.
    pub fn id(number: u64) -> SubagentId {
        let millis = u128::from(START.unsigned_abs() / 1_000 + number);
        SubagentId::from_uuid(Uuid::from_u128((millis << 80) | (7 << 76) | (2 << 62) | u128::from(number)))
    }

    /// The next moment: a millisecond after the last.
    pub fn now(&mut self) -> Timestamp {
        self.ticks += 1;
        Timestamp::from_micros(START).after(Duration::from_millis(self.ticks.into()))
    }

    /// A birth of a root, asked for by `user:1000`.
    pub fn birth(&mut self) -> Transition {
        self.birth_with(|_| {})
    }

    /// A birth with something else about it.
    pub fn birth_with(&mut self, change: impl FnOnce(&mut Birth)) -> Transition {
        self.made += 1;
        let id = Self::id(self.made);
        let mut birth = Birth {
            id,
            handle: Handle(handle(self.made)),
            spec: spec(),
            parent: None,
            root: id,
            depth: 0,
            requester: Requester::from("user:1000"),
        };
        change(&mut birth);
        let (id, now) = (birth.id, self.now());
        Transition::birth(id, accept(birth), now).unwrap()
    }

    /// A birth below `parent`.
    pub fn child(&mut self, parent: &Subagent) -> Transition {
        self.birth_with(|birth| {
            birth.parent = Some(parent.id);
            birth.root = parent.root;
            birth.depth = parent.depth + 1;
            birth.requester = Requester::subagent(parent.id);
        })
    }

    /// The step that a command leads to.
    pub fn step(&mut self, state: &Subagent, command: &Command) -> Transition {
        let now = self.now();
        Transition::step(state, decide(state, command, now).unwrap(), now).unwrap()
    }

    /// A claim of the next attempt.
    pub fn claim() -> Command {
        Command::Claim { owner: NodeId::from("node-1"), lease_until: Timestamp::never() }
    }

    /// The receipt of the requester for the current run.
    pub fn receipt(state: &Subagent) -> Command {
        Command::Acknowledge { run: state.run.number, by: state.requester.clone() }
    }

    /// The next run, asked for by `requester`.
    pub fn resume(requester: &Requester) -> Command {
        let prompt = BoundedText::whole("go on").unwrap();
        Command::Resume { prompt, attachments: vec![], requester: requester.clone(), key: None }
    }

    /// The end of an attempt with this outcome.
    pub fn conclude(attempt: AttemptNumber, outcome: Outcome, result: &str) -> Command {
        let conclusion = Conclusion {
            quality: if outcome == Outcome::Completed { Quality::Ok } else { Quality::Unverified },
            outcome,
            result: BoundedText::whole(result),
            marks: Vec::new(),
            exit: Some(ExitFacts { code: Some(0), signal: None, at: None }),
        };
        Command::Conclude { attempt, conclusion: Box::new(conclusion), children_live: false, max_attempts: 3 }
    }

    /// A failure.
    pub fn failure() -> Outcome {
        Outcome::Error {
            error: ErrorInfo {
                code: ErrorCode::Crashed,
                message: String::from("it ended with code 1"),
                detail: None,
                retryable: false,
                reset_at: None,
                exit: None,
            },
        }
    }

    /// Commits one step and gives the state after it.
    pub fn commit(store: &impl Store, step: Transition) -> Arc<Subagent> {
        let state = Arc::clone(&step.state);
        store.commit(&[step]).unwrap();
        state
    }

    /// Commits what a command leads to.
    pub fn run(&mut self, store: &impl Store, state: &Subagent, command: &Command) -> Arc<Subagent> {
        Self::commit(store, self.step(state, command))
    }

    /// The session of an attempt is there: by it the next run goes on.
    pub fn opened(attempt: AttemptNumber) -> Command {
        Command::Opened { attempt, session: Some(String::from("session-1")) }
    }

    /// Commits claim, start, session and end of the current run.
    pub fn end(&mut self, store: &impl Store, state: &Subagent, outcome: Outcome) -> Arc<Subagent> {
        let state = self.run(store, state, &Self::claim());
        let attempt = state.last_attempt;
        let state = self.run(store, &state, &Command::Started { attempt, process: None });
        let state = self.run(store, &state, &Self::opened(attempt));
        self.run(store, &state, &Self::conclude(attempt, outcome, "done"))
    }

    /// Commits the acknowledgement of the end of the current run.
    pub fn acknowledge(&mut self, store: &impl Store, state: &Subagent) -> Arc<Subagent> {
        self.run(store, state, &Self::receipt(state))
    }
}

/// A handle of six characters. Those that follow each other share their beginning.
fn handle(number: u64) -> String {
    const LETTERS: &[u8] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let letter = |place: u32| char::from(LETTERS[usize::try_from((number >> (5 * place)) & 31).unwrap()]);
    (0..6).rev().map(letter).collect()
}

fn spec() -> SpawnSpec {
    SpawnSpec {
        prompt: BoundedText::whole("Find out why the build is slow, and say so in one sentence.").unwrap(),
        attachments: vec![],
        description: Some(String::from("slow build")),
        provider: String::from("exec"),
        agent_type: String::from("exec"),
        model: None,
        exec: Some(ExecSpec {
            program: String::from("/bin/sh"),
            args: vec![String::from("-c"), String::from("cat")],
            prompt_via: subagent_model::PromptVia::Stdin,
            result: subagent_model::ResultFrom::WholeOutput,
            talk: Talk::None,
        }),
        setup: AgentSetup::default(),
        mode: Mode::Async,
        cwd: "/home/someone/project".into(),
        env: [(String::from("PATH"), String::from("/usr/bin:/bin"))].into(),
        secret_env: Vec::new(),
        deadline_ms: Some(600_000),
        budget: Budget::default(),
        tree_budget: TreeBudget::default(),
        permissions: Permissions::default(),
        bounds: Bounds::default(),
        on_loss: OnLoss::default(),
        stall: StallPolicy::default(),
        idle_ms: None,
        output_schema: None,
        can: Capabilities { resume: true, warm: true, ..Capabilities::default() },
        account: None,
        labels: [(String::from("why"), String::from("sample"))].into(),
        durable: true,
    }
}
