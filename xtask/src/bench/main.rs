//! Whole-process figures: what a child costs through `subagent`, side by side with the floor (bare spawn, wait and two
//! flushes on the same disk) and with a peer. Everything is measured in one run on one machine, in a home of its own.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a task runner talks to its terminal; it is no library"
)]
#![allow(clippy::cast_precision_loss, reason = "figures are rounded for people")]

mod adoption;
mod daemon;
mod figures;
mod floor;
mod load;
mod peer;
mod records;
mod size;
mod steering;
mod stopping;
mod stream;
mod subscribers;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// What can go wrong here ends the measurement.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Parser)]
#[command(name = "cargo xtask bench", about = "Whole-process figures of the release programs")]
struct Options {
    /// Directory of the programs
    #[arg(long, hide = true)]
    programs: PathBuf,
    /// Only these: floor, latency, throughput, adoption, stop, steer, stream, subscribers, size, records, peer
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Children of the long throughput run
    #[arg(long, default_value_t = 10_000)]
    many: usize,
    /// Records of the large store
    #[arg(long, default_value_t = 100_000)]
    records: usize,
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(steering::CHILD) {
        return steering::listen().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    if std::env::args().nth(1).as_deref() == Some(stream::CHILD) {
        return stream::speak().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    // Beside the target directory, so that it is the same disk as the programs and not a memory file system.
    let dir = tempfile::Builder::new().prefix("bench-").tempdir_in(&options.programs)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!("{}", figures::machine()?);
    println!("| What | Figure |\n|---|---|");
    let floor = floor::measure(dir.path())?;
    if wanted("floor") {
        floor.print();
    }
    if wanted("latency") {
        // One request at a time needs one thread: a second one would be woken for nothing.
        let single = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        single.block_on(load::latency(options, dir.path(), &floor))?;
    }
    runtime.block_on(async {
        if wanted("throughput") {
            load::throughput(options, dir.path()).await?;
        }
        if wanted("adoption") {
            adoption::measure(options, dir.path()).await?;
        }
        if wanted("stop") {
            stopping::measure(options, dir.path()).await?;
        }
        if wanted("steer") {
            steering::measure(options, dir.path()).await?;
        }
        if wanted("stream") {
            stream::measure(options, dir.path()).await?;
        }
        if wanted("subscribers") {
            subscribers::measure(options, dir.path()).await?;
        }
        if wanted("size") {
            size::measure(options, dir.path()).await?;
        }
        if wanted("records") {
            records::measure(options, dir.path()).await?;
        }
        Ok::<_, Box<dyn std::error::Error>>(())
    })?;
    if wanted("peer") {
        peer::measure(dir.path())?;
    }
    Ok(())
}

impl Options {
    pub(crate) fn subagent(&self) -> PathBuf {
        self.programs.join("subagent")
    }
}
