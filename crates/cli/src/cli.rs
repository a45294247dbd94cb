//! The command line: what can be typed, and which file carries it out.

use clap::{Parser, Subcommand};
use subagent_model::ErrorCode;

use crate::commands::requests::answering;
use crate::commands::{
    ack, agent, budget, completions, config, doctor, events, gc, inbox, logs, ls, man, messages, requests,
    result, resume, run, runs, show, shutdown, status, steer, stop, types, upgrade, wait,
};
use crate::console::Console;
use crate::daemon::serve;
use crate::fail::Failure;

const AFTER: &str = "Examples:
  subagent run -- make test                  run a program, print its result
  id=$(subagent run --background -- ./long)  hand it over and go on
  subagent wait $id && subagent result $id   collect it later, from anywhere
  subagent requests                          what children ask for, and how to answer

An ID is a handle such as k7q2mx, the UUID, or any unique beginning of either.

Exit codes: 0 done; 1 the subagent ended badly, or something failed; 2 usage; 3 not found or ambiguous; 4 refused;
5 still pending; 6 no daemon. With --json, errors are one JSON document on standard error.

Environment:
  SUBAGENT_HOME  one directory for data, settings and sockets, instead of the XDG directories
  SUBAGENT_SHIM  the program subagent-shim, when it is not beside this one
  SUBAGENT_LOG   what the daemon logs: error, warn, info, debug
  NO_COLOR       no colours";

/// Delegate work to any agent, and always get it back
#[derive(Debug, Parser)]
#[command(
    name = "subagent",
    bin_name = "subagent",
    version,
    after_help = AFTER,
    disable_help_subcommand = true,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    /// Print one JSON document, or one JSON object a line where the output streams
    #[arg(long, global = true, display_order = 900)]
    pub(crate) json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::RunArgs>),
    Resume(resume::ResumeArgs),
    Steer(steer::SteerArgs),
    Messages(messages::MessagesArgs),
    Ls(ls::LsArgs),
    Show(show::ShowArgs),
    Runs(runs::RunsArgs),
    Wait(wait::WaitArgs),
    Result(result::ResultArgs),
    Logs(logs::LogsArgs),
    Stop(stop::StopArgs),
    Requests(requests::RequestsArgs),
    Approve(answering::ApproveArgs),
    Deny(answering::DenyArgs),
    Answer(answering::AnswerArgs),
    Revoke(answering::RevokeArgs),
    Budget(budget::BudgetArgs),
    Inbox(inbox::InboxArgs),
    Ack(ack::AckArgs),
    Events(events::EventsArgs),
    Types(types::TypesArgs),
    Agent(agent::AgentArgs),
    Serve(serve::ServeArgs),
    Status(status::StatusArgs),
    Config(config::ConfigArgs),
    Gc(gc::GcArgs),
    Shutdown(shutdown::ShutdownArgs),
    Upgrade(upgrade::UpgradeArgs),
    Doctor(doctor::DoctorArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

impl Cli {
    /// Carries it out.
    pub(crate) fn run(&self, console: &Console) -> Result<u8, Failure> {
        match &self.command {
            Command::Run(args) => wait_for(run::run(args, console)),
            Command::Resume(args) => wait_for(resume::run(args, console)),
            Command::Steer(args) => wait_for(steer::run(args, console)),
            Command::Messages(args) => wait_for(messages::run(args, console)),
            Command::Ls(args) => wait_for(ls::run(args, console)),
            Command::Show(args) => wait_for(show::run(args, console)),
            Command::Runs(args) => wait_for(runs::run(args, console)),
            Command::Wait(args) => wait_for(wait::run(args, console)),
            Command::Result(args) => wait_for(result::run(args, console)),
            Command::Logs(args) => wait_for(logs::run(args, console)),
            Command::Stop(args) => wait_for(stop::run(args, console)),
            Command::Requests(args) => wait_for(requests::run(args, console)),
            Command::Approve(args) => wait_for(answering::approve(args, console)),
            Command::Deny(args) => wait_for(answering::deny(args, console)),
            Command::Answer(args) => wait_for(answering::answer(args, console)),
            Command::Revoke(args) => wait_for(answering::revoke(args, console)),
            Command::Budget(args) => wait_for(budget::run(args, console)),
            Command::Inbox(args) => wait_for(inbox::run(args, console)),
            Command::Ack(args) => wait_for(ack::run(args, console)),
            Command::Events(args) => wait_for(events::run(args, console)),
            Command::Types(args) => wait_for(types::run(args, console)),
            Command::Agent(args) => agent::run(args),
            Command::Serve(args) => serve::run(args, console),
            Command::Status(args) => wait_for(status::run(args, console)),
            Command::Config(args) => wait_for(config::run(args, console)),
            Command::Gc(args) => wait_for(gc::run(args, console)),
            Command::Shutdown(args) => wait_for(shutdown::run(args, console)),
            Command::Upgrade(args) => wait_for(upgrade::run(args, console)),
            Command::Doctor(args) => wait_for(doctor::run(args, console)),
            Command::Completions(args) => Ok(completions::run(args, console)),
            Command::Man(args) => man::run(args, console),
        }
    }
}

/// Runs a command that talks to the daemon, on this thread.
fn wait_for(command: impl Future<Output = Result<u8, Failure>>) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        Failure::new(ErrorCode::DaemonUnreachable, "cannot set up the client").because(error)
    })?;
    let done = runtime.block_on(command);
    runtime.shutdown_background();
    done
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_says_what_it_is_for() {
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                assert!(arg.get_help().is_some(), "{} {}", command.get_name(), arg.get_id());
            }
        }
    }
}
