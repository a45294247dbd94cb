//! Which subagents a child runs inside of itself: a fold over what it says of them. It is made anew whenever somebody asks,
//! from the live conversation or from the transcript of one that is over; nothing of it is stored.

use subagent_model::{AttemptNumber, InnerList, InnerStatus, InnerSubagent, SubagentId, Timestamp};

/// Most of them that are listed.
pub const MOST: usize = 1_024;

/// News of one of them. What is left out is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct News<'a> {
    /// Its key.
    pub key: &'a str,
    /// The inner one that it belongs to. Counts at its announcement.
    pub parent: Option<&'a str>,
    /// What it is about; blank for "no longer known".
    pub title: Option<&'a str>,
    /// How it stands.
    pub state: Option<InnerStatus>,
    /// It can be stopped by itself.
    pub can_stop: Option<bool>,
}

/// What is known of the inner subagents of one subagent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inners {
    all: Vec<InnerSubagent>,
    more: bool,
}

impl Inners {
    /// Takes in what the child said in this attempt.
    pub fn hear(&mut self, attempt: AttemptNumber, at: Timestamp, news: News<'_>) {
        let known = self.all.iter().rposition(|inner| inner.attempt == attempt && inner.key == news.key);
        let Some(known) = known.or_else(|| self.announce(attempt, at, news)) else { return };
        let inner = &mut self.all[known];
        inner.updated_at = at;
        if let Some(title) = news.title {
            inner.title = Some(title.to_owned()).filter(|title| !title.trim().is_empty());
        }
        inner.state = news.state.unwrap_or(inner.state);
        inner.can_stop = news.can_stop.unwrap_or(inner.can_stop);
    }

    /// One more. Where there are too many the oldest that is over makes room; while all are at work the new one is not listed.
    fn announce(&mut self, attempt: AttemptNumber, at: Timestamp, news: News<'_>) -> Option<usize> {
        if self.all.len() >= MOST {
            self.more = true;
            let over = self.all.iter().position(|inner| !inner.state.is_live())?;
            self.all.remove(over);
        }
        self.all.push(InnerSubagent {
            key: news.key.to_owned(),
            attempt,
            parent: news.parent.map(str::to_owned),
            title: None,
            state: InnerStatus::Running,
            can_stop: false,
            announced_at: at,
            updated_at: at,
        });
        Some(self.all.len() - 1)
    }

    /// The conversations so far are over: what was at work then is lost, and nothing of it can be stopped any more.
    pub fn end_all(&mut self) {
        for inner in &mut self.all {
            inner.can_stop = false;
            if inner.state.is_live() {
                inner.state = InnerStatus::Lost;
            }
        }
    }

    /// Puts those of a later attempt behind these.
    pub fn extend(&mut self, later: Self) {
        self.more |= later.more;
        self.all.extend(later.all);
        if let Some(surplus) = self.all.len().checked_sub(MOST).filter(|surplus| *surplus > 0) {
            self.more = true;
            self.all.drain(..surplus);
        }
    }

    /// All of them, each behind the one that it belongs to, siblings by age. One whose parent is not known, or is below
    /// itself, stands by itself.
    pub fn list(&self, id: SubagentId) -> InnerList {
        let mut items = Vec::with_capacity(self.all.len());
        let mut taken = vec![false; self.all.len()];
        let roots = (0..self.all.len()).filter(|at| self.parent_of(*at).is_none());
        // What goes in a circle has no root, and is listed all the same.
        for start in roots.chain(0..self.all.len()) {
            let mut open = vec![start];
            while let Some(at) = open.pop() {
                if std::mem::replace(&mut taken[at], true) {
                    continue;
                }
                items.push(self.all[at].clone());
                let below = (0..self.all.len()).rev().filter(|child| self.parent_of(*child) == Some(at));
                open.extend(below);
            }
        }
        InnerList { id, items, more: self.more }
    }

    fn parent_of(&self, at: usize) -> Option<usize> {
        let inner = &self.all[at];
        let parent = inner.parent.as_deref()?;
        self.all.iter().rposition(|other| other.attempt == inner.attempt && other.key == parent)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::{Inners, MOST, News};
    use subagent_model::{AttemptNumber, InnerStatus, SubagentId, Timestamp};

    const ONE: AttemptNumber = AttemptNumber(1);
    const TWO: AttemptNumber = AttemptNumber(2);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn news(key: &str) -> News<'_> {
        News { key, parent: None, title: None, state: None, can_stop: None }
    }

