//! The `subagent` program. Everything it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    subagent_cli::main()
}
