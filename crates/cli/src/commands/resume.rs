//! `subagent resume`: the next run of a subagent that has ended or is idle.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use subagent_model::ErrorCode;
use subagent_model::request::ResumeRequest;
use subagent_runtime::{ResumeReply, Runtime};

use super::follow::{self, Begun};
use super::given;
use super::waiting::{Waited, until_end};
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::time;

/// Give a subagent its next task; wait for it and print its result
///
/// Opens the next run of a subagent that has ended or is idle: same session, type, model, tools and directory, with a
/// fresh budget and a result of its own. Without --background the command waits as `subagent run` does. Earlier results
/// stay readable: `subagent runs ID`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent resume k7q2mx 'now fix what you found'
  subagent resume k7q2mx --queue 'and then the tests'
  git diff | subagent resume k7q2mx - --background

Exit codes: 0 a good end; 1 a bad one; 4 refused, with the reason; 5 a run is still live (--queue makes it a follow-up),
or the time ran out.")]
pub(crate) struct ResumeArgs {
    /// The subagent
    #[arg(value_name = "ID")]
    id: String,
    /// The task, or - to read it from standard input
    #[arg(value_name = "PROMPT")]
    prompt: String,
    /// While a run is live: accept it as a follow-up, which opens the next run, instead of refusing it
    #[arg(long)]
    queue: bool,
    /// Print the run's number and return; the end is kept in the inbox
    #[arg(long)]
    background: bool,
    /// Wait and print the result; the default
    #[arg(long, conflicts_with = "background")]
    wait: bool,
    /// Wait at most this long: 500ms, 10s, 5m, 2h; the run goes on [default: until the end]
    #[arg(long, value_name = "DURATION", value_parser = time::parse, conflicts_with = "background")]
    timeout: Option<Duration>,
    /// Ignored, and told so: a resume keeps the type
    #[arg(short = 't', long = "type", value_name = "NAME")]
    agent_type: Option<String>,
    /// Ignored, and told so: a resume keeps the model
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Give the value of a variable that the spawn named with --env again, when the daemon that held it is gone
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// A file that goes with it: an image (PNG, JPEG, GIF, WebP) or a text, where the provider takes such. May be repeated
    #[arg(long, value_name = "FILE")]
    attach: Vec<PathBuf>,
    /// Asking twice with the same key gives the same run
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

/// Carries it out.
pub(crate) async fn run(args: &ResumeArgs, console: &Console) -> Result<u8, Failure> {
    let mut request = build(args)?;
    let session = Session::open(console).await?;
    let id = session.client.resolve(&args.id).await?;
    if args.background || args.timeout.is_some() {
        let reply = resume(&session, id, &request).await?;
        return match (reply.run, args.timeout) {
            (Some(_), Some(timeout)) => within(&session, reply, timeout).await,
            _ => Ok(told(&session, &reply)),
        };
    }
    request.wait_ms = Some(time::millis(follow::first_wait(console)));
    let interrupts = follow::interrupts()?;
    let reply = resume(&session, id, &request).await?;
    match reply.run {
        // It waits behind the live run, and has no number before that one has ended.
        None => Ok(told(&session, &reply)),
        Some(run) => {
            console.aside(&format!("{} goes on as run {run}", reply.record.handle));
            let begun = Begun { record: reply.record, run, ended: reply.ended };
            follow::to_the_end(&session, begun, interrupts).await
        }
    }
}

fn build(args: &ResumeArgs) -> Result<ResumeRequest, Failure> {
    let prompt = given::text(&args.prompt, "prompt")?;
    if prompt.trim().is_empty() {
        return Err(Failure::new(ErrorCode::InvalidRequest, "the prompt is empty; nothing was started")
            .hint("Say what is to be done next: `subagent resume ID PROMPT`, or - to read it."));
    }
    let secret_env = given::named(&given::own_environment(), &args.env)?;
    Ok(ResumeRequest {
        prompt,
        attachments: given::attachments(&args.attach)?,
        queue: args.queue,
        agent_type: args.agent_type.clone(),
        model: args.model.clone(),
        secret_env,
        // With a key of its own, a request whose answer was lost can be asked again.
        idempotency_key: Some(
            args.idempotency_key.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string()),
        ),
        wait_ms: None,
    })
}

/// Asks, and tells what of the request was not used.
async fn resume(
    session: &Session<'_>,
    id: subagent_model::SubagentId,
    request: &ResumeRequest,
) -> Result<ResumeReply, Failure> {
    let ask =
        async |client: &subagent_client::Client| client.resume(&session.caller, id, request.clone()).await;
    let reply = session.steadily(ask).await.map_err(|failure| match failure.problem() {
        problem if problem.code == ErrorCode::StillRunning && !request.queue => Failure::from(problem)
            .hint("`subagent wait ID` waits for it; --queue accepts this as a follow-up."),
        _ => failure,
    })?;
    if !reply.ignored.is_empty() && !session.console.json {
        session.console.note(&format!("ignored, since a resume keeps them: {}", reply.ignored.join(", ")));
    }
    Ok(reply)
}

/// Waits for a bounded time.
async fn within(session: &Session<'_>, reply: ResumeReply, timeout: Duration) -> Result<u8, Failure> {
    let until = std::time::Instant::now() + timeout;
    let run = reply.run.unwrap_or(reply.record.run);
    let id = reply.record.id;
    match until_end(session, id, Some(run), Some(until)).await? {
        Waited::Ended(record) => {
            follow::to_the_end(session, Begun { record: *record, run, ended: true }, follow::interrupts()?)
                .await
        }
        Waited::Pending(_) => {
            told(session, &reply);
            let handle = &reply.record.handle;
            session
                .console
                .note(&format!("{handle} run {run} goes on; `subagent wait {handle}` waits for it"));
            Ok(exit::PENDING)
        }
    }
}

/// The run's number, or that it waits.
fn told(session: &Session<'_>, reply: &ResumeReply) -> u8 {
    let (console, record) = (session.console, &reply.record);
    let handle = &record.handle;
    if console.json {
        console.document(reply);
    } else if let Some(run) = reply.run {
        console.line(&format!("{handle}.{run}"));
        console.aside(&format!(
            "{handle} run {run}: `subagent wait {handle}` waits, `subagent result {handle}` reads"
        ));
    } else {
        console.note(&format!(
            "accepted as a follow-up: it opens the next run of {handle} once run {} has ended; `subagent messages \
             {handle}` shows it",
            record.run
        ));
    }
    exit::DONE
}
