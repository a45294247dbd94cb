//! Writes a file like `fixtures/store/v2.sqlite`: a store of the present format with subagents in every phase and with
//! events of every kind. Each was written once and stays as it is: `tests/formats.rs` loads it for ever. A new format gets
//! a file of its own.
//!
//! `cargo run -p subagent-store-sqlite --example make_fixture -- FILE`

#![allow(clippy::unwrap_used, reason = "a program for developers: a panic is its error")]

use std::path::PathBuf;
use std::sync::Arc;

use subagent_core::run::{Birth, Command, Subagent};
use subagent_model::{
    ActivityOn, BoundedText, Cause, EventKind, ExitFacts, Limit, Mode, Outcome, ProcessIdentity, Requester,
    RunNumber, Timestamp, Usage,
};
use subagent_store::conformance::Samples;
use subagent_store::{Content, ContentKind, IdempotencyKey, Transition};
use subagent_store_sqlite::{OpenOptions, SqliteStore};

fn main() {
    let path = PathBuf::from(std::env::args().nth(1).unwrap());
    assert!(!path.exists(), "{} is there already", path.display());
    let store = SqliteStore::open(&path, &OpenOptions::default()).unwrap();
    Maker { store: &store, samples: Samples::default() }.make();
    drop(store);
    // One file, the same each time but for SQLite's own counters.
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute("UPDATE meta SET value = 'node-fixture' WHERE name = 'node'", []).unwrap();
    connection.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
}

/// The file is kept in the repository: most of it should be short.
fn small(birth: &mut Birth) {
    birth.spec.prompt = BoundedText::whole("say hello").unwrap();
    birth.spec.description = None;
    birth.spec.exec = None;
    birth.spec.env.clear();
    birth.spec.labels.clear();
}

struct Maker<'a> {
    store: &'a SqliteStore,
    samples: Samples,
}

