//! The search: every state that a world can reach, breadth first, so that the trace of a violation is a shortest one.
//! A world says what can happen next and which predicates must hold; the search knows nothing of subagents.

#![expect(clippy::print_stdout, reason = "counts and traces are what a reader of the log wants")]

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Something that can happen.
pub struct Move<W> {
    /// In the words of a trace.
    pub label: String,
    /// It is sure to happen in the end, though nobody outside helps: what a liveness predicate may count on. A crash,
    /// the end of a child by itself and the passing of time are not.
    pub sure: bool,
    /// The world after it.
    pub to: W,
    /// A predicate about the step itself that it breaks.
    pub breaks: Option<&'static str>,
}

/// A world to be searched.
pub trait World: Sized {
    /// What two states have in common when nothing that can happen tells them apart.
    type Key: Hash + Eq;

    /// The canonical projection.
    fn key(&self) -> Self::Key;
    /// Everything that can happen.
    fn moves(&self) -> Vec<Move<Self>>;
    /// The predicate that this state breaks.
    fn breaks(&self) -> Option<&'static str>;
    /// Liveness: where such a state must be able to get to by sure moves alone: the name, whether this state is bound
    /// by it, and whether it fulfils it.
    fn duties(&self) -> Vec<(&'static str, bool, bool)> {
        vec![]
    }
}

/// What a search found.
pub enum Found {
    /// Everything holds.
    Holds {
        /// In so many states.
        states: usize,
    },
    /// A predicate is broken.
    Broken {
        /// Which.
        predicate: &'static str,
        /// How to get there.
        trace: String,
    },
}

const NONE: usize = usize::MAX;

/// A world with more states than this is not bounded.
const MOST_STATES: usize = 2_000_000;

/// A state that was met: how it was reached, and which duties bind it or are fulfilled in it.
struct Met {
    from: usize,
    label: String,
    duties: Vec<(&'static str, bool, bool)>,
}

/// Searches all that `first` can reach. With `only`, other predicates are not looked at: a world that drops a rule may
/// break several.
fn search<W: World>(first: W, only: Option<&str>) -> Found {
    let counts = |predicate: &&str| only.is_none_or(|only| only == *predicate);
    let mut seen: HashMap<W::Key, usize> = HashMap::from([(first.key(), 0)]);
    let mut met = vec![Met { from: NONE, label: String::new(), duties: first.duties() }];
    // For each state, whence a sure move leads to it.
    let mut sure_from: Vec<Vec<usize>> = vec![vec![]];
    if let Some(predicate) = first.breaks().filter(counts) {
        return Found::Broken { predicate, trace: "at the beginning".into() };
    }
    let mut open = VecDeque::from([(0, first)]);
    while let Some((here, world)) = open.pop_front() {
        for Move { label, sure, to, breaks } in world.moves() {
            if let Some(predicate) = breaks.filter(counts).or_else(|| to.breaks().filter(counts)) {
                let trace = format!("{} → {label}", trace(&met, here));
                return Found::Broken { predicate, trace };
            }
            let next = met.len();
            let there = *seen.entry(to.key()).or_insert(next);
            if there == next {
                assert!(next < MOST_STATES, "it has no end: {} → {label}", trace(&met, here));
                met.push(Met { from: here, label, duties: to.duties() });
                sure_from.push(vec![]);
                open.push_back((next, to));
            }
            if sure && there != here {
                sure_from[there].push(here);
            }
        }
    }
    stuck(&met, &sure_from, only).unwrap_or(Found::Holds { states: met.len() })
}

/// The first state that is bound by a duty and cannot get to fulfil it.
fn stuck(met: &[Met], sure_from: &[Vec<usize>], only: Option<&str>) -> Option<Found> {
    let bound = |duty: &usize| only.is_none_or(|only| only == met[0].duties[*duty].0);
    for duty in (0..met[0].duties.len()).filter(bound) {
        let mut able: Vec<bool> = met.iter().map(|state| state.duties[duty].2).collect();
        let mut open: Vec<usize> = (0..met.len()).filter(|state| able[*state]).collect();
        while let Some(state) = open.pop() {
            for &from in &sure_from[state] {
                if !std::mem::replace(&mut able[from], true) {
                    open.push(from);
                }
            }
        }
        if let Some(state) = (0..met.len()).find(|state| met[*state].duties[duty].1 && !able[*state]) {
            return Some(Found::Broken { predicate: met[state].duties[duty].0, trace: trace(met, state) });
        }
    }
    None
}

fn trace(met: &[Met], mut state: usize) -> String {
    let mut labels = vec![];
    while met[state].from != NONE {
        labels.push(met[state].label.as_str());
        state = met[state].from;
    }
    labels.reverse();
    if labels.is_empty() { "at the beginning".into() } else { labels.join(" → ") }
}

/// Expects that everything holds; prints the number of states.
pub fn must_hold<W: World>(name: &str, first: W) -> usize {
    match search(first, None) {
        Found::Holds { states } => {
            println!("{name:44} holds in all {states} states");
            states
        }
        Found::Broken { predicate, trace } => panic!("{name}: {predicate}\n    {trace}"),
    }
}

/// Expects that a world which drops a rule breaks the very predicate that the rule is for; prints the trace.
pub fn must_break<W: World>(name: &str, predicate: &str, first: W) {
    match search(first, Some(predicate)) {
        Found::Broken { predicate, trace } => println!("{name:44} is caught: {predicate}\n    {trace}"),
        Found::Holds { states } => panic!("{name} is not caught in {states} states"),
    }
}
