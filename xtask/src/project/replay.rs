//! A debugger for the run machine: walks a replay file and prints each decision, the state after it and what
//! that state needs. The walk itself, and the format of the file, are `subagent_core::replay`.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use subagent_core::need::{Need, needs};
use subagent_core::replay::{Player, ReplayError, Sequence, birth};
use subagent_core::run::Subagent;
use subagent_model::EventKind;

use crate::problem::{Problem, Result};

/// Prints the steps of a file, up to the first fault.
pub(crate) fn run(file: &Path) -> Result<()> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Problem::new(format!("cannot read {}: {error}", file.display()), "name a readable file")
    })?;
    let mut story = String::new();
    let told = tell(&text, &mut story);
    print!("{story}");
    told.map_err(|error| {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        let next = match error {
            ReplayError::Illegal { .. } => "`decide` and `apply` disagree; mend crates/core/src/run",
            ReplayError::TooNew { .. } => "use the newer version of the project",
            ReplayError::Json(_) => "the format is `Sequence` in crates/core/src/replay.rs",
        };
        Problem::new(format!("{}: {error}{cause}", file.display()), next)
    })
}

/// Writes what happens in a sequence; what was written before a fault stays.
fn tell(text: &str, story: &mut String) -> std::result::Result<(), ReplayError> {
    let sequence = Sequence::parse(text)?;
    if !sequence.about.is_empty() {
        let _ = writeln!(story, "{}\n", sequence.about);
    }
    let player = Player::new(&sequence)?;
    let (born, facts) = birth(&sequence).map_err(|source| ReplayError::Illegal { index: 0, source })?;
    let _ = writeln!(story, "#0 {} birth of {} ({})", sequence.at, born.handle, born.id);
    decided(&facts, story);
    stands(&born, &needs(&born, sequence.at), story);
    for taken in player {
        let taken = taken?;
        let _ = writeln!(story, "\n#{} {} {}", taken.index, taken.at, json(&taken.command));
        match &taken.decision {
            Ok(facts) => decided(facts, story),
            Err(refusal) => {
                let _ = writeln!(story, "   refused   {}: {refusal}", refusal.code());
            }
        }
        stands(&taken.state, &taken.needs, story);
    }
    Ok(())
}

fn decided(facts: &[EventKind], story: &mut String) {
    if facts.is_empty() {
        story.push_str("   decided   nothing to change\n");
    }
    for fact in facts {
        let _ = writeln!(story, "   decided   {}", json(fact));
    }
}

fn stands(state: &Subagent, needs: &[Need], story: &mut String) {
    let _ = writeln!(
        story,
        "   state     {} at revision {}: {}",
        state.status(),
        state.revision,
        json(&state.run.phase)
    );
    let _ = writeln!(story, "   delivery  {}", json(&state.run.delivery));
    for need in needs {
        let _ = writeln!(story, "   needs     {need:?}");
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| format!("<{error}>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEQUENCE: &str = r#"{
        "version": 1, "about": "A stop before the launch.", "at": "2026-11-30T10:00:00Z",
        "birth": {
            "id": "0190a000-0000-7000-8000-000000000001", "handle": "quick-fox", "parent": null,
            "root": "0190a000-0000-7000-8000-000000000001", "depth": 0, "requester": "cli:tester",
            "spec": {
                "prompt": {"preview": "do it", "bytes": 5},
                "provider": "exec", "agent_type": "exec", "cwd": "/"
            }
        },
        "steps": [
            {"at": "2026-11-30T10:00:01Z", "command":
                {"command": "claim", "owner": "node", "lease_until": "2026-11-30T10:01:00Z"}},
            {"at": "2026-11-30T10:00:02Z", "command":
                {"command": "claim", "owner": "node", "lease_until": "2026-11-30T10:01:00Z"}},
            {"at": "2026-11-30T10:00:03Z", "command":
                {"command": "stop", "actor": "tester", "cause": "requested"}}
        ]
    }"#;

    #[test]
    fn decisions_refusals_and_needs_are_told() {
        let mut story = String::new();
        tell(SEQUENCE, &mut story).unwrap();
        let parts = [
            "A stop before",
            "#0 ",
            "\"accepted\"",
            "needs     Slot",
            "needs     Launch",
            "refused   illegal_transition",
            "needs     Kill",
        ];
        for part in parts {
            assert!(story.contains(part), "{part} is missing in:\n{story}");
        }
    }

    #[test]
    fn what_is_no_sequence_is_said() {
        let mut story = String::new();
        assert!(matches!(tell("[]", &mut story), Err(ReplayError::Json(_))));
        let newer = r#"{"version": 4000000000}"#;
        assert!(matches!(tell(newer, &mut story), Err(ReplayError::TooNew { .. })));
    }
}
