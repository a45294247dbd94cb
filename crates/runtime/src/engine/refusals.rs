//! Refused runs, counted by code since the start: spawns, resumes, and messages that were to open a run. What failed for
//! reasons of our own is no refusal, and neither is what may still be accepted.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use subagent_model::{ErrorCode, Problem};

/// The counts.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<BTreeMap<ErrorCode, u64>>);

impl Refusals {
    /// Counts a refusal and hands it on.
    pub(crate) fn note(&self, problem: Problem) -> Problem {
        if !is_failure(problem.code) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(problem.code).or_default() += 1;
        }
        problem
    }

    /// The counts by the words of the codes.
    pub(crate) fn by_word(&self) -> BTreeMap<String, u64> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(code, count)| (code.as_str().to_owned(), *count)).collect()
    }
}

fn is_failure(code: ErrorCode) -> bool {
    use ErrorCode::{DamagedRecord, Panicked, StoreFailed, StoreFull, StoreReadOnly, StoreTooNew, Timeout};
    matches!(code, Timeout | Panicked | StoreFull | StoreReadOnly | StoreTooNew | StoreFailed | DamagedRecord)
}

#[cfg(test)]
mod tests {
    use super::Refusals;
    use subagent_model::{ErrorCode, Problem};

    #[test]
    fn queue_11_refusals_are_counted_by_code_and_failures_are_none() {
        let refusals = Refusals::default();
        for code in [ErrorCode::QueueFull, ErrorCode::Timeout, ErrorCode::QueueFull, ErrorCode::StoreFull] {
            assert_eq!(refusals.note(Problem::new(code, "m")).code, code);
        }
        assert_eq!(refusals.by_word(), [(String::from("queue_full"), 2)].into());
    }
}
