//! Work of its own that Claude Code tells of: subagents inside of it, and tasks that outlive its turn.

use std::collections::BTreeSet;

use serde_json::value::RawValue;
use subagent_model::text::cut_at_boundary;
use subagent_provider::{Inner, InnerState, Said};

use super::frames::{BackgroundTasks, Block, TaskNotification, TaskStarted, TaskUpdated};

/// Most inner subagents that are followed at once.
const MOST: usize = 1_024;
/// Most bytes of a name; one that is longer is not followed.
const NAME_BYTES: usize = 1_024;
/// Most bytes of a title.
const TITLE_BYTES: usize = 4 * 1_024;

/// What is known of its tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Tasks {
    /// Inner subagents at work.
    inner: BTreeSet<String>,
    /// Pieces of background work that are live.
    live: u32,
    /// That none is live any more has not been said: it may begin a turn by itself because of it.
    unsaid: bool,
    /// Its turn was told to be over while background work was live.
    waited_for: bool,
}

impl Tasks {
    pub(super) fn started(&mut self, task: TaskStarted) -> Option<Inner> {
        let is_agent = task.subagent_type.is_some() || task.task_type.ends_with("agent");
        if !is_agent || task.task_id.len() > NAME_BYTES || self.inner.len() >= MOST {
            return None;
        }
        self.inner.insert(task.task_id.clone());
        let title = task.description.map(title);
        let begun = news(task.task_id, Some(InnerState::Running));
        // Each can be stopped by its name: `stop_task`.
        Some(Inner { parent: task.parent_task_id, title, can_cancel: Some(true), ..begun })
    }

    pub(super) fn updated(&mut self, task: TaskUpdated) -> Option<Inner> {
        if !self.inner.contains(&task.task_id) {
            return None;
        }
        let state = task.patch.status.as_deref().and_then(state);
        let title = task.patch.description.map(title);
        if state.is_none() && title.is_none() {
            return None;
        }
        if !matches!(state, None | Some(InnerState::Running | InnerState::Unknown)) {
            self.inner.remove(&task.task_id);
        }
        Some(Inner { title, ..news(task.task_id, state) })
    }

    /// Whether it is an inner subagent at work.
    pub(super) fn is_live(&self, task: &str) -> bool {
        self.inner.contains(task)
    }

    pub(super) fn over(&mut self, task: &TaskNotification) -> Option<Inner> {
        let known = self.inner.remove(&task.task_id);
        known.then(|| news(task.task_id.clone(), Some(state(&task.status).unwrap_or(InnerState::Unknown))))
    }

    /// What is live in the background now. The last piece is often what it begins a turn of its own for: where it tells
    /// when it is idle, the end of background work is said then.
    pub(super) fn live_now(&mut self, now: &BackgroundTasks, tells_idle: bool) -> Option<Said> {
        let live = now.tasks.iter().filter(|task| !task.ambient).count();
        let live = u32::try_from(live).unwrap_or(u32::MAX);
        let before = std::mem::replace(&mut self.live, live);
        if live == 0 {
            self.unsaid |= before > 0;
            return if tells_idle { None } else { self.all_over() };
        }
        let again = std::mem::take(&mut self.unsaid);
        (live != before || again).then_some(Said::Background { live })
    }

    /// Says that no background work is live, where that is so and was not said.
    pub(super) fn all_over(&mut self) -> Option<Said> {
        let over = std::mem::take(&mut self.unsaid);
        if over {
            self.waited_for = false;
        }
        over.then_some(Said::Background { live: 0 })
    }

    /// Whether the run waits for background work.
    pub(super) fn is_waited_for(&self) -> bool {
        self.waited_for
    }

    /// A turn was told to be over.
    pub(super) fn turn_over(&mut self) {
        self.waited_for = self.live > 0;
    }
}

fn news(id: String, state: Option<InnerState>) -> Inner {
    Inner { id, parent: None, title: None, state, can_cancel: None }
}

fn state(word: &str) -> Option<InnerState> {
    Some(match word {
        "pending" | "running" | "paused" => InnerState::Running,
        "completed" => InnerState::Completed,
        "failed" => InnerState::Failed,
        "killed" | "stopped" => InnerState::Stopped,
        _ => return None,
    })
}

fn title(mut text: String) -> String {
    let end = cut_at_boundary(&text, TITLE_BYTES).len();
    text.truncate(end);
    text
}

/// What came of a tool as people read it: a text as it is, the texts of a list of blocks, anything else as JSON.
pub(super) fn text_of(content: &RawValue) -> String {
    if let Ok(text) = serde_json::from_str::<String>(content.get()) {
        return text;
    }
    let blocks: Vec<Block> = serde_json::from_str(content.get()).unwrap_or_default();
    let texts: Option<Vec<String>> = blocks.into_iter().map(|block| block.text).collect();
    match texts {
        Some(texts) if !texts.is_empty() => texts.join("\n"),
        _ => content.get().to_owned(),
    }
}
