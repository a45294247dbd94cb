//! The ledger of a run's workspace: who uses it, when it is released, and whether it may go. Two rules matter: one
//! owner at a time, and work that is saved nowhere else is never removed. The git commands are the shell's, and so is
//! looking at the directory: this module is told what was found.

use serde::{Deserialize, Serialize};
use subagent_model::{AttemptNumber, ErrorCode};

/// Where a workspace is and what it was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its directory.
    pub path: String,
    /// Its branch.
    pub branch: String,
    /// The commit it began at.
    pub base: String,
}

/// How a workspace stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Standing {
    /// Its name is reserved; nothing is on disk, or half of it is.
    Planned,
    /// It is on disk and nobody uses it.
    Created,
    /// An attempt works in it.
    InUse {
        /// Which.
        owner: AttemptNumber,
    },
    /// It was released with work in it.
    Kept {
        /// Where the work is.
        work: Work,
    },
    /// Its work was taken over.
    Merged,
    /// It is released, holds nothing, and its directory must go.
    Removed,
}

impl Standing {
    /// The word people see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Created => "created",
            Self::InUse { .. } => "in_use",
            Self::Kept { .. } => "kept",
            Self::Merged => "merged",
            Self::Removed => "removed",
        }
    }
}

/// Where the work of a kept workspace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// All of it is committed to the branch.
    Branch,
    /// Some of it is in the directory only: it could not be committed.
    Directory,
}

/// What was found in a workspace, looked at while no process worked in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Findings {
    /// Changed, staged or untracked files that no commit holds.
    pub uncommitted: bool,
    /// The head is not the base: the child, or the release, has committed.
    pub commits: bool,
    /// The commits are on a named branch.
    pub on_branch: bool,
}

impl Findings {
    /// True when removing the directory would destroy work.
    pub fn unsaved(self) -> bool {
        self.uncommitted || (self.commits && !self.on_branch)
    }

    /// True when nothing happened in it.
    pub fn untouched(self) -> bool {
        !self.uncommitted && !self.commits
    }
}

/// What can be asked of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "workspace_command", rename_all = "snake_case")]
pub enum WorkspaceCommand {
    /// It is on disk and verified.
    Create,
    /// An attempt begins to work in it.
    Use {
        /// Which.
        attempt: AttemptNumber,
    },
    /// The owner is over without a release and its process tree is verified to be gone: a later attempt goes on.
    TakeOver {
        /// The owner so far.
        from: AttemptNumber,
        /// The next one.
        to: AttemptNumber,
    },
    /// The owner is over, its process tree is gone, and what could be committed was committed.
    Release {
        /// The owner.
        attempt: AttemptNumber,
        /// What was found then.
        found: Findings,
    },
    /// Somebody has taken its work over.
    Merge {
        /// What was found.
        found: Findings,
    },
    /// Clean it up.
    Remove {
        /// What was found.
        found: Findings,
    },
}

/// A fact of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "workspace", rename_all = "snake_case")]
pub enum WorkspaceFact {
    /// It is on disk.
    Created,
    /// An attempt works in it.
    Taken {
        /// Which.
        attempt: AttemptNumber,
    },
    /// It was released. At most one per attempt that took it.
    Released {
        /// By whom.
        attempt: AttemptNumber,
        /// Where its work is; none when there is none.
        work: Option<Work>,
    },
    /// Its work was taken over.
    Merged,
    /// Its directory must go.
    Removed,
}

/// Why the ledger refuses. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WorkspaceRefusal {
    /// Somebody works in it.
    #[error("attempt {owner} works in it")]
    InUse {
        /// Who.
        owner: AttemptNumber,
    },
    /// It holds work that is nowhere else.
    #[error("it holds unsaved work")]
    Unsaved,
    /// It is gone; the branch may still be there.
    #[error("it is gone")]
    Gone,
    /// It makes no sense now.
    #[error("cannot be done while {state}")]
    Illegal {
        /// How it stands.
        state: &'static str,
    },
}

impl WorkspaceRefusal {
    /// The stable code that doors tell it with.
    pub fn code(self) -> ErrorCode {
        match self {
            Self::InUse { .. } => ErrorCode::StillRunning,
            Self::Unsaved | Self::Gone | Self::Illegal { .. } => ErrorCode::IllegalTransition,
        }
    }
}

/// A fact that cannot follow on the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the fact {fact:?} cannot follow on {state}")]
pub struct IllegalWorkspace {
    /// The fact.
    pub fact: WorkspaceFact,
    /// How it stands.
    pub state: &'static str,
}

