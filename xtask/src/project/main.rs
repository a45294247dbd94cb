//! The tasks that need the project's own code: generated files, and stepping through recorded commands. Run
//! them as `cargo xtask gen` and `cargo xtask replay`, which build this binary first.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a task runner talks to its terminal; it is no library"
)]

mod errors;
mod generate;
#[path = "../problem.rs"]
mod problem;
mod reference;
mod replay;
mod schemas;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of the subagent project that need its code.
#[derive(Parser)]
#[command(name = "xtask-project")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Write the generated files
    Gen {
        /// Change nothing; fail when a file is out of date
        #[arg(long)]
        check: bool,
    },
    /// Step through a recorded sequence of commands
    Replay {
        /// The file
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Gen { check } => generate::run(check),
        Task::Replay { file } => replay::run(&file),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprint!("{problem}");
            ExitCode::FAILURE
        }
    }
}
