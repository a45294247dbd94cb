//! `subagent run`: hands a task over; waits and prints the result, or gives the handle.

mod policy;
mod request;
mod setup;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use subagent_model::request::SpawnRequest;
use subagent_model::{ErrorCode, SubagentRecord};
use subagent_runtime::{Runtime, SpawnReply};

use super::follow::{self, Begun};
use super::limits::LimitArgs;
use crate::connect;
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::{number, time};

/// How long a daemon that is shutting down is waited for, so that the next one takes the task.
const PATIENCE: Duration = Duration::from_secs(10);

/// Hand over a task; wait for it and print its result
///
/// Without --background or --detach the command waits, and its exit code tells how the run ended: 0 for a good end, 1
/// for a bad one. The first Ctrl-C stops the subagent, the second leaves it to the daemon. If this command itself is
/// killed, the subagent runs on: `subagent inbox` lists what was not collected. With --warm the child stays alive after
/// its answer and takes messages.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent run -- make test
  subagent run 'the prompt comes on standard input' -- sh -c 'wc -w'
  subagent run --deadline 10m --label job=nightly -- ./nightly.sh
  git diff | subagent run --prompt-file - --prompt-via file -- ./review.sh
  id=$(subagent run --background -- ./long.sh); subagent wait $id; subagent result $id
  subagent run --talk --warm --max-turns 20 --allow 'execute:git *' 'look into it' -- ./agent

No shell is involved: the program and its arguments are passed as they are. The environment is an allow-list of yours
(PATH, HOME, LANG, ...); name further variables with --env.")]
pub(crate) struct RunArgs {
    /// The task. Optional with a program
    #[arg(value_name = "PROMPT")]
    prompt: Option<String>,
    /// A program and its arguments, run as the subagent
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
    /// How the subagent is driven: claude, codex, pi, acp, ...; exec, when a program follows -- [default: as its type says,
    /// else the first agent that is installed]
    #[arg(short, long, value_name = "NAME")]
    provider: Option<String>,
    /// Agent type: `subagent types` lists them. For a program, a label [default: the provider's name]
    #[arg(short = 't', long = "type", value_name = "NAME")]
    agent_type: Option<String>,
    /// Model, for providers that have a choice
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Print the handle and return; the end is kept in the inbox
    #[arg(long, conflicts_with = "detach")]
    background: bool,
    /// Like --background, but nobody is told of the end, and it survives its parent
    #[arg(long)]
    detach: bool,
    /// Keep the child alive after its answer; it takes messages until it is stopped
    #[arg(long, conflicts_with = "detach")]
    warm: bool,
    /// How long a warm child may be idle before it is closed [default: 30m]
    #[arg(long, value_name = "DURATION", value_parser = time::parse_positive, requires = "warm")]
    idle: Option<Duration>,
    /// The program speaks JSON lines: it takes messages, says what it does, asks (docs/lines.md)
    #[arg(long)]
    talk: bool,
    /// Working directory of the subagent [default: the current one]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// A label for your own use; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = request::label)]
    label: Vec<(String, String)>,
    /// The parent subagent [default: the one this command runs in, if any]
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// Pass on one more variable of yours, or set one; never stored. May be repeated
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// What it is about, in a few words [default: the beginning of the prompt]
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Keep the record in memory only: it ends with the daemon
    #[arg(long)]
    no_durable: bool,
    /// How the program gets the prompt
    #[arg(long, value_name = "HOW", value_enum, default_value_t = request::Via::Stdin)]
    prompt_via: request::Via,
    /// What of the output is the result: whole, last-line, or json: and the pointer of a field of its last JSON line
    #[arg(long, value_name = "WHAT", default_value = "whole", value_parser = request::result_from)]
    result: subagent_model::ResultFrom,
    /// Only an answer that fits the JSON Schema in this file counts
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Read the prompt from a file, or from standard input with -
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    prompt_file: Option<PathBuf>,
    /// A file that goes with it: an image (PNG, JPEG, GIF, WebP) or a text, where the provider takes such. May be repeated
    #[arg(long, value_name = "FILE")]
    attach: Vec<PathBuf>,
    /// Asking twice with the same key gives the same subagent
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// What becomes of the run when its child was lost with the machine
    #[arg(long, value_name = "HOW", value_enum, default_value_t = request::Loss::Resume)]
    on_loss: request::Loss,
    /// Cut it off after this time: 500ms, 10s, 5m, 2h, 1h30m
    #[arg(long, value_name = "DURATION", value_parser = time::parse_positive, help_heading = "Limits")]
    deadline: Option<Duration>,
    #[command(flatten)]
    limits: LimitArgs,
    /// Turns that it gets to wrap up once the turn limit is reached [default: 5]
    #[arg(long, value_name = "N", value_parser = number::count, allow_negative_numbers = true, help_heading = "Limits")]
    grace_turns: Option<u32>,
    /// Tokens of it and everything below it together. 0: no limit
    #[arg(long, value_name = "N", value_parser = number::amount, allow_negative_numbers = true, help_heading = "Limits")]
    tree_max_tokens: Option<u64>,
    /// US dollars of it and everything below it together. 0: no limit
    #[arg(long, value_name = "USD", value_parser = number::dollars, allow_negative_numbers = true, help_heading = "Limits")]
    tree_max_cost: Option<f64>,
    /// Show it as stalled after this time without a sign of life; 0s: never [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = time::parse, help_heading = "Limits")]
    stall_after: Option<Duration>,
    /// Cut it off once it has been stalled for this time [default: it is only shown]
    #[arg(long, value_name = "DURATION", value_parser = time::parse_positive, help_heading = "Limits")]
    kill_stalled_after: Option<Duration>,
    #[command(flatten)]
    policy: policy::PolicyArgs,
    #[command(flatten)]
    setup: setup::SetupArgs,
}