/// The ledger of one workspace: born planned, before anything is on disk, so that a crash leaves nothing unnamed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// Where it is.
    pub place: Place,
    /// How it stands.
    pub standing: Standing,
    /// The last attempt that took it: an older one can no longer.
    pub last_owner: AttemptNumber,
}

impl Workspace {
    /// A workspace whose name is reserved.
    pub fn planned(place: Place) -> Self {
        Self { place, standing: Standing::Planned, last_owner: AttemptNumber(0) }
    }

    /// The facts that `command` leads to. No facts means: accepted, nothing to change.
    pub fn decide(&self, command: &WorkspaceCommand) -> Result<Vec<WorkspaceFact>, WorkspaceRefusal> {
        if self.is_so_already(*command) {
            return Ok(vec![]);
        }
        let illegal = WorkspaceRefusal::Illegal { state: self.standing.as_str() };
        match (*command, self.standing) {
            (WorkspaceCommand::Create, Standing::Planned) => Ok(vec![WorkspaceFact::Created]),

            // A resume goes on where the work is.
            (WorkspaceCommand::Use { attempt }, Standing::Created | Standing::Kept { .. })
                if attempt > self.last_owner =>
            {
                Ok(vec![WorkspaceFact::Taken { attempt }])
            }
            (WorkspaceCommand::Use { .. }, Standing::Removed | Standing::Merged)
            | (WorkspaceCommand::Merge { .. }, Standing::Removed) => Err(WorkspaceRefusal::Gone),

            (WorkspaceCommand::TakeOver { from, to }, Standing::InUse { owner }) if from == owner => {
                if to > from { Ok(vec![WorkspaceFact::Taken { attempt: to }]) } else { Err(illegal) }
            }

            (WorkspaceCommand::Release { attempt, found }, Standing::InUse { owner }) if attempt == owner => {
                let work = match found {
                    found if found.unsaved() => Some(Work::Directory),
                    found if found.untouched() => None,
                    _ => Some(Work::Branch),
                };
                Ok(vec![WorkspaceFact::Released { attempt, work }])
            }
            (WorkspaceCommand::Merge { found }, Standing::Kept { .. }) => {
                if found.unsaved() {
                    Err(WorkspaceRefusal::Unsaved)
                } else {
                    Ok(vec![WorkspaceFact::Merged])
                }
            }

            (
                WorkspaceCommand::Use { .. }
                | WorkspaceCommand::TakeOver { .. }
                | WorkspaceCommand::Remove { .. },
                Standing::InUse { owner },
            ) => Err(WorkspaceRefusal::InUse { owner }),
            (WorkspaceCommand::Remove { found }, _) => {
                if found.unsaved() {
                    Err(WorkspaceRefusal::Unsaved)
                } else {
                    Ok(vec![WorkspaceFact::Removed])
                }
            }

            (
                WorkspaceCommand::Create
                | WorkspaceCommand::Use { .. }
                | WorkspaceCommand::TakeOver { .. }
                | WorkspaceCommand::Release { .. }
                | WorkspaceCommand::Merge { .. },
                _,
            ) => Err(illegal),
        }
    }

    /// True when `command` was carried out before, or comes too late to matter.
    fn is_so_already(&self, command: WorkspaceCommand) -> bool {
        match (command, self.standing) {
            (WorkspaceCommand::Use { attempt }, Standing::InUse { owner }) => attempt == owner,
            // Released before, or another attempt has it now.
            (WorkspaceCommand::Release { attempt, .. }, standing) => {
                attempt <= self.last_owner && standing != Standing::InUse { owner: attempt }
            }
            (WorkspaceCommand::Create, Standing::Created)
            | (WorkspaceCommand::Merge { .. }, Standing::Merged)
            | (WorkspaceCommand::Remove { .. }, Standing::Removed) => true,
            _ => false,
        }
    }

    /// Folds one fact in. On an error the ledger is unchanged.
    pub fn apply(&mut self, fact: &WorkspaceFact) -> Result<(), IllegalWorkspace> {
        let illegal = IllegalWorkspace { fact: *fact, state: self.standing.as_str() };
        self.standing = match (*fact, self.standing) {
            (WorkspaceFact::Created, Standing::Planned) => Standing::Created,
            (
                WorkspaceFact::Taken { attempt },
                Standing::Created | Standing::Kept { .. } | Standing::InUse { .. },
            ) if attempt > self.last_owner => {
                self.last_owner = attempt;
                Standing::InUse { owner: attempt }
            }
            (WorkspaceFact::Released { attempt, work }, Standing::InUse { owner }) if attempt == owner => {
                work.map_or(Standing::Removed, |work| Standing::Kept { work })
            }
            (WorkspaceFact::Merged, Standing::Kept { .. }) => Standing::Merged,
            (
                WorkspaceFact::Removed,
                Standing::Planned | Standing::Created | Standing::Kept { .. } | Standing::Merged,
            ) => Standing::Removed,
            _ => return Err(illegal),
        };
        Ok(())
    }

