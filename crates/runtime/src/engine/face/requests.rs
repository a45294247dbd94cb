//! What children ask, and who may answer.

use std::sync::Arc;

use subagent_core::run::{Command, Subagent};
use subagent_core::snapshot::record;
use subagent_model::request::{AnswerRequest, OpenRequest, RequestList};
use subagent_model::{Answer, Problem, RequestItem, RequestNumber, RequestState, SubagentId, SubagentRecord};

use super::super::Engine;
use super::authority::Access;
use super::prepare::invalid;
use crate::runtime::Caller;

/// Longest answer or reason.
const LONGEST_ANSWER: usize = 64 << 10;

impl Engine {
    pub(super) fn list_requests(&self, caller: &Caller, all: bool) -> Result<RequestList, Problem> {
        let mut items = Vec::new();
        for state in self.inner.live_where(|state| !state.run.requests.is_empty()) {
            if !self.is_theirs(caller, &state, Access::Control)? {
                continue;
            }
            let requests = state.run.requests.iter();
            let wanted = requests.filter(|request| all || request.state == RequestState::Open);
            items.extend(wanted.map(|request| named(&state, request)));
        }
        items.sort_by(|a, b| (a.request.opened_at, &a.id).cmp(&(b.request.opened_at, &b.id)));
        Ok(RequestList { items })
    }

    pub(super) async fn give_answer(
        &self,
        caller: &Caller,
        id: SubagentId,
        number: RequestNumber,
        request: AnswerRequest,
    ) -> Result<OpenRequest, Problem> {
        self.for_caller(caller, id, Access::Control)?;
        let long = |text: &Option<String>| text.as_ref().is_some_and(|text| text.len() > LONGEST_ANSWER);
        if long(&request.text) || long(&request.reason) {
            return Err(invalid(format!("an answer has at most {LONGEST_ANSWER} bytes")));
        }
        let answer = match (request.choice, request.text) {
            (Some(choice), None) => Answer::Choice { choice },
            (None, Some(text)) if text.trim().is_empty() => return Err(invalid("the answer is empty")),
            (None, Some(text)) => Answer::Text { text },
            _ => return Err(invalid("an answer has either a choice or a text")),
        };
        let command =
            Command::Answer { number, by: caller.requester.clone(), answer, reason: request.reason };
        let acted = self.act(id, command, false).await?;
        let item = acted.state.run.requests.iter().find(|request| request.number == number);
        item.map(|item| named(&acted.state, item))
            .ok_or_else(|| super::not_found(format!("{id} with a request q{number}")))
    }

    pub(super) async fn take_grant_back(
        &self,
        caller: &Caller,
        id: SubagentId,
        number: RequestNumber,
    ) -> Result<SubagentRecord, Problem> {
        self.for_caller(caller, id, Access::Control)?;
        let command = Command::Revoke { number, by: caller.requester.clone() };
        Ok(record(&self.act(id, command, false).await?.state))
    }
}

fn named(state: &Arc<Subagent>, request: &RequestItem) -> OpenRequest {
    let record = record(state);
    OpenRequest {
        id: format!("{}.q{}", state.id, request.number),
        subagent: state.id,
        handle: record.handle,
        description: record.description,
        request: request.clone(),
    }
}
