//! `subagent approve`, `deny`, `answer` and `revoke`.

use clap::Args;
use subagent_model::request::AnswerRequest;
use subagent_model::{Choice, ErrorCode, Problem, RequestNumber, SubagentRecord};
use subagent_runtime::Runtime;

use super::naming::{self, Kind};
use crate::commands::{asked, given};
use crate::console::Console;
use crate::exit;
use crate::fail::Failure;
use crate::session::Session;
use crate::view::look::Paint;
use crate::view::rows::Cell;

/// Allow what a child asks for
///
/// The name of the subagent is enough where it asks for one thing only.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent approve k7q2mx
  subagent approve k7q2mx.q3 --always

An answer with --always holds for this subagent and this action; `subagent show ID` lists it, `subagent revoke` takes it
back.")]
pub(crate) struct ApproveArgs {
    /// The request, or its subagent
    #[arg(value_name = "ID[.qN]")]
    id: String,
    /// The same again, too, for this subagent
    #[arg(long)]
    always: bool,
    /// Why, for the child and the record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Deny what a child asks for
///
/// The child goes on without it, and its result says so.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent deny k7q2mx
  subagent deny k7q2mx.q3 --reason 'not on this branch'")]
pub(crate) struct DenyArgs {
    /// The request, or its subagent
    #[arg(value_name = "ID[.qN]")]
    id: String,
    /// The same again, too, for this subagent
    #[arg(long)]
    always: bool,
    /// Why, for the child and the record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Answer a child's question
///
/// The same turn goes on with the answer.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent answer k7q2mx 'the second one'
  subagent answer k7q2mx.q4 - < answer.txt")]
pub(crate) struct AnswerArgs {
    /// The question, or its subagent
    #[arg(value_name = "ID[.qN]")]
    id: String,
    /// The answer, or - to read it from standard input
    #[arg(value_name = "TEXT")]
    text: String,
}

/// Take an answer back that was given for always
///
/// The next time the child asks again. What it did meanwhile stays done.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  subagent show k7q2mx
  subagent revoke k7q2mx.q3")]
pub(crate) struct RevokeArgs {
    /// The request that was answered, or its subagent
    #[arg(value_name = "ID[.qN]")]
    id: String,
}

/// Carries out `approve`.
pub(crate) async fn approve(args: &ApproveArgs, console: &Console) -> Result<u8, Failure> {
    let choice = if args.always { Choice::AllowAlways } else { Choice::AllowOnce };
    let answer = AnswerRequest { choice: Some(choice), text: None, reason: args.reason.clone() };
    give(&args.id, Kind::Permission, answer, console).await
}

/// Carries out `deny`.
pub(crate) async fn deny(args: &DenyArgs, console: &Console) -> Result<u8, Failure> {
    let choice = if args.always { Choice::DenyAlways } else { Choice::DenyOnce };
    let answer = AnswerRequest { choice: Some(choice), text: None, reason: args.reason.clone() };
    give(&args.id, Kind::Permission, answer, console).await
}

/// Carries out `answer`.
pub(crate) async fn answer(args: &AnswerArgs, console: &Console) -> Result<u8, Failure> {
    let text = given::text(&args.text, "answer")?;
    if text.trim().is_empty() {
        return Err(Failure::new(ErrorCode::InvalidRequest, "the answer is empty; nothing was sent"));
    }
    give(&args.id, Kind::Question, AnswerRequest { choice: None, text: Some(text), reason: None }, console)
        .await
}

async fn give(name: &str, kind: Kind, answer: AnswerRequest, console: &Console) -> Result<u8, Failure> {
    let session = Session::open(console).await?;
    let (id, number) = naming::find(&session, name, kind).await?;
    let item = session.client.answer(&session.caller, id, number, answer).await?;
    if console.json {
        console.document(&item);
        return Ok(exit::DONE);
    }
    let words = item.request.answered.as_ref().map(|answered| asked::answer(&answered.answer));
    console.rows(&[vec![
        Cell::painted(&asked::name(&item.handle, &item.request), Paint::Bold),
        Cell::plain(&words.unwrap_or_default()),
        Cell::plain(&asked::what(&item.request)),
    ]]);
    Ok(exit::DONE)
}

/// Carries out `revoke`.
pub(crate) async fn revoke(args: &RevokeArgs, console: &Console) -> Result<u8, Failure> {
    let session = Session::open(console).await?;
    let (subagent, number) = naming::split(&args.id);
    let id = session.client.resolve(subagent).await?;
    let number = match number {
        Some(number) => number,
        None => only_grant(&session.client.get(&session.caller, id).await?)?,
    };
    let record = session.client.revoke(&session.caller, id, number).await?;
    if console.json {
        console.document(&record);
    } else {
        let left = record.grants.len();
        console.line(&format!("{}.q{number}  taken back; {left} such answers are left", record.handle));
    }
    Ok(exit::DONE)
}

fn only_grant(record: &SubagentRecord) -> Result<RequestNumber, Problem> {
    let handle = &record.handle;
    match record.grants.as_slice() {
        [one] => Ok(one.number),
        [] => Err(Problem::new(
            ErrorCode::NotFound,
            format!("{handle} has no answer that was given for always"),
        )),
        several => {
            let ids = several.iter().map(|grant| asked::grant(handle, grant)).collect();
            let message = format!("{handle} has {} such answers; none was taken back", several.len());
            let mut problem = Problem::new(ErrorCode::Ambiguous, message).with_ids(ids);
            problem.hint = Some(String::from("Name one of them:"));
            Err(problem)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::only_grant;
    use crate::commands::sample;
    use subagent_model::{ErrorCode, RequestNumber};

    #[test]
    fn perm_04_a_standing_answer_is_taken_back_by_name_or_where_it_is_the_only_one() {
        let grant = |number| {
            serde_json::json!({"number": number, "action": "edit", "title": "a.rs", "allow": true, "by": "user:0",
                "at": "2026-11-30T00:00:00Z"})
        };
        let one = sample(&serde_json::json!({"grants": [grant(4)]}));
        assert_eq!(only_grant(&one), Ok(RequestNumber(4)));
        let two = only_grant(&sample(&serde_json::json!({"grants": [grant(4), grant(5)]}))).unwrap_err();
        assert!(
            two.code == ErrorCode::Ambiguous && two.ids[1].contains("subagent revoke k7q2mx.q5"),
            "{two:?}"
        );
        assert_eq!(only_grant(&sample(&serde_json::json!({}))).unwrap_err().code, ErrorCode::NotFound);
    }
}
