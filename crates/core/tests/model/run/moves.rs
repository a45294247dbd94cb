//! What can happen to the run: what people ask, what the machine does, and what the nodes do about it.

use std::rc::Rc;

use subagent_core::need::{Need, needs};
use subagent_core::recover::Step;
use subagent_core::run::{Command, Phase};
use subagent_model::{ErrorCode, Timestamp};

use super::{
    Child, Exit, LEASE_TICKS, MAX_ATTEMPTS, Mutant, NO_LATE_START, RunWorld, View, lease, name, ticks,
};
use crate::common::commands::{gone, resume, stop};
use crate::common::{at, completed, failed};

impl RunWorld {
    pub(super) fn user_moves(&self, push: &mut impl FnMut(String, bool, Self)) {
        if !self.record.is_ended() {
            let mut to = self.clone();
            if to.tell(stop()) && to.first_stop.is_none() {
                to.first_stop = Some(at(self.now));
                for (index, node) in to.nodes.iter_mut().enumerate() {
                    node.edge_kill |= node.up && self.owns(index);
                }
            }
            push("stop".into(), false, to);
        }
        if self.rules.wide && self.record.is_ended() && self.record.run.number.0 == 1 {
            let mut to = self.clone();
            to.tell(resume());
            (to.first_stop, to.finished, to.machine_lost) = (None, None, false);
            push("resume".into(), false, to);
        }
        if needs(&self.record, at(self.now)).contains(&Need::Children) {
            let mut to = self.clone();
            to.tell(Command::ChildrenEnded { unread: 0 });
            push("children end".into(), false, to);
        }
    }

    pub(super) fn tick(&self) -> Self {
        let mut to = self.clone();
        to.now += 1;
        for node in to.nodes.iter_mut().filter(|node| !node.paused) {
            if let Some(view) = &mut node.view {
                view.left = view.left.saturating_sub(1);
            }
            if let Some(child) = &mut node.child {
                child.watchdog = child.watchdog.saturating_sub(1);
                if child.watchdog == 0 && !self.is(Mutant::NoWatchdog) {
                    node.exit = Some(Exit { attempt: child.attempt, by_itself: false });
                    node.child = None;
                }
            }
        }
        to
    }

    pub(super) fn crash(&self, node: usize) -> Self {
        let mut to = self.clone();
        let here = &mut to.nodes[node];
        here.up = false;
        here.view = None;
        here.edge_kill = false;
        if self.is(Mutant::NoExitRecord) {
            here.exit = None;
        }
        to
    }

    /// What the machine does, whether a daemon is there or not.
    pub(super) fn machine_moves(&self, node: usize, push: &mut impl FnMut(String, bool, Self)) {
        let n = name(node);
        let here = &self.nodes[node];
        if let Some(child) = here.child {
            let mut to = self.clone();
            to.nodes[node].child = None;
            to.nodes[node].exit = Some(Exit { attempt: child.attempt, by_itself: true });
            // An orphan's end is nobody's work.
            if self.is_live(node, child.attempt) {
                to.finished = Some(child.attempt);
            }
            push(format!("{n}: child {} ends", child.attempt), false, to);
        }
        if self.rules.wide && !self.machine_lost {
            let mut to = self.crash(node);
            to.machine_lost = true;
            to.nodes[node].child = None;
            push(format!("{n}: machine lost"), false, to.clone());
            // The child had finished, and its exit record was not on the disk yet.
            if let Some(child) = here.child.filter(|child| self.is_live(node, child.attempt)) {
                to.finished = Some(child.attempt);
                push(format!("{n}: machine lost as child {} ends", child.attempt), false, to);
            }
        }
    }

    /// Taking the run, and making its process.
    pub(super) fn start_moves(&self, node: usize, push: &mut impl FnMut(String, bool, Self)) {
        let n = name(node);
        let here = &self.nodes[node];
        let lease_until = lease().until(at(self.now));
        let mut to = self.clone();
        if to.tell(Command::Claim { owner: n.clone(), lease_until }) {
            push(format!("{n}: claim"), true, to);
        }
        // Of its own attempt a node knows more than that the lease ran out. It takes it over from itself only when
        // it is certain that no work was begun.
        let unbegun = self.found(node).steps.iter().any(|(_, step)| matches!(step, Step::Relaunch { .. }));
        if !self.owns(node) || unbegun || self.is(Mutant::ReclaimBeforeReport) {
            let mut to = self.clone();
            if to.tell(Command::Reclaim { owner: n.clone(), lease_until, max_attempts: MAX_ATTEMPTS }) {
                push(format!("{n}: reclaim"), true, to);
            }
        }
        let asks = needs(&self.record, at(self.now));
        let mut to = self.clone();
        if self.owns(node) && asks.iter().any(|need| matches!(need, Need::Launch { .. })) {
            to.nodes[node].view = Some(View { record: Rc::clone(&self.record), left: self.lease_left() });
            push(format!("{n}: read"), true, to);
        } else if self.is(Mutant::SpawnBeforeClaim) && !self.record.is_ended() && here.child.is_none() {
            let attempt = self.record.last_attempt.next();
            to.nodes[node].child = Some(Child { attempt, watchdog: LEASE_TICKS - 1 });
            push(format!("{n}: spawn {attempt}"), true, to);
        }
        self.launch(node, push);
    }

