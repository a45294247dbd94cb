//! The end of a conversation, step by step: politely first, from outside where that does not help. Each step is bounded.

use std::time::Duration;

use subagent_core::run::{Command, Phase};
use subagent_model::{Cause, Written};
use subagent_process::ExitWait;
use subagent_provider::Order;
use tokio::time::Instant;

use super::super::attempt::{SLACK, nudge};
use super::{Over, Talk};

/// How long a child may take to end by itself after it was told that nothing more will come.
const POLITE: Duration = Duration::from_millis(500);
/// How long a child whose work is done may take for the same.
const UNHURRIED: Duration = Duration::from_secs(5);
/// How long it may take to close its session before its input is ended.
const FAREWELL: Duration = Duration::from_secs(2);

/// How far the end has come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Closing {
    why: Why,
    step: Step,
    next: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// A stop was accepted.
    Stop,
    /// A limit is reached: the turn may still end with what it has.
    Cut,
    /// Its work is done, or has failed.
    Finish,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Not begun.
    New,
    /// Its turn is being cancelled.
    Cancel,
    /// It closes its session; its input is still open.
    Farewell,
    /// It was told that nothing more will come.
    Close,
    /// It is being ended from outside.
    End,
    /// The shim was woken, in case it was suspended.
    Nudge,
}

impl Closing {
    fn new(why: Why) -> Self {
        Self { why, step: Step::New, next: Instant::now() }
    }

    pub(super) fn stop() -> Self {
        Self::new(Why::Stop)
    }

    pub(super) fn cut() -> Self {
        Self::new(Why::Cut)
    }

    pub(super) fn finish() -> Self {
        Self::new(Why::Finish)
    }
}

impl Talk<'_> {
    pub(super) fn is_stopping(&self) -> bool {
        self.closing.is_some_and(|closing| closing.why == Why::Stop)
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Begins to end the conversation. A stop goes before everything else.
    pub(super) fn begin_closing(&mut self, closing: Closing) {
        let hurries = closing.why == Why::Stop && !self.is_stopping();
        if self.closing.is_none() || hurries {
            let ending = self.closing.is_some_and(|old| matches!(old.step, Step::End | Step::Nudge));
            if ending {
                // It is being ended already; only the reason is another.
                if let Some(old) = &mut self.closing {
                    old.why = closing.why;
                }
            } else {
                self.closing = Some(closing);
            }
        }
    }

    /// When the next step is due.
    pub(super) fn next_step(&self) -> Option<Instant> {
        // An interrupt that is not heard is given up only while nothing else ends the conversation.
        let Some(closing) = self.closing else {
            let grace = self.attempt.inner.config.graces.term;
            return self.interrupt.map(|asked| asked + grace);
        };
        Some(closing.next)
    }

    /// A turn that was to be cut has ended: nothing more is waited for.
    pub(super) fn hurry(&mut self) {
        if let Some(closing) = &mut self.closing
            && closing.step == Step::Cancel
        {
            closing.next = Instant::now();
        }
    }

    /// Takes the next step.
    pub(super) async fn step_on(&mut self) -> Option<Over> {
        let Some(mut closing) = self.closing else {
            self.give_up_interrupt();
            return None;
        };
        if closing.next > Instant::now() {
            return None;
        }
        let graces = self.attempt.inner.config.graces;
        let polite = POLITE.min(graces.term);
        let ladder = graces.term + graces.kill + SLACK;
        closing.step = match closing.step {
            Step::New if self.turn_open && closing.why != Why::Finish => {
                // It may have no word for it.
                let _ = self.channel.tell(&Order::Interrupt).await;
                closing.next = Instant::now() + if closing.why == Why::Cut { graces.term } else { polite };
                Step::Cancel
            }
            Step::New | Step::Cancel if self.takes_leave(closing.why).await => {
                closing.next = Instant::now() + FAREWELL.min(graces.term);
                Step::Farewell
            }
            Step::New | Step::Cancel | Step::Farewell => {
                self.channel.close();
                let patience = if closing.why == Why::Stop { polite } else { UNHURRIED.min(graces.term) };
                closing.next = Instant::now() + patience;
                Step::Close
            }
            Step::Close => {
                if let Some(shim) = self.channel.as_shim() {
                    nudge(shim);
                }
                self.channel.end(graces);
                closing.next = Instant::now() + ladder;
                Step::End
            }
            Step::End => {
                if let Some(shim) = self.channel.as_shim() {
                    nudge(shim);
                }
                closing.next = Instant::now() + ladder;
                Step::Nudge
            }
            Step::Nudge => {
                let Some(shim) = self.channel.as_shim() else { return Some(Over::Ended(None)) };
                self.attempt.put_down(shim).await;
                return Some(Over::Ended(Some(ExitWait::ShimLost)));
            }
        };
        self.closing = Some(closing);
        None
    }

    /// Tells it to close. True when it says so once it has, and that is to be waited for: a stop waits for nothing more.
    async fn takes_leave(&mut self, why: Why) -> bool {
        // It may have no word for it: then the end of its input says it.
        let _ = self.channel.tell(&Order::Close).await;
        why != Why::Stop && self.channel.is_closing()
    }

    /// It has closed its session: nothing more is waited for.
    pub(super) fn farewell(&mut self) {
        if let Some(closing) = &mut self.closing
            && closing.step == Step::Farewell
        {
            closing.next = Instant::now();
        }
    }

    /// A child that does not cancel its turn is stopped: an interrupt ends the turn within a bound.
    fn give_up_interrupt(&mut self) {
        let grace = self.attempt.inner.config.graces.term;
        if self.interrupt.is_none_or(|asked| asked + grace > Instant::now()) {
            return;
        }
        self.interrupt = None;
        let Some(by) = &self.state.run.interrupting else { return };
        self.act_soon(Command::Stop {
            actor: by.to_string(),
            cause: Cause::Interrupted,
            drop_follow_ups: false,
        });
    }

    /// What the state wants to end.
    pub(super) fn end_what_is_to_end(&mut self) {
        let run = &self.state.run;
        let closing_session = self.state.warm.as_ref().is_some_and(|warm| warm.closing.is_some());
        if matches!(run.phase, Phase::Stopping { .. }) {
            self.begin_closing(Closing::stop());
        } else if closing_session || run.done.is_some() {
            self.begin_closing(Closing::finish());
        } else if run.cut.is_some() {
            self.begin_closing(Closing::cut());
        }
    }

    /// The turn has failed for good: the process goes, and the run ends or is tried again.
    pub(super) fn fail(&mut self, failure: subagent_model::Conclusion) {
        self.failure.get_or_insert(failure);
        self.begin_closing(Closing::finish());
    }

    /// A message that the child has or has not.
    pub(super) fn settle_message(&mut self, number: subagent_model::MessageNumber, written: Written) {
        let attempt = self.attempt.key.attempt;
        // Before the state says so as well it must not be written once more.
        if self.state.mail.handing().is_some_and(|message| message.number == number) {
            self.handed = Some(number);
        }
        self.act_soon(Command::Settle { attempt, number, written });
    }
}
