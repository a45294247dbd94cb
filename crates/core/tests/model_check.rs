//! The exhaustive check of the twelve invariants of the contract (`semantics.md` §4) on the real types: every world here
//! is driven by the real `decide`, `apply`, `needs`, `recover::plan`, `Lease`, `Queue`, `Mailbox`, `Workspace`,
//! `Window`. What is modelled is only the outside: processes, shims, crashes, clocks, callers.
//!
//! For each rule there is a mutant, a world that drops just this rule. If a mutant is not caught by the predicate that
//! the rule is for, the check would prove nothing, and the test fails. Each world has a module that names its predicates.
//! `cargo nextest run -p subagent-core --test model_check --no-capture` prints state counts and the traces.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_types, reason = "the search needs a hash map and never iterates over it")]
#![allow(missing_docs, unreachable_pub, reason = "a test binary has no readers from outside")]

mod common;
mod model;