    /// True when the directory may be deleted now: the ledger says that it must go, and what is found in it at this
    /// very moment agrees. The second look costs little and covers whatever happened since the decision.
    pub fn may_delete(&self, found: Findings) -> bool {
        self.standing == Standing::Removed && !found.unsaved()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::{
        Findings, Place, Standing, Work, Workspace, WorkspaceCommand as C, WorkspaceFact, WorkspaceRefusal,
    };
    use subagent_model::AttemptNumber;

    const CLEAN: Findings = Findings { uncommitted: false, commits: false, on_branch: true };
    const DIRTY: Findings = Findings { uncommitted: true, commits: false, on_branch: true };
    const COMMITTED: Findings = Findings { uncommitted: false, commits: true, on_branch: true };
    const DETACHED: Findings = Findings { uncommitted: false, commits: true, on_branch: false };

    fn workspace() -> Workspace {
        Workspace::planned(Place { path: "/w/a".into(), branch: "subagent/a".into(), base: "abc".into() })
    }

    fn run(workspace: &mut Workspace, commands: &[C]) -> Result<(), WorkspaceRefusal> {
        for command in commands {
            for fact in workspace.decide(command)? {
                workspace.apply(&fact).unwrap();
            }
        }
        Ok(())
    }

    fn used(found: Findings) -> Workspace {
        let mut workspace = workspace();
        let attempt = AttemptNumber(1);
        run(&mut workspace, &[C::Create, C::Use { attempt }, C::Release { attempt, found }]).unwrap();
        workspace
    }

    #[test]
    fn ws_11_to_14_what_is_found_at_the_release_decides() {
        assert_eq!(used(CLEAN).standing, Standing::Removed);
        assert_eq!(used(COMMITTED).standing, Standing::Kept { work: Work::Branch });
        assert_eq!(used(DIRTY).standing, Standing::Kept { work: Work::Directory });
        assert_eq!(used(DETACHED).standing, Standing::Kept { work: Work::Directory });
    }

    #[test]
    fn ws_16_a_release_counts_once() {
        let workspace = used(COMMITTED);
        let again = C::Release { attempt: AttemptNumber(1), found: CLEAN };
        assert_eq!(workspace.decide(&again), Ok(vec![]));
    }

    #[test]
    fn ws_18_unsaved_work_is_never_removed_and_a_live_run_keeps_its_directory() {
        let mut kept = used(DIRTY);
        assert_eq!(kept.decide(&C::Remove { found: DIRTY }), Err(WorkspaceRefusal::Unsaved));
        assert_eq!(kept.decide(&C::Remove { found: DETACHED }), Err(WorkspaceRefusal::Unsaved));
        run(&mut kept, &[C::Use { attempt: AttemptNumber(2) }]).unwrap();
        let in_use = WorkspaceRefusal::InUse { owner: AttemptNumber(2) };
        assert_eq!(kept.decide(&C::Remove { found: CLEAN }), Err(in_use));
        assert_eq!(kept.decide(&C::Use { attempt: AttemptNumber(3) }), Err(in_use));
        let gone = used(CLEAN);
        assert!(gone.may_delete(CLEAN) && !gone.may_delete(DIRTY));
    }

    #[test]
    fn res_05_a_removed_workspace_is_not_used_again() {
        let gone = used(CLEAN);
        assert_eq!(gone.decide(&C::Use { attempt: AttemptNumber(2) }), Err(WorkspaceRefusal::Gone));
    }

    #[test]
    fn an_older_attempt_cannot_take_it_back() {
        let mut workspace = used(DIRTY);
        let (two, three) = (AttemptNumber(2), AttemptNumber(3));
        run(&mut workspace, &[C::Use { attempt: two }, C::TakeOver { from: two, to: three }]).unwrap();
        assert_eq!(workspace.standing, Standing::InUse { owner: three });
        assert_eq!(workspace.decide(&C::Release { attempt: two, found: CLEAN }), Ok(vec![]));
        assert!(workspace.decide(&C::TakeOver { from: two, to: three }).is_err());
        assert!(workspace.apply(&WorkspaceFact::Taken { attempt: two }).is_err());
    }
}
