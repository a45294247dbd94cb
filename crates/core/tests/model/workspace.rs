//! One workspace on the real ledger: a directory that attempts, and people, write into; commits that fail; a daemon that
//! crashes between a step on the disk and its record.
//!
//! | Invariant | Predicate |
//! |---|---|
//! | 7 | `UNSAVED_WORK_SURVIVES`, `RELEASED_ONCE`, `ONE_OWNER`, `NOT_UNDER_A_PROCESS`, `NOTHING_IS_LEFT` (liveness) |
//! | 12 | all of them |

use subagent_core::workspace::{Findings, Place, Standing, Workspace, WorkspaceCommand, WorkspaceFact};
use subagent_model::AttemptNumber;

use super::explore::{Move, World, must_break, must_hold};

const UNSAVED_WORK_SURVIVES: &str = "7: unsaved work survives";
const RELEASED_ONCE: &str = "7: a workspace is released once by each that took it";
const ONE_OWNER: &str = "7: one process tree works in a workspace";
const NOT_UNDER_A_PROCESS: &str = "7: no directory is taken away under a process";
const NOTHING_IS_LEFT: &str = "7: a removed workspace leaves no directory, unless there is work in it";

const ATTEMPTS: u32 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mutant {
    /// Only changed files count as work, not commits.
    HeadIsNotCompared,
    /// It is removed without a look.
    NoLook,
    /// It is not looked at again when the directory is deleted.
    NoSecondLook,
    /// It may be used by two.
    TwoOwners,
    /// It is released while the process still works.
    ReleasedBeforeTheEnd,
    /// A second release counts.
    ReleaseCountsAgain,
    /// Deleting is tried once, by the daemon that decided it.
    EdgeTriggered,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Directory {
    there: bool,
    found: Findings,
}

#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct WorkspaceWorld {
    mutant: Option<Mutant>,
    ledger: Workspace,
    disk: Directory,
    /// Attempts whose process lives, by bit.
    alive: u8,
    released: [u8; ATTEMPTS as usize + 1],
    wants_delete: bool,
    up: bool,
    destroyed: bool,
    pulled_away: bool,
    edits: u8,
}

impl WorkspaceWorld {
    fn new(mutant: Option<Mutant>) -> Self {
        let place = Place { path: "/w".into(), branch: "b".into(), base: "0".into() };
        Self {
            mutant,
            ledger: Workspace::planned(place),
            disk: Directory { there: false, found: Findings { on_branch: true, ..Findings::default() } },
            alive: 0,
            released: [0; 3],
            wants_delete: false,
            up: true,
            destroyed: false,
            pulled_away: false,
            edits: 0,
        }
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// What the daemon sees when it looks.
    fn look(&self) -> Findings {
        let commits = self.disk.found.commits && !self.is(Mutant::HeadIsNotCompared);
        if self.is(Mutant::NoLook) { Findings::default() } else { Findings { commits, ..self.disk.found } }
    }

    fn told(&self, command: &WorkspaceCommand) -> Option<Self> {
        let mut facts = match self.ledger.decide(command) {
            Ok(facts) => facts,
            Err(_) => match command {
                WorkspaceCommand::Use { attempt } if self.is(Mutant::TwoOwners) && self.disk.there => {
                    vec![WorkspaceFact::Taken { attempt: *attempt }]
                }
                _ => return None,
            },
        };
        if let (true, [], WorkspaceCommand::Release { attempt, .. }) =
            (self.is(Mutant::ReleaseCountsAgain), facts.as_slice(), command)
        {
            facts = vec![WorkspaceFact::Released { attempt: *attempt, work: None }];
        }
        if facts.is_empty() {
            return None;
        }
        let mut to = self.clone();
        for fact in &facts {
            // A mutant's fact may not even apply: what it does to the disk counts.
            let _ = to.ledger.apply(fact);
            if let WorkspaceFact::Released { attempt, .. } = fact {
                to.released[attempt.0 as usize] += 1;
            }
        }
        to.wants_delete = to.ledger.standing == Standing::Removed;
        Some(to)
    }

    fn on_disk(&self, change: impl FnOnce(&mut Directory)) -> Self {
        let mut to = self.clone();
        change(&mut to.disk);
        to
    }

    /// Processes and people write.
    fn writers(&self, push: &mut impl FnMut(String, bool, Self)) {
        if self.disk.there && self.alive != 0 {
            push("the child writes".into(), false, self.on_disk(|disk| disk.found.uncommitted = true));
            for on_branch in [true, false] {
                let to = self.on_disk(|disk| {
                    disk.found = Findings {
                        uncommitted: false,
                        commits: true,
                        on_branch: on_branch && disk.found.on_branch,
                    };
                });
                push(format!("the child commits{}", if on_branch { "" } else { " on no branch" }), false, to);
            }
        }
        if self.disk.there && self.edits == 0 {
            let mut to = self.on_disk(|disk| disk.found.uncommitted = true);
            to.edits = 1;
            push("a person edits".into(), false, to);
        }
        for attempt in 1..=ATTEMPTS {
            if self.alive & (1 << attempt) != 0 {
                let to = Self { alive: self.alive & !(1 << attempt), ..self.clone() };
                push(format!("process {attempt} ends"), false, to);
            }
        }
    }

    fn daemon(&self, push: &mut impl FnMut(String, bool, Self)) {
        if self.ledger.standing == Standing::Planned {
            let made = self.on_disk(|disk| disk.there = true);
            push("crash after making it".into(), false, Self { up: false, ..made.clone() });
            if let Some(to) = made.told(&WorkspaceCommand::Create) {
                push("create".into(), true, to);
            }
        }
        for number in 1..=ATTEMPTS {
            let attempt = AttemptNumber(number);
            if self.alive & (1 << number) == 0
                && let Some(mut to) = self.told(&WorkspaceCommand::Use { attempt })
            {
                to.alive |= 1 << number;
                push(format!("use by {number}"), false, to);
            }
            let lives = self.alive & (1 << number) != 0;
            if !lives || self.is(Mutant::ReleasedBeforeTheEnd) {
                self.release(attempt, push);
            }
            let from = AttemptNumber(number - 1);
            if self.alive == 0
                && let Some(mut to) = self.told(&WorkspaceCommand::TakeOver { from, to: attempt })
            {
                to.alive |= 1 << number;
                push(format!("{number} takes over"), false, to);
            }
        }
        if let Some(to) = self.told(&WorkspaceCommand::Merge { found: self.look() }) {
            push("merge".into(), false, to);
        }
        if let Some(to) = self.told(&WorkspaceCommand::Remove { found: self.look() }) {
            push("remove".into(), false, to);
        }
        self.delete(push);
    }

    /// Commits what there is, unless git refuses, looks, and releases.
    fn release(&self, attempt: AttemptNumber, push: &mut impl FnMut(String, bool, Self)) {
        let owns = self.ledger.standing == Standing::InUse { owner: attempt };
        let committed = self.on_disk(|disk| {
            if disk.found.uncommitted && owns {
                disk.found = Findings { uncommitted: false, commits: true, ..disk.found };
            }
        });
        for (label, before) in [("release", committed), ("the commit fails, release", self.clone())] {
            let found = before.look();
            if let Some(to) = before.told(&WorkspaceCommand::Release { attempt, found }) {
                push(format!("{label} by {attempt}"), true, to);
            }
        }
    }

    fn delete(&self, push: &mut impl FnMut(String, bool, Self)) {
        let found = if self.is(Mutant::NoSecondLook) { Findings::default() } else { self.look() };
        let asked = !self.is(Mutant::EdgeTriggered) || self.wants_delete;
        if self.disk.there && asked && self.ledger.may_delete(found) {
            let mut to = self.on_disk(|disk| disk.there = false);
            to.destroyed |= self.disk.found.unsaved();
            to.pulled_away |= self.alive != 0;
            push("delete".into(), true, to);
        }
    }
}

impl World for WorkspaceWorld {
    type Key = (Standing, u32, Directory, u8, [u8; 3], bool, bool, bool, u8);

