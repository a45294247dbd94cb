//! Messages and their receipts; the budget of a running run.

use std::sync::Arc;
use std::time::Duration;

use subagent_core::run::{Command, Subagent};
use subagent_core::snapshot::record;
use subagent_model::request::{BudgetRequest, MessageList, SteerMode, SteerReply, SteerRequest};
use subagent_model::{
    Budget, ErrorCode, MessageMode, MessageNumber, Problem, Receipt, Steering, SubagentId, SubagentRecord,
};

use super::super::Engine;
use super::LONGEST_WAIT;
use super::authority::Access;
use super::prepare::{LONGEST_WORD, check_budget, invalid, lacks};
use crate::runtime::Caller;

impl Engine {
    pub(super) async fn send_message(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: SteerRequest,
    ) -> Result<SteerReply, Problem> {
        let before = self.for_caller(caller, id, Access::Control)?;
        if request.idempotency_key.as_ref().is_some_and(|key| key.len() > LONGEST_WORD) {
            return Err(invalid(format!("an idempotency key has at most {LONGEST_WORD} bytes")));
        }
        let opens_run = match request.mode {
            SteerMode::FollowUp => true,
            SteerMode::Auto => before.is_ended() || before.spec.can.steering == Steering::None,
            SteerMode::Steer | SteerMode::Interrupt => before.is_idle(),
        };
        if opens_run {
            let allowed = self.ask_gates_again(caller, &before, &request.message).await;
            allowed.map_err(|refusal| self.inner.refusals.note(refusal))?;
        }
        let attachments = self.attach_to(&before, request.attachments).await?;
        let silent = request.message.is_empty();
        if silent && !attachments.is_empty() {
            return Err(invalid("files go with a message: say what they are for"));
        }
        let text = request.message.clone();
        // Its own message is found again by it, whoever else sends meanwhile.
        let key = request.idempotency_key.clone().unwrap_or_else(|| format!("auto-{}", uuid::Uuid::now_v7()));
        let command = match request.mode {
            SteerMode::Interrupt if silent => Command::Interrupt { by: caller.requester.clone(), text: None },
            mode => Command::Post {
                from: caller.requester.clone(),
                mode: match mode {
                    SteerMode::Auto | SteerMode::Steer => MessageMode::Steer,
                    SteerMode::FollowUp => MessageMode::FollowUp,
                    SteerMode::Interrupt => MessageMode::Interrupt,
                },
                text: request.message,
                attachments,
                or_follow_up: mode == SteerMode::Auto,
                key: Some(key.clone()),
            },
        };
        // Registered before: no receipt can fall between.
        let watch = request.wait_ms.map(|wait| (Duration::from_millis(wait), self.inner.watchers.watch(id)));
        let acted = self.act(id, command, false).await?;
        let message = if silent { None } else { acted.state.mail.find_by_key(&caller.requester, &key) };
        if let Some(posted) = message.as_ref().filter(|posted| !acted.changed && posted.message.text != text)
        {
            let message =
                format!("the key stands for message {}, which has another text", posted.message.number);
            return Err(Problem::new(ErrorCode::IdempotencyMismatch, message));
        }
        let mut state = acted.state;
        let mut message = message;
        if let (Some((wait, mut watch)), Some(posted)) = (watch, &message) {
            let number = posted.message.number;
            let last_word =
                watch.wait_for(|state| state.as_ref().is_some_and(|state| is_settled(state, number)));
            if !is_settled(&state, number)
                && let Ok(Ok(newer)) = tokio::time::timeout(wait.min(LONGEST_WAIT), last_word).await
                && let Some(newer) = newer.as_ref()
            {
                state = Arc::clone(newer);
            }
            message = state.mail.find(number).or(message);
        }
        Ok(SteerReply { message, accepted: acted.changed, record: record(&state) })
    }

    pub(super) fn list_messages(&self, caller: &Caller, id: SubagentId) -> Result<MessageList, Problem> {
        let state = self.for_caller(caller, id, Access::See)?;
        Ok(MessageList { items: state.mail.list() })
    }

    pub(super) async fn set_budget(
        &self,
        caller: &Caller,
        id: SubagentId,
        request: BudgetRequest,
    ) -> Result<SubagentRecord, Problem> {
        let state = self.for_caller(caller, id, Access::Control)?;
        let old = state.run.budget;
        let budget = Budget {
            max_turns: request.max_turns.or(old.max_turns),
            grace_turns: old.grace_turns,
            max_tokens: request.max_tokens.or(old.max_tokens),
            max_cost_usd: request.max_cost_usd.or(old.max_cost_usd),
            max_tool_calls: request.max_tool_calls.or(old.max_tool_calls),
        };
        check_budget(&budget)?;
        lacks(&state.spec.provider, &state.spec.can, &budget)?;
        let command = Command::ChangeBudget { budget, by: caller.requester.clone() };
        Ok(record(&self.act(id, command, false).await?.state))
    }
}

fn is_settled(state: &Subagent, number: MessageNumber) -> bool {
    state.mail.find(number).is_none_or(|posted| posted.receipt != Receipt::Accepted)
}
