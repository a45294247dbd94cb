//! Every check, in the order in which a failure is cheapest to learn, with the tests last: their summary is
//! what a reader of the log finds at its end.

use clap::{Args, ValueEnum};

use crate::problem::Result;
use crate::steps::{self, Steps};
use crate::{agents, binaries, deps, metadata, msrv, project, setup};

/// What to run.
#[derive(Args)]
pub(crate) struct Options {
    /// Also run the long soak tests
    #[arg(long)]
    long: bool,
    /// Format, lints and tests only
    #[arg(long, conflicts_with = "long")]
    quick: bool,
    /// Which real agents are run; the first few, unless it is to be quick
    #[arg(long, value_enum, value_name = "WHICH")]
    agents: Option<Agents>,
    /// Run only the tests that this nextest expression selects
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,
}

/// Real agents that are installed and run.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Agents {
    None,
    First,
    All,
}

impl Options {
    fn agents(&self) -> Agents {
        self.agents.unwrap_or(if self.quick { Agents::None } else { Agents::First })
    }
}

/// Runs the checks and then the tests.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut steps = Steps::default();
    if options.quick {
        steps.run("setup", setup::nextest)?;
        steps.run("format", format)?;
        steps.run("lints", lints)?;
    } else {
        steps.run("setup", setup::run)?;
        steps.run("format", format)?;
        steps.run("deps", deps::run)?;
        steps.run("msrv", msrv::run)?;
        steps.run("lints", lints)?;
        steps.run("deny", deny)?;
        steps.run("docs", docs)?;
        steps.run("shim", || binaries::shim("shim"))?;
    }
    if options.agents() != Agents::None {
        steps.run("agents", || agents::install(options.agents() == Agents::All))?;
    }
    steps.run("compile", compile)?;
    if !options.quick {
        steps.run("generated", project::check_generated)?;
        steps.run("doctests", doctests)?;
    }
    steps.report();
    eprintln!("==> tests; one of them again: cargo nextest run --all-features --workspace TEST");
    tests(options)
}

fn format() -> Result<()> {
    cargo(&["fmt", "--all", "--check"], "run `cargo fmt --all`")
}

fn lints() -> Result<()> {
    let arguments = [
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
        "-D",
        "warnings",
        // Where unsafe code is allowed at all, it says why it is sound.
        "-D",
        "clippy::undocumented_unsafe_blocks",
    ];
    cargo(&arguments, "fix each lint, or `#[expect(..., reason = \"...\")]` it where it is wrong")
}

fn deny() -> Result<()> {
    cargo(
        &["deny", "--log-level", "error", "check", "bans", "licenses", "sources"],
        "choose another dependency; deny.toml says what is accepted, and why",
    )
}

fn docs() -> Result<()> {
    let mut command = steps::cargo(&metadata::root());
    command.env("RUSTDOCFLAGS", "-D warnings");
    command.args([
        "doc",
        "--workspace",
        "--all-features",
        "--no-deps",
        "--document-private-items",
        "--quiet",
    ]);
    steps::run(&mut command, "fix the documentation named above")
}

fn doctests() -> Result<()> {
    cargo(&["test", "--workspace", "--all-features", "--doc", "--quiet"], "fix the example named above")
}

/// Binaries are built too: whole-program tests start `subagent`, and it looks for the shim beside itself.
fn compile() -> Result<()> {
    cargo(
        &["build", "--workspace", "--all-features", "--all-targets", "--quiet"],
        "fix what is reported above",
    )
}

/// Which tests to run. Those of real agents have `real_` in front of the name of their binary, the ones of the agents
/// that a full test leaves out `real_more`.
fn selected(options: &Options) -> Option<String> {
    let left_out = match options.agents() {
        Agents::All => return options.filter.clone(),
        // Who names tests and says nothing of agents means these tests.
        Agents::None if options.agents.is_none() && options.filter.is_some() => {
            return options.filter.clone();
        }
        Agents::None => {
            eprintln!("    left out: real agents; `cargo xtask test` runs them");
            "/^real_/"
        }
        Agents::First => "/^real_more/",
    };
    let others = format!("!binary({left_out})");
    Some(options.filter.as_ref().map_or(others.clone(), |filter| format!("({filter}) & {others}")))
}

fn tests(options: &Options) -> Result<()> {
    let programs = metadata::workspace()?.target_directory.join("debug");
    let mut command = steps::cargo(&metadata::root());
    command.args(["nextest", "run", "--workspace", "--all-features"]);
    // They were built just before: no test has to ask cargo again.
    command.env("SUBAGENT_TEST_PROGRAMS", programs);
    if options.long {
        command.args(["--profile", "long"]).env("SUBAGENT_TEST_LONG", "1");
    }
    if let Some(filter) = selected(options) {
        command.args(["--filterset", &filter]);
    }
    steps::run_as_told(&mut command)
}

fn cargo(arguments: &[&str], next: &str) -> Result<()> {
    steps::run(steps::cargo(&metadata::root()).args(arguments), next)
}
