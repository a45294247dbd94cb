//! What open event streams share: the text of each event, made once for all of them, and how many they are.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use subagent_model::{Cursor, Event};

/// How many texts are kept.
const TEXTS: usize = 1_024;
/// The longest pause between two looks of a stream.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The open streams.
#[derive(Default)]
pub(crate) struct Streams {
    open: Arc<AtomicU32>,
    texts: Mutex<VecDeque<(Cursor, Arc<str>)>>,
}

/// One of the open streams, as long as the value lives.
pub(crate) struct Place {
    open: Arc<AtomicU32>,
}

impl Streams {
    pub(crate) fn enter(&self) -> Place {
        self.open.fetch_add(1, Ordering::Relaxed);
        Place { open: Arc::clone(&self.open) }
    }

    /// The text of an event.
    pub(crate) fn text(&self, event: &Event) -> Arc<str> {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, text)) = texts.iter().rev().find(|(seq, _)| *seq == event.seq) {
            return Arc::clone(text);
        }
        let text: Arc<str> = serde_json::to_string(event).unwrap_or_default().into();
        // Those who read far behind do not push out what the others are about to want.
        if texts.back().is_none_or(|(newest, _)| *newest < event.seq) {
            texts.push_back((event.seq, Arc::clone(&text)));
            if texts.len() > TEXTS {
                texts.pop_front();
            }
        }
        text
    }
}

impl Place {
    /// How long a stream stands back before it looks again: nothing for a few, more the more they are.
    pub(crate) fn pause(&self) -> Duration {
        let others = self.open.load(Ordering::Relaxed).saturating_sub(1);
        Duration::from_micros(u64::from(others) * 100).min(LONGEST_PAUSE)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_PAUSE, Streams};

    #[test]
    fn one_stream_stands_back_for_nobody_and_a_thousand_for_a_bounded_time() {
        let streams = Streams::default();
        let one = streams.enter();
        assert!(one.pause().is_zero());
        let many: Vec<_> = (0..5_000).map(|_| streams.enter()).collect();
        assert_eq!(one.pause(), LONGEST_PAUSE);
        drop(many);
        assert!(one.pause().is_zero());
    }
}
