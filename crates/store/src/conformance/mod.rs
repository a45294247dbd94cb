//! The suite that every store passes, and the samples it is made of. Each case takes a maker of empty stores; anything
//! that points to a store will do, so that it can hold a directory too. [`crate::conformance_tests`] makes one test of
//! each case.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "these are tests: a panic is their report"
)]

mod commit;
mod content;
mod delivery;
mod fold;
mod listing;
mod names;
mod retention;
mod samples;
mod threads;
mod tree;

pub use commit::{
    a_batch_is_written_whole_or_not_at_all, a_batch_may_hold_several_steps_of_one_subagent,
    a_birth_is_read_back, a_key_gives_one_subagent, a_stale_step_is_refused, cursors_have_no_gaps,
    steps_that_do_not_fit_are_refused,
};
pub use content::{texts_are_read_in_parts, texts_belong_to_their_run};
pub use delivery::{
    an_escalated_result_is_owed_to_the_next, ends_are_owed_until_acknowledged,
    every_run_is_owed_to_its_own_requester, the_oldest_end_comes_first,
};
pub use fold::events_fold_to_the_stored_state;
pub use listing::{filters_are_joined_by_and, live_ones_are_told, pages_follow_each_other};
pub use names::names_are_resolved;
pub use retention::{
    a_long_journal_is_pruned_whole, a_process_between_runs_is_live, a_sweep_is_carried_out,
    an_audit_knows_what_was_pruned, texts_of_what_is_over_are_released, the_oldest_events_may_go,
    what_is_kept_is_summed_up,
};
pub use samples::Samples;
pub use threads::{committers_race_for_revisions, readers_see_whole_commits};
pub use tree::{
    a_loop_of_parents_ends_every_walk, a_parent_goes_after_its_children, members_of_a_tree_are_told,
    only_what_is_over_is_deleted, trees_are_counted,
};

/// Makes a test of each case of the suite. `$make` is an expression of type `Fn() -> impl Deref<Target: Store + Sized>`.
#[macro_export]
macro_rules! conformance_tests {
    ($make:expr) => {
        $crate::conformance_tests! { $make;
            a_batch_is_written_whole_or_not_at_all,
            a_batch_may_hold_several_steps_of_one_subagent,
            a_birth_is_read_back,
            a_key_gives_one_subagent,
            a_long_journal_is_pruned_whole,
            a_loop_of_parents_ends_every_walk,
            a_parent_goes_after_its_children,
            a_process_between_runs_is_live,
            a_stale_step_is_refused,
            a_sweep_is_carried_out,
            an_audit_knows_what_was_pruned,
            an_escalated_result_is_owed_to_the_next,
            committers_race_for_revisions,
            cursors_have_no_gaps,
            ends_are_owed_until_acknowledged,
            events_fold_to_the_stored_state,
            every_run_is_owed_to_its_own_requester,
            filters_are_joined_by_and,
            live_ones_are_told,
            members_of_a_tree_are_told,
            names_are_resolved,
            only_what_is_over_is_deleted,
            pages_follow_each_other,
            readers_see_whole_commits,
            steps_that_do_not_fit_are_refused,
            texts_are_read_in_parts,
            texts_belong_to_their_run,
            texts_of_what_is_over_are_released,
            the_oldest_end_comes_first,
            the_oldest_events_may_go,
            trees_are_counted,
            what_is_kept_is_summed_up,
        }
    };
    ($make:expr; $($case:ident),* $(,)?) => {
        $(
            #[test]
            fn $case() {
                $crate::conformance::$case($make);
            }
        )*
    };
}