    fn key(&self) -> Self::Key {
        (
            self.ledger.standing,
            self.ledger.last_owner.0,
            self.disk.clone(),
            self.alive,
            self.released,
            self.wants_delete,
            self.up,
            self.destroyed,
            self.edits,
        )
    }

    fn moves(&self) -> Vec<Move<Self>> {
        let mut moves = vec![];
        let mut push =
            |label: String, sure: bool, to: Self| moves.push(Move { label, sure, to, breaks: None });
        self.writers(&mut push);
        if self.up {
            self.daemon(&mut push);
            push("crash".into(), false, Self { up: false, wants_delete: false, ..self.clone() });
        } else {
            push("start".into(), true, Self { up: true, ..self.clone() });
        }
        moves
    }

    fn breaks(&self) -> Option<&'static str> {
        if self.destroyed {
            return Some(UNSAVED_WORK_SURVIVES);
        }
        if self.pulled_away {
            return Some(NOT_UNDER_A_PROCESS);
        }
        if self.alive.count_ones() > 1 {
            return Some(ONE_OWNER);
        }
        self.released.iter().any(|count| *count > 1).then_some(RELEASED_ONCE)
    }

    fn duties(&self) -> Vec<(&'static str, bool, bool)> {
        let left = self.ledger.standing == Standing::Removed && self.disk.there && !self.disk.found.unsaved();
        vec![(NOTHING_IS_LEFT, left, !left)]
    }
}

#[test]
fn the_design_holds() {
    must_hold("workspace", WorkspaceWorld::new(None));
}

#[test]
fn invariant_7_a_workspace_is_released_once_and_unsaved_work_survives() {
    for (mutant, predicate) in [
        (Mutant::HeadIsNotCompared, UNSAVED_WORK_SURVIVES),
        (Mutant::NoLook, UNSAVED_WORK_SURVIVES),
        (Mutant::NoSecondLook, UNSAVED_WORK_SURVIVES),
        (Mutant::ReleasedBeforeTheEnd, NOT_UNDER_A_PROCESS),
        (Mutant::ReleaseCountsAgain, RELEASED_ONCE),
        (Mutant::TwoOwners, ONE_OWNER),
        (Mutant::EdgeTriggered, NOTHING_IS_LEFT),
    ] {
        must_break(&format!("{mutant:?}"), predicate, WorkspaceWorld::new(Some(mutant)));
    }
}
