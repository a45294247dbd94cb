//! The inner subagents of the conversations that are live, as their scribes hear of them: on the way, and again from the
//! log when a conversation is taken over. Of conversations that are over the transcripts tell.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use subagent_core::inner::{Inners, News};
use subagent_model::{AttemptNumber, InnerStatus, SubagentId, Timestamp};
use subagent_provider::{Inner, InnerState};

type Conversation = (SubagentId, AttemptNumber);

/// What is known of them. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveInners {
    by_conversation: Arc<Mutex<HashMap<Conversation, Inners>>>,
}

impl LiveInners {
    /// A child said something of one.
    pub(crate) fn hear(&self, of: Conversation, at: Timestamp, inner: &Inner) {
        let news = News {
            key: &inner.id,
            parent: inner.parent.as_deref(),
            title: inner.title.as_deref(),
            state: inner.state.map(status_of),
            can_stop: inner.can_cancel,
        };
        let mut map = self.by_conversation.lock().unwrap_or_else(PoisonError::into_inner);
        map.entry(of).or_default().hear(of.1, at, news);
    }

    /// A conversation is listened to from now on.
    pub(crate) fn begin(&self, of: Conversation) {
        self.by_conversation.lock().unwrap_or_else(PoisonError::into_inner).insert(of, Inners::default());
    }

    /// Those of one conversation; none where nobody listens to it.
    pub(crate) fn of(&self, of: Conversation) -> Option<Inners> {
        self.by_conversation.lock().unwrap_or_else(PoisonError::into_inner).get(&of).cloned()
    }

    /// The conversation is over.
    pub(crate) fn forget(&self, of: Conversation) {
        self.by_conversation.lock().unwrap_or_else(PoisonError::into_inner).remove(&of);
    }
}

/// The word of the record for a word of the child.
pub(crate) fn status_of(state: InnerState) -> InnerStatus {
    match state {
        InnerState::Running => InnerStatus::Running,
        InnerState::Asking => InnerStatus::Asking,
        InnerState::Completed => InnerStatus::Completed,
        InnerState::Failed => InnerStatus::Failed,
        InnerState::Stopped => InnerStatus::Stopped,
        InnerState::Unknown => InnerStatus::Unknown,
    }
}
