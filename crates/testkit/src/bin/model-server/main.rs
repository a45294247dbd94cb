//! The scripted model server as a program, to rehearse with a real agent and without a key. What it can be asked for is in
//! the documentation of `subagent_testkit::model_server`.

#![expect(clippy::print_stdout, reason = "it says where it listens")]

mod file;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use subagent_testkit::model_server::{ModelServer, SAYS};

/// A model that is played from a script: directives such as `[[say:TEXT]]`, `[[sh:COMMAND]]`, `[[status:429*2]]` in the
/// prompt say what it does.
#[derive(Parser)]
#[command(name = "model-server")]
struct Options {
    /// Where to listen; port 0 takes any free one
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// What is said where nothing else is asked for
    #[arg(long, default_value = SAYS, value_name = "TEXT")]
    say: String,
    /// Rules: a list of {"contains": TEXT, "times": N, "script": DIRECTIVES}
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
}

fn main() -> Result<ExitCode, String> {
    let options = Options::parse();
    if !options.listen.ip().is_loopback() {
        return Err("it listens to this machine alone: give an address of the loopback".into());
    }
    let server = ModelServer::start_at(options.listen, &options.say)
        .map_err(|error| format!("cannot listen at {}: {error}", options.listen))?;
    if let Some(path) = options.script {
        file::load(&server, &path)?;
    }
    println!("{}", server.url());
    loop {
        std::thread::park();
    }
}