/// Carries it out.
pub(crate) async fn run(args: &RunArgs, console: &Console) -> Result<u8, Failure> {
    // Whatever is wrong with the request is told before a daemon is started for it.
    let mut request = request::build(args)?;
    let session = Session::open(console).await?;
    if request.parent.is_none() {
        request.parent.clone_from(&session.own_id);
    }
    if let Some(name) = &args.setup.fork {
        fork(&session, name, args.provider.as_deref(), &mut request).await?;
    }
    if args.background || args.detach {
        let reply = spawn(&session, &request).await?;
        say(&reply, console);
        return Ok(told(&session, &reply.record));
    }
    request.wait_ms = Some(time::millis(follow::first_wait(console)));
    // From here on Ctrl-C is ours; one that comes before there is an id is kept until there is one.
    let interrupts = follow::interrupts()?;
    let reply = spawn(&session, &request).await?;
    say(&reply, console);
    let begun = Begun { run: reply.record.run, ended: reply.ended, record: reply.record };
    follow::to_the_end(&session, begun, interrupts).await
}

/// Begins with a copy of the session of a subagent. Another provider could do nothing with it.
async fn fork(
    session: &Session<'_>,
    name: &str,
    provider: Option<&str>,
    request: &mut SpawnRequest,
) -> Result<(), Failure> {
    let id = session.client.resolve(name).await?;
    let record = session.client.get(&session.caller, id).await?;
    if let Some(other) = provider.filter(|provider| *provider != record.provider) {
        let message =
            format!("the session of {} is one of {}, not of {other}", record.handle, record.provider);
        return Err(Failure::new(ErrorCode::InvalidRequest, message)
            .hint(format!("Leave --provider out, or give `--provider {}`.", record.provider)));
    }
    let Some(of) = record.session else {
        let message = format!("{} has no session that could be copied", record.handle);
        return Err(Failure::new(ErrorCode::NotResumable, message));
    };
    request.provider = record.provider;
    request.setup.fork_of = Some(of);
    Ok(())
}

/// What was chosen where nobody said, and what was set aside.
fn say(reply: &SpawnReply, console: &Console) {
    for note in &reply.notes {
        console.note(&crate::view::text::line(note));
    }
}

/// The handle of what goes on by itself.
fn told(session: &Session<'_>, record: &SubagentRecord) -> u8 {
    let console = session.console;
    if console.json {
        console.document(record);
    } else {
        console.line(record.handle.as_str());
        let handle = &record.handle;
        console.aside(&format!(
            "{handle} is {}; `subagent wait {handle}` waits, `subagent result {handle}` reads, `subagent stop {handle}` \
             stops it",
            record.status
        ));
    }
    exit::DONE
}

/// Asks until it is accepted or refused for good. The request has a key, so that asking twice gives one subagent.
async fn spawn(session: &Session<'_>, request: &SpawnRequest) -> Result<SpawnReply, Failure> {
    let until = Instant::now() + PATIENCE;
    loop {
        match session.client.spawn(&session.caller, request.clone()).await {
            Ok(reply) => return Ok(reply),
            Err(problem)
                if matches!(problem.code, ErrorCode::Draining | ErrorCode::DaemonUnreachable)
                    && Instant::now() < until =>
            {
                tokio::time::sleep(Duration::from_millis(50)).await;
                connect::ensure(&session.paths, session.own_id.is_some()).await?;
            }
            Err(problem) => return Err(problem.into()),
        }
    }
}
