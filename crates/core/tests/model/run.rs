//! One run on one or two nodes: claims, leases, stale reads, shims with watchdogs, exit records, crashes, stops.
//!
//! | Invariant | Predicate |
//! |---|---|
//! | 1 | `ONLY_THE_LIVE_ATTEMPT`, `ONE_PROCESS` |
//! | 2 | `AN_END_IS_FINAL` |
//! | 3 | `STOP_WINS`, `LATE_TEXT_IS_KEPT` |
//! | 4 | `NEVER_RUN_AGAIN`, `NEVER_LOST`, `LOST_IS_NOT_GUESSED` |
//! | 5 | `A_STOP_ENDS` (liveness, without the agent's help and without waiting for a lease), `NO_LATE_START` |
//! | 6 | `A_RECORD_FIRST`, `ORPHANS_ARE_REAPED` (liveness) |
//! | 12 | all of them: daemons crash, and machines are lost, at every point |

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use subagent_core::lease::{Lease, Watchdog};
use subagent_core::recover::{Found, Plan, plan};
use subagent_core::run::{Command, Phase, Subagent, decide};
use subagent_model::{AttemptNumber, Mark, Mode, NodeId, OnLoss, Outcome, SpawnSpec, Status, Timestamp};

mod moves;

use super::explore::{Move, World, must_break, must_hold};
use crate::common::commands::MOST as MAX_ATTEMPTS;
use crate::common::{at, born, spec};

const ONLY_THE_LIVE_ATTEMPT: &str = "1: only the live attempt changes the record";
const ONE_PROCESS: &str = "1: at most one process of the run lives";
const AN_END_IS_FINAL: &str = "2: an ended run never changes";
const STOP_WINS: &str = "3: an accepted stop ends as stopped, at the time of the first stop";
const LATE_TEXT_IS_KEPT: &str = "3: what comes after the stop is kept and marked partial";
const NEVER_RUN_AGAIN: &str = "4: finished work is never run again";
const NEVER_LOST: &str = "4: finished work is not lost to the crash of a daemon";
const LOST_IS_NOT_GUESSED: &str = "4: lost is said only when nothing is left of the attempt";
const A_STOP_ENDS: &str = "5: an accepted stop ends the run without waiting for the agent or a lease";
const NO_LATE_START: &str = "5: no process of a run starts after its end";
const A_RECORD_FIRST: &str = "6: a record names the attempt before its process exists";
const ORPHANS_ARE_REAPED: &str = "6: a process whose attempt is not the live one is reaped";
const FACTS_APPLY: &str = "11: every decided fact applies";

/// Ticks are seconds.
const LEASE_TICKS: u64 = 3;

/// A rule that is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mutant {
    /// Facts are taken from any attempt.
    NoFence,
    /// A late end counts too.
    SecondEndCounts,
    /// What the child brings after a stop decides.
    NoStopGuard,
    /// A later stop replaces the first.
    LaterStopMoves,
    /// A reclaim of a run that is being stopped starts it again.
    ReclaimForgetsStop,
    /// So does a failed start.
    RequeueForgetsStop,
    /// Late text is dropped.
    LateTextDropped,
    /// The shim lets the child live when its daemon is silent.
    NoWatchdog,
    /// The watchdog gets a whole lease, however old the record is that was read.
    WatchdogIgnoresReadAge,
    /// The watchdog is extended before the lease is.
    WatchdogBeforeStore,
    /// The end of the child is known to the daemon's memory only.
    NoExitRecord,
    /// An expired lease is reclaimed though the node's own exit record is there.
    ReclaimBeforeReport,
    /// A start that was handed to a shim is taken for one that never was.
    LaunchMarkIgnored,
    /// Recovery plans over runs that other nodes hold.
    PlanForeign,
    /// The order to kill is given once, when the stop comes, and lives in memory.
    EdgeTriggered,
    /// A stop can only end through the end of a process.
    StopNeedsProcess,
    /// A stopped run is ended while its launch is still underway.
    LaunchOutlivesStop,
    /// The process is made before the slot is taken.
    SpawnBeforeClaim,
    /// Processes that nobody needs are let be.
    NoReap,
}

#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
struct Rules {
    nodes: usize,
    mutant: Option<Mutant>,
    /// Nodes stand still for any time, their clocks with them.
    pauses: bool,
    /// Only the predicates about the record: what holds even then.
    record_only: bool,
    /// Launches slip through after the end of their run: what reaping is for.
    late_launches: bool,
    /// The run may have to wait for children; it may be resumed once; the machine may be lost.
    wide: bool,
}

