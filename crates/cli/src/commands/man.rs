//! `subagent man`: manual pages, one for each command.

use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory};
use subagent_model::ErrorCode;

use crate::cli::Cli;
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;

/// Print the manual page, or write all pages into a directory
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent man | man -l -
  subagent man --dir ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write one page for each command into this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Carries it out.
pub(crate) fn run(args: &ManArgs, console: &Console) -> Result<u8, Failure> {
    let command = Cli::command();
    let Some(dir) = &args.dir else {
        console.data(&page(command)?);
        return Ok(exit::DONE);
    };
    let cannot = |path: &Path, error: std::io::Error| {
        let message = format!("cannot write {}", path.display());
        Failure::new(ErrorCode::InvalidRequest, message)
            .because(error)
            .hint("Name a directory that can be written.")
    };
    std::fs::create_dir_all(dir).map_err(|error| cannot(dir, error))?;
    clap_mangen::generate_to(command, dir).map_err(|error| cannot(dir, error))?;
    console.aside(&format!("manual pages were written to {}", dir.display()));
    Ok(exit::DONE)
}

fn page(command: clap::Command) -> Result<String, Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page).map_err(|error| {
        Failure::new(ErrorCode::InvalidRequest, "cannot make the manual page").because(error)
    })?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}
