//! The parts of `cargo metadata` that the checks read.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::problem::{Problem, Result};
use crate::steps;

/// What cargo knows about the workspace.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) target_directory: PathBuf,
}

/// One package, ours or foreign.
#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Absent for packages of this workspace.
    pub(crate) source: Option<String>,
    pub(crate) rust_version: Option<String>,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
}

/// One line of a `[dependencies]` table.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Absent for an ordinary dependency, else `dev` or `build`.
    pub(crate) kind: Option<String>,
    /// Present when the dependency is a crate of this workspace.
    pub(crate) path: Option<PathBuf>,
}

/// The root of the workspace, where cargo commands run.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The packages of this workspace alone.
pub(crate) fn workspace() -> Result<Metadata> {
    read(&["--no-deps"])
}

/// Every package of the dependency graph.
pub(crate) fn everything() -> Result<Metadata> {
    read(&[])
}

fn read(extra: &[&str]) -> Result<Metadata> {
    let mut command = steps::cargo(&root());
    command.args(["metadata", "--format-version", "1"]).args(extra);
    let text = steps::output(&mut command, "make `cargo metadata` work; a manifest may be malformed")?;
    serde_json::from_slice(&text).map_err(|error| {
        Problem::new(
            format!("cannot read the answer of `cargo metadata`: {error}"),
            "adapt xtask/src/metadata.rs",
        )
    })
}
