//! Running commands, and naming and timing the steps of a long task on stderr, so that a log of the CI run
//! tells at a glance where the time went and where it stopped.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::problem::{Problem, Result};

/// The steps done so far, with their times.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<(&'static str, Duration)>,
}

impl Steps {
    /// Announces, runs and times one step.
    pub(crate) fn run(&mut self, name: &'static str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        eprintln!("==> {name}");
        let begun = Instant::now();
        work()?;
        self.done.push((name, begun.elapsed()));
        Ok(())
    }

    /// Prints the times of all steps done.
    pub(crate) fn report(&self) {
        let total: Duration = self.done.iter().map(|(_, time)| *time).sum();
        for (name, time) in &self.done {
            eprintln!("    {name:<10} {:>7.1} s", time.as_secs_f64());
        }
        eprintln!("    {:<10} {:>7.1} s", "so far", total.as_secs_f64());
    }
}

/// The `cargo` that started this program, so that a toolchain override carries over.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// The last word for a step whose own output already says what is wrong.
pub(crate) fn run(command: &mut Command, next: &str) -> Result<()> {
    let shown = shown(command);
    let status = command.status().map_err(|error| cannot_start(&shown, &error))?;
    if status.success() { Ok(()) } else { Err(Problem::new(format!("`{shown}` ended with {status}"), next)) }
}

/// Runs a command that says everything itself, so that its last lines stay the last ones.
pub(crate) fn run_as_told(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| cannot_start(&shown(command), &error))?;
    if status.success() { Ok(()) } else { Err(Problem::new("", "")) }
}

/// Runs a command for its stdout.
pub(crate) fn output(command: &mut Command, next: &str) -> Result<Vec<u8>> {
    let shown = shown(command);
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| cannot_start(&shown, &error))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(Problem::new(format!("`{shown}` ended with {}", output.status), next))
    }
}

fn cannot_start(shown: &str, error: &std::io::Error) -> Problem {
    Problem::new(format!("cannot start `{shown}`: {error}"), "run `cargo xtask setup`")
}

/// The command as a person would type it: the program by its name, not by its path.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_else(|| command.get_program());
    let mut words = vec![program.to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}
