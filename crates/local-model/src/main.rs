//! The program: options, the address, and its end by a signal. Everything else is in the library.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program tells its address and what went wrong"
)]

use std::fs::File;
use std::io::{BufReader, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use subagent_local_model::engine::Engine;
use subagent_local_model::server;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Serves a small model on loopback in the OpenAI wire format. For demos and tests.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Weights: a GGUF file of the Qwen2 or Llama kind; `cargo xtask weights` fetches one
    #[arg(long)]
    model: PathBuf,
    /// Loopback address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// Port; 0 takes a free one, which is printed
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Most tokens of a prompt and its answer together
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(64..=32768))]
    context: u32,
    /// How many requests may wait while one is computed
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    queue: u32,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    if !options.host.is_loopback() {
        return Err(format!(
            "{} is no loopback address: this server asks nobody who they are; use 127.0.0.1",
            options.host
        ));
    }
    let shown = options.model.display();
    let begun = Instant::now();
    let file = File::open(&options.model).map_err(|error| {
        format!("cannot open {shown}: {error}; `cargo xtask weights` fetches the weights")
    })?;
    let engine =
        Engine::start(&mut BufReader::new(file), options.context as usize, options.queue as usize)
            .map_err(|error| format!("{shown}: {error}; fetch the weights again by `cargo xtask weights`"))?;
    eprintln!("loaded {shown} in {:.1} s", begun.elapsed().as_secs_f64());
    let name = options.model.file_stem().map_or_else(|| "local".into(), |name| name.to_string_lossy());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    runtime.block_on(async {
        let at = SocketAddr::new(options.host, options.port);
        let listener =
            TcpListener::bind(at).await.map_err(|error| format!("cannot listen on {at}: {error}"))?;
        let at = listener.local_addr().map_err(|error| error.to_string())?;
        let mut terminate = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
        println!("http://{at}/v1");
        std::io::stdout().flush().map_err(|error| format!("cannot tell the address: {error}"))?;
        tokio::select! {
            served = axum::serve(listener, server::router(engine, name.into_owned())) => {
                served.map_err(|error| error.to_string())
            }
            // Whoever still waits sees the connection close: an answer of minutes is nothing to wait for.
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        }
    })
}