impl Maker<'_> {
    fn make(&mut self) {
        let queued = self.born(|birth| birth);
        self.retry();
        self.claimed();
        let running = self.running();
        self.progress(&running);
        self.approval();
        self.children(&queued);
        self.stopping();
        self.ends();
        self.stopped_with_late_result();
        self.resumed();
        self.long_texts();
    }

    fn run(&mut self, state: &Subagent, command: &Command) -> Arc<Subagent> {
        self.samples.run(self.store, state, command)
    }

    fn facts(&mut self, state: &Subagent, facts: Vec<EventKind>) -> Arc<Subagent> {
        let now = self.samples.now();
        Samples::commit(self.store, Transition::step(state, facts, now).unwrap())
    }

    fn born(&mut self, change: impl FnOnce(Transition) -> Transition) -> Arc<Subagent> {
        let birth = self.samples.birth_with(small);
        Samples::commit(self.store, change(birth))
    }

    fn claimed(&mut self) -> Arc<Subagent> {
        let born = self.born(|birth| birth);
        self.run(&born, &Samples::claim())
    }

    fn running(&mut self) -> Arc<Subagent> {
        let state = self.claimed();
        let attempt = state.last_attempt;
        let process = ProcessIdentity { pid: 4_321, start_time: 987_654, boot_id: String::from("0a1b2c3d") };
        self.run(&state, &Command::Started { attempt, process: Some(process) })
    }

    fn retry(&mut self) {
        let state = self.claimed();
        let requeue = Command::Requeue {
            attempt: state.last_attempt,
            reason: String::from("the program is busy"),
            exit: Some(ExitFacts { code: Some(75), signal: None, at: Some(state.updated_at) }),
            not_before: Some(Timestamp::never()),
            max_attempts: 3,
        };
        self.run(&state, &requeue);
    }

    fn progress(&mut self, state: &Subagent) {
        let attempt = state.last_attempt;
        let used = Usage {
            input: 100,
            output: 20,
            cache_write: 30,
            cache_read: 4_000,
            total: 150,
            cost_usd: Some(0.1),
        };
        let progress = Command::Progress {
            attempt,
            turns: 2,
            more: false,
            tool_uses: 3,
            compactions: 1,
            usage: Some(used),
            position: None,
        };
        let state = self.run(state, &progress);
        // Work was begun, so what is lost with its process is lost.
        let state = self.run(&state, &Command::Opened { attempt, session: None });
        let state = self.run(&state, &Command::Prompted { attempt, position: 0 });
        let renewed = EventKind::Renewed { attempt, lease_until: Timestamp::never() };
        let state = self.facts(&state, vec![renewed]);
        let late = Command::Conclude {
            attempt: subagent_model::AttemptNumber(0).next(),
            conclusion: match Samples::conclude(attempt, Outcome::Completed, "late") {
                Command::Conclude { conclusion, .. } => conclusion,
                _ => return,
            },
            children_live: false,
            max_attempts: 3,
        };
        let lost = self.run(
            &state,
            &Command::Gone {
                attempt,
                evidence: String::from("nothing is left of it"),
                children_live: false,
                max_attempts: 3,
            },
        );
        self.run(&lost, &late);
    }

    fn approval(&mut self) {
        let state = self.running();
        let attempt = state.last_attempt;
        let waiting = EventKind::Waiting { attempt, on: ActivityOn::Approval, held: None, lives: true };
        let state = self.facts(&state, vec![waiting.clone()]);
        self.facts(&state, vec![EventKind::Continued { attempt }, waiting]);
    }

    fn children(&mut self, parent: &Subagent) {
        let child = self.samples.child(parent);
        let child = Samples::commit(self.store, child);
        let state = self.run(&child, &Samples::claim());
        let attempt = state.last_attempt;
        let state = self.run(&state, &Command::Started { attempt, process: None });
        let Command::Conclude { attempt, conclusion, .. } =
            Samples::conclude(attempt, Outcome::Completed, "held")
        else {
            return;
        };
        self.run(&state, &Command::Conclude { attempt, conclusion, children_live: true, max_attempts: 3 });
        let grandchild = self.samples.child(&child);
        Samples::commit(self.store, grandchild);
    }

    fn stopping(&mut self) {
        let state = self.running();
        self.run(
            &state,
            &Command::Stop {
                actor: String::from("user:1000"),
                cause: Cause::Requested,
                drop_follow_ups: false,
            },
        );
    }

    fn ends(&mut self) {
        let outcomes = [
            Outcome::Completed,
            Outcome::Steered,
            Outcome::Aborted { limit: Limit::Deadline },
            Samples::failure(),
        ];
        for outcome in outcomes {
            let state = self.running();
            let end = Samples::conclude(state.last_attempt, outcome, "é漢🦀");
            self.run(&state, &end);
        }
        let detached = self.samples.birth_with(|birth| {
            small(birth);
            birth.spec.mode = Mode::Detached;
        });
        let detached = Samples::commit(self.store, detached);
        self.samples.end(self.store, &detached, Outcome::Completed);
        let state = self.born(|birth| birth);
        let ended = self.samples.end(self.store, &state, Outcome::Completed);
        let (run, carrier) = (ended.run.number, String::from("sse"));
        let claim = Command::ClaimDelivery { run, carrier: carrier.clone(), until: Timestamp::never() };
        let claimed = self.run(&ended, &claim);
        let back = Command::ReturnDelivery { run, carrier, reason: String::from("it hung up") };
        let returned = self.run(&claimed, &back);
        self.samples.acknowledge(self.store, &returned);
    }

    fn stopped_with_late_result(&mut self) {
        let state = self.running();
        let stop = Command::Stop {
            actor: String::from("user:1000"),
            cause: Cause::ParentStopped,
            drop_follow_ups: false,
        };
        let state = self.run(&state, &stop);
        let late = Samples::conclude(state.last_attempt, Samples::failure(), "half of it");
        self.run(&state, &late);
    }

    fn resumed(&mut self) {
        let key = IdempotencyKey { requester: Requester::from("user:1000"), key: String::from("only once") };
        let state = self.born(|birth| birth.with_key(key));
        let ended = self.samples.end(self.store, &state, Outcome::Completed);
        let consumed = self.samples.acknowledge(self.store, &ended);
        let you = Requester::from("someone else");
        self.run(&consumed, &Samples::resume(&you));
        // One whose first two runs are unread: of the requester, and of someone else; the third is live.
        let state = self.born(|birth| birth);
        let ended = self.samples.end(self.store, &state, Outcome::Completed);
        let resumed = self.run(&ended, &Samples::resume(&you));
        let ended = self.samples.end(self.store, &resumed, Samples::failure());
        self.run(&ended, &Samples::resume(&state.requester));
    }

    fn long_texts(&mut self) {
        let text = "all of a long prompt. ".repeat(40);
        let birth = self.samples.birth_with(|birth| {
            let sha256 = Some(String::from("5e1f").repeat(16));
            let preview = String::from("all of a long");
            birth.spec.prompt = BoundedText { preview, bytes: text.len() as u64, sha256, truncated: true };
        });
        let whole = Content { run: RunNumber(1), kind: ContentKind::Prompt, text: text.as_str().into() };
        Samples::commit(self.store, birth.with_content(whole));
    }
}
