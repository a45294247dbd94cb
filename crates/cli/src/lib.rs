//! The `subagent` command: wiring of daemon, client and command line. Data goes to standard output, everything else to
//! standard error; what a command does lies in `commands`, one file for each.

mod agents;
mod cli;
mod commands;
mod config;
mod connect;
mod console;
mod daemon;
mod exit;
mod fail;
mod paths;
mod session;
mod shim;
mod view;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

/// The whole command line, for the generated reference.
pub fn command() -> clap::Command {
    cli::Cli::command()
}

/// The program.
pub fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // It knows which stream it belongs to; a reader that went away is no failure.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let console = console::Console::new(cli.json);
    match cli.run(&console) {
        Ok(code) => match console.failure() {
            None => ExitCode::from(code),
            Some(error) => {
                console.note(&format!("error: cannot write to standard output: {error}"));
                ExitCode::from(code.max(exit::ENDED_BADLY))
            }
        },
        Err(failure) => {
            failure.tell(&console);
            ExitCode::from(failure.exit_code())
        }
    }
}
