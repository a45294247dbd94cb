//! Reading the whole result of a run, in parts.

use subagent_core::run::{Ended, Subagent};
use subagent_model::request::TextPart;
use subagent_model::{ErrorCode, Problem, RunNumber, SubagentId};
use subagent_store::{ContentKind, Store};

use super::super::Engine;
use super::{not_found, problem};

impl Engine {
    /// The part of a result that begins at byte `offset` and has at most `max` bytes.
    pub(super) fn read_result(
        &self,
        id: SubagentId,
        run: Option<RunNumber>,
        offset: u64,
        max: u32,
    ) -> Result<TextPart, Problem> {
        let state = self.known(id)?;
        let run = run.unwrap_or(state.run.number);
        let Some(ended) = ended_run(&state, run) else {
            if run != state.run.number {
                return Err(not_found(format!("{id} with a run {run}")));
            }
            let message = format!("{} has no result yet: it is {}", state.handle, state.status());
            return Err(Problem::new(ErrorCode::StillRunning, message).with_ids(vec![id.to_string()]));
        };
        let Some(text) = &ended.result else {
            return Ok(TextPart { run, text: String::new(), offset: 0, total: 0, next: None });
        };
        let total = text.bytes;
        let bytes = if text.truncated {
            let store: &dyn Store = if state.spec.durable { &*self.inner.store } else { &*self.inner.memory };
            let part = store.content(id, run, ContentKind::Result, offset, max).map_err(problem)?;
            part.map(|part| part.bytes).ok_or_else(|| {
                Problem::new(
                    ErrorCode::NotFound,
                    "the whole result was released; the preview in the record remains",
                )
            })?
        } else {
            let whole = text.preview.as_bytes();
            let from = usize::try_from(offset).unwrap_or(usize::MAX).min(whole.len());
            let to = from.saturating_add(max as usize).min(whole.len());
            whole[from..to].to_vec()
        };
        let (text, taken) = whole_characters(bytes, offset, total);
        let end = offset + taken;
        Ok(TextPart { run, text, offset, total, next: Some(end).filter(|end| *end < total && taken > 0) })
    }
}

/// The text of a part, whole characters only, and how many bytes of it are used up. A character that the end of the part
/// splits is left for the next part.
fn whole_characters(bytes: Vec<u8>, offset: u64, total: u64) -> (String, u64) {
    let length = bytes.len() as u64;
    match String::from_utf8(bytes) {
        Ok(text) => (text, length),
        Err(error) => {
            let good = error.utf8_error().valid_up_to();
            let split = error.utf8_error().error_len().is_none() && offset + length < total && good > 0;
            let mut bytes = error.into_bytes();
            if split {
                bytes.truncate(good);
            }
            (String::from_utf8_lossy(&bytes).into_owned(), bytes.len() as u64)
        }
    }
}

/// How a run ended, the current or an earlier one; `None` while it is live.
fn ended_run(state: &Subagent, run: RunNumber) -> Option<&Ended> {
    if run == state.run.number {
        return state.ended();
    }
    state.earlier.iter().find(|earlier| earlier.number == run).map(|earlier| &*earlier.ended)
}
