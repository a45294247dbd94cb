//! JSON Schemas of the public data and of the files that people write, from the types themselves.

use schemars::{Schema, schema_for};
use serde::Serialize;
use subagent_model::{Event, SpawnSpec, SubagentRecord};

use crate::generate::Files;
use crate::problem::{Problem, Result};

/// Adds the schemas.
pub(crate) fn documents(files: &mut Files) -> Result<()> {
    let all: [(&str, Schema); 4] = [
        ("agent-file", subagent_config::agent_file_schema()),
        ("event", schema_for!(Event)),
        ("spawn-spec", schema_for!(SpawnSpec)),
        ("subagent-record", schema_for!(SubagentRecord)),
    ];
    for (name, schema) in all {
        files.insert(format!("docs/schema/{name}.json"), json(&schema)?);
    }
    Ok(())
}

/// A document as it is committed: indented, with a newline at its end.
pub(crate) fn json(document: &impl Serialize) -> Result<String> {
    let mut text = serde_json::to_string_pretty(document).map_err(|error| {
        Problem::new(format!("cannot write JSON: {error}"), "mend the type that was added")
    })?;
    text.push('\n');
    Ok(text)
}