    fn id() -> SubagentId {
        "01a22d21-9704-741f-afa1-3082d0029501".parse().unwrap()
    }

    fn states(inners: &Inners) -> Vec<(u32, String, &'static str)> {
        let items = inners.list(id()).items;
        items.into_iter().map(|inner| (inner.attempt.0, inner.key, inner.state.as_str())).collect()
    }

    #[test]
    fn acp_14_what_is_at_work_when_the_connection_dies_is_lost_and_what_had_ended_is_not() {
        let mut inners = Inners::default();
        for (key, state) in [
            ("new", None),
            ("running", Some(InnerStatus::Running)),
            ("asking", Some(InnerStatus::Asking)),
            ("done", Some(InnerStatus::Completed)),
            ("failed", Some(InnerStatus::Failed)),
            ("stopped", Some(InnerStatus::Stopped)),
            ("unknown", Some(InnerStatus::Unknown)),
        ] {
            inners.hear(ONE, at(1), News { state, can_stop: Some(true), ..news(key) });
        }
        inners.end_all();
        let lost: Vec<_> = states(&inners).into_iter().map(|(_, _, state)| state).collect();
        assert_eq!(lost, ["lost", "lost", "lost", "completed", "failed", "stopped", "unknown"]);
        assert!(inners.list(id()).items.iter().all(|inner| !inner.can_stop));
    }

    #[test]
    fn acp_14_the_same_key_on_two_connections_is_two_of_them() {
        let mut inners = Inners::default();
        inners.hear(ONE, at(1), news("c"));
        inners.end_all();
        inners.hear(TWO, at(2), News { state: Some(InnerStatus::Completed), ..news("c") });
        assert_eq!(states(&inners), [(1, "c".into(), "lost"), (2, "c".into(), "completed")]);
    }

    #[test]
    fn acp_14_each_stands_behind_its_parent_and_nobody_is_lost_in_a_circle() {
        let mut inners = Inners::default();
        for (key, parent) in [
            ("a", None),
            ("b", None),
            ("a1", Some("a")),
            ("b1", Some("b")),
            ("a2", Some("a")),
            ("a11", Some("a1")),
            ("x", Some("gone")),
            ("self", Some("self")),
            ("p", Some("q")),
            ("q", Some("p")),
        ] {
            inners.hear(ONE, at(1), News { parent, ..news(key) });
        }
        let keys: Vec<_> = states(&inners).into_iter().map(|(_, key, _)| key).collect();
        assert_eq!(keys, ["a", "a1", "a11", "a2", "b", "b1", "x", "self", "p", "q"]);
    }

    #[test]
    fn a_title_is_kept_until_it_is_cleared_and_times_tell_of_news() {
        let mut inners = Inners::default();
        inners.hear(ONE, at(1), News { title: Some("look"), ..news("c") });
        inners.hear(ONE, at(3), News { can_stop: Some(true), ..news("c") });
        let inner = inners.list(id()).items.remove(0);
        assert_eq!((inner.title.as_deref(), inner.can_stop), (Some("look"), true));
        assert_eq!((inner.announced_at, inner.updated_at), (at(1), at(3)));
        inners.hear(ONE, at(4), News { title: Some(""), ..news("c") });
        assert_eq!(inners.list(id()).items[0].title, None);
    }

    #[test]
    fn acp_14_they_are_bounded_and_those_at_work_stay() {
        let mut inners = Inners::default();
        let names: Vec<_> = (0..=MOST).map(|at| at.to_string()).collect();
        for (at_work, name) in names.iter().enumerate().take(MOST) {
            let state = if at_work == 7 { InnerStatus::Completed } else { InnerStatus::Running };
            inners.hear(ONE, at(1), News { state: Some(state), ..news(name) });
        }
        assert!(!inners.list(id()).more);
        inners.hear(ONE, at(2), news(&names[MOST]));
        let list = inners.list(id());
        assert_eq!((list.items.len(), list.more), (MOST, true));
        assert!(list.items.iter().all(|inner| inner.key != "7"), "the one that was over made room");
        inners.hear(ONE, at(3), news("one too many"));
        assert_eq!(inners.list(id()).items.len(), MOST);
        let mut later = Inners::default();
        later.hear(TWO, at(4), news("newest"));
        inners.extend(later);
        let list = inners.list(id());
        assert_eq!((list.items.len(), list.items[MOST - 1].key.as_str()), (MOST, "newest"));
    }
}
