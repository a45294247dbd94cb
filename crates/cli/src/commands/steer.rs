//! `subagent steer`: a message to a subagent, or the end of its current turn.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use subagent_model::request::{SteerMode, SteerReply, SteerRequest};
use subagent_model::{ErrorCode, MessageMode, Posted, Receipt, SubagentId};
use subagent_runtime::Runtime;

use super::{given, receipt};
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::time;

/// The longest one request waits.
const SLICE: Duration = Duration::from_secs(30);

/// Send a message to a subagent
///
/// It reaches the current turn where the provider can, else the next boundary of its work. The receipt is printed:
/// delivered, accepted (and what it waits for), or returned with the reason. A subagent that has ended takes no message:
/// `subagent resume` gives it the next task.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent steer k7q2mx 'leave the tests alone'
  subagent steer k7q2mx --follow-up 'then write the summary'
  subagent steer k7q2mx --interrupt 'stop that; look at main.rs first'
  subagent steer k7q2mx --interrupt
  git diff | subagent steer k7q2mx -

Exit codes: 0 accepted or delivered; 1 returned, or it takes no message now; 2 its provider cannot; 5 with --wait: not
delivered in time, it still waits.")]
pub(crate) struct SteerArgs {
    /// The subagent
    #[arg(value_name = "ID")]
    id: String,
    /// The message, or - to read it from standard input. Optional with --interrupt
    #[arg(value_name = "MSG", required_unless_present = "interrupt")]
    message: Option<String>,
    /// As the prompt of the next run
    #[arg(long, group = "how")]
    follow_up: bool,
    /// Cancel the current turn first; its session stays
    #[arg(long, group = "how")]
    interrupt: bool,
    /// Into the current turn if its provider can, else as a follow-up; the receipt says which
    #[arg(long, group = "how")]
    auto: bool,
    /// Return once it was delivered or returned, and at the latest after this time
    #[arg(long, value_name = "DURATION", value_parser = time::parse_positive)]
    wait: Option<Duration>,
    /// A file that goes with it: an image (PNG, JPEG, GIF, WebP) or a text, where the provider takes such. May be repeated
    #[arg(long, value_name = "FILE")]
    attach: Vec<PathBuf>,
    /// Sending twice with the same key sends one message
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

/// Carries it out.
pub(crate) async fn run(args: &SteerArgs, console: &Console) -> Result<u8, Failure> {
    let request = build(args)?;
    let session = Session::open(console).await?;
    let id = session.client.resolve(&args.id).await?;
    let reply = send(&session, id, request, args.wait).await?;
    let code = match (&reply.message, args.wait) {
        (Some(Posted { receipt: Receipt::Returned { .. }, .. }), _) => exit::ENDED_BADLY,
        (Some(Posted { receipt: Receipt::Accepted, .. }), Some(_)) => exit::PENDING,
        _ => exit::DONE,
    };
    if console.json {
        console.document(&reply);
    } else {
        console.line(&told(&reply, args.auto));
    }
    Ok(code)
}

fn build(args: &SteerArgs) -> Result<SteerRequest, Failure> {
    let message = args.message.as_deref().map(|typed| given::text(typed, "message")).transpose()?;
    if message.as_ref().is_some_and(|message| message.trim().is_empty()) {
        return Err(Failure::new(ErrorCode::InvalidRequest, "the message is empty; nothing was sent")
            .hint("Give a text. `subagent steer ID --interrupt` cancels the current turn without one."));
    }
    let mode = match (args.follow_up, args.interrupt, args.auto) {
        (true, ..) => SteerMode::FollowUp,
        (_, true, _) => SteerMode::Interrupt,
        (_, _, true) => SteerMode::Auto,
        _ => SteerMode::Steer,
    };
    Ok(SteerRequest {
        message: message.unwrap_or_default(),
        attachments: given::attachments(&args.attach)?,
        mode,
        // With a key of its own, a message whose receipt was lost can be sent again and arrives once.
        idempotency_key: Some(
            args.idempotency_key.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string()),
        ),
        wait_ms: None,
    })
}

/// Sends, and asks again under the same key until its last word is known or the time has run out.
async fn send(
    session: &Session<'_>,
    id: SubagentId,
    mut request: SteerRequest,
    wait: Option<Duration>,
) -> Result<SteerReply, Failure> {
    let until = wait.map(|wait| Instant::now() + wait);
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        request.wait_ms = left.map(|left| time::millis(left.min(SLICE)));
        let reply =
            session.steadily(async |client| client.steer(&session.caller, id, request.clone()).await).await?;
        let open = matches!(&reply.message, Some(posted) if posted.receipt == Receipt::Accepted);
        if !open || left.is_none_or(|left| left <= SLICE) {
            return Ok(reply);
        }
    }
}

/// The receipt in words.
fn told(reply: &SteerReply, auto: bool) -> String {
    let record = &reply.record;
    let Some(posted) = &reply.message else {
        return if reply.accepted {
            String::from("interrupted: its turn is being cancelled; the next message goes on")
        } else {
            format!("nothing to interrupt: {} is {}", record.handle, record.status)
        };
    };
    let words = receipt::words(posted, record);
    if auto && posted.message.mode == MessageMode::FollowUp {
        format!("{words} (as a follow-up)")
    } else {
        words
    }
}

#[cfg(test)]
mod tests {
    use super::told;
    use crate::commands::sample;
    use subagent_model::request::SteerReply;

    #[test]
    fn steer_10_the_receipt_of_auto_says_which_mode_was_used() {
        let reply: SteerReply = serde_json::from_value(serde_json::json!({
            "message": {
                "message": {"number": 1, "from": "user:0", "mode": "follow_up", "text": "t", "at": "2026-11-30T00:00:00Z"},
                "receipt": "accepted",
            },
            "accepted": true,
            "record": sample(&serde_json::json!({})),
        }))
        .unwrap();
        assert!(told(&reply, true).ends_with("(as a follow-up)"));
        assert!(!told(&reply, false).contains("(as"));
    }

    #[test]
    fn stop_20_an_interrupt_of_what_has_no_turn_says_that_it_did_nothing() {
        let record = sample(&serde_json::json!({"status": "idle"}));
        let reply = SteerReply { message: None, accepted: false, record };
        assert_eq!(told(&reply, false), "nothing to interrupt: k7q2mx is idle");
    }
}
