//! `subagent completions`: what a shell needs to complete the command line.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::console::Console;
use crate::exit;

/// Print the completions of a shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent completions bash > ~/.local/share/bash-completion/completions/subagent
  subagent completions zsh > ~/.zfunc/_subagent
  subagent completions fish > ~/.config/fish/completions/subagent.fish")]
pub(crate) struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Carries it out.
pub(crate) fn run(args: &CompletionsArgs, console: &Console) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "subagent", &mut script);
    console.data(&String::from_utf8_lossy(&script));
    exit::DONE
}
