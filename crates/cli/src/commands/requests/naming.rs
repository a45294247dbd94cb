//! Which request is meant: `ID.qN`, or the subagent alone where only one fits.

use subagent_model::request::OpenRequest;
use subagent_model::{ErrorCode, Problem, RequestNumber, SubagentId, Subject};
use subagent_runtime::Runtime;

use crate::commands::asked;
use crate::fail::Failure;
use crate::session::Session;

/// The subagent's name, and the request's number where it is given. No id or handle has a dot.
pub(super) fn split(name: &str) -> (&str, Option<RequestNumber>) {
    let parts = name.rsplit_once(".q").and_then(|(subagent, number)| Some((subagent, number.parse().ok()?)));
    parts.map_or((name, None), |(subagent, number)| (subagent, Some(RequestNumber(number))))
}

/// What kind of answer is to be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A yes or no.
    Permission,
    /// A text.
    Question,
}

/// The request that a name means.
pub(super) async fn find(
    session: &Session<'_>,
    name: &str,
    kind: Kind,
) -> Result<(SubagentId, RequestNumber), Failure> {
    let (subagent, number) = split(name);
    let id = session.client.resolve(subagent).await?;
    if let Some(number) = number {
        return Ok((id, number));
    }
    let open = session.client.requests(&session.caller, false).await?.items;
    let own: Vec<_> = open.iter().filter(|item| item.subagent == id).collect();
    choose(subagent, &own, kind).map(|number| (id, number)).map_err(Failure::from)
}

/// The only one that fits; else the candidates, so that nothing is answered by guess.
fn choose(name: &str, open: &[&OpenRequest], kind: Kind) -> Result<RequestNumber, Problem> {
    let fits = |item: &&&OpenRequest| {
        matches!(
            (&item.request.ask.subject, kind),
            (Subject::Approval { .. }, Kind::Permission) | (Subject::Question { .. }, Kind::Question)
        )
    };
    let fitting: Vec<_> = open.iter().filter(fits).collect();
    let listed = |items: &[&&OpenRequest]| -> Vec<String> {
        let line = |item: &&&OpenRequest| {
            format!("{}  {}", asked::name(&item.handle, &item.request), asked::what(&item.request))
        };
        items.iter().map(line).collect()
    };
    match (fitting.as_slice(), open) {
        ([one], _) => Ok(one.request.number),
        ([], []) => {
            let mut problem =
                Problem::new(ErrorCode::NotFound, format!("{name} asks for nothing at the moment"));
            problem.hint = Some(String::from(
                "`subagent requests` lists what is open; what nobody answers in time is denied.",
            ));
            Err(problem)
        }
        ([], [first, ..]) => {
            let mut problem = Problem::new(
                ErrorCode::WrongAnswer,
                format!("{name} asks for a {}", asked::kind(&first.request)),
            );
            problem.hint = Some(format!("Use {}.", asked::how_to_answer(&first.handle, &first.request)));
            Err(problem)
        }
        (several, _) => {
            let message = format!("{name} asks for {} things; nothing was answered", several.len());
            let mut problem = Problem::new(ErrorCode::Ambiguous, message).with_ids(listed(several));
            problem.hint = Some(String::from("Name one of them:"));
            Err(problem)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, choose, split};
    use subagent_model::request::OpenRequest;
    use subagent_model::{ErrorCode, RequestNumber};

    fn open(number: u64, subject: &serde_json::Value) -> OpenRequest {
        let mut fields = serde_json::json!({
            "id": "x", "subagent": "01a22d21-9704-741f-afa1-3082d0029501", "handle": "k7q2mx", "description": "d",
            "number": number, "run": 1, "key": "k", "opened_at": "2026-11-30T00:00:00Z",
            "expires_at": "2026-11-30T00:00:00Z", "state": "open",
        });
        fields.as_object_mut().unwrap().extend(subject.as_object().unwrap().clone());
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn perm_01_a_subagent_alone_means_its_only_request_and_never_one_of_several() {
        let approval = serde_json::json!({"kind": "approval", "action": "edit", "title": "a.rs"});
        let question = serde_json::json!({"kind": "question", "text": "Which?"});
        let (first, second, third) = (open(1, &approval), open(2, &question), open(3, &approval));
        assert_eq!(choose("k7", &[&first, &second], Kind::Permission), Ok(RequestNumber(1)));
        assert_eq!(choose("k7", &[&first, &second], Kind::Question), Ok(RequestNumber(2)));
        let several = choose("k7", &[&first, &third], Kind::Permission).unwrap_err();
        assert_eq!(several.code, ErrorCode::Ambiguous);
        assert!(several.ids[0].contains("k7q2mx.q1") && several.ids[1].contains("edit: a.rs"), "{several:?}");
        assert_eq!(choose("k7", &[], Kind::Question).unwrap_err().code, ErrorCode::NotFound);
        let wrong = choose("k7", &[&second], Kind::Permission).unwrap_err();
        assert!(
            wrong.code == ErrorCode::WrongAnswer && wrong.hint.unwrap().contains("subagent answer k7q2mx.q2")
        );
    }

    #[test]
    fn a_request_is_named_by_its_subagent_and_number() {
        assert_eq!(split("k7q2mx.q12"), ("k7q2mx", Some(RequestNumber(12))));
        assert_eq!(split("k7q2mx"), ("k7q2mx", None));
        assert_eq!(split("k7q2mx.qx"), ("k7q2mx.qx", None));
    }
}
