//! Every case for every agent.

/// Every case as a test of one agent.
macro_rules! agent {
    ($name:ident, $agent:ident) => {
        mod $name {
            use subagent_testkit::Agent;

            const AGENT: Agent = Agent::$agent;

            #[test]
            fn the_same_task_gives_the_same_record() {
                crate::cases::the_same_task(AGENT);
            }
            #[test]
            fn a_tool_is_used_and_told_of() {
                crate::cases::a_tool(AGENT);
            }
            #[test]
            fn files_reach_its_model_or_are_refused() {
                crate::cases::files(AGENT);
            }
            #[test]
            fn an_approval_is_waited_for() {
                crate::cases::an_approval(AGENT);
            }
            #[test]
            fn a_message_reaches_it() {
                crate::cases::a_message(AGENT);
            }
            #[test]
            fn an_interrupt_leaves_the_session() {
                crate::cases::an_interrupt(AGENT);
            }
            #[test]
            fn failures_are_no_good_ends() {
                crate::cases::failures(AGENT);
            }
            #[test]
            fn mishaps_that_pass_are_got_over() {
                crate::cases::mishaps(AGENT);
            }
            #[test]
            fn it_is_adopted_in_the_middle_of_a_turn() {
                crate::cases::adoption(AGENT);
            }
            #[test]
            fn its_session_is_resumed() {
                crate::cases::a_resume(AGENT);
            }
            #[test]
            fn its_death_is_told_and_leaves_nobody() {
                crate::cases::a_kill(AGENT);
            }
            #[test]
            fn an_interrupt_of_the_terminal_is_no_good_end() {
                crate::cases::a_terminal_interrupt(AGENT);
            }
            #[test]
            fn a_stop_leaves_nobody() {
                crate::cases::a_stop(AGENT);
            }
        }
    };
}

pub(crate) use agent;