const ONE_NODE: Rules =
    Rules { nodes: 1, mutant: None, pauses: false, record_only: false, late_launches: false, wide: true };
const TWO_NODES: Rules = Rules { nodes: 2, wide: false, ..ONE_NODE };

#[derive(Clone)]
struct Node {
    up: bool,
    paused: bool,
    view: Option<View>,
    child: Option<Child>,
    exit: Option<Exit>,
    /// Attempts whose directory shows that a start was handed to a shim.
    launched: BTreeSet<AttemptNumber>,
    edge_kill: bool,
}

/// A record that was read a while ago and asks for a launch. Other reads lead to nothing, so they are left out.
#[derive(Clone)]
struct View {
    record: Rc<Subagent>,
    /// Ticks of the lease that are left, as this node's own clock sees it.
    left: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Child {
    attempt: AttemptNumber,
    watchdog: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Exit {
    attempt: AttemptNumber,
    by_itself: bool,
}

#[derive(Clone)]
struct RunWorld {
    rules: Rules,
    now: i64,
    record: Rc<Subagent>,
    nodes: [Node; 2],
    first_stop: Option<Timestamp>,
    finished: Option<AttemptNumber>,
    machine_lost: bool,
    broken: Option<&'static str>,
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    record: RecordKey,
    nodes: [NodeKey; 2],
    /// A stop was accepted, and whether the record still has the first.
    stop: (bool, bool),
    finished: Option<u32>,
    machine_lost: bool,
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct RecordKey {
    run: u32,
    status: Status,
    starting: bool,
    hold: Option<(u32, bool, u64)>,
    last: u32,
    attempts: usize,
    seen: (bool, bool),
}

#[derive(PartialEq, Eq, Hash)]
struct NodeKey {
    up: bool,
    paused: bool,
    view: Option<(u32, u64)>,
    child: Option<Child>,
    exit: Option<Exit>,
    launched: (bool, bool),
    edge_kill: bool,
}

fn lease() -> Lease {
    Lease::new(Duration::from_secs(LEASE_TICKS), Duration::from_secs(1)).unwrap()
}

/// Work that is begun with its process and is never begun again: what becomes of it is not left to a policy. It can be
/// resumed once it has ended.
fn resumable() -> Subagent {
    let mut spec = SpawnSpec { on_loss: OnLoss::Fail, ..spec(Mode::Async) };
    spec.can.resume = true;
    Subagent { session: Some("session-1".into()), ..born(spec) }
}

fn name(node: usize) -> NodeId {
    NodeId::from(["A", "B"][node])
}

fn ticks(watchdog: Watchdog) -> Option<u64> {
    match watchdog {
        Watchdog::After(left) => Some(left.as_secs()),
        Watchdog::TooLate | Watchdog::Never => None,
    }
}

impl RunWorld {
    fn new(rules: Rules) -> Self {
        let node = || Node {
            up: true,
            paused: false,
            view: None,
            child: None,
            exit: None,
            launched: BTreeSet::new(),
            edge_kill: false,
        };
        Self {
            rules,
            now: 0,
            record: Rc::new(resumable()),
            nodes: [node(), node()],
            first_stop: None,
            finished: None,
            machine_lost: false,
            broken: None,
        }
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.rules.mutant == Some(mutant)
    }

    fn lease_left(&self) -> u64 {
        self.record.hold().map_or(0, |hold| hold.lease_until.since(at(self.now)).as_secs())
    }

    fn owns(&self, node: usize) -> bool {
        self.record.hold().is_some_and(|hold| hold.owner == name(node))
    }

    fn is_live(&self, node: usize, attempt: AttemptNumber) -> bool {
        self.owns(node) && self.record.hold().is_some_and(|hold| hold.attempt == attempt)
    }

    /// What this node finds on its machine.
    fn found(&self, node: usize) -> Plan {
        let key = |attempt| self.record.key_of(attempt);
        let here = &self.nodes[node];
        let child = here.child.map(|child| (key(child.attempt), Found::Running));
        let exit = here.exit.map(|exit| (key(exit.attempt), Found::Exited));
        let found: BTreeMap<_, _> = exit.into_iter().chain(child).collect();
        let launched = if self.is(Mutant::LaunchMarkIgnored) {
            BTreeSet::new()
        } else {
            here.launched.iter().map(|attempt| key(*attempt)).collect()
        };
        // A node plans for the runs that it holds, and for no others.
        let mine = self.owns(node) || self.is(Mutant::PlanForeign);
        plan(mine.then_some(&*self.record), &found, &launched)
    }

    /// Decides a command and folds its facts in, as the writer of the store does. False when it is refused.
    fn tell(&mut self, mut command: Command) -> bool {
        let now = at(self.now);
        let before = Rc::clone(&self.record);
        let mut record = (*before).clone();
        let spoke_for = attempt_of(&command).copied();
        if self.is(Mutant::NoFence)
            && let (Some(hold), Some(attempt)) = (record.hold(), attempt_of_mut(&mut command))
        {
            *attempt = hold.attempt;
        }
        self.drop_rule(&mut record, &command);
        let Ok(facts) = decide(&record, &command, now) else { return false };
        for fact in &facts {
            if record.apply(now, fact).is_err() {
                self.broken = Some(FACTS_APPLY);
                return true;
            }
        }
        if self.is(Mutant::LateTextDropped)
            && let Phase::Ended(ended) = &mut record.run.phase
            && self.first_stop.is_some()
        {
            ended.result = None;
        }
        self.record = Rc::new(record);
        self.check_step(&before, &command, spoke_for);
        true
    }

    /// Rules of `decide` that a mutant drops: the state is shown to it as if the rule's condition did not hold.
    fn drop_rule(&self, record: &mut Subagent, command: &Command) {
        let stopping = match &record.run.phase {
            Phase::Stopping { hold, .. } => Some(hold.clone()),
            _ => None,
        };
        let forgets = match command {
            Command::Conclude { .. } => Some(Mutant::NoStopGuard),
            Command::Stop { .. } => Some(Mutant::LaterStopMoves),
            Command::Reclaim { .. } => Some(Mutant::ReclaimForgetsStop),
            Command::Requeue { .. } => Some(Mutant::RequeueForgetsStop),
            _ => None,
        };
        if let Some(hold) = stopping
            && forgets.is_some_and(|forgets| self.is(forgets))
        {
            record.run.phase = Phase::Running { hold, since: at(self.now) };
        }
        if self.is(Mutant::SecondEndCounts)
            && record.is_ended()
            && let Command::Conclude { attempt, .. } = command
        {
            let lease_until = at(self.now);
            let hold =
                subagent_core::run::Hold { attempt: *attempt, owner: name(0), lease_until, born_in: None };
            record.run.phase = Phase::Running { hold, since: at(self.now) };
        }
    }

    /// The predicates about a single step.
    fn check_step(&mut self, before: &Subagent, command: &Command, spoke_for: Option<AttemptNumber>) {
        let after = &self.record;
        let changed = before.run != after.run;
        if before.is_ended() && changed && !matches!(command, Command::Resume { .. }) {
            self.broken = Some(AN_END_IS_FINAL);
        } else if changed && spoke_for.is_some() && before.hold().map(|hold| hold.attempt) != spoke_for {
            self.broken = Some(ONLY_THE_LIVE_ATTEMPT);
        } else if let Phase::Ended(ended) = &after.run.phase
            && !before.is_ended()
        {
            let gone = |node: &Node| {
                node.child.is_none_or(|child| Some(child.attempt) != before.hold().map(|hold| hold.attempt))
            };
            if let Some(stop) = self.first_stop
                && (!matches!(ended.outcome, Outcome::Stopped { .. }) || ended.completed_at != stop)
            {
                self.broken = Some(STOP_WINS);
            } else if let (Command::Conclude { conclusion, .. }, Some(_)) = (command, self.first_stop)
                && (conclusion.result != ended.result
                    || ended.result.is_some() && !ended.marks.contains(&Mark::Partial))
            {
                self.broken = Some(LATE_TEXT_IS_KEPT);
            } else if matches!(ended.outcome, Outcome::Lost { .. }) {
                if !self.nodes.iter().all(gone) {
                    self.broken = Some(LOST_IS_NOT_GUESSED);
                } else if self.finished.is_some() && self.rules.nodes == 1 && !self.machine_lost {
                    self.broken = Some(NEVER_LOST);
                }
            }
        }
    }
}

fn attempt_of(command: &Command) -> Option<&AttemptNumber> {
    match command {
        Command::Renew { attempt, .. }
        | Command::Started { attempt, .. }
        | Command::Progress { attempt, .. }
        | Command::Conclude { attempt, .. }
        | Command::Requeue { attempt, .. }
        | Command::Gone { attempt, .. } => Some(attempt),
        _ => None,
    }
}

fn attempt_of_mut(command: &mut Command) -> Option<&mut AttemptNumber> {
    match command {
        Command::Renew { attempt, .. }
        | Command::Started { attempt, .. }
        | Command::Progress { attempt, .. }
        | Command::Conclude { attempt, .. }
        | Command::Requeue { attempt, .. }
        | Command::Gone { attempt, .. } => Some(attempt),
        _ => None,
    }
}

impl World for RunWorld {
    type Key = Key;

    fn key(&self) -> Key {
        let record = &self.record;
        let live = record.hold().map(|hold| hold.attempt);
        let seen = |facts: &subagent_model::AttemptFacts| facts.started_at.is_some();
        let node = |node: &Node| {
            let view = node.view.as_ref().and_then(|view| Some((view.record.hold()?.attempt, view.left)));
            let launched = |attempt: Option<AttemptNumber>| {
                attempt.is_some_and(|attempt| node.launched.contains(&attempt))
            };
            NodeKey {
                up: node.up,
                paused: node.paused,
                launched: (launched(live), launched(view.map(|(attempt, _)| attempt))),
                view: view.map(|(attempt, left)| (attempt.0, left)),
                child: node.child,
                exit: node.exit,
                edge_kill: node.edge_kill,
            }
        };
        Key {
            record: RecordKey {
                run: record.run.number.0,
                status: record.status(),
                starting: matches!(record.run.phase, Phase::Starting { .. }),
                hold: record.hold().map(|hold| (hold.attempt.0, hold.owner == name(0), self.lease_left())),
                last: record.last_attempt.0,
                attempts: record.run.attempts.len(),
                seen: (record.run.attempts.last().is_some_and(seen), record.run.attempts.iter().any(seen)),
            },
            nodes: [node(&self.nodes[0]), node(&self.nodes[1])],
            stop: (
                self.first_stop.is_some(),
                match &record.run.phase {
                    Phase::Stopping { stop, .. } => Some(stop.at) == self.first_stop,
                    _ => true,
                },
            ),
            finished: self.finished.map(|attempt| attempt.0),
            machine_lost: self.machine_lost,
        }
    }

    fn moves(&self) -> Vec<Move<Self>> {
        if self.broken.is_some() {
            // What the last step broke was looked at, or is not looked for.
            return Self { broken: None, ..self.clone() }.moves();
        }
        let mut moves = vec![];
        let mut push =
            |label: String, sure: bool, to: Self| moves.push(Move { label, sure, to, breaks: None });
        self.user_moves(&mut push);
        push("tick".into(), false, self.tick());
        for node in 0..self.rules.nodes {
            let here = &self.nodes[node];
            if self.rules.pauses {
                let mut to = self.clone();
                to.nodes[node].paused = !here.paused;
                push(format!("{}: {}", name(node), if here.paused { "wake" } else { "pause" }), false, to);
            }
            if here.paused {
                continue;
            }
            self.machine_moves(node, &mut push);
            if here.up {
                push(format!("{}: crash", name(node)), false, self.crash(node));
                self.start_moves(node, &mut push);
                self.child_moves(node, &mut push);
                self.settle_moves(node, &mut push);
            } else {
                let mut to = self.clone();
                to.nodes[node].up = true;
                push(format!("{}: start", name(node)), true, to);
            }
        }
        moves
    }

    fn breaks(&self) -> Option<&'static str> {
        if self.broken.is_some() {
            return self.broken;
        }
        let children = self.nodes.iter().filter_map(|node| node.child);
        if children.clone().any(|child| child.attempt > self.record.last_attempt) {
            return Some(A_RECORD_FIRST);
        }
        if !self.rules.record_only && children.count() > 1 {
            return Some(ONE_PROCESS);
        }
        // Two nodes cannot know of each other's exit records: there the lease is all the protection.
        if self.rules.nodes == 1
            && !self.rules.late_launches
            && self.finished.is_some_and(|attempt| self.record.last_attempt > attempt)
        {
            return Some(NEVER_RUN_AGAIN);
        }
        None
    }

    fn duties(&self) -> Vec<(&'static str, bool, bool)> {
        if self.rules.pauses {
            return vec![];
        }
        let childless = self.nodes.iter().all(|node| node.child.is_none());
        let orphan = (0..self.rules.nodes)
            .any(|node| self.nodes[node].child.is_some_and(|child| !self.is_live(node, child.attempt)));
        vec![
            (A_STOP_ENDS, self.first_stop.is_some(), self.record.is_ended() && childless),
            (ORPHANS_ARE_REAPED, orphan, !orphan),
        ]
    }
}

#[expect(clippy::disallowed_methods, reason = "a test is told by its environment how long it may take")]
fn long() -> bool {
    std::env::var_os("SUBAGENT_TEST_LONG").is_some()
}

fn mutant(mutant: Mutant, predicate: &str, rules: Rules) {
    let rules = Rules { mutant: Some(mutant), ..rules };
    must_break(&format!("{mutant:?}"), predicate, RunWorld::new(rules));
}

#[test]
fn the_design_holds_on_one_node() {
    must_hold("one node", RunWorld::new(ONE_NODE));
}

#[test]
fn the_design_holds_on_two_nodes() {
    must_hold("two nodes", RunWorld::new(TWO_NODES));
}

#[test]
fn invariant_1_one_attempt_and_one_process() {
    mutant(Mutant::NoFence, ONLY_THE_LIVE_ATTEMPT, TWO_NODES);
    mutant(Mutant::NoWatchdog, ONE_PROCESS, TWO_NODES);
    mutant(Mutant::WatchdogIgnoresReadAge, ONE_PROCESS, TWO_NODES);
    mutant(Mutant::WatchdogBeforeStore, ONE_PROCESS, TWO_NODES);
}

#[test]
fn invariant_2_an_end_is_final() {
    mutant(Mutant::SecondEndCounts, AN_END_IS_FINAL, ONE_NODE);
}

#[test]
fn invariant_3_stop_wins() {
    mutant(Mutant::NoStopGuard, STOP_WINS, ONE_NODE);
    mutant(Mutant::LaterStopMoves, STOP_WINS, ONE_NODE);
    mutant(Mutant::ReclaimForgetsStop, STOP_WINS, TWO_NODES);
    mutant(Mutant::RequeueForgetsStop, STOP_WINS, ONE_NODE);
    mutant(Mutant::LateTextDropped, LATE_TEXT_IS_KEPT, ONE_NODE);
}

#[test]
fn invariant_4_finished_work_is_kept() {
    mutant(Mutant::NoExitRecord, NEVER_LOST, ONE_NODE);
    mutant(Mutant::ReclaimBeforeReport, NEVER_RUN_AGAIN, ONE_NODE);
    mutant(Mutant::LaunchMarkIgnored, NEVER_RUN_AGAIN, ONE_NODE);
    mutant(Mutant::PlanForeign, LOST_IS_NOT_GUESSED, TWO_NODES);
}

#[test]
fn invariant_5_a_stop_ends() {
    mutant(Mutant::EdgeTriggered, A_STOP_ENDS, ONE_NODE);
    mutant(Mutant::StopNeedsProcess, A_STOP_ENDS, ONE_NODE);
    mutant(Mutant::LaunchOutlivesStop, NO_LATE_START, ONE_NODE);
}

#[test]
fn invariant_6_no_process_is_unowned() {
    mutant(Mutant::SpawnBeforeClaim, A_RECORD_FIRST, ONE_NODE);
    let late = Rules { late_launches: true, ..ONE_NODE };
    must_hold("one node, launches slip through", RunWorld::new(late));
    mutant(Mutant::NoReap, ORPHANS_ARE_REAPED, late);
}

/// Resumes, children and lost machines on two nodes: long, run with `SUBAGENT_TEST_LONG=1`.
#[test]
fn the_design_holds_on_two_nodes_with_everything_else() {
    if long() {
        must_hold("two nodes, wide", RunWorld::new(Rules { wide: true, ..TWO_NODES }));
    }
}

/// Nothing can keep two processes apart when a node stands still for longer than its lease, with its clock. What is
/// written stays right even so. Long: run with `SUBAGENT_TEST_LONG=1`.
#[test]
fn unbounded_pauses_cost_exclusion_but_never_the_record() {
    if !long() {
        return;
    }
    let pauses = Rules { pauses: true, ..TWO_NODES };
    must_break("unbounded pauses", ONE_PROCESS, RunWorld::new(pauses));
    let record_only = Rules { record_only: true, ..pauses };
    must_hold("unbounded pauses, the record", RunWorld::new(record_only));
    mutant(Mutant::NoFence, ONLY_THE_LIVE_ATTEMPT, record_only);
}
