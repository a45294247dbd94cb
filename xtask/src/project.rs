//! Tasks that need the project's own code. They live in a binary of their own, `xtask-project`, so that the
//! other tasks do not wait for the whole workspace to compile.

use std::path::Path;
use std::process::Command;

use crate::metadata;
use crate::problem::Result;
use crate::steps;

/// Writes the generated files, or checks that they are up to date.
pub(crate) fn generate(check: bool) -> Result<()> {
    build()?;
    let mut command = tool()?;
    command.arg("gen");
    if check {
        command.arg("--check");
    }
    steps::run_as_told(&mut command)
}

/// Checks the generated files where the whole workspace was compiled just before.
pub(crate) fn check_generated() -> Result<()> {
    steps::run_as_told(tool()?.args(["gen", "--check"]))
}

/// Steps through a file of commands.
pub(crate) fn replay(file: &Path) -> Result<()> {
    build()?;
    let mut command = tool()?;
    command.arg("replay").arg(std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf()));
    steps::run_as_told(&mut command)
}

/// Measures the release programs: whole processes, side by side with the floor and with a peer.
pub(crate) fn bench(arguments: &[String]) -> Result<()> {
    crate::binaries::build()?;
    let mut build = steps::cargo(&metadata::root());
    build.args([
        "build",
        "--quiet",
        "--release",
        "--package",
        "xtask",
        "--features",
        "bench",
        "--bin",
        "xtask-bench",
    ]);
    steps::run(&mut build, "fix what the compiler reports above")?;
    let target = metadata::workspace()?.target_directory;
    let mut command = Command::new(target.join("release").join("xtask-bench"));
    command
        .arg("--programs")
        .arg(target.join(crate::binaries::PLACE))
        .args(arguments)
        .current_dir(metadata::root());
    steps::run_as_told(&mut command)
}

fn build() -> Result<()> {
    let mut build = steps::cargo(&metadata::root());
    // With the features of the whole workspace, to share what other builds compiled.
    build.args(["build", "--quiet", "--workspace", "--all-features", "--bin", "xtask-project"]);
    steps::run(&mut build, "fix what the compiler reports above")
}

fn tool() -> Result<Command> {
    let target = metadata::workspace()?.target_directory;
    let mut command = Command::new(target.join("debug").join("xtask-project"));
    command.current_dir(metadata::root());
    Ok(command)
}
