//! Subagents of a child's own: how they are fetched and shown. They have no records, and no handles.

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, stream};
use subagent_model::{InnerStatus, InnerSubagent, SubagentId, SubagentRecord};
use subagent_runtime::Runtime;

use crate::session::Session;
use crate::view::look::Paint;
use crate::view::rows::Cell;
use crate::view::{text, time};

/// Most records whose inner ones are looked up beside the live ones: those of ended runs are read from files.
const MOST_ASKED: usize = 200;
/// How many are asked for at once.
const AT_ONCE: usize = 8;
/// Most of one subagent that are shown.
const SHOWN: usize = 20;
/// Characters of a key that are shown in a table.
const KEY: usize = 16;

/// Those of each subagent that has any. A daemon of an earlier version tells of none.
pub(super) type Inners = BTreeMap<SubagentId, Vec<InnerSubagent>>;

/// Those of these records: of every live one, and of the newest others.
pub(super) async fn of(session: &Session<'_>, records: &[SubagentRecord]) -> Inners {
    let mut ended = 0;
    let asked = records.iter().filter(|record| {
        let counts = record.status.is_final();
        ended += usize::from(counts);
        !counts || ended <= MOST_ASKED
    });
    let lists = asked.map(|record| session.client.inner(&session.caller, record.id));
    let lists: Vec<_> = stream::iter(lists).buffer_unordered(AT_ONCE).collect().await;
    let all = lists.into_iter().flatten().filter(|list| !list.items.is_empty());
    all.map(|list| (list.id, list.items)).collect()
}

/// Those that are shown: all at work, then the newest of the others, in their order; and how many are left out.
pub(super) fn shown(all: &[InnerSubagent]) -> (Vec<&InnerSubagent>, usize) {
    let live = all.iter().filter(|inner| inner.state.is_live()).count();
    let mut room = SHOWN.saturating_sub(live);
    let mut keep: Vec<bool> = all.iter().map(|inner| inner.state.is_live()).collect();
    let mut by_age: Vec<usize> = (0..all.len()).filter(|at| !keep[*at]).collect();
    by_age.sort_by_key(|at| std::cmp::Reverse(all[*at].updated_at));
    for at in by_age {
        if room == 0 {
            break;
        }
        keep[at] = true;
        room -= 1;
    }
    let shown: Vec<_> =
        all.iter().zip(keep).filter(|(_, keep)| *keep).map(|(inner, _)| inner).take(SHOWN).collect();
    let left = all.len() - shown.len();
    (shown, left)
}

/// Its row in a table of subagents, below `branch`.
pub(super) fn row(branch: &str, inner: &InnerSubagent) -> Vec<Cell> {
    vec![
        Cell::exact(format!("{branch}{}", short(&inner.key)), Paint::Dim),
        Cell::painted(inner.state.as_str(), paint(inner.state)),
        Cell::painted(&time::short(time::now().since(inner.announced_at)), Paint::Dim),
        Cell::painted("its own", Paint::Dim),
        Cell::plain(inner.title.as_deref().unwrap_or_default()),
    ]
}

/// What is said of it where it stands by itself.
pub(super) fn words(inner: &InnerSubagent, handle: &str) -> String {
    let age = time::human(time::now().since(inner.announced_at));
    let title = inner.title.as_deref().map(|title| format!(": {}", text::line(title))).unwrap_or_default();
    let stop = if inner.state.is_live() && inner.can_stop {
        format!("; `subagent stop {handle} --inner {}`", text::line(&inner.key))
    } else {
        String::new()
    };
    format!("{}, announced {age} ago{title}{stop}", inner.state.as_str())
}

/// The colour of a word.
pub(super) fn paint(state: InnerStatus) -> Paint {
    match state {
        InnerStatus::Running => Paint::Cyan,
        InnerStatus::Asking | InnerStatus::Unknown | InnerStatus::Lost => Paint::Yellow,
        InnerStatus::Completed => Paint::Green,
        InnerStatus::Failed => Paint::Red,
        InnerStatus::Stopped => Paint::Dim,
    }
}

/// As much of a key as names it to people.
fn short(key: &str) -> String {
    text::fit(&text::line(key), KEY).into_owned()
}

#[cfg(test)]
mod tests {
    use subagent_model::{AttemptNumber, InnerStatus, InnerSubagent, Timestamp};

    use super::{SHOWN, row, shown, words};

    pub(crate) fn inner(key: &str, state: InnerStatus, at: i64) -> InnerSubagent {
        let at = Timestamp::from_micros(at);
        InnerSubagent {
            key: key.to_owned(),
            attempt: AttemptNumber(1),
            parent: None,
            title: Some(String::from("look\naround")),
            state,
            can_stop: true,
            announced_at: at,
            updated_at: at,
        }
    }

    #[test]
    fn acp_14_those_at_work_are_always_shown_and_the_newest_of_the_others() {
        let many = i64::try_from(SHOWN).unwrap_or(0) + 5;
        let mut all: Vec<_> =
            (0..many).map(|at| inner(&at.to_string(), InnerStatus::Completed, at)).collect();
        all[0].state = InnerStatus::Running;
        let (kept, left) = shown(&all);
        let keys: Vec<_> = kept.iter().map(|inner| inner.key.as_str()).collect();
        assert_eq!((keys.len(), left), (SHOWN, 5));
        assert_eq!((keys[0], keys[1]), ("0", "6"), "{keys:?}");
    }

    #[test]
    fn acp_14_it_is_told_apart_and_says_how_it_is_stopped() {
        let live = inner("0123456789abcdefgh", InnerStatus::Running, 0);
        let told = words(&live, "k7q2mx");
        assert!(told.starts_with("running, announced") && told.contains("look around"), "{told}");
        assert!(told.ends_with("`subagent stop k7q2mx --inner 0123456789abcdefgh`"), "{told}");
        for state in [InnerStatus::Lost, InnerStatus::Completed] {
            assert!(!words(&inner("c", state, 0), "k7q2mx").contains("--inner"));
        }
        let lines = crate::view::rows::aligned(&[row("└─ ", &live)], None, false);
        assert!(lines[0].contains("its own") && lines[0].contains("└─ 0123456789abcd"), "{lines:?}");
    }
}