    /// Acts on what was read.
    fn launch(&self, node: usize, push: &mut impl FnMut(String, bool, Self)) {
        let n = name(node);
        let here = &self.nodes[node];
        let Some(view) = &here.view else { return };
        let Some(hold) = view.record.hold() else { return };
        if here.child.is_some() || here.exit.is_some() || here.launched.contains(&hold.attempt) {
            return;
        }
        // The node's own clock, which stood still while the node did.
        let own_now = Timestamp::from_micros(
            hold.lease_until.as_micros() - i64::try_from(view.left).unwrap() * 1_000_000,
        );
        let watchdog = if self.is(Mutant::WatchdogIgnoresReadAge) {
            ticks(lease().watchdog(lease().until(own_now), own_now))
        } else {
            ticks(lease().watchdog(hold.lease_until, own_now))
        };
        let Some(watchdog) = watchdog else { return };
        let mut to = self.clone();
        to.nodes[node].launched.insert(hold.attempt);
        let mut torn = to.crash(node);
        torn.nodes[node].child = None;
        push(format!("{n}: crash in the launch of {}", hold.attempt), false, torn);
        to.nodes[node].view = None;
        to.nodes[node].child = Some(Child { attempt: hold.attempt, watchdog });
        let over = self.record.is_ended() || self.record.run.number != view.record.run.number;
        if over && !self.rules.late_launches && !self.rules.record_only {
            to.broken = Some(NO_LATE_START);
        }
        push(format!("{n}: spawn {}", hold.attempt), true, to);
    }

    /// Watching, renewing, killing and reaping a child.
    pub(super) fn child_moves(&self, node: usize, push: &mut impl FnMut(String, bool, Self)) {
        let n = name(node);
        let here = &self.nodes[node];
        let Some(child) = here.child else { return };
        let attempt = child.attempt;
        if self.is_live(node, attempt) {
            let mut to = self.clone();
            if to.tell(Command::Started { attempt, process: None }) {
                push(format!("{n}: saw {attempt} running"), true, to);
            }
            self.renew(node, child, push);
        }
        let ordered = if self.is(Mutant::EdgeTriggered) {
            here.edge_kill
        } else {
            self.is_live(node, attempt) && needs(&self.record, at(self.now)).contains(&Need::Kill { attempt })
        };
        if ordered {
            let mut to = self.clone();
            to.nodes[node].child = None;
            to.nodes[node].edge_kill = false;
            to.nodes[node].exit = Some(Exit { attempt, by_itself: false });
            push(format!("{n}: kill {attempt}"), true, to);
        }
        let orphans = self.found(node).reap;
        if orphans.iter().any(|key| key.attempt == attempt) && !self.is(Mutant::NoReap) {
            let mut to = self.clone();
            to.nodes[node].child = None;
            push(format!("{n}: reap {attempt}"), true, to);
        }
    }

    /// The lease first, the watchdog afterwards, and a crash in between.
    fn renew(&self, node: usize, child: Child, push: &mut impl FnMut(String, bool, Self)) {
        let n = name(node);
        let lease_until = lease().until(at(self.now));
        let extended = ticks(lease().watchdog(lease_until, at(self.now))).unwrap();
        let mut to = self.clone();
        if to.tell(Command::Renew { attempt: child.attempt, lease_until }) {
            push(format!("{n}: crash in the renewal"), false, to.crash(node));
            to.nodes[node].child = Some(Child { watchdog: extended, ..child });
            push(format!("{n}: renew"), true, to);
        }
        if self.is(Mutant::WatchdogBeforeStore) {
            let mut to = self.crash(node);
            to.nodes[node].child = Some(Child { watchdog: extended, ..child });
            push(format!("{n}: crash in the renewal"), false, to);
        }
    }

    /// What recovery and every later look at the run do about its end.
    pub(super) fn settle_moves(&self, node: usize, push: &mut impl FnMut(String, bool, Self)) {
        let n = name(node);
        let here = &self.nodes[node];
        if let Some(Exit { attempt, by_itself }) = here.exit {
            let stopping = matches!(self.record.run.phase, Phase::Stopping { .. });
            let conclude = |children_live| Command::Conclude {
                attempt,
                conclusion: Box::new(if by_itself { completed("done") } else { failed(ErrorCode::Crashed) }),
                children_live,
                max_attempts: MAX_ATTEMPTS,
            };
            let requeue = Command::Requeue {
                attempt,
                reason: "the watchdog ended it".into(),
                exit: None,
                not_before: None,
                max_attempts: MAX_ATTEMPTS,
            };
            let restarts = !by_itself && (!stopping || self.is(Mutant::RequeueForgetsStop));
            let mut commands = vec![if restarts { requeue } else { conclude(false) }];
            if by_itself && self.rules.wide {
                commands.push(conclude(true));
            }
            for command in commands {
                let mut to = self.clone();
                if to.tell(command) {
                    push(format!("{n}: crash after the report of {attempt}"), false, to.crash(node));
                }
                to.nodes[node].exit = None;
                push(format!("{n}: report the exit of {attempt}"), true, to);
            }
        }
        for (_, step) in self.found(node).steps {
            let attempt = match step {
                Step::FinishStop { attempt } if !self.is(Mutant::StopNeedsProcess) => attempt,
                // While a launch is underway nothing is said about it.
                Step::Lose { attempt } if here.view.is_none() => attempt,
                _ => continue,
            };
            let mut to = self.clone();
            // One daemon does both: it gives up its own launch before it says that there is none.
            if !self.rules.late_launches && !self.is(Mutant::LaunchOutlivesStop) {
                to.nodes[node].view = None;
            }
            if to.tell(gone(attempt)) {
                push(format!("{n}: nothing is left of {attempt}"), true, to);
            }
        }
    }
}
